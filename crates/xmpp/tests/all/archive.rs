//! The archive (XEP-0313), and what people want to have in it.

use super::dialogue::play;

const SAID: &str = "
    alice is here
    bob is here
    alice sends
      <message to='bob@weir.test' type='chat'><body>one</body></message>
    bob receives
      <message><body>one</body></message>
    bob sends
      <message to='alice@weir.test' type='chat'><body>two</body></message>
    alice receives
      <message><body>two</body></message>";

#[tokio::test]
async fn both_sides_find_what_was_said_in_their_archives() {
    play(
        &format!(
            "{SAID}
         alice sends
           <iq type='set' id='m'><query xmlns='urn:xmpp:mam:2' queryid='q'/></iq>
         alice receives
           <message from='alice@weir.test' to='alice@weir.test/home'>
           <result xmlns='urn:xmpp:mam:2' queryid='q' id='*'>
           <forwarded xmlns='urn:xmpp:forward:0'>
           <delay xmlns='urn:xmpp:delay' stamp='*'/>
           <message xmlns='jabber:client' from='alice@weir.test/home' to='bob@weir.test'>
           <body>one</body></message></forwarded></result></message>
         alice receives
           <message><result xmlns='urn:xmpp:mam:2' queryid='q'>
           <forwarded xmlns='urn:xmpp:forward:0'>
           <message xmlns='jabber:client' from='bob@weir.test/home'>
           <body>two</body></message></forwarded></result></message>
         alice receives
           <iq type='result' id='m'><fin xmlns='urn:xmpp:mam:2' complete='true'>
           <set xmlns='http://jabber.org/protocol/rsm'>
           <first>*</first><last/><count>2</count></set></fin></iq>
         bob sends
           <iq type='set' id='m'><query xmlns='urn:xmpp:mam:2'>
           <set xmlns='http://jabber.org/protocol/rsm'><max>1</max><before/></set></query></iq>
         bob receives
           <message><result xmlns='urn:xmpp:mam:2'><forwarded xmlns='urn:xmpp:forward:0'>
           <message xmlns='jabber:client'><body>two</body></message></forwarded></result></message>
         bob receives
           <iq type='result' id='m'><fin xmlns='urn:xmpp:mam:2' complete='(none)'/></iq>"
        )
        .replace("<first>*</first>", "<first/>"),
    )
    .await;
}

#[tokio::test]
async fn who_wants_nothing_archived_finds_nothing() {
    play(
        "bob is here
         alice is here
         alice sends
           <iq type='set' id='p'><prefs xmlns='urn:xmpp:mam:2' default='never'>
           <always><jid>carol@weir.test</jid></always></prefs></iq>
         alice receives
           <iq type='result' id='p'><prefs xmlns='urn:xmpp:mam:2' default='never'>
           <always><jid>carol@weir.test</jid></always></prefs></iq>
         alice sends
           <message to='bob@weir.test' type='chat'><body>one</body></message>
         bob receives
           <message><body>one</body></message>
         alice sends
           <iq type='set' id='m'><query xmlns='urn:xmpp:mam:2'/></iq>
         alice receives
           <iq type='result' id='m'><fin xmlns='urn:xmpp:mam:2' complete='true'>
           <set xmlns='http://jabber.org/protocol/rsm'><count>0</count></set></fin></iq>
         alice sends
           <iq type='get' id='g'><metadata xmlns='urn:xmpp:mam:2'/></iq>
         alice receives
           <iq type='result' id='g'><metadata xmlns='urn:xmpp:mam:2'/></iq>
         bob sends
           <iq type='get' id='g'><metadata xmlns='urn:xmpp:mam:2'/></iq>
         bob receives
           <iq type='result' id='g'><metadata xmlns='urn:xmpp:mam:2'>
           <start id='*' timestamp='*'/><end id='*'/></metadata></iq>",
    )
    .await;
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_with_the_right_condition() {
    play(
        "alice is here
         alice sends
           <iq type='set' id='1'><query xmlns='urn:xmpp:mam:2'>
           <set xmlns='http://jabber.org/protocol/rsm'><after>77</after></set></query></iq>
         alice receives
           <iq type='error' id='1'><error><item-not-found
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         alice sends
           <iq type='set' id='2'><query xmlns='urn:xmpp:mam:2'>
           <x xmlns='jabber:x:data' type='submit'><field var='start'><value>soon</value></field>
           </x></query></iq>
         alice receives
           <iq type='error' id='2'><error><bad-request
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         bob has an account
         alice sends
           <iq type='set' id='3' to='bob@weir.test'><query xmlns='urn:xmpp:mam:2'/></iq>
         alice receives
           <iq type='error' id='3'><error><service-unavailable
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    )
    .await;
}
