//! What staff asks and does about accounts by chat (XEP-0133).

use weir_community::users::Role;

use super::commands::is_staff;
use super::dialogue::play_at;
use super::place::places;

/// Carol runs a command with these fields, and is answered by `answer` inside of the form.
fn runs(node: &str, fields: &[(&str, &str)], answer: &str) -> String {
    let field =
        |(var, value): &(&str, &str)| format!("<field var='{var}'><value>{value}</value></field>");
    let fields: String = fields.iter().map(field).collect();
    format!(
        "carol sends
           <iq type='set' to='weir.test' id='{node}'><command
           xmlns='http://jabber.org/protocol/commands'
           node='http://jabber.org/protocol/admin#{node}'>
           <x xmlns='jabber:x:data' type='submit'>{fields}</x></command></iq>
         carol receives
           <iq type='result' id='{node}'><command status='completed'
           xmlns='http://jabber.org/protocol/commands'>{answer}</command></iq>
"
    )
}

/// A field of an answer.
fn told(var: &str, values: &[&str]) -> String {
    let values: String = values.iter().map(|one| format!("<value>{one}</value>")).collect();
    format!("<x xmlns='jabber:x:data' type='result'><field var='{var}'>{values}</field></x>")
}

#[tokio::test]
async fn staff_shuts_out_finds_who_is_shut_out_and_lets_in_again() {
    for mut place in places().await {
        is_staff(&mut place, "carol", Role::Moderator).await;
        place.person("alice").await;
        place.person("bob").await;
        let bob = [("accountjids", "bob@weir.test")];
        let shown = runs(
            "get-registered-users-list",
            &[("max_items", "2")],
            &told("registereduserjids", &["alice@weir.test", "bob@weir.test"]),
        );
        let shuts_out = runs("disable-user", &bob, "");
        let count = |number: &str| {
            runs("get-disabled-users-num", &[], &told("disabledusersnum", &[number]))
        };
        let (one, none) = (count("1"), count("0"));
        let list = runs(
            "get-disabled-users-list",
            &[("max_items", "none")],
            &told("disableduserjids", &["bob@weir.test"]),
        );
        let lets_in = runs("reenable-user", &bob, "");
        play_at(
            &mut place,
            &format!(
                "carol is here
                 carol sends
                   <iq type='set' to='weir.test' id='f'><command
                   xmlns='http://jabber.org/protocol/commands'
                   node='http://jabber.org/protocol/admin#get-registered-users-list'/></iq>
                 carol receives
                   <iq type='result' id='f'><command status='executing'
                   xmlns='http://jabber.org/protocol/commands'><x xmlns='jabber:x:data'
                   type='form'><field var='max_items' type='list-single'/></x></command></iq>
                 {shown}
                 {none}
                 {shuts_out}
                 {one}
                 {list}
                 {lets_in}
                 {none}
                 bob is here"
            ),
        )
        .await;
    }
}

#[tokio::test]
async fn staff_sees_who_looks_at_an_app_and_who_is_only_here() {
    for mut place in places().await {
        is_staff(&mut place, "carol", Role::Moderator).await;
        let active = runs("get-active-users-num", &[], &told("activeusersnum", &["2"]));
        let idle = runs("get-idle-users-num", &[], &told("idleusersnum", &["1"]));
        let list = runs(
            "get-active-users-list",
            &[("max_items", "25")],
            &told("activeuserjids", &["alice@weir.test", "carol@weir.test"]),
        );
        let others = runs(
            "get-idle-users-list",
            &[("max_items", "25")],
            &told("idleuserjids", &["bob@weir.test"]),
        );
        play_at(
            &mut place,
            &format!(
                "alice is here
                 bob is here
                 carol is here
                 bob sends
                   <inactive xmlns='urn:xmpp:csi:0'/>
                 bob hears nothing
                 {active}
                 {idle}
                 {list}
                 {others}"
            ),
        )
        .await;
    }
}

#[tokio::test]
async fn admins_see_the_figures_and_contacts_of_people_below_them() {
    for mut place in places().await {
        is_staff(&mut place, "carol", Role::Admin).await;
        let alice = [("accountjid", "alice@weir.test")];
        let figures = runs(
            "user-stats",
            &alice,
            &format!("{}{}", told("rostersize", &["1"]), told("onlineresources", &["home"])),
        );
        let contacts = runs(
            "get-user-roster",
            &alice,
            "<x xmlns='jabber:x:data' type='result'>
             <field var='contacts'><value>bob@elsewhere.test</value></field>
             <query xmlns='jabber:iq:roster'><item jid='bob@elsewhere.test' name='Bob'
             subscription='none'/></query></x>",
        );
        let never = runs("get-user-lastlogin", &alice, &told("lastlogin", &[""]));
        play_at(
            &mut place,
            &format!(
                "alice is here
                 alice sends
                   <iq type='set' id='r'><query xmlns='jabber:iq:roster'>
                   <item jid='bob@elsewhere.test' name='Bob'/></query></iq>
                 alice listens no more
                 carol is here
                 {figures}
                 {contacts}
                 {never}
                 carol sends
                   <iq type='set' to='weir.test' id='o'><command
                   xmlns='http://jabber.org/protocol/commands'
                   node='http://jabber.org/protocol/admin#get-user-roster'>
                   <x xmlns='jabber:x:data' type='submit'><field var='accountjid'>
                   <value>carol@weir.test</value></field></x></command></iq>
                 carol receives
                   <iq type='error' id='o'><error>
                   <forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
            ),
        )
        .await;
    }
}

#[tokio::test]
async fn a_password_that_staff_sets_ends_all_log_ins_and_is_the_one_from_then_on() {
    for mut place in places().await {
        is_staff(&mut place, "carol", Role::Admin).await;
        let sets = runs(
            "change-user-password",
            &[("accountjid", "alice@weir.test"), ("password", "set by the staff")],
            "",
        );
        play_at(
            &mut place,
            &format!(
                "alice is here
                 carol is here
                 {sets}
                 alice receives
                   <stream:error xmlns:stream='http://etherx.jabber.org/streams'/>
                 alice is sent away"
            ),
        )
        .await;
        let mut app = place.app().await;
        app.log_in_with("PLAIN", "AGFsaWNlAHNldCBieSB0aGUgc3RhZmY=").await;
    }
}

#[tokio::test]
async fn an_address_that_is_none_or_nobody_s_is_named_and_nothing_is_done() {
    for mut place in places().await {
        is_staff(&mut place, "carol", Role::Admin).await;
        place.person("alice").await;
        let asks = |id: &str, other: &str, text: &str| {
            format!(
                "carol sends
                   <iq type='set' to='weir.test' id='{id}'><command
                   xmlns='http://jabber.org/protocol/commands'
                   node='http://jabber.org/protocol/admin#delete-user'>
                   <x xmlns='jabber:x:data' type='submit'><field var='accountjids'>
                   <value>alice@weir.test</value><value>{other}</value></field></x></command></iq>
                 carol receives
                   <iq type='error' id='{id}'><error>
                   <not-acceptable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>
                   <text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'>{text}</text></error></iq>
"
            )
        };
        let broken = asks("1", "bob@@weir.test", "\"bob@@weir.test\" is no address");
        let nobody = asks(
            "2",
            "bob@weir.test",
            "Validation failed: Accountjids name bob@weir.test, which is no account of here",
        );
        let count = runs("get-registered-users-num", &[], &told("registeredusersnum", &["2"]));
        let text = "garden@elsewhere.test is no room of this server";
        let elsewhere = format!(
            "carol sends
               <iq type='set' to='weir.test' id='r'><command
               xmlns='http://jabber.org/protocol/commands'
               node='urn:weir:chat:community-rooms'>
               <x xmlns='jabber:x:data' type='submit'><field var='rooms'>
               <value>garden@elsewhere.test</value></field></x></command></iq>
             carol receives
               <iq type='error' id='r'><error>
               <item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>
               <text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'>{text}</text></error></iq>"
        );
        play_at(&mut place, &format!("carol is here\n{broken}{nobody}{count}{elsewhere}")).await;
    }
}
