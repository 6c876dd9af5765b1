//! What somebody may do about accounts, by what they logged in with.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use weir_community::users::{self, Role, UserChange};
use weir_community::{Env, accounts, oauth};
use weir_db::{Class, Tx};
use weir_xmpp::wire::Element;

use crate::commands::is_staff;
use crate::dialogue::play_at;
use crate::log_in::{AGENT, FAST, SASL2, SM, by_sasl2, by_token, condition, token};
use crate::nodes::FRIENDS;
use crate::place::{App, Place, places};
use crate::resume::until_detached;

/// An app's token of the Mastodon API.
pub async fn oauth_token(place: &Place, of: &'static str, scopes: &'static str) -> String {
    let issue = move |tx: &mut Tx, env: &Env| {
        let account = accounts::by_address(tx, of, "")?.unwrap().id;
        let scopes = scopes.parse().unwrap();
        oauth::issue(tx, env, weir_base::Id::ZERO, Some(account), &scopes)
    };
    let issued = place.community.write(Class::Interactive, issue).await.unwrap();
    issued.token.expose().clone()
}

/// What an app says by OAUTHBEARER.
pub fn bearing(token: &str) -> String {
    BASE64_STANDARD.encode(format!("n,,\x01auth=Bearer {token}\x01\x01"))
}

/// Logs in by an app's token in XEP-0388's way, with `more` in the request.
async fn by_app(app: &mut App, token: &str, more: &str) -> Element {
    let message = bearing(token);
    app.send(&format!(
        "<authenticate xmlns='{SASL2}' mechanism='OAUTHBEARER'>\
         <initial-response>{message}</initial-response>{AGENT}{more}</authenticate>"
    ))
    .await;
    app.receive().await
}

/// An app that chats by a token.
async fn app_of(place: &Place, token: &str) -> App {
    let mut app = place.app().await;
    app.log_in_with("OAUTHBEARER", &bearing(token)).await;
    app.bind("app").await;
    app
}

/// How a query of the server ends: `result`, or the condition of the error.
async fn asks(app: &mut App, payload: &str) -> String {
    app.send(&format!("<iq type='set' to='weir.test' id='a'>{payload}</iq>")).await;
    let answer = loop {
        let next = app.receive().await;
        if next.attr("id") == Some("a") {
            break next;
        }
    };
    match answer.child("error", "jabber:client") {
        Some(error) => error.children().next().unwrap().name.to_string(),
        None => answer.attr("type").unwrap().to_owned(),
    }
}

const NEW_PASSWORD: &str = "<query xmlns='jabber:iq:register'><username>alice</username>\
                            <password>a quite new one</password></query>";
const LEAVING: &str = "<query xmlns='jabber:iq:register'><remove/></query>";
const COUNTING: &str = "<command xmlns='http://jabber.org/protocol/commands' \
                        node='http://jabber.org/protocol/admin#get-registered-users-num'/>";
const CHAT: &str = "read write follow";

#[tokio::test]
async fn an_apps_token_neither_changes_the_password_nor_deletes_the_account() {
    for mut place in places().await {
        place.person("alice").await;
        let token = oauth_token(&place, "alice", "read write follow admin:write").await;
        let mut app = app_of(&place, &token).await;
        assert_eq!(asks(&mut app, NEW_PASSWORD).await, "not-authorized", "{}", place.name);
        assert_eq!(asks(&mut app, LEAVING).await, "not-authorized", "{}", place.name);
        place.logged_in("alice", "home").await;
    }
}

#[tokio::test]
async fn neither_does_the_token_of_an_earlier_log_in() {
    for mut place in places().await {
        place.person("alice").await;
        let token = token(&place).await;
        let mut app = place.app().await;
        let bind = format!("{FAST}<bind xmlns='urn:xmpp:bind:0'/>");
        assert_eq!(by_token(&mut app, &token, AGENT, &bind).await.name, "success");
        assert_eq!(asks(&mut app, NEW_PASSWORD).await, "not-authorized", "{}", place.name);
        assert_eq!(asks(&mut app, LEAVING).await, "not-authorized", "{}", place.name);
    }
}

#[tokio::test]
async fn who_takes_up_a_session_by_a_token_has_the_power_of_the_token() {
    for mut place in places().await {
        place.person("alice").await;
        let mut app = place.app().await;
        let bind = "<bind xmlns='urn:xmpp:bind:0'><enable xmlns='urn:xmpp:sm:3' resume='true'/>\
                    </bind>";
        let success = by_sasl2(&mut app, "alice", bind).await;
        let enabled = success.child("bound", "urn:xmpp:bind:0").unwrap().child("enabled", SM);
        let previd = enabled.unwrap().attr("id").unwrap().to_owned();
        app.vanish().await;
        let token = oauth_token(&place, "alice", CHAT).await;
        let mut app = place.app().await;
        let resume = format!("<resume xmlns='{SM}' previd='{previd}' h='0'/>");
        assert!(by_app(&mut app, &token, &resume).await.has("resumed", SM));
        assert_eq!(asks(&mut app, LEAVING).await, "not-authorized", "{}", place.name);
    }
}

#[tokio::test]
async fn staff_needs_a_token_for_what_staff_does() {
    for mut place in places().await {
        is_staff(&mut place, "alice", Role::Admin).await;
        let chat = oauth_token(&place, "alice", CHAT).await;
        let staff = oauth_token(&place, "alice", "read write follow admin:write").await;
        let mut app = app_of(&place, &chat).await;
        assert_eq!(asks(&mut app, COUNTING).await, "not-authorized", "{}", place.name);
        let list = "<iq type='get' to='weir.test' id='l'>\
                    <query node='http://jabber.org/protocol/commands' \
                    xmlns='http://jabber.org/protocol/disco#items'/></iq>";
        app.send(list).await;
        let list = app.receive().await;
        let shown: Vec<&str> = list
            .children()
            .flat_map(Element::children)
            .filter_map(|one| one.attr("node"))
            .collect();
        assert!(shown.contains(&"urn:xmpp:invite#invite"), "{shown:?}");
        assert!(!shown.iter().any(|node| node.contains("admin#")), "{shown:?}");
        let mut app = app_of(&place, &staff).await;
        assert_eq!(asks(&mut app, COUNTING).await, "result", "{}", place.name);
    }
}

#[tokio::test]
async fn what_came_of_an_apps_token_ends_with_it() {
    for mut place in places().await {
        place.person("alice").await;
        let app_token = oauth_token(&place, "alice", CHAT).await;
        let mut app = place.app().await;
        let asks_token = "<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-NONE'/>";
        let success = by_app(&mut app, &app_token, asks_token).await;
        let old = success.child("token", "urn:xmpp:fast:0").unwrap().attr("token").unwrap();
        // What takes its place ends too.
        place.clock.advance(25 * 60 * 60 * 1_000);
        let mut app = place.app().await;
        let success = by_token(&mut app, old, AGENT, FAST).await;
        let new = success.child("token", "urn:xmpp:fast:0").unwrap().attr("token").unwrap();
        let revoke = move |tx: &mut Tx, env: &Env| {
            let alice = accounts::by_address(tx, "alice", "")?.unwrap().id;
            oauth::revoke_own(tx, env, alice, &app_token)
        };
        place.community.write(Class::Interactive, revoke).await.unwrap();
        for token in [old, new] {
            let mut app = place.app().await;
            let refused = by_token(&mut app, token, AGENT, FAST).await;
            assert_eq!(condition(&refused), "not-authorized", "{}", place.name);
        }
    }
}

#[tokio::test]
async fn what_came_of_the_password_stays_when_an_app_is_shut_out() {
    for mut place in places().await {
        place.person("alice").await;
        let own = token(&place).await;
        let app_token = oauth_token(&place, "alice", CHAT).await;
        let revoke = move |tx: &mut Tx, env: &Env| {
            let alice = accounts::by_address(tx, "alice", "")?.unwrap().id;
            oauth::revoke_own(tx, env, alice, &app_token)?;
            oauth::revoke_all(tx, env, alice)
        };
        place.community.write(Class::Interactive, revoke).await.unwrap();
        let mut app = place.app().await;
        let success = by_token(&mut app, &own, AGENT, FAST).await;
        assert_eq!(success.name, "success", "{}", place.name);
    }
}

/// Alice's password is another, or she is shut out, or all her apps are: what `how` says.
async fn loses_power(place: &Place, of: &'static str, how: &'static str) {
    let new = users::hash_password("another one").await.unwrap();
    let change = move |tx: &mut Tx, env: &Env| {
        let account = accounts::by_address(tx, of, "")?.unwrap().id;
        match how {
            "password" => users::change_password(tx, env, account, &new, None),
            "tokens" => oauth::revoke_all(tx, env, account),
            _ => {
                let disabled = UserChange { disabled: Some(true), ..UserChange::default() };
                users::change(tx, env, account, &disabled)
            }
        }
    };
    place.community.write(Class::Interactive, change).await.unwrap();
}

#[tokio::test]
async fn who_loses_the_power_between_log_in_and_resource_is_ended() {
    for mut place in places().await {
        for name in ["alice", "bob", "carol"] {
            place.person(name).await;
        }
        let chat = oauth_token(&place, "alice", CHAT).await;
        let mut by_app = place.app().await;
        by_app.log_in_with("OAUTHBEARER", &bearing(&chat)).await;
        let mut by_password = place.app().await;
        by_password.log_in("bob").await;
        let mut shut_out = place.app().await;
        shut_out.log_in("carol").await;
        loses_power(&place, "alice", "tokens").await;
        loses_power(&place, "bob", "password").await;
        loses_power(&place, "carol", "all").await;
        for app in [&mut by_app, &mut by_password, &mut shut_out] {
            app.bind("late").await;
            assert_eq!(app.stream_error().await, "reset", "{}", place.name);
        }
    }
}

#[tokio::test]
async fn who_keeps_the_power_while_others_lose_theirs_stays() {
    for mut place in places().await {
        place.person("alice").await;
        place.person("bob").await;
        let mut alice = place.app().await;
        alice.log_in("alice").await;
        loses_power(&place, "bob", "all").await;
        alice.bind("home").await;
        alice.sync().await;
        alice.sync().await;
    }
}

#[tokio::test]
async fn who_is_shut_out_is_gone_at_once_though_no_connection_serves_the_session() {
    for mut place in places().await {
        play_at(&mut place, FRIENDS).await;
        let mut alice = place.logged_in("alice", "desk").await;
        alice.send("<presence/>").await;
        alice.until_ping().await;
        let mut bob = place.logged_in("bob", "phone").await;
        bob.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/><presence/>").await;
        bob.until_ping().await;
        bob.vanish().await;
        until_detached(&place, "bob", "phone").await;
        loses_power(&place, "bob", "all").await;
        let is_gone = |one: &Element| {
            one.attr("from") == Some("bob@weir.test/phone")
                && one.attr("type") == Some("unavailable")
        };
        while !is_gone(&alice.receive().await) {}
        assert!(place.xmpp.router.find("bob@weir.test").is_none_or(|bob| bob.account().is_none()));
    }
}
