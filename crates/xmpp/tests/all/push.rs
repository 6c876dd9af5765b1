//! Waking apps that are not connected (XEP-0357).

use weir_community::accounts;
use weir_community::chat::push;
use weir_db::Class;

use super::place::{Place, places};

async fn services(place: &Place) -> usize {
    let found = place.community.read(Class::Interactive, |tx, _| {
        let bob = accounts::by_address(tx, "bob", "")?.unwrap().id;
        Ok(push::list(tx, bob)?.len())
    });
    found.await.unwrap()
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
