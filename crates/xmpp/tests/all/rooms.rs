//! Rooms (XEP-0045).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use weir_community::users::Role;
use weir_xmpp::wire::{Jid, Stanza, parse};

use super::commands::is_staff;
use super::dialogue::{play, play_at};
use super::place::places;

/// Alice makes a room that stays, and is in it.
pub const ROOM: &str = "
    alice is here
    alice enters the room as al
    alice receives
      <presence from='tea@conference.weir.test/al' to='alice@weir.test/home'>
      <occupant-id xmlns='urn:xmpp:occupant-id:0' id='*'/>
      <x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='owner' role='moderator'
      jid='alice@weir.test/home'/><status code='201'/><status code='110'/></x></presence>
    alice receives
      <message type='groupchat' from='tea@conference.weir.test'><subject/></message>
    alice sends
      <iq type='set' id='o' to='tea@conference.weir.test'>
      <query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='submit'>
      <field var='muc#roomconfig_persistentroom'><value>1</value></field>
      <field var='muc#roomconfig_roomname'><value>Tea time</value></field></x></query></iq>
    alice receives
      <iq type='result' id='o' from='tea@conference.weir.test'/>";

/// Bob comes too.
pub const BOB: &str = "
    bob is here
    bob enters the room as bo
    bob receives
      <presence from='tea@conference.weir.test/al' to='bob@weir.test/home'>
      <x xmlns='http://jabber.org/protocol/muc#user'>
      <item affiliation='owner' role='moderator' jid='(none)'/></x></presence>
    bob receives
      <presence from='tea@conference.weir.test/bo'>
      <x xmlns='http://jabber.org/protocol/muc#user'>
      <item affiliation='none' role='participant'/><status code='110'/></x></presence>
    bob receives
      <message type='groupchat'><subject/></message>
    alice receives
      <presence from='tea@conference.weir.test/bo' to='alice@weir.test/home'>
      <x xmlns='http://jabber.org/protocol/muc#user'>
      <item affiliation='none' role='participant' jid='bob@weir.test/home'/></x></presence>";

/// Carol, who is of the staff, makes it a room of the community.
pub const OF_COMMUNITY: &str = "
    carol sends
      <iq type='set' to='weir.test' id='c'><command node='urn:weir:chat:community-rooms'
      xmlns='http://jabber.org/protocol/commands'><x xmlns='jabber:x:data' type='submit'>
      <field var='rooms'><value>tea@conference.weir.test</value></field></x></command></iq>";

#[tokio::test]
async fn people_talk_in_a_room_and_all_hear_it_once() {
    play(&format!(
        "{ROOM}{BOB}
         bob sends
           <message to='tea@conference.weir.test' type='groupchat' id='m1'><body>hi</body></message>
         bob receives
           <message from='tea@conference.weir.test/bo' to='bob@weir.test/home' type='groupchat'
           id='m1'><body>hi</body><stanza-id xmlns='urn:xmpp:sid:0' by='tea@conference.weir.test'
           id='*'/><occupant-id xmlns='urn:xmpp:occupant-id:0' id='*'/></message>
         alice receives
           <message from='tea@conference.weir.test/bo' to='alice@weir.test/home' type='groupchat'>
           <body>hi</body></message>
         carol is here
         carol sends
           <message to='tea@conference.weir.test' type='groupchat' id='m2'><body>hi</body></message>
         carol receives
           <message type='error' id='m2'><error><not-acceptable
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
         carol enters the room as ca
         carol receives in any order
           <presence from='tea@conference.weir.test/al'/><presence
           from='tea@conference.weir.test/bo'/><presence from='tea@conference.weir.test/ca'/>
           <message from='tea@conference.weir.test/bo' type='groupchat'><body>hi</body>
           <delay xmlns='urn:xmpp:delay' from='tea@conference.weir.test' stamp='*'/></message>
           <message type='groupchat'><subject/></message>
         alice receives
           <presence from='tea@conference.weir.test/ca'/>
         bob receives
           <presence from='tea@conference.weir.test/ca'/>
         bob leaves
         carol receives
           <presence type='unavailable' from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='none' role='none'/>
           </x></presence>"
    ))
    .await;
}

#[tokio::test]
async fn a_room_that_stays_is_there_when_all_have_left_with_what_was_said() {
    play(&format!(
        "{ROOM}
         alice sends
           <message to='tea@conference.weir.test' type='groupchat'><body>one</body></message>
         alice receives
           <message type='groupchat'><body>one</body></message>
         alice sends
           <message to='tea@conference.weir.test' type='groupchat'><subject>Leaves</subject>
           </message>
         alice receives
           <message type='groupchat'><subject>Leaves</subject></message>
         alice sends
           <presence type='unavailable' to='tea@conference.weir.test/al'/>
         alice receives
           <presence type='unavailable' from='tea@conference.weir.test/al'/>
         bob is here
         bob sends
           <iq type='get' id='d' to='conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/disco#items'/></iq>
         bob receives
           <iq type='result' id='d'><query xmlns='http://jabber.org/protocol/disco#items'>
           <item jid='tea@conference.weir.test' name='Tea time'/></query></iq>
         bob enters the room as bo
         bob receives
           <presence from='tea@conference.weir.test/bo'/>
         bob receives
           <message type='groupchat' from='tea@conference.weir.test/al'><body>one</body>
           <delay xmlns='urn:xmpp:delay'/></message>
         bob receives
           <message type='groupchat' from='tea@conference.weir.test/al'>
           <subject>Leaves</subject></message>
         bob sends
           <iq type='set' id='m' to='tea@conference.weir.test'><query xmlns='urn:xmpp:mam:2'>
           <set xmlns='http://jabber.org/protocol/rsm'><max>1</max></set></query></iq>
         bob receives
           <message from='tea@conference.weir.test'><result xmlns='urn:xmpp:mam:2' id='*'>
           <forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' type='groupchat'
           from='tea@conference.weir.test/al'><body>one</body></message></forwarded></result>
           </message>
         bob receives
           <iq type='result' id='m'><fin xmlns='urn:xmpp:mam:2'/></iq>
         bob sends
           <iq type='get' id='i' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/disco#info'/></iq>
         bob receives
           <iq type='result' id='i'><query xmlns='http://jabber.org/protocol/disco#info'>
           <identity category='conference' type='text' name='Tea time'/>
           <feature var='muc_persistent'/><feature var='urn:xmpp:mam:2'/>
           <feature var='http://jabber.org/protocol/muc#stable_id'/></query></iq>"
    ))
    .await;
}

#[tokio::test]
async fn who_is_kicked_or_banned_is_out_and_the_banned_stays_out() {
    play(&format!(
        "{ROOM}{BOB}
         bob sends
           <iq type='set' id='k' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#admin'><item nick='al' role='none'/>
           </query></iq>
         bob receives
           <iq type='error' id='k'><error><forbidden
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         alice sends
           <iq type='set' id='k' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#admin'><item nick='bo' role='none'>
           <reason>noise</reason></item></query></iq>
         alice receives in any order
           <presence type='unavailable' from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'><item role='none'><actor nick='al'/>
           <reason>noise</reason></item><status code='307'/></x></presence>
           <iq type='result' id='k'/>
         bob receives
           <presence type='unavailable' from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'><status code='307'/><status code='110'/>
           </x></presence>
         alice sends
           <iq type='set' id='b' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#admin'>
           <item jid='bob@weir.test' affiliation='outcast'/></query></iq>
         alice receives
           <iq type='result' id='b'/>
         bob enters the room as bo
         bob receives
           <presence type='error' from='tea@conference.weir.test/bo'><error><forbidden
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>
         alice sends
           <iq type='get' id='l' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#admin'><item affiliation='outcast'/>
           </query></iq>
         alice receives
           <iq type='result' id='l'><query xmlns='http://jabber.org/protocol/muc#admin'>
           <item jid='bob@weir.test' affiliation='outcast'/></query></iq>
         alice sends
           <iq type='set' id='n' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#admin'>
           <item jid='alice@weir.test' affiliation='none'/></query></iq>
         alice receives
           <iq type='error' id='n'><error><conflict
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    ))
    .await;
}

#[tokio::test]
async fn without_voice_nobody_speaks_and_moderators_give_it() {
    play(&format!(
        "{ROOM}
         alice sends
           <iq type='set' id='o' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data'
           type='submit'><field var='muc#roomconfig_moderatedroom'><value>1</value></field></x>
           </query></iq>
         alice receives
           <message type='groupchat' from='tea@conference.weir.test'>
           <x xmlns='http://jabber.org/protocol/muc#user'><status code='104'/></x></message>
         alice receives
           <iq type='result' id='o'/>
         bob is here
         bob enters the room as bo
         bob receives
           <presence from='tea@conference.weir.test/al'/>
         bob receives
           <presence from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'><item role='visitor'/></x></presence>
         bob receives
           <message><subject/></message>
         alice receives
           <presence from='tea@conference.weir.test/bo'/>
         bob sends
           <message to='tea@conference.weir.test' type='groupchat' id='m'><body>hi</body></message>
         bob receives
           <message type='error' id='m'><error><forbidden
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>
         bob sends
           <message to='tea@conference.weir.test'><x xmlns='jabber:x:data' type='submit'>
           <field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#request</value></field>
           <field var='muc#role'><value>participant</value></field></x></message>
         alice receives
           <message from='tea@conference.weir.test'><x xmlns='jabber:x:data' type='form'>
           <field var='muc#roomnick'><value>bo</value></field></x></message>
         alice sends
           <message to='tea@conference.weir.test'><x xmlns='jabber:x:data' type='submit'>
           <field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#request</value></field>
           <field var='muc#roomnick'><value>bo</value></field>
           <field var='muc#request_allow'><value>true</value></field></x></message>
         alice receives
           <presence from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'><item role='participant'/></x></presence>
         bob receives
           <presence from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'><item role='participant'/></x></presence>"
    ))
    .await;
}

#[tokio::test]
async fn nicks_are_unique_and_can_be_changed_and_pings_tell_whether_one_is_in() {
    play(&format!(
        "{ROOM}{BOB}
         bob sends
           <iq type='get' id='p' to='tea@conference.weir.test/bo'><ping xmlns='urn:xmpp:ping'/></iq>
         bob receives
           <iq type='result' id='p' from='tea@conference.weir.test/bo'/>
         bob sends
           <presence to='tea@conference.weir.test/al'/>
         bob receives
           <presence type='error' from='tea@conference.weir.test/al'><error><conflict
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>
         bob sends
           <presence to='tea@conference.weir.test/bobby'/>
         bob receives
           <presence type='unavailable' from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'><item nick='bobby'/><status code='303'/>
           <status code='110'/></x></presence>
         bob receives
           <presence from='tea@conference.weir.test/bobby' type='(none)'/>
         alice receives
           <presence type='unavailable' from='tea@conference.weir.test/bo'/>
         alice receives
           <presence from='tea@conference.weir.test/bobby' type='(none)'/>
         carol is here
         carol sends
           <iq type='get' id='p' to='tea@conference.weir.test/bo'><ping xmlns='urn:xmpp:ping'/></iq>
         carol receives
           <iq type='error' id='p'><error><not-acceptable
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         bob sends
           <message to='tea@conference.weir.test/al' type='chat'><body>psst</body></message>
         alice receives
           <message from='tea@conference.weir.test/bobby' type='chat'><body>psst</body>
           <x xmlns='http://jabber.org/protocol/muc#user'/></message>"
    ))
    .await;
}

#[tokio::test]
async fn a_room_for_members_with_a_password_lets_in_who_may() {
    play(&format!(
        "{ROOM}
         alice sends
           <iq type='set' id='o' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data'
           type='submit'><field var='muc#roomconfig_membersonly'><value>1</value></field>
           <field var='muc#roomconfig_passwordprotectedroom'><value>1</value></field>
           <field var='muc#roomconfig_roomsecret'><value>milk</value></field></x></query></iq>
         alice listens no more
         bob is here
         bob enters the room as bo
         bob receives
           <presence type='error'><error><registration-required
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>
         alice sends
           <message to='tea@conference.weir.test'><x xmlns='http://jabber.org/protocol/muc#user'>
           <invite to='bob@weir.test'><reason>come</reason></invite></x></message>
         bob receives
           <message from='tea@conference.weir.test'><x xmlns='http://jabber.org/protocol/muc#user'>
           <invite from='alice@weir.test'><reason>come</reason></invite><password>milk</password>
           </x></message>
         bob enters the room as bo
         bob receives
           <presence type='error'><error><not-authorized
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>
         bob sends
           <presence to='tea@conference.weir.test/bo'><x xmlns='http://jabber.org/protocol/muc'>
           <password>milk</password></x></presence>
         bob receives
           <presence from='tea@conference.weir.test/al'/>
         bob receives
           <presence from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='member'/></x>
           </presence>"
    ))
    .await;
}

#[tokio::test]
async fn what_a_moderator_takes_back_is_gone_from_the_archive_too() {
    play(&format!(
        "{ROOM}
         alice sends
           <message to='tea@conference.weir.test' type='groupchat'><body>spam</body></message>
         alice receives the id of
           <message type='groupchat'><body>spam</body></message>
         alice sends
           <iq type='set' id='r' to='tea@conference.weir.test'>
           <moderate xmlns='urn:xmpp:message-moderate:1' id='THE-ID'>
           <retract xmlns='urn:xmpp:message-retract:1'/><reason>spam</reason></moderate></iq>
         alice receives in any order
           <message type='groupchat' from='tea@conference.weir.test'>
           <retract xmlns='urn:xmpp:message-retract:1' id='THE-ID'>
           <moderated xmlns='urn:xmpp:message-moderate:1' by='tea@conference.weir.test/al'/>
           <reason>spam</reason></retract></message>
           <iq type='result' id='r'/>
         alice sends
           <iq type='set' id='m' to='tea@conference.weir.test'><query xmlns='urn:xmpp:mam:2'>
           <set xmlns='http://jabber.org/protocol/rsm'><max>1</max></set></query></iq>
         alice receives
           <message><result xmlns='urn:xmpp:mam:2' id='THE-ID'>
           <forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client'>
           <retracted xmlns='urn:xmpp:message-retract:1' stamp='*'/></message></forwarded></result>
           </message>"
    ))
    .await;
}

#[tokio::test]
async fn a_room_that_is_destroyed_tells_why_and_is_gone() {
    play(&format!(
        "{ROOM}{BOB}
         alice sends
           <iq type='set' id='d' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#owner'>
           <destroy jid='ham@conference.weir.test'><reason>moved</reason></destroy></query></iq>
         bob receives
           <presence type='unavailable' from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'><destroy jid='ham@conference.weir.test'>
           <reason>moved</reason></destroy></x></presence>
         alice receives in any order
           <presence type='unavailable' from='tea@conference.weir.test/al'/>
           <iq type='result' id='d'/>
         bob sends
           <iq type='get' id='i' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/disco#info'/></iq>
         bob receives
           <iq type='error' id='i'><error><item-not-found
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    ))
    .await;
}

#[tokio::test]
async fn rooms_of_the_community_stand_first_in_the_list() {
    for mut place in places().await {
        is_staff(&mut place, "carol", Role::Moderator).await;
        play_at(
            &mut place,
            &format!(
                "{ROOM}
         carol is here
         carol sends
           <presence to='bread@conference.weir.test/ca'>
           <x xmlns='http://jabber.org/protocol/muc'/></presence>
         carol receives
           <presence from='bread@conference.weir.test/ca'/>
         carol receives
           <message type='groupchat'/>
         carol sends
           <iq type='set' id='o' to='bread@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data'
           type='submit'/></query></iq>
         carol receives
           <iq type='result' id='o'/>{OF_COMMUNITY}
         carol receives
           <iq type='result' id='c'/>
         carol sends
           <iq type='get' id='l' to='conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/disco#items'>
           <set xmlns='http://jabber.org/protocol/rsm'><max>1</max></set></query></iq>
         carol receives
           <iq type='result' id='l'><query xmlns='http://jabber.org/protocol/disco#items'>
           <item jid='tea@conference.weir.test' name='Tea time'/></query></iq>"
            ),
        )
        .await;
    }
}

#[tokio::test]
async fn a_newcomer_and_a_crowd_are_told_of_each_other() {
    const CROWD: usize = 510;
    let mut place = places().await.remove(0);
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    place.xmpp.set_remote(Box::new(move |_, stanza| {
        let from = stanza.from.as_ref().and_then(Jid::resource);
        count.fetch_add(usize::from(from == Some("bo")), Relaxed);
    }));
    let mut alice = place.logged_in("alice", "home").await;
    let room = "crowd@conference.weir.test";
    let muc = "<x xmlns='http://jabber.org/protocol/muc'/>";
    alice.send(&format!("<presence to='{room}/al'>{muc}</presence>")).await;
    alice.until_ping().await;
    let instant = "<query xmlns='http://jabber.org/protocol/muc#owner'>\
         <x xmlns='jabber:x:data' type='submit'/></query>";
    alice.send(&format!("<iq type='set' id='o' to='{room}'>{instant}</iq>")).await;
    alice.until_ping().await;
    for number in 0..CROWD {
        let enters = format!(
            "<presence xmlns='jabber:client' from='u{number}@far.test/x' to='{room}/n{number}'>\
             {muc}</presence>"
        );
        let stanza = Stanza::of(parse::element(&enters).unwrap()).unwrap();
        place.xmpp.receive_remote(stanza).await;
        alice.until_ping().await;
    }
    let mut bob = place.logged_in("bob", "home").await;
    bob.send(&format!("<presence to='{room}/bo'>{muc}</presence>")).await;
    let mut seen = BTreeSet::new();
    loop {
        let next = bob.receive().await;
        if next.name == "message" {
            break;
        }
        assert!(seen.insert(next.attr("from").unwrap().to_owned()), "each once");
    }
    assert_eq!(seen.len(), CROWD + 2);
    assert_eq!(told.load(Relaxed), CROWD);
}
