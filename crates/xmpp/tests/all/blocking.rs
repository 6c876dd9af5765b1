//! The blocking command (XEP-0191).

use weir_community::{accounts, relationships};
use weir_db::Class;

use super::dialogue::play;
use super::place::{Place, places};

/// Alice blocks bob among posts, or ends that.
async fn block_in_posts(place: &Place, on: bool) {
    let changed = place.community.write(Class::Interactive, move |tx, env| {
        let id = |tx: &mut _, name| {
            Ok::<_, weir_community::Error>(accounts::by_address(tx, name, "")?.unwrap().id)
        };
        let (alice, bob) = (id(tx, "alice")?, id(tx, "bob")?);
        match on {
            true => relationships::block(tx, env, alice, bob, ""),
            false => relationships::unblock(tx, env, alice, bob),
        }
    });
    changed.await.unwrap();
}

#[tokio::test]
async fn a_block_made_among_posts_counts_in_chat_at_once() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        alice.send("<presence/>").await;
        let list = "<iq type='get' id='l'><blocklist xmlns='urn:xmpp:blocking'/></iq>";
        alice.send(list).await;
        alice.until_ping().await;
        let mut bob = place.logged_in("bob", "home").await;
        let message = "<message to='alice@weir.test' type='chat' id='x'><body>hi</body></message>";
        for on in [true, false] {
            block_in_posts(&place, on).await;
            // Her apps are told; from then on it counts.
            let push = alice.receive().await;
            let name = if on { "block" } else { "unblock" };
            let change = push.child(name, "urn:xmpp:blocking").unwrap();
            let item = change.child("item", "urn:xmpp:blocking").unwrap();
            assert_eq!(item.attr("jid"), Some("bob@weir.test"));
            bob.send(message).await;
            match on {
                true => assert_eq!(bob.receive().await.attr("type"), Some("error")),
                false => assert_eq!(alice.receive().await.attr("id"), Some("x")),
            }
        }
    }
}

#[tokio::test]
async fn who_is_blocked_is_not_heard_until_unblocked() {
    play(
        "alice/phone is here
         alice/desk is here
         alice/phone listens no more
         bob is here
         alice/desk sends
           <iq type='get' id='l'><blocklist xmlns='urn:xmpp:blocking'/></iq>
         alice/desk receives
           <iq type='result' id='l'><blocklist xmlns='urn:xmpp:blocking'/></iq>
         alice/phone sends
           <iq type='set' id='b'><block xmlns='urn:xmpp:blocking'>
           <item jid='bob@weir.test'/></block></iq>
         alice/phone receives
           <iq type='result' id='b'/>
         alice/desk receives
           <iq type='set' from='alice@weir.test'><block xmlns='urn:xmpp:blocking'>
           <item jid='bob@weir.test'/></block></iq>
         bob sends
           <message to='alice@weir.test' type='chat' id='x'><body>hi</body></message>
         bob receives
           <message type='error' id='x'><error><service-unavailable
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
         alice/phone sends
           <message to='bob@weir.test' type='chat' id='y'><body>hi</body></message>
         alice/phone receives
           <message type='error' id='y'><error><not-acceptable
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>
           <blocked xmlns='urn:xmpp:blocking:errors'/></error></message>
         alice/phone sends
           <iq type='set' id='u'><unblock xmlns='urn:xmpp:blocking'/></iq>
         alice/phone receives
           <iq type='result' id='u'/>
         alice/desk receives
           <iq type='set'><unblock xmlns='urn:xmpp:blocking'>
           <item jid='bob@weir.test'/></unblock></iq>
         bob sends
           <message to='alice@weir.test/phone' type='chat'><body>again</body></message>
         alice/phone receives
           <message><body>again</body></message>",
    )
    .await;
}

#[tokio::test]
async fn an_empty_block_and_an_address_that_is_none_are_refused() {
    play(
        "alice is here
         alice sends
           <iq type='set' id='1'><block xmlns='urn:xmpp:blocking'/></iq>
         alice receives
           <iq type='error' id='1'><error><bad-request
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         alice sends
           <iq type='set' id='2'><block xmlns='urn:xmpp:blocking'><item jid='@'/></block></iq>
         alice receives
           <iq type='error' id='2'><error><jid-malformed
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    )
    .await;
}
