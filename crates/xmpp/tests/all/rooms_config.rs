//! What a room is configured to be (XEP-0045 §10), and who is told of it.

use super::dialogue::play;
use super::place::places;
use super::rooms::{BOB, ROOM};

/// Alice configures the room, and reads nothing.
fn configures(field: &str, value: &str) -> String {
    format!(
        "alice sends
           <iq type='set' id='f' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data'
           type='submit'><field var='muc#roomconfig_{field}'><value>{value}</value></field></x>
           </query></iq>"
    )
}

/// Somebody is told that the room changed, by this code.
fn told(who: &str, code: u16) -> String {
    format!(
        "{who} receives
           <message type='groupchat' from='tea@conference.weir.test'>
           <x xmlns='http://jabber.org/protocol/muc#user'><status code='{code}'/></x></message>"
    )
}

fn list(who: &str, what: &str) -> String {
    format!(
        "{who} sends
           <iq type='get' id='l' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#admin'><item {what}/></query></iq>"
    )
}

fn refused(who: &str, kind: &str, id: &str) -> String {
    format!(
        "{who} receives
           <{kind} type='error' id='{id}'><error>
           <forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></{kind}>"
    )
}

const PRIVATE: &str = "
    bob sends
      <message to='tea@conference.weir.test/al' type='chat' id='p'><body>psst</body></message>";

#[tokio::test]
async fn who_may_write_in_private_is_for_the_owner_to_say() {
    let none = configures("allowpm", "none");
    let moderators = configures("allowpm", "moderators");
    let participants = configures("allowpm", "participants");
    let changed = told("bob", 104);
    let refused = refused("bob", "message", "p");
    play(&format!(
        "{ROOM}{BOB}
         {none}
         {changed}
         {PRIVATE}
         {refused}
         {moderators}
         {changed}
         {PRIVATE}
         {refused}
         alice listens no more
         alice sends
           <message to='tea@conference.weir.test/bo' type='chat' id='a'><body>you</body></message>
         bob receives
           <message from='tea@conference.weir.test/al' id='a'/>
         {participants}
         {changed}
         alice listens no more
         {PRIVATE}
         alice receives
           <message from='tea@conference.weir.test/bo' id='p'><body>psst</body></message>"
    ))
    .await;
}

#[tokio::test]
async fn lists_are_for_those_who_may_see_them() {
    let members = list("bob", "affiliation='member'");
    let owners = list("bob", "affiliation='owner'");
    let refused_list = refused("bob", "iq", "l");
    let closed = configures("getmemberlist", "visitor");
    let open = configures("getmemberlist", "participant");
    let changed = told("bob", 104);
    play(&format!(
        "{ROOM}{BOB}
         {open}
         bob listens no more
         {closed}
         {changed}
         {members}
         {refused_list}
         {open}
         {changed}
         alice sends
           <iq type='set' id='m' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#admin'>
           <item jid='carol@weir.test' affiliation='member' nick='ca'/></query></iq>
         alice listens no more
         {members}
         bob receives
           <iq type='result' id='l'><query xmlns='http://jabber.org/protocol/muc#admin'>
           <item jid='carol@weir.test' affiliation='member' nick='ca'/></query></iq>
         {owners}
         bob receives
           <iq type='result' id='l'><query xmlns='http://jabber.org/protocol/muc#admin'>
           <item jid='alice@weir.test' affiliation='owner'/></query></iq>"
    ))
    .await;
}

#[tokio::test]
async fn moderators_see_who_has_which_role() {
    let moderators = list("alice", "role='moderator'");
    let participants = list("alice", "role='participant'");
    let of_bob = list("bob", "role='moderator'");
    let refused = refused("bob", "iq", "l");
    play(&format!(
        "{ROOM}{BOB}
         {moderators}
         alice receives
           <iq type='result' id='l'><query xmlns='http://jabber.org/protocol/muc#admin'>
           <item role='moderator' nick='al' affiliation='owner' jid='alice@weir.test/home'/>
           </query></iq>
         {participants}
         alice receives
           <iq type='result' id='l'><query xmlns='http://jabber.org/protocol/muc#admin'>
           <item role='participant' nick='bo' affiliation='none'/></query></iq>
         {of_bob}
         {refused}
         alice sends
           <iq type='set' id='m' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#admin'><item nick='bo' role='moderator'/>
           </query></iq>
         bob receives
           <presence from='tea@conference.weir.test/bo'>
           <x xmlns='http://jabber.org/protocol/muc#user'><item role='moderator'/></x></presence>
         {of_bob}
         bob receives
           <iq type='result' id='l'><query xmlns='http://jabber.org/protocol/muc#admin'>
           <item nick='al'/><item nick='bo'/></query></iq>"
    ))
    .await;
}

#[tokio::test]
async fn voice_can_be_asked_for_only_where_the_owner_lets_people_ask() {
    let moderated = configures("moderatedroom", "1");
    let closed = configures("allowvoicerequests", "0");
    let refused = refused("bob", "message", "v");
    play(&format!(
        "{ROOM}{BOB}
         {moderated}
         {closed}
         bob listens no more
         bob sends
           <message to='tea@conference.weir.test' id='v'><x xmlns='jabber:x:data' type='submit'>
           <field var='FORM_TYPE'><value>http://jabber.org/protocol/muc#request</value></field>
           <field var='muc#role'><value>participant</value></field></x></message>
         {refused}"
    ))
    .await;
}

#[tokio::test]
async fn what_changes_about_a_room_is_told_by_its_code() {
    let mut script = format!("{ROOM}{BOB}\n");
    for (field, value, code) in [
        ("enablelogging", "0", 171),
        ("enablelogging", "1", 170),
        ("whois", "anyone", 172),
        ("whois", "moderators", 173),
        ("roomdesc", "Leaves", 104),
    ] {
        script += &configures(field, value);
        script.push('\n');
        script += &told("bob", code);
        script.push('\n');
    }
    play(&script).await;
}

#[tokio::test]
async fn who_may_be_in_no_more_leaves_and_is_told_why() {
    let members = configures("membersonly", "1");
    let out = |code: u16| {
        format!(
            "<presence type='unavailable' from='tea@conference.weir.test/bo'>
             <x xmlns='http://jabber.org/protocol/muc#user'><item role='none'/>
             <status code='{code}'/></x></presence>"
        )
    };
    let (closed, no_member) = (out(322), out(321));
    let is = |affiliation: &str| {
        format!(
            "alice sends
               <iq type='set' id='m' to='tea@conference.weir.test'>
               <query xmlns='http://jabber.org/protocol/muc#admin'>
               <item jid='bob@weir.test' affiliation='{affiliation}'/></query></iq>
             alice listens no more"
        )
    };
    let (member, none) = (is("member"), is("none"));
    play(&format!(
        "{ROOM}{BOB}
         {members}
         bob receives
           <message type='groupchat'/>
         bob receives
           {closed}
         alice receives in any order
           <message type='groupchat'/>
           {closed}
           <iq type='result' id='f'/>
         {member}
         bob enters the room as bo
         bob listens no more
         alice listens no more
         {none}
         bob receives
           {no_member}"
    ))
    .await;
}

#[tokio::test]
async fn occupants_ask_each_other_without_knowing_who_they_are() {
    for mut place in places().await {
        super::dialogue::play_at(&mut place, ROOM).await;
        let mut alice = place.logged_in("alice", "desk").await;
        let mut bob = place.logged_in("bob", "home").await;
        for (app, nick) in [(&mut alice, "al"), (&mut bob, "bo")] {
            app.send(&format!(
                "<presence to='tea@conference.weir.test/{nick}'>\
                 <x xmlns='http://jabber.org/protocol/muc'/></presence>"
            ))
            .await;
            app.until_ping().await;
        }
        alice.until_ping().await;
        bob.send(
            "<iq type='get' id='v' to='tea@conference.weir.test/al'>\
             <query xmlns='jabber:iq:version'/></iq>",
        )
        .await;
        let asked = alice.receive().await;
        assert_eq!(asked.attr("from"), Some("tea@conference.weir.test/bo"), "{asked:?}");
        assert!(asked.has("query", "jabber:iq:version"));
        let id = asked.attr("id").unwrap();
        alice
            .send(&format!(
                "<iq type='result' id='{id}' to='tea@conference.weir.test/bo'>\
                 <query xmlns='jabber:iq:version'><name>Tea</name></query></iq>"
            ))
            .await;
        let answer = bob.receive().await;
        assert_eq!((answer.attr("id"), answer.attr("type")), (Some("v"), Some("result")));
        assert_eq!(answer.attr("from"), Some("tea@conference.weir.test/al"));
        // Nobody is asked who is not there.
        bob.send(
            "<iq type='get' id='n' to='tea@conference.weir.test/ca'>\
             <query xmlns='jabber:iq:version'/></iq>",
        )
        .await;
        let answer = bob.receive().await;
        assert_eq!((answer.attr("id"), answer.attr("type")), (Some("n"), Some("error")));
    }
}

/// A field of several values.
fn of_many(var: &str, values: &[&str]) -> String {
    let values: String = values.iter().map(|one| format!("<value>{one}</value>")).collect();
    format!("<field var='muc#roomconfig_{var}'>{values}</field>")
}

/// Alice fills in these fields.
fn fills_in(fields: &str) -> String {
    format!(
        "alice sends
           <iq type='set' id='f' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data'
           type='submit'>{fields}</x></query></iq>"
    )
}

#[tokio::test]
async fn admins_and_owners_are_named_by_the_form_and_one_owner_stays() {
    let appoints = fills_in(&of_many("roomadmins", &["bob@weir.test", "carol@weir.test"]));
    let lets_go = fills_in(&of_many("roomadmins", &["carol@weir.test"]));
    let nobody = fills_in(&of_many("roomowners", &[]));
    let wrong = fills_in(&of_many("roomowners", &["alice@weir.test", "@weir.test"]));
    let hands_over = fills_in(&format!(
        "{}{}",
        of_many("roomadmins", &["alice@weir.test", "carol@weir.test"]),
        of_many("roomowners", &["bob@weir.test"])
    ));
    let owners = list("bob", "affiliation='owner'");
    let admins = list("bob", "affiliation='admin'");
    let is = |affiliation: &str, role: &str| {
        format!(
            "bob receives
               <presence from='tea@conference.weir.test/bo'>
               <x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='{affiliation}'
               role='{role}'/></x></presence>"
        )
    };
    let (admin, none, owner) =
        (is("admin", "moderator"), is("none", "participant"), is("owner", "moderator"));
    play(&format!(
        "{ROOM}{BOB}
         {appoints}
         {admin}
         alice listens no more
         alice sends
           <iq type='get' id='g' to='tea@conference.weir.test'>
           <query xmlns='http://jabber.org/protocol/muc#owner'/></iq>
         alice receives
           <iq type='result' id='g'><query xmlns='http://jabber.org/protocol/muc#owner'>
           <x xmlns='jabber:x:data'><field var='muc#roomconfig_enablelogging' type='boolean'/>
           <field var='muc#roomconfig_getmemberlist' type='list-multi'/>
           <field var='muc#roomconfig_roomadmins' type='jid-multi'>
           <value>bob@weir.test</value><value>carol@weir.test</value></field>
           <field var='muc#roomconfig_roomowners' type='jid-multi'>
           <value>alice@weir.test</value></field></x></query></iq>
         {lets_go}
         {none}
         alice listens no more
         {nobody}
         alice receives
           <iq type='error' id='f'><error>
           <conflict xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         {wrong}
         alice receives
           <iq type='error' id='f'><error>
           <jid-malformed xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         {hands_over}
         alice listens no more
         bob receives
           <presence from='tea@conference.weir.test/al'>
           <x xmlns='http://jabber.org/protocol/muc#user'><item affiliation='admin'/></x>
           </presence>
         {owner}
         {owners}
         bob receives
           <iq type='result' id='l'><query xmlns='http://jabber.org/protocol/muc#admin'>
           <item jid='bob@weir.test' affiliation='owner'/></query></iq>
         {admins}
         bob receives
           <iq type='result' id='l'><query xmlns='http://jabber.org/protocol/muc#admin'>
           <item jid='alice@weir.test'/><item jid='carol@weir.test'/></query></iq>"
    ))
    .await;
}

#[tokio::test]
async fn the_name_of_the_archive_that_differs_switches_it() {
    let switches = fills_in(&format!(
        "{}{}",
        of_many("enablelogging", &["0"]),
        of_many("enablearchiving", &["1"])
    ));
    let (off, on) = (told("bob", 171), told("bob", 170));
    play(&format!("{ROOM}{BOB}\n{switches}\n{off}\n{switches}\n{on}")).await;
}
