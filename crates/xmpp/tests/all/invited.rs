//! Becoming a contact by an invitation (XEP-0379).

use weir_community::accounts;
use weir_community::users::{self, NewInvite};
use weir_community::{Env, Error};
use weir_db::{Class, Tx};

use super::dialogue::{play, play_at};
use super::place::{Place, places};

/// The code of an invitation of alice's, for one person and a week.
pub async fn code(place: &mut Place) -> String {
    place.person("alice").await;
    let unit = |tx: &mut Tx, env: &Env| {
        let alice = accounts::by_address(tx, "alice", "")?.ok_or(Error::NotFound("Account"))?.id;
        let new = NewInvite { uses_max: Some(1), expires_in_s: Some(7 * 86_400), autofollow: true };
        users::create_invite(tx, env, alice, &new)
    };
    place.community.write(Class::Interactive, unit).await.unwrap().code
}

/// Somebody asks to be a contact of `whom` with this invitation.
fn asks(who: &str, whom: &str, code: &str) -> String {
    format!(
        "{who} sends
           <presence type='subscribe' to='{whom}@weir.test'>
           <preauth xmlns='urn:xmpp:pars:0' token='{code}'/></presence>"
    )
}

#[tokio::test]
async fn who_is_invited_is_let_in_at_once_and_asked_back_and_nobody_after_them() {
    for mut place in places().await {
        let code = code(&mut place).await;
        let of_bob = asks("bob", "alice", &code);
        let of_carol = asks("carol", "alice", &code);
        let script = format!(
            "alice is here
             bob is here
             carol is here
             {of_bob}
             bob receives in any order
               <presence type='subscribed' from='alice@weir.test'/>
               <presence type='subscribe' from='alice@weir.test'/>
               <presence from='alice@weir.test/home'/>
             alice hears nothing
             bob sends
               <presence type='subscribed' to='alice@weir.test'/>
             alice receives in any order
               <presence type='subscribed' from='bob@weir.test'/>
               <presence from='bob@weir.test/home'/>
             bob listens no more
             {of_carol}
             alice receives
               <presence type='subscribe' from='carol@weir.test'/>
             carol hears nothing"
        );
        play_at(&mut place, &script).await;
    }
}

#[tokio::test]
async fn an_invitation_opens_nobody_elses_door_and_not_for_ever() {
    for mut place in places().await {
        let code = code(&mut place).await;
        let other = asks("bob", "carol", &code);
        let late = asks("bob", "alice", &code);
        let others = format!(
            "alice is here
             bob is here
             carol is here
             {other}
             carol receives
               <presence type='subscribe' from='bob@weir.test'/>
             bob hears nothing
             bob leaves
             alice leaves
             carol leaves"
        );
        play_at(&mut place, &others).await;
        place.clock.advance(8 * 86_400_000);
        let script = format!(
            "alice is here
             bob is here
             {late}
             alice receives
               <presence type='subscribe' from='bob@weir.test'/>
             bob hears nothing"
        );
        play_at(&mut place, &script).await;
    }
}

#[tokio::test]
async fn an_invitation_says_whose_contact_one_becomes_or_where_one_joins() {
    for (node, begin) in [
        ("invite", "xmpp:alice@weir.test?roster;preauth="),
        ("create-account", "xmpp:weir.test?register;preauth="),
    ] {
        let mut place = places().await.remove(0);
        let mut alice = place.logged_in("alice", "home").await;
        alice
            .send(&format!(
                "<iq type='set' to='weir.test' id='i'><command node='urn:xmpp:invite#{node}' \
                 xmlns='http://jabber.org/protocol/commands'/></iq>"
            ))
            .await;
        let told = alice.receive().await;
        let command = told.child("command", "http://jabber.org/protocol/commands").unwrap();
        let form = command.child("x", "jabber:x:data").unwrap();
        let uri = form.children().find(|field| field.attr("var") == Some("uri")).unwrap();
        let uri = uri.children().find(|child| child.name == "value").unwrap().text();
        assert!(uri.starts_with(begin), "{uri}");
        assert_eq!(uri.ends_with(";ibr=y"), node == "invite", "{uri}");
    }
}

#[tokio::test]
async fn a_request_with_a_made_up_invitation_waits_as_any_other() {
    let made_up = asks("bob", "alice", "made up");
    play(&format!(
        "alice is here
         bob is here
         {made_up}
         alice receives
           <presence type='subscribe' from='bob@weir.test'/>
         bob hears nothing"
    ))
    .await;
}

#[tokio::test]
async fn who_joined_by_an_invitation_becomes_a_contact_by_it_too() {
    for mut place in places().await {
        let code = code(&mut place).await;
        let mut app = place.app().await;
        app.send(&format!(
            "<iq type='set' to='weir.test' id='p'>\
             <preauth xmlns='urn:xmpp:pars:0' token='{code}'/></iq>\
             <iq type='set' to='weir.test' id='j'><query xmlns='jabber:iq:register'>\
             <username>dora</username><password>password of dora</password>\
             <email>dora@mail.test</email></query></iq>"
        ))
        .await;
        for id in ["p", "j"] {
            let answer = app.receive().await;
            assert_eq!((answer.attr("id"), answer.attr("type")), (Some(id), Some("result")));
        }
        app.log_in("dora").await;
        app.bind("new").await;
        app.send(&format!(
            "<presence/><presence type='subscribe' to='alice@weir.test'>\
             <preauth xmlns='urn:xmpp:pars:0' token='{code}'/></presence>"
        ))
        .await;
        let heard = app.until_ping().await;
        let kinds: Vec<&str> = heard.iter().filter_map(|one| one.attr("type")).collect();
        assert!(kinds.contains(&"subscribed") && kinds.contains(&"subscribe"), "{heard:?}");
    }
}
