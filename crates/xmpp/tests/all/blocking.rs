//! The blocking command (XEP-0191).

use weir_community::{accounts, relationships};
use weir_db::Class;

use super::dialogue::play;
use super::nodes::FRIENDS;
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

#[tokio::test]
async fn who_is_blocked_learns_nothing_by_asking_whether_one_is_here_or_not() {
    let asks: String = [
        "<query xmlns='jabber:iq:last'/>",
        "<query xmlns='http://jabber.org/protocol/disco#info'/>",
        "<vCard xmlns='vcard-temp'/>",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='urn:mood'/></pubsub>",
    ]
    .iter()
    .map(|query| {
        format!(
            "alice sends
               <iq type='get' id='q' to='bob@weir.test'>{query}</iq>
             alice receives
               <iq type='error' id='q'><error><service-unavailable
               xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
             "
        )
    })
    .collect();
    play(&format!(
        "{FRIENDS}
         bob sends
           <iq type='set' id='1'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <publish node='urn:mood'><item id='now'><mood xmlns='urn:mood'/></item></publish>
           </pubsub></iq>
         bob sends
           <iq type='set' id='b'><block xmlns='urn:xmpp:blocking'>
           <item jid='alice@weir.test'/></block></iq>
         bob listens no more
         alice listens no more
         {asks}
         bob leaves
         {asks}"
    ))
    .await;
}

#[tokio::test]
async fn who_is_blocked_is_told_of_no_node_though_having_subscribed() {
    let publish = |mood: &str| {
        format!(
            "bob sends
               <iq type='set' id='{mood}'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
               <publish node='urn:mood'><item id='now'><mood xmlns='urn:mood'>{mood}</mood></item>
               </publish></pubsub></iq>
             bob listens no more"
        )
    };
    let info = "<query xmlns='http://jabber.org/protocol/disco#info'>\
                <identity category='client' type='pc'/><feature var='urn:mood+notify'/></query>";
    play(&format!(
        "{FRIENDS}
         {}
         alice sends
           <iq type='set' id='s' to='bob@weir.test'>
           <pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <subscribe node='urn:mood' jid='alice@weir.test'/></pubsub></iq>
         alice listens no more
         bob sends
           <iq type='set' id='b'><block xmlns='urn:xmpp:blocking'>
           <item jid='alice@weir.test'/></block></iq>
         bob listens no more
         alice listens no more
         {}
         alice hears nothing
         alice/phone connects
         alice/phone sends
           <presence><c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:app'
           ver='unproven'/></presence>
         alice/phone receives in any order
           <presence from='alice@weir.test/phone'/><presence from='alice@weir.test/home'/>
           <iq type='get' from='weir.test'>
           <query xmlns='http://jabber.org/protocol/disco#info' node='urn:app#unproven'/></iq>
         alice/phone answers
           {info}
         alice/phone hears nothing",
        publish("glad"),
        publish("sad"),
    ))
    .await;
}
