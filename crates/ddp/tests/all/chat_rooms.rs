//! Rooms of chat over DDP, and contacts as one keeps them.

use serde_json::{Value, json};
use weir_community::chat::address;
use weir_community::chat::carrier::{RoomPerson, RoomView};
use weir_community::streams::{Event, Topic};
use weir_live::Shared;

use crate::client::Ddp;
use crate::place::places;
use crate::stage::{self, TEA};

fn person(nick: &str, role: Option<&'static str>) -> RoomPerson {
    RoomPerson { nick: nick.into(), affiliation: "member", role, jid: None }
}

fn people(ddp: &Ddp) -> Vec<(String, bool)> {
    let person = |one: &serde_json::Map<String, Value>| {
        (one["nick"].as_str().unwrap().to_owned(), one["is_present"] == true)
    };
    ddp.of("chat_room_people").values().map(person).collect()
}

#[tokio::test]
async fn what_is_said_in_a_room_appears_and_its_people_come_and_go() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let stage = stage::serve(&place, bob);
        let (mut one, mut other) = (place.session(alice).await, place.session(bob).await);
        one.sub("r", "chat.room", json!([{ "room": TEA }])).await.unwrap();
        other
            .sub("r", "chat.room", json!([{ "room": " Tea@conference.weir.test" }]))
            .await
            .unwrap();
        let said = json!([{ "room": TEA, "text": "hello" }]);
        let sent = one.call("chat.rooms.send", said).await.unwrap();
        let id = sent["id"].as_str().unwrap().to_owned();
        let message = &one.of("chat_room_messages")[&id];
        assert_eq!((&message["text"], &message["nick"]), (&json!("hello"), &json!("al")));
        assert_eq!((&message["room"], &message["is_own"]), (&json!(TEA), &json!(true)));
        other.hear_until(|ddp| ddp.of("chat_room_messages").contains_key(&id)).await;
        let there = vec![person("al", Some("moderator")), person("bo", None)];
        stage.room.lock().as_mut().unwrap().people = there;
        place.community.env().streams.room_moved(TEA);
        let shown = [("al".to_owned(), true), ("bo".to_owned(), false)];
        for ddp in [&mut one, &mut other] {
            ddp.hear_until(|ddp| people(ddp) == shown).await;
        }
        let al = one.of("chat_room_people")["tea@conference.weir.test/al"].clone();
        assert_eq!((&al["role"], &al["affiliation"]), (&json!("moderator"), &json!("member")));
        // What was missed on the way is read anew.
        *stage.room.lock() = Some(RoomView::default());
        let missed = Shared::sized(Event::Missed, 1);
        place.community.env().streams.hub().publish(&Topic::Everybody, missed);
        one.hear_until(|ddp| people(ddp).is_empty()).await;
        assert!(one.of("chat_room_messages").is_empty(), "on {}", place.name);
        let blank = json!([{ "room": TEA, "text": " " }]);
        let blank = one.call("chat.rooms.send", blank).await.unwrap_err();
        assert_eq!(blank["error"], "validation-error");
    }
}

#[tokio::test]
async fn who_may_not_read_a_room_gets_nothing_of_it_and_who_may_no_longer_loses_it() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let stage = stage::serve(&place, bob);
        let mut one = place.session(alice).await;
        let unknown = json!([{ "room": "nobody@conference.weir.test" }]);
        let unknown = one.sub("u", "chat.room", unknown).await.unwrap_err();
        assert_eq!(unknown["error"], 404, "on {}", place.name);
        one.sub("r", "chat.room", json!([{ "room": TEA }])).await.unwrap();
        *stage.room.lock() = None;
        place.community.env().streams.room_moved(TEA);
        let ended = one.until("nosub").await;
        assert_eq!((&ended["id"], &ended["error"]["error"]), (&json!("r"), &json!(403)));
        let again = one.sub("a", "chat.room", json!([{ "room": TEA }])).await.unwrap_err();
        assert_eq!(again["error"], 403);
        let said = json!([{ "room": TEA, "text": "hello" }]);
        assert_eq!(one.call("chat.rooms.send", said).await.unwrap_err()["error"], 403);
        let mut visitor = Ddp::connect(place.address).await;
        let visited = visitor.sub("v", "chat.room", json!([{ "room": TEA }])).await;
        assert_eq!(visited.unwrap_err()["error"], 403);
    }
}

#[tokio::test]
async fn contacts_are_added_approved_refused_and_removed() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        stage::serve(&place, bob);
        let env = place.community.env();
        let (to, from) = (address::of(env, "bob"), address::of(env, "alice"));
        let (mut one, mut other) = (place.session(alice).await, place.session(bob).await);
        one.sub("c", "chat.contacts", json!([])).await.unwrap();
        other.sub("c", "chat.contacts", json!([])).await.unwrap();
        let add = json!([{ "jid": to, "name": "Bobby", "groups": ["Friends"] }]);
        one.call("chat.contacts.add", add).await.unwrap();
        let contact = one.of("chat_contacts")[&to].clone();
        assert_eq!((&contact["name"], &contact["asked"]), (&json!("Bobby"), &json!(true)));
        assert_eq!(contact["groups"], json!(["Friends"]), "on {}", place.name);
        other.hear_until(|ddp| ddp.of("chat_contacts").contains_key(&from)).await;
        assert_eq!(other.of("chat_contacts")[&from]["asks"], true);
        other.call("chat.contacts.approve", json!([{ "jid": from }])).await.unwrap();
        one.hear_until(|ddp| ddp.of("chat_contacts")[&to]["online"] == true).await;
        other.call("chat.contacts.refuse", json!([{ "jid": from }])).await.unwrap();
        one.hear_until(|ddp| ddp.of("chat_contacts")[&to]["subscription"] == "none").await;
        one.call("chat.contacts.remove", json!([{ "jid": to }])).await.unwrap();
        assert!(one.of("chat_contacts").is_empty());
        let gone = one.call("chat.contacts.remove", json!([{ "jid": to }])).await;
        assert_eq!(gone.unwrap_err()["error"], 404);
        let own = one.call("chat.contacts.add", json!([{ "jid": from }])).await;
        assert_eq!(own.unwrap_err()["error"], "validation-error");
    }
}

#[tokio::test]
async fn a_node_that_does_not_serve_chat_says_so() {
    for place in places().await {
        let alice = place.person("alice").await;
        let mut one = place.session(alice).await;
        let room = one.sub("r", "chat.room", json!([{ "room": TEA }])).await.unwrap_err();
        assert_eq!(room["error"], 503, "on {}", place.name);
        let said = json!([{ "room": TEA, "text": "hello" }]);
        assert_eq!(one.call("chat.rooms.send", said).await.unwrap_err()["error"], 503);
        let add = json!([{ "jid": "bob@weir.test" }]);
        assert_eq!(one.call("chat.contacts.add", add).await.unwrap_err()["error"], 503);
    }
}
