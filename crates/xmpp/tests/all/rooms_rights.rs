//! Who may do what in rooms (XEP-0045), and what it costs to do too much.

use super::dialogue::play;
use super::place::places;
use super::rooms::{BOB, ROOM};

fn refused(id: &str, condition: &str) -> String {
    format!(
        "<message type='error' id='{id}'><error>
         <{condition} xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
    )
}

fn configured(field: &str, value: &str) -> String {
    format!(
        "alice sends
           <iq type='set' id='f' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data'
           type='submit'><field var='{field}'><value>{value}</value></field></x></query></iq>
         alice listens no more"
    )
}

#[tokio::test]
async fn only_who_may_changes_the_subject() {
    play(&format!(
        "{ROOM}{BOB}
         bob sends
           <message to='tea@conference.weir.test' type='groupchat' id='s'>
           <subject>Coffee</subject></message>
         bob receives
           {}
         alice sends
           <message to='tea@conference.weir.test' type='groupchat'><subject>Tea</subject></message>
         bob receives
           <message from='tea@conference.weir.test/al' type='groupchat'><subject>Tea</subject>
           </message>
         alice receives
           <message from='tea@conference.weir.test/al'><subject>Tea</subject></message>
         {}
         bob listens no more
         bob sends
           <message to='tea@conference.weir.test' type='groupchat'>
           <subject>Coffee</subject></message>
         bob receives
           <message from='tea@conference.weir.test/bo'><subject>Coffee</subject></message>",
        refused("s", "forbidden"),
        configured("muc#roomconfig_changesubject", "1"),
    ))
    .await;
}

#[tokio::test]
async fn an_admin_bans_but_does_not_touch_owners() {
    play(&format!(
        "{ROOM}{BOB}
         alice sends
           <iq type='set' id='a' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#admin'>
           <item jid='bob@weir.test' affiliation='admin'/></query></iq>
         bob receives
           <presence from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'>
           <item affiliation='admin' role='moderator'/></x></presence>
         alice listens no more
         bob sends
           <iq type='set' id='1' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#admin'>
           <item jid='alice@weir.test' affiliation='none'/></query></iq>
         bob receives
           <iq type='error' id='1'><error><not-allowed
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         bob sends
           <iq type='set' id='2' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#admin'><item nick='al' role='none'/>
           </query></iq>
         bob receives
           <iq type='error' id='2'><error><not-allowed
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         bob sends
           <iq type='set' id='3' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#admin'>
           <item jid='carol@weir.test' affiliation='outcast'><reason>spam</reason></item>
           </query></iq>
         bob receives
           <iq type='result' id='3'/>
         alice hears nothing
         carol is here
         carol enters the room as ca
         carol receives
           <presence type='error' from='tea@conference.weir.test/ca'><error><forbidden
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>
         carol sends
           <iq type='get' id='4' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#admin'><item affiliation='outcast'/>
           </query></iq>
         carol receives
           <iq type='error' id='4'/>"
    ))
    .await;
}

#[tokio::test]
async fn only_who_is_in_speaks_and_only_to_who_is_there() {
    play(&format!(
        "{ROOM}{BOB}
         carol is here
         carol sends
           <message to='tea@conference.weir.test' type='groupchat' id='1'><body>hi</body></message>
         carol receives
           {}
         carol sends
           <message to='tea@conference.weir.test/al' type='chat' id='2'><body>hi</body></message>
         carol receives
           {}
         carol sends
           <message to='ham@conference.weir.test' type='groupchat' id='3'><body>hi</body></message>
         carol receives
           <message type='error' id='3'/>
         bob sends
           <message to='tea@conference.weir.test/nobody' type='chat' id='4'><body>hi</body>
           </message>
         bob receives
           {}
         bob sends
           <message to='tea@conference.weir.test' type='chat' id='5'><body>hi</body></message>
         bob receives
           {}
         alice hears nothing",
        refused("1", "not-acceptable"),
        refused("2", "not-acceptable"),
        refused("4", "item-not-found"),
        refused("5", "bad-request"),
    ))
    .await;
}

#[tokio::test]
async fn a_room_that_is_full_lets_nobody_in_but_its_admins() {
    play(&format!(
        "{ROOM}
         {}
         bob is here
         bob enters the room as bo
         bob receives
           <presence type='error' from='tea@conference.weir.test/bo'><error><service-unavailable
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>",
        configured("muc#roomconfig_maxusers", "1"),
    ))
    .await;
}

#[tokio::test]
async fn who_comes_to_a_room_without_secrets_is_told_so_and_sees_who_everybody_is() {
    play(&format!(
        "{ROOM}
         {}
         bob is here
         bob enters the room as bo
         bob receives
           <presence from='tea@conference.weir.test/al'>
           <x xmlns='http://jabber.org/protocol/muc#user'><item jid='alice@weir.test/home'/></x>
           </presence>
         bob receives
           <presence from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'><item jid='bob@weir.test/home'/>
           <status code='100'/><status code='110'/></x></presence>",
        configured("muc#roomconfig_whois", "anyone"),
    ))
    .await;
}

#[tokio::test]
async fn who_comes_hears_as_much_of_what_was_said_as_it_asks_for() {
    play(&format!(
        "{ROOM}
         alice sends
           <message to='tea@conference.weir.test' type='groupchat'><body>one</body></message>
           <message to='tea@conference.weir.test' type='groupchat'><body>two</body></message>
         alice listens no more
         bob is here
         bob sends
           <presence to='tea@conference.weir.test/bo'><x xmlns='http://jabber.org/protocol/muc'>
           <history maxstanzas='1'/></x></presence>
         bob receives
           <presence from='tea@conference.weir.test/al'/>
         bob receives
           <presence from='tea@conference.weir.test/bo'/>
         bob receives
           <message type='groupchat' from='tea@conference.weir.test/al'><body>two</body>
           <delay xmlns='urn:xmpp:delay'/></message>
         bob receives
           <message type='groupchat'><subject/></message>
         carol is here
         carol sends
           <presence to='tea@conference.weir.test/ca'><x xmlns='http://jabber.org/protocol/muc'>
           <history maxchars='0'/></x></presence>
         carol receives in any order
           <presence from='tea@conference.weir.test/al'/>
           <presence from='tea@conference.weir.test/bo'/>
           <presence from='tea@conference.weir.test/ca'/>
           <message type='groupchat'><subject/></message>"
    ))
    .await;
}

#[tokio::test]
async fn who_declines_an_invitation_tells_who_invited() {
    play(&format!(
        "{ROOM}
         bob is here
         bob sends
           <message to='tea@conference.weir.test'><x xmlns='http://jabber.org/protocol/muc#user'>
           <decline to='alice@weir.test'><reason>too hot</reason></decline></x></message>
         alice receives
           <message from='tea@conference.weir.test'><x xmlns='http://jabber.org/protocol/muc#user'>
           <decline from='bob@weir.test'><reason>too hot</reason></decline></x></message>"
    ))
    .await;
}

#[tokio::test]
async fn a_flood_in_a_room_shuts_out_who_does_not_read_and_nobody_else() {
    let mut place = places().await.remove(0);
    let enter = |nick: &str| {
        let x = "<x xmlns='http://jabber.org/protocol/muc'/>";
        format!("<presence to='tea@conference.weir.test/{nick}'>{x}</presence>")
    };
    let mut alice = place.logged_in("alice", "home").await;
    alice.send(&enter("al")).await;
    alice
        .send(
            "<iq type='set' id='o' to='tea@conference.weir.test'>
             <query xmlns='http://jabber.org/protocol/muc#owner'>
             <x xmlns='jabber:x:data' type='submit'/></query></iq>",
        )
        .await;
    alice.until_ping().await;
    let mut deaf = place.logged_in("bob", "home").await;
    deaf.send(&enter("bo")).await;
    deaf.until_ping().await;
    let mut carol = place.logged_in("carol", "home").await;
    carol.send(&enter("ca")).await;
    carol.until_ping().await;
    let body = "a".repeat(100_000);
    let message = format!(
        "<message to='tea@conference.weir.test' type='groupchat' id='m'><body>{body}</body>\
         </message>"
    );
    let (mut said, mut heard) = (0, 0);
    let is_said = |one: &&weir_xmpp::wire::Element| one.attr("id") == Some("m");
    let left = |all: &[weir_xmpp::wire::Element]| {
        let by = "tea@conference.weir.test/bo";
        all.iter()
            .any(|one| one.attr("from") == Some(by) && one.attr("type") == Some("unavailable"))
    };
    // Far more than may wait for one.
    let mut is_out = false;
    while !is_out || heard < said {
        assert!(said < 2_000, "bob still holds everybody up");
        alice.send(&message).await;
        said += 1;
        is_out |= left(&alice.until_ping().await);
        let all = carol.until_ping().await;
        heard += all.iter().filter(is_said).count();
    }
    assert_eq!(heard, said, "carol has heard all of it");
}

const REGISTERS: &str = "
    bob sends
      <iq type='set' id='r' to='tea@conference.weir.test'><query xmlns='jabber:iq:register'>
      <x xmlns='jabber:x:data' type='submit'><field var='muc#register_roomnick'><value>bo</value>
      </field></x></query></iq>";

const READS: &str = "
    bob sends
      <iq type='set' id='q' to='tea@conference.weir.test'><query xmlns='urn:xmpp:mam:2'/></iq>";

#[tokio::test]
async fn who_does_not_know_the_password_of_a_room_neither_registers_nor_reads_its_archive() {
    let secret = configured("muc#roomconfig_roomsecret", "sesame");
    play(&format!(
        "{ROOM}
         {secret}
         alice sends
           <message to='tea@conference.weir.test' type='groupchat'><body>secret</body></message>
         alice listens no more
         bob is here
         {REGISTERS}
         bob receives
           <iq type='error' id='r'><error><not-allowed
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         {READS}
         bob receives
           <iq type='error' id='q'><error><forbidden
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         bob sends
           <presence to='tea@conference.weir.test/bo'><x xmlns='http://jabber.org/protocol/muc'>
           <password>sesame</password></x></presence>
         bob listens no more
         {REGISTERS}
         bob receives
           <presence from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='member'/></x>
           </presence>
         bob receives
           <iq type='result' id='r'/>
         {READS}
         bob receives
           <message><result xmlns='urn:xmpp:mam:2'/></message>
         bob receives
           <iq type='result' id='q'/>
         bob sends
           <presence to='tea@conference.weir.test/bo' type='unavailable'/>
         bob listens no more
         {READS}
         bob receives
           <iq type='error' id='q'><error><forbidden
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    ))
    .await;
}

#[tokio::test]
async fn a_nick_of_ones_own_gives_no_voice_in_a_moderated_room() {
    let moderated = configured("muc#roomconfig_moderatedroom", "1");
    let enter = "<presence to='tea@conference.weir.test/bo'>
                 <x xmlns='http://jabber.org/protocol/muc'/></presence>";
    play(&format!(
        "{ROOM}
         {moderated}
         bob is here
         {REGISTERS}
         bob receives
           <iq type='result' id='r'/>
         bob sends
           {enter}
         bob receives
           <presence from='tea@conference.weir.test/al'/>
         bob receives
           <presence from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'>
           <item affiliation='none' role='visitor'/></x></presence>
         bob listens no more
         bob sends
           <message to='tea@conference.weir.test' type='groupchat' id='1'><body>hi</body></message>
         bob receives
           {}
         bob sends
           <presence to='tea@conference.weir.test/bo' type='unavailable'/>
         bob listens no more
         carol is here
         carol sends
           {enter}
         carol receives
           <presence type='error'><error><conflict
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>",
        refused("1", "forbidden"),
    ))
    .await;
}

#[tokio::test]
async fn the_lists_of_a_room_that_does_not_stay_are_bounded() {
    let mut place = places().await.remove(0);
    let mut alice = place.logged_in("alice", "home").await;
    alice
        .send(
            "<presence to='tea@conference.weir.test/al'>
             <x xmlns='http://jabber.org/protocol/muc'/></presence>
             <iq type='set' id='o' to='tea@conference.weir.test'>
             <query xmlns='http://jabber.org/protocol/muc#owner'>
             <x xmlns='jabber:x:data' type='submit'/></query></iq>",
        )
        .await;
    alice.until_ping().await;
    let bans = |numbers: std::ops::Range<u32>, affiliation: &str, reason: &str| {
        let item = |number| {
            format!(
                "<item jid='p{number}@far.test' affiliation='{affiliation}'><reason>{reason}\
                 </reason></item>"
            )
        };
        let items: String = numbers.map(item).collect();
        format!(
            "<iq type='set' id='a' to='tea@conference.weir.test'>\
             <query xmlns='http://jabber.org/protocol/muc#admin'>{items}</query></iq>"
        )
    };
    let long = "a".repeat(5_000);
    for (change, outcome) in [
        (bans(0..1, "outcast", &long), "error"),
        // Alice herself is the first of 500.
        (bans(0..499, "outcast", ""), "result"),
        (bans(499..500, "outcast", ""), "error"),
        (bans(0..1, "none", ""), "result"),
        (bans(499..500, "outcast", ""), "result"),
    ] {
        alice.send(&change).await;
        let answer = alice.receive().await;
        assert_eq!(answer.attr("type"), Some(outcome), "{answer:?}");
    }
}

#[tokio::test]
async fn a_presence_that_would_fill_the_memory_of_a_room_is_refused() {
    play(&format!(
        "{ROOM}
         bob is here
         bob sends
           <presence to='tea@conference.weir.test/bo'><status>{}</status>
           <x xmlns='http://jabber.org/protocol/muc'/></presence>
         bob receives
           <presence type='error'><error><policy-violation
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></presence>",
        "a".repeat(20_000)
    ))
    .await;
}

#[tokio::test]
async fn voice_follows_what_the_room_is_configured_to_be() {
    let moderated = configured("muc#roomconfig_moderatedroom", "1");
    let open = configured("muc#roomconfig_moderatedroom", "0");
    let bob_is = |role: &str| {
        format!(
            "<presence from='tea@conference.weir.test/bo'>
             <x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='none' role='{role}'/>
             </x></presence>"
        )
    };
    let (visitor, participant) = (bob_is("visitor"), bob_is("participant"));
    play(&format!(
        "{ROOM}{BOB}
         {moderated}
         bob receives
           <message type='groupchat'><x xmlns='http://jabber.org/protocol/muc#user'>
           <status code='104'/></x></message>
         bob receives
           {visitor}
         alice listens no more
         bob sends
           <message to='tea@conference.weir.test' type='groupchat' id='m'><body>hi</body></message>
         bob receives
           <message type='error' id='m'/>
         {open}
         bob receives
           <message type='groupchat'/>
         bob receives
           {participant}
         bob sends
           <message to='tea@conference.weir.test' type='groupchat' id='m'><body>hi</body></message>
         alice receives
           <message from='tea@conference.weir.test/bo'><body>hi</body></message>"
    ))
    .await;
}

#[tokio::test]
async fn who_becomes_a_member_by_a_nick_is_shown_as_one() {
    play(&format!(
        "{ROOM}{BOB}
         bob sends
           <iq type='set' id='r' to='tea@conference.weir.test'><query xmlns='jabber:iq:register'>
           <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>
           <value>http://jabber.org/protocol/muc#register</value></field>
           <field var='muc#register_roomnick'><value>bo</value></field></x></query></iq>
         alice receives
           <presence from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'>
           <item affiliation='member' role='participant' jid='bob@weir.test/home'/></x></presence>
         bob receives
           <presence from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='member'/>
           <status code='110'/></x></presence>
         bob receives
           <iq type='result' id='r'/>
         carol is here
         carol enters the room as ca
         carol receives in any order
           <presence from='tea@conference.weir.test/al'/>
           <presence from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='member'/></x>
           </presence>
           <presence from='tea@conference.weir.test/ca'/>"
    ))
    .await;
}

#[tokio::test]
async fn only_what_registers_somebody_says_so() {
    play(&format!(
        "{ROOM}
         alice sends
           <iq type='get' id='i' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/disco#info'/></iq>
         alice receives
           <iq type='result' id='i'><query xmlns='http://jabber.org/protocol/disco#info'>
           <feature var='jabber:iq:register'/></query></iq>
         alice sends
           <iq type='get' id='s' to='conference.weir.test'><query xmlns='jabber:iq:register'/></iq>
         alice receives
           <iq type='error' id='s'><error><service-unavailable
           xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    ))
    .await;
    for mut place in super::place::places().await {
        let mut alice = place.logged_in("alice", "home").await;
        alice
            .send(
                "<iq type='get' id='i' to='conference.weir.test'>\
                 <query xmlns='http://jabber.org/protocol/disco#info'/></iq>",
            )
            .await;
        let told = alice.receive().await;
        let query = told.child("query", "http://jabber.org/protocol/disco#info").unwrap();
        let mut features = query.children().filter_map(|child| child.attr("var"));
        assert!(features.all(|var| var != "jabber:iq:register"), "{told:?}");
    }
}
