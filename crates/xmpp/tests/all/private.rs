//! Private storage (XEP-0049), and bookmarks in all their forms.

use super::dialogue::play;

#[tokio::test]
async fn an_app_finds_again_what_it_kept() {
    play(
        "alice is here
         alice sends
           <iq type='set' id='1'><query xmlns='jabber:iq:private'>
           <notes xmlns='urn:app'><n>milk</n></notes></query></iq>
         alice receives
           <iq type='result' id='1'/>
         alice sends
           <iq type='get' id='2'><query xmlns='jabber:iq:private'>
           <notes xmlns='urn:app'/></query></iq>
         alice receives
           <iq type='result' id='2'><query xmlns='jabber:iq:private'>
           <notes xmlns='urn:app'><n>milk</n></notes></query></iq>
         alice sends
           <iq type='get' id='3'><query xmlns='jabber:iq:private'><x xmlns='urn:app'/></query></iq>
         alice receives
           <iq type='result' id='3'><query xmlns='jabber:iq:private'><x xmlns='urn:app'/></query>
           </iq>
         alice sends
           <iq type='get' id='4'><query xmlns='jabber:iq:private'/></iq>
         alice receives
           <iq type='error' id='4'><error><bad-request
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
    )
    .await;
}

#[tokio::test]
async fn bookmarks_of_old_and_new_apps_are_the_same() {
    play(
        "alice is here
         alice sends
           <iq type='set' id='1'><query xmlns='jabber:iq:private'>
           <storage xmlns='storage:bookmarks'>
           <conference jid='tea@conference.weir.test' name='Tea' autojoin='true'><nick>al</nick>
           </conference></storage></query></iq>
         alice receives
           <iq type='result' id='1'/>
         alice sends
           <iq type='get' id='2'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <items node='urn:xmpp:bookmarks:1'/></pubsub></iq>
         alice receives
           <iq type='result' id='2'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <items node='urn:xmpp:bookmarks:1'><item id='tea@conference.weir.test'>
           <conference xmlns='urn:xmpp:bookmarks:1' name='Tea' autojoin='true'><nick>al</nick>
           </conference></item></items></pubsub></iq>
         alice sends
           <iq type='set' id='3'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <publish node='urn:xmpp:bookmarks:1'><item id='ham@conference.weir.test'>
           <conference xmlns='urn:xmpp:bookmarks:1' name='Ham'/></item></publish></pubsub></iq>
         alice receives
           <iq type='result' id='3'/>
         alice sends
           <iq type='get' id='4'><query xmlns='jabber:iq:private'>
           <storage xmlns='storage:bookmarks'/></query></iq>
         alice receives
           <iq type='result' id='4'><query xmlns='jabber:iq:private'>
           <storage xmlns='storage:bookmarks'>
           <conference jid='tea@conference.weir.test'/><conference jid='ham@conference.weir.test'
           name='Ham'/></storage></query></iq>",
    )
    .await;
}

#[tokio::test]
async fn links_to_pages_stay_among_the_bookmarks() {
    play(
        "alice is here
         alice sends
           <iq type='set' id='1'><query xmlns='jabber:iq:private'>
           <storage xmlns='storage:bookmarks'><url name='Tea' url='https://tea.test/'/>
           <conference jid='tea@conference.weir.test'/></storage></query></iq>
         alice receives
           <iq type='result' id='1'/>
         alice sends
           <iq type='get' id='2'><query xmlns='jabber:iq:private'>
           <storage xmlns='storage:bookmarks'/></query></iq>
         alice receives
           <iq type='result' id='2'><query xmlns='jabber:iq:private'>
           <storage xmlns='storage:bookmarks'><conference jid='tea@conference.weir.test'/>
           <url name='Tea' url='https://tea.test/'/></storage></query></iq>
         alice sends
           <iq type='get' id='3'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <items node='storage:bookmarks'/></pubsub></iq>
         alice receives
           <iq type='result' id='3'><pubsub xmlns='http://jabber.org/protocol/pubsub'>
           <items node='storage:bookmarks'><item id='current'><storage xmlns='storage:bookmarks'>
           <conference jid='tea@conference.weir.test'/><url url='https://tea.test/'/></storage>
           </item></items></pubsub></iq>
         alice sends
           <iq type='get' id='4' to='alice@weir.test'>
           <query xmlns='http://jabber.org/protocol/disco#info'/></iq>
         alice receives
           <iq type='result' id='4'><query xmlns='http://jabber.org/protocol/disco#info'>
           <feature var='urn:xmpp:bookmarks-conversion:0'/></query></iq>",
    )
    .await;
}
