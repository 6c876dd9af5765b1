//! Waking apps that are not connected (XEP-0357).

use weir_community::accounts;
use weir_community::chat::push;
use weir_db::Class;
use weir_xmpp::wire::write;

use super::place::{App, Place, places};
use super::resume::until_detached;

const SM: &str = "urn:xmpp:sm:3";

/// Bob's phone, which may resume its session, loses its connection. The id of the session.
async fn phone_sleeps(place: &mut Place) -> String {
    let mut phone = place.logged_in("bob", "phone").await;
    phone.send("<presence/>").await;
    phone.until_ping().await;
    phone.send(&format!("<enable xmlns='{SM}' resume='true'/>")).await;
    let id = phone.receive().await.attr("id").unwrap().to_owned();
    phone.vanish().await;
    until_detached(place, "bob", "phone").await;
    id
}

/// An app of this person stands in for the service that bob has asked to be woken by.
async fn service_of_bob(place: &mut Place, name: &str) -> App {
    let mut bob = place.logged_in("bob", "settings").await;
    bob.send(&format!(
        "<iq type='set' id='e'><enable xmlns='urn:xmpp:push:0' jid='{name}@weir.test/service' \
         node='n'/></iq>"
    ))
    .await;
    bob.until_ping().await;
    bob.send("</stream:stream>").await;
    while bob.frame().await.is_some() {}
    let mut service = place.logged_in(name, "service").await;
    // Only who is shown that it is there may ask it something.
    service.send("<presence to='bob@weir.test'/>").await;
    service.until_ping().await;
    service
}

/// How many messages wait, as a service is told.
async fn told_count(service: &mut App) -> String {
    loop {
        let told = service.receive().await;
        let Some(pubsub) = told.child("pubsub", "http://jabber.org/protocol/pubsub") else {
            continue;
        };
        let text = write::to_string(pubsub);
        let (_, behind) = text.split_once("message-count").unwrap();
        let (_, behind) = behind.split_once("<value>").unwrap();
        return behind.split_once('<').unwrap().0.to_owned();
    }
}

async fn services(place: &Place) -> usize {
    let found = place.community.read(Class::Interactive, |tx, _| {
        let bob = accounts::by_address(tx, "bob", "")?.unwrap().id;
        Ok(push::list(tx, bob)?.len())
    });
    found.await.unwrap()
}

#[tokio::test]
async fn a_phone_that_sleeps_is_woken_though_another_app_is_there() {
    for mut place in places().await {
        let mut service = service_of_bob(&mut place, "carol").await;
        let mut desk = place.logged_in("bob", "desk").await;
        desk.send("<presence/>").await;
        desk.until_ping().await;
        phone_sleeps(&mut place).await;
        let mut alice = place.logged_in("alice", "home").await;
        alice.send("<message to='bob@weir.test' type='chat'><body>hi</body></message>").await;
        assert_eq!(told_count(&mut service).await, "1");
    }
}

#[tokio::test]
async fn a_message_for_a_phone_that_sleeps_waits_and_wakes_it_and_comes_with_the_resumption() {
    for mut place in places().await {
        let mut service = service_of_bob(&mut place, "carol").await;
        let id = phone_sleeps(&mut place).await;
        let mut alice = place.logged_in("alice", "home").await;
        alice.send("<message to='bob@weir.test' type='chat'><body>hi</body></message>").await;
        assert_eq!(told_count(&mut service).await, "1");
        assert_eq!(place.waiting("bob").await, 1);
        let mut phone = place.app().await;
        phone.log_in("bob").await;
        phone.send(&format!("<resume xmlns='{SM}' previd='{id}' h='0'/>")).await;
        assert!(phone.receive().await.is("resumed", SM));
        let message = loop {
            let next = phone.receive().await;
            if next.name == "message" {
                break next;
            }
        };
        assert_eq!(message.child("body", "jabber:client").unwrap().text(), "hi");
        phone.send(&format!("<a xmlns='{SM}' h='1'/>")).await;
        place.until_none_waits("bob").await;
    }
}

#[tokio::test]
async fn a_service_is_told_that_a_message_waits_and_forgotten_when_it_refuses_for_good() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        // An app of bob's own that gets no messages stands in for the service.
        let mut service = place.logged_in("bob", "service").await;
        service.send("<presence><priority>-1</priority></presence>").await;
        service
            .send(
                "<iq type='set' id='e'><enable xmlns='urn:xmpp:push:0' jid='bob@weir.test/service' \
                 node='n'/></iq>",
            )
            .await;
        service.until_ping().await;
        for condition in ["resource-constraint", "item-not-found"] {
            assert_eq!(services(&place).await, 1);
            alice.send("<message to='bob@weir.test' type='chat'><body>hi</body></message>").await;
            let told = service.receive().await;
            let id = told.attr("id").unwrap();
            assert!(told.has("pubsub", "http://jabber.org/protocol/pubsub"), "{told:?}");
            service
                .send(&format!(
                    "<iq type='error' to='bob@weir.test' id='{id}'><error type='cancel'>\
                     <{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
                ))
                .await;
            service.until_ping().await;
        }
        while services(&place).await > 0 {
            tokio::task::yield_now().await;
        }
    }
}
