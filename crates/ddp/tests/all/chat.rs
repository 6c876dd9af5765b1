//! Chat over DDP: contacts, messages, rooms.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use weir_base::Id;
use weir_community::Env;
use weir_community::accounts::{self, ProfileChange};
use weir_community::chat::subscription::Kind;
use weir_community::chat::{address, contacts, rooms, settings};
use weir_community::relationships::{self, FollowWish};
use weir_db::{Class, Tx};

use crate::client::Ddp;
use crate::place::{Place, places};
use crate::stage;

fn serve_chat(place: &Place, bob: Id) -> Arc<AtomicBool> {
    stage::serve(place, bob).here
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
        let set = place.community.write(Class::Interactive, move |tx, env| {
            contacts::set(tx, env, alice, &listed, "Bobby", &["Friends".to_owned()])
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
async fn contacts_are_told_as_they_change_and_as_they_come_and_go() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let here = serve_chat(&place, bob);
        let (to, from) = (bob_at(&place), address::of(place.community.env(), "alice"));
        let mut one = place.session(alice).await;
        one.sub("c", "chat.contacts", json!([])).await.unwrap();
        assert!(one.of("chat_contacts").is_empty());
        let contact = |ddp: &Ddp, field: &str| match ddp.of("chat_contacts").get(&to) {
            Some(contact) => contact[field].clone(),
            None => json!("nobody"),
        };
        let asked = to.clone();
        let ask = move |tx: &mut Tx, env: &Env| {
            contacts::exchange(tx, env, alice, Kind::Subscribe, &asked, "").map(|_| ())
        };
        place.write(ask).await;
        one.hear_until(|ddp| contact(ddp, "asked") == true).await;
        let grant = move |tx: &mut Tx, env: &Env| {
            contacts::exchange(tx, env, bob, Kind::Subscribed, &from, "").map(|_| ())
        };
        place.write(grant).await;
        one.hear_until(|ddp| contact(ddp, "online") == true).await;
        assert_eq!(contact(&one, "subscription"), "to");
        for online in [false, true] {
            here.store(online, Ordering::SeqCst);
            place.community.env().streams.chat_presence_changed(bob);
            one.hear_until(|ddp| contact(ddp, "online") == online).await;
        }
        assert_eq!(contact(&one, "account_id"), bob.to_string());
        let gone = to.clone();
        place.write(move |tx, env| contacts::remove(tx, env, alice, &gone).map(|_| ())).await;
        one.hear_until(|ddp| ddp.of("chat_contacts").is_empty()).await;
        // Whoever is no contact any more is not watched either.
        here.store(false, Ordering::SeqCst);
        place.community.env().streams.chat_presence_changed(bob);
        one.call("markers.set", json!([{ "timeline": "home", "last_read_id": "1" }]))
            .await
            .unwrap();
        assert!(one.of("chat_contacts").is_empty(), "on {}", place.name);
    }
}

#[tokio::test]
async fn who_blocks_one_is_not_seen_to_come_and_go() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let here = serve_chat(&place, bob);
        let (to, from) = (bob_at(&place), address::of(place.community.env(), "alice"));
        let asked = to.clone();
        place
            .write(move |tx, env| {
                contacts::exchange(tx, env, alice, Kind::Subscribe, &asked, "")?;
                contacts::exchange(tx, env, bob, Kind::Subscribed, &from, "").map(|_| ())
            })
            .await;
        let mut one = place.session(alice).await;
        one.sub("c", "chat.contacts", json!([])).await.unwrap();
        for (by, of) in [(bob, alice), (alice, bob)] {
            one.hear_until(|ddp| ddp.of("chat_contacts")[&to]["online"] == true).await;
            place.write(move |tx, env| relationships::block(tx, env, by, of, "")).await;
            one.hear_until(|ddp| ddp.of("chat_contacts")[&to]["online"].is_null()).await;
            here.store(false, Ordering::SeqCst);
            place.community.env().streams.chat_presence_changed(bob);
            one.call("markers.set", json!([{ "timeline": "home", "last_read_id": "1" }]))
                .await
                .unwrap();
            let online = &one.of("chat_contacts")[&to]["online"];
            assert!(online.is_null(), "on {}: {online}", place.name);
            here.store(true, Ordering::SeqCst);
            place.write(move |tx, env| relationships::unblock(tx, env, by, of)).await;
        }
    }
}

#[tokio::test]
async fn those_with_whom_one_follows_each_other_appear_by_the_names_they_have() {
    for place in places().await {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        serve_chat(&place, bob);
        let to = bob_at(&place);
        let mut one = place.session(alice).await;
        one.sub("c", "chat.contacts", json!([])).await.unwrap();
        for who in [alice, bob] {
            place.write(move |tx, env| settings::show_mutuals(tx, env, who, true)).await;
        }
        for (by, of) in [(alice, bob), (bob, alice)] {
            let follow = move |tx: &mut Tx, env: &Env| {
                relationships::follow(tx, env, by, of, &FollowWish::default()).map(|_| ())
            };
            place.write(follow).await;
        }
        one.hear_until(|ddp| ddp.of("chat_contacts").contains_key(&to)).await;
        one.hear_until(|ddp| ddp.of("chat_contacts")[&to]["online"] == true).await;
        let rename = move |tx: &mut Tx, env: &Env| {
            let change =
                ProfileChange { display_name: Some("Bobby".into()), ..ProfileChange::default() };
            accounts::update_profile(tx, env, bob, &change).map(|_| ())
        };
        place.write(rename).await;
        one.hear_until(|ddp| ddp.of("chat_contacts")[&to]["name"] == "Bobby").await;
        place.write(move |tx, env| settings::show_mutuals(tx, env, bob, false)).await;
        one.hear_until(|ddp| ddp.of("chat_contacts")[&to]["online"].is_null()).await;
        place.write(move |tx, env| relationships::unfollow(tx, env, bob, alice)).await;
        one.hear_until(|ddp| ddp.of("chat_contacts").is_empty()).await;
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
        let lounge = place.write(|tx, _| Ok(rooms::find(tx, "lounge")?.unwrap())).await;
        let subject = rooms::Subject { text: "tea".into(), ..lounge.subject };
        place.write(move |tx, env| rooms::set_subject(tx, env, lounge.id, &subject)).await;
        one.hear_until(|ddp| ddp.of("chat_rooms")["lounge"]["subject"] == "tea").await;
        let hidden = rooms::Config { public: false, ..lounge.config };
        place.write(move |tx, env| rooms::configure(tx, env, lounge.id, &hidden)).await;
        one.hear_until(|ddp| ddp.of("chat_rooms").is_empty()).await;
        place.write(move |tx, env| rooms::set_of_community(tx, env, lounge.id, true)).await;
        one.hear_until(|ddp| ddp.of("chat_rooms").contains_key("lounge")).await;
        place.write(move |tx, env| rooms::destroy(tx, env, lounge.id)).await;
        one.hear_until(|ddp| ddp.of("chat_rooms").is_empty()).await;
    }
}
