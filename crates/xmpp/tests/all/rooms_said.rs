//! What is said in rooms, to all and to one, and what is kept of it.

use super::dialogue::play;
use super::rooms::{BOB, ROOM};

/// Bob is in the room by a second app too; both have copies on.
const BOB_TWICE: &str = "
    bob/phone is here
    bob listens no more
    bob/phone enters the room as bo
    bob/phone receives
      <presence from='tea@conference.weir.test/al'/>
    bob/phone receives
      <presence from='tea@conference.weir.test/bo'/>
    bob/phone receives
      <message type='groupchat'><subject/></message>
    bob/phone sends
      <iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>
    bob/phone receives
      <iq type='result' id='c'/>
    bob sends
      <iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>
    bob receives
      <iq type='result' id='c'/>";

#[tokio::test]
async fn what_nobody_would_miss_is_told_and_not_kept() {
    play(&format!(
        "{ROOM}{BOB}
         bob sends
           <message to='tea@conference.weir.test' type='groupchat' id='m1'>
           <composing xmlns='http://jabber.org/protocol/chatstates'/></message>
         alice receives
           <message from='tea@conference.weir.test/bo' type='groupchat' id='m1'>
           <composing xmlns='http://jabber.org/protocol/chatstates'/></message>
         bob receives
           <message id='m1'/>
         bob sends
           <message to='tea@conference.weir.test' type='groupchat' id='m2'><body>secret</body>
           <no-store xmlns='urn:xmpp:hints'/></message>
         alice receives
           <message from='tea@conference.weir.test/bo' id='m2'><body>secret</body></message>
         bob receives
           <message id='m2'/>
         bob sends
           <message to='tea@conference.weir.test' type='groupchat' id='m3'><body>brief</body>
           <no-permanent-store xmlns='urn:xmpp:hints'/></message>
         alice receives
           <message id='m3'><body>brief</body></message>
         bob sends
           <message to='tea@conference.weir.test' type='groupchat' id='m4'>
           <reactions xmlns='urn:xmpp:reactions:0' id='1'><reaction>+</reaction></reactions>
           </message>
         alice receives
           <message id='m4'><stanza-id xmlns='urn:xmpp:sid:0' id='*'/></message>
         carol is here
         carol enters the room as ca
         carol receives in any order
           <presence from='tea@conference.weir.test/al'/>
           <presence from='tea@conference.weir.test/bo'/>
           <presence from='tea@conference.weir.test/ca'/>
           <message id='m3'><delay xmlns='urn:xmpp:delay'/></message>
           <message id='m4'><delay xmlns='urn:xmpp:delay'/></message>
           <message type='groupchat'><subject/></message>
         carol sends
           <iq type='set' id='m' to='tea@conference.weir.test'><query xmlns='urn:xmpp:mam:2'/></iq>
         carol receives
           <message><result xmlns='urn:xmpp:mam:2'><forwarded xmlns='urn:xmpp:forward:0'>
           <message xmlns='jabber:client' id='m4'/></forwarded></result></message>
         carol receives
           <iq type='result' id='m'/>"
    ))
    .await;
}

#[tokio::test]
async fn what_is_not_kept_has_no_id_of_the_archive() {
    for mut place in super::place::places().await {
        super::dialogue::play_at(&mut place, ROOM).await;
        let mut bob = place.logged_in("bob", "home").await;
        bob.send(
            "<presence to='tea@conference.weir.test/bo'>\
             <x xmlns='http://jabber.org/protocol/muc'/></presence>",
        )
        .await;
        bob.until_ping().await;
        bob.send(
            "<message to='tea@conference.weir.test' type='groupchat' id='m'>\
             <active xmlns='http://jabber.org/protocol/chatstates'/></message>",
        )
        .await;
        let told = bob.receive().await;
        assert_eq!(told.attr("id"), Some("m"));
        assert!(told.child("stanza-id", "urn:xmpp:sid:0").is_none(), "{told:?}");
    }
}

#[tokio::test]
async fn an_app_that_nobody_looks_at_is_not_told_who_types_in_a_room() {
    play(&format!(
        "{ROOM}{BOB}
         bob sends
           <inactive xmlns='urn:xmpp:csi:0'/>
         alice sends
           <message to='tea@conference.weir.test' type='groupchat' id='m1'>
           <composing xmlns='http://jabber.org/protocol/chatstates'/></message>
         alice receives
           <message id='m1'/>
         alice sends
           <message to='tea@conference.weir.test' type='groupchat' id='m2'><body>hi</body></message>
         bob receives
           <message id='m2'><body>hi</body></message>"
    ))
    .await;
}

#[tokio::test]
async fn a_private_message_comes_once_to_each_app_in_the_room_and_to_the_archive_once() {
    play(&format!(
        "{ROOM}{BOB}{BOB_TWICE}
         bob/desk is here
         bob listens no more
         bob/phone listens no more
         bob/desk sends
           <iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>
         bob/desk receives
           <iq type='result' id='c'/>
         alice sends
           <message to='tea@conference.weir.test/bo' type='chat' id='p'><body>psst</body></message>
         bob receives
           <message from='tea@conference.weir.test/al' to='bob@weir.test/home' type='chat' id='p'>
           <body>psst</body><x xmlns='http://jabber.org/protocol/muc#user'/>
           <stanza-id xmlns='urn:xmpp:sid:0' by='bob@weir.test' id='*'/></message>
         bob/phone receives
           <message from='tea@conference.weir.test/al' to='bob@weir.test/phone' type='chat' id='p'>
           <body>psst</body><x xmlns='http://jabber.org/protocol/muc#user'/>
           <stanza-id xmlns='urn:xmpp:sid:0' by='bob@weir.test' id='*'/></message>
         bob hears nothing
         bob/phone hears nothing
         bob/desk hears nothing
         bob sends
           <iq type='set' id='m'><query xmlns='urn:xmpp:mam:2'/></iq>
         bob receives
           <message><result xmlns='urn:xmpp:mam:2'><forwarded xmlns='urn:xmpp:forward:0'>
           <message xmlns='jabber:client' from='tea@conference.weir.test/al'><body>psst</body>
           </message></forwarded></result></message>
         bob receives
           <iq type='result' id='m'/>"
    ))
    .await;
}

#[tokio::test]
async fn who_writes_privately_finds_it_in_the_archive_and_on_the_other_apps() {
    play(&format!(
        "{ROOM}{BOB}{BOB_TWICE}
         bob listens no more
         bob sends
           <message to='tea@conference.weir.test/al' type='chat' id='p'><body>psst</body>
           <x xmlns='http://jabber.org/protocol/muc#user'/></message>
         alice listens no more
         bob/phone receives
           <message from='bob@weir.test' type='chat'><sent xmlns='urn:xmpp:carbons:2'>
           <forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' id='p'
           from='bob@weir.test/home' to='tea@conference.weir.test/al'><body>psst</body>
           <stanza-id xmlns='urn:xmpp:sid:0' by='bob@weir.test' id='*'/>
           </message></forwarded></sent></message>
         bob hears nothing
         bob sends
           <iq type='set' id='m'><query xmlns='urn:xmpp:mam:2'>
           <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>
           <value>urn:xmpp:mam:2</value></field><field var='with'>
           <value>tea@conference.weir.test/al</value></field></x></query></iq>
         bob receives
           <message><result xmlns='urn:xmpp:mam:2'><forwarded xmlns='urn:xmpp:forward:0'>
           <message xmlns='jabber:client' id='p'><body>psst</body></message></forwarded></result>
           </message>
         bob receives
           <iq type='result' id='m'/>"
    ))
    .await;
}

#[tokio::test]
async fn who_returns_an_error_stays_and_the_sender_of_a_private_message_is_told() {
    play(&format!(
        "{ROOM}{BOB}
         alice sends
           <message to='tea@conference.weir.test/bo' type='chat' id='p'><body>psst</body></message>
         bob receives
           <message id='p'/>
         bob sends
           <message to='tea@conference.weir.test/al' type='error' id='p'><error type='cancel'>
           <feature-not-implemented xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
         alice receives
           <message from='tea@conference.weir.test/bo' type='error' id='p'><error>
           <feature-not-implemented xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
         bob sends
           <message to='tea@conference.weir.test/al' type='error' id='other'><error type='cancel'>
           <not-acceptable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
         alice hears nothing
         bob sends
           <message to='tea@conference.weir.test' type='error' id='other'><error type='cancel'>
           <gone xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
         alice receives
           <presence type='unavailable' from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'><status code='333'/></x></presence>"
    ))
    .await;
}

#[tokio::test]
async fn who_blocks_another_in_a_room_stays_in_it() {
    play(&format!(
        "{ROOM}{BOB}
         bob sends
           <iq type='set' id='b'><block xmlns='urn:xmpp:blocking'>
           <item jid='tea@conference.weir.test/al'/></block></iq>
         bob listens no more
         alice sends
           <message to='tea@conference.weir.test/bo' type='chat' id='p'><body>psst</body></message>
         alice receives
           <message from='tea@conference.weir.test/bo' type='error' id='p'><error>
           <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
         alice hears nothing
         bob hears nothing
         bob sends
           <message to='tea@conference.weir.test' type='groupchat' id='m'><body>hi</body></message>
         alice receives
           <message from='tea@conference.weir.test/bo' id='m'/>"
    ))
    .await;
}
