//! Joining by chat (XEP-0077, XEP-0445), passwords, and leaving.

use weir_community::instance::{self, Registrations};
use weir_community::users::{self, NewInvite, Role};
use weir_db::Class;
use weir_xmpp::wire::Element;

use super::commands::is_staff;
use super::dialogue::play;
use super::place::{App, Place, places};

const REGISTER: &str = "jabber:iq:register";

async fn doors_are(place: &Place, mode: Registrations) {
    let env = place.community.env().clone();
    let set = place.community.write(Class::Interactive, move |tx, _| {
        let mut settings = (*env.instance.settings()).clone();
        settings.registrations = Some(mode);
        instance::set(tx, &env, settings)
    });
    set.await.unwrap();
}

async fn ask(app: &mut App, kind: &str, payload: &str) -> Element {
    app.send(&format!("<iq type='{kind}' to='weir.test' id='j'>{payload}</iq>")).await;
    app.receive().await
}

fn joining(name: &str, more: &str) -> String {
    format!(
        "<query xmlns='{REGISTER}'><username>{name}</username>\
         <password>password of {name}</password>{more}</query>"
    )
}

fn condition(answer: &Element) -> String {
    let error = answer.child("error", "jabber:client");
    let error = error.unwrap_or_else(|| panic!("no error: {answer:?}"));
    error.children().next().unwrap().name.to_string()
}

#[tokio::test]
async fn somebody_joins_and_logs_in_on_the_same_connection() {
    for place in places().await {
        let mut app = place.app().await;
        let form = ask(&mut app, "get", &format!("<query xmlns='{REGISTER}'/>")).await;
        let query = form.child("query", REGISTER).unwrap();
        assert!(query.has("username", REGISTER) && query.has("password", REGISTER));
        let done = ask(&mut app, "set", &joining("carol", "")).await;
        assert_eq!(done.attr("type"), Some("result"), "{done:?}");
        app.log_in("carol").await;
        app.bind("home").await;
    }
}

#[tokio::test]
async fn a_name_is_given_once_and_a_bad_one_never() {
    for mut place in places().await {
        place.person("alice").await;
        let mut app = place.app().await;
        let taken = ask(&mut app, "set", &joining("alice", "")).await;
        assert_eq!(condition(&taken), "conflict");
        let bad = ask(&mut app, "set", &joining("a b", "")).await;
        assert_eq!(condition(&bad), "not-acceptable");
        let empty = ask(&mut app, "set", &joining("", "")).await;
        assert_eq!(condition(&empty), "not-acceptable");
    }
}

#[tokio::test]
async fn nobody_joins_where_the_door_is_closed() {
    for place in places().await {
        doors_are(&place, Registrations::Closed).await;
        let mut app = App::silent(place.address).await;
        let features = app.open().await;
        assert!(!features.has("register", "http://jabber.org/features/iq-register"));
        let payload = joining("carol", "");
        app.send(&format!("<iq type='set' to='weir.test' id='j'>{payload}</iq>")).await;
        assert_eq!(app.stream_error().await, "not-authorized");
    }
}

#[tokio::test]
async fn an_invitation_opens_the_door_once() {
    for mut place in places().await {
        place.person("alice").await;
        doors_are(&place, Registrations::Invite).await;
        let invited = place.community.write(Class::Interactive, |tx, env| {
            let alice = weir_community::accounts::by_address(tx, "alice", "")?.unwrap().id;
            let new = NewInvite { uses_max: Some(1), expires_in_s: None, autofollow: false };
            users::create_invite(tx, env, alice, &new)
        });
        let code = invited.await.unwrap().code;
        let mut app = place.app().await;
        let email = "<email>carol@mail.test</email>";
        let refused = ask(&mut app, "set", &joining("carol", email)).await;
        assert_eq!(condition(&refused), "forbidden");
        let wrong = ask(&mut app, "set", "<preauth xmlns='urn:xmpp:pars:0' token='no'/>").await;
        assert_eq!(condition(&wrong), "item-not-found");
        let preauth = format!("<preauth xmlns='urn:xmpp:pars:0' token='{code}'/>");
        let known = ask(&mut app, "set", &preauth).await;
        assert_eq!(known.attr("type"), Some("result"), "{known:?}");
        let joined = ask(&mut app, "set", &joining("carol", email)).await;
        assert_eq!(joined.attr("type"), Some("result"), "{joined:?}");
        app.log_in("carol").await;
        let mut late = place.app().await;
        let used = ask(&mut late, "set", &preauth).await;
        assert_eq!(condition(&used), "item-not-found");
    }
}

#[tokio::test]
async fn who_waits_for_the_staff_cannot_log_in_yet() {
    for place in places().await {
        doors_are(&place, Registrations::Approval).await;
        let mut app = place.app().await;
        let more = "<email>carol@mail.test</email>";
        let blank = ask(&mut app, "set", &joining("carol", more)).await;
        assert_eq!(condition(&blank), "not-acceptable", "without a reason");
        let more = "<email>carol@mail.test</email><misc>I like it here</misc>";
        let joined = ask(&mut app, "set", &joining("carol", more)).await;
        let query = joined.child("query", REGISTER).unwrap_or_else(|| panic!("{joined:?}"));
        assert!(query.has("instructions", REGISTER));
    }
}

#[tokio::test]
async fn a_password_is_changed_by_its_owner_only() {
    for mut place in places().await {
        let mut app = place.logged_in("alice", "home").await;
        let other = "<query xmlns='jabber:iq:register'><username>bob</username>\
                     <password>a quite new one</password></query>";
        assert_eq!(condition(&ask(&mut app, "set", other).await), "not-allowed");
        let weak = "<query xmlns='jabber:iq:register'><username>alice</username>\
                    <password>x</password></query>";
        assert_eq!(condition(&ask(&mut app, "set", weak).await), "not-acceptable");
        let new = "<query xmlns='jabber:iq:register'><username>alice</username>\
                   <password>a quite new one</password></query>";
        let done = ask(&mut app, "set", new).await;
        assert_eq!(done.attr("type"), Some("result"), "{done:?}");
    }
}

#[tokio::test]
async fn the_last_admin_does_not_leave() {
    for mut place in places().await {
        is_staff(&mut place, "olga", Role::Admin).await;
        let mut app = place.logged_in("olga", "home").await;
        let remove = "<query xmlns='jabber:iq:register'><remove/></query>";
        let refused = ask(&mut app, "set", remove).await;
        assert_eq!(condition(&refused), "conflict");
        assert!(format!("{refused:?}").contains("weir account set NAME --role admin"));
        is_staff(&mut place, "alice", Role::Admin).await;
        let done = ask(&mut app, "set", remove).await;
        assert_eq!(done.attr("type"), Some("result"), "{done:?}");
    }
}

#[tokio::test]
async fn who_leaves_is_gone_at_once() {
    for mut place in places().await {
        let mut app = place.logged_in("alice", "home").await;
        let remove = "<query xmlns='jabber:iq:register'><remove/></query>";
        let done = ask(&mut app, "set", remove).await;
        assert_eq!(done.attr("type"), Some("result"), "{done:?}");
        // Whichever comes first: this, or that the log-in has lost its power.
        let end = app.stream_error().await;
        assert!(["not-authorized", "reset"].contains(&end.as_str()), "{end}");
    }
    play(
        "alice is here
         alice sends
           <iq type='get' id='r'><query xmlns='jabber:iq:register'/></iq>
         alice receives
           <iq type='result' id='r'><query xmlns='jabber:iq:register'><registered/>
           <username>alice</username></query></iq>",
    )
    .await;
}
