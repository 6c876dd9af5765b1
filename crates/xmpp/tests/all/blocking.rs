//! The blocking command (XEP-0191).

use super::dialogue::play;

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
           <iq type='set'><unblock xmlns='urn:xmpp:blocking'/></iq>
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
