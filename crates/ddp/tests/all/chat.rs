//! Chat over DDP: contacts, messages, rooms.

use serde_json::json;
use weir_base::Id;
use weir_community::chat::carrier::{Carrier, Outgoing};
use weir_community::chat::messages::{self, New, Side};
use weir_community::chat::{contacts, rooms};
use weir_community::streams::Event;
use weir_db::Class;

use crate::place::{Place, places};

/// Keeps a message as the face of chat does.
async fn keep(community: &weir_community::Community, said: Outgoing, to: Option<Id>) -> Id {
    let id = community.env().ids.next();
    let xml =
        format!("<message xmlns='jabber:client' type='chat'><body>{}</body></message>", said.text);
    let new = New {
        id,
        from: Side { account: Some(said.from), jid: said.from_jid },
        to: Side { account: to, jid: said.to_jid },
        xml,
        archive: true,
        waits: false,
    };
    let kept = community.write(Class::Interactive, move |tx, env| {
        messages::store(tx, std::slice::from_ref(&new))?;
        for account in [new.from.account, new.to.account].into_iter().flatten() {
            env.streams.tell_if_here(tx, account, Event::ChatChanged);
        }
        Ok(())
    });
    kept.await.unwrap();
    id
}

/// A face of chat in which bob is always here.
fn serve_chat(place: &Place, bob: Id) {
    let community = place.community.clone();
    let carrier = Carrier {
        send: Box::new(move |said| {
            let community = community.clone();
            Box::pin(async move { Ok(keep(&community, said, Some(bob)).await) })
        }),
        is_here: Box::new(|jid| jid.starts_with("bob@")),
    };
    assert!(place.community.env().chat.set(carrier).is_ok());
}

fn bob_at(place: &Place) -> String {
    weir_community::chat::address::of(place.community.env(), "bob")
}

#[tokio::test]
async fn messages_are_sent_and_appear_on_both_sides() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        serve_chat(&place, bob);
        let (mut one, mut other) = (place.session(alice).await, place.session(bob).await);
        let to = bob_at(&place);
        one.sub("m", "chat.messages", json!([{ "with": to }])).await.unwrap();
        other.sub("m", "chat.messages", json!([{}])).await.unwrap();
        let sent = one.call("chat.send", json!([{ "to": to, "text": "hello" }])).await.unwrap();
        let id = sent["id"].as_str().unwrap().to_owned();
        assert_eq!(one.of("chat_messages")[&id]["text"], "hello", "on {}", place.name);
        assert_eq!(one.of("chat_messages")[&id]["is_own"], true);
        other.hear_until(|ddp| ddp.of("chat_messages").contains_key(&id)).await;
        assert_eq!(other.of("chat_messages")[&id]["is_own"], false);
        assert!(one.call("chat.send", json!([{ "to": to, "text": " " }])).await.is_err());
    }
}

#[tokio::test]
async fn contacts_tell_who_is_here_where_that_may_be_seen() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        serve_chat(&place, bob);
        let to = bob_at(&place);
        let listed = to.clone();
        let set = place.community.write(Class::Interactive, move |tx, _| {
            contacts::set(tx, alice, &listed, "Bobby", &["Friends".to_owned()])
        });
        set.await.unwrap();
        let mut one = place.session(alice).await;
        one.sub("c", "chat.contacts", json!([])).await.unwrap();
        let contact = one.of("chat_contacts")[&to].clone();
        assert_eq!(contact["name"], "Bobby", "on {}", place.name);
        assert_eq!(contact["account_id"], bob.to_string());
        assert_eq!(contact["subscription"], "none");
        assert!(contact["online"].is_null(), "whom one does not see is not told: {contact:?}");
    }
}

#[tokio::test]
async fn rooms_that_everybody_may_know_are_listed() {
    for place in places().await {
        let alice = place.person("alice").await;
        let made = place.community.write(Class::Interactive, |tx, env| {
            let owner = weir_community::chat::address::of(env, "alice");
            for (name, public) in [("lounge", true), ("attic", false)] {
                let config = rooms::Config { public, title: name.into(), ..Default::default() };
                rooms::create(tx, env, name, &config, &owner)?;
            }
            Ok(())
        });
        made.await.unwrap();
        let mut one = place.session(alice).await;
        one.sub("r", "chat.rooms", json!([])).await.unwrap();
        assert_eq!(one.of("chat_rooms")["lounge"]["title"], "lounge", "on {}", place.name);
        assert!(!one.of("chat_rooms").contains_key("attic"));
    }
}
