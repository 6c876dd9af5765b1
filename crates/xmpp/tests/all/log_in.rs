//! Logging in: what is proven, what is refused, and what comes with it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use weir_base::Id;
use weir_community::oauth;
use weir_community::users::scram::Hash;
use weir_community::users::{self, KeptPassword, UserChange};
use weir_db::Class;
use weir_xmpp::wire::Element;

use crate::place::{App, Place, databases, places};

const SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
pub const SASL2: &str = "urn:xmpp:sasl:2";
pub const SM: &str = "urn:xmpp:sm:3";
pub const AGENT: &str = "<user-agent id='d4565fa7-4d72-4749-b3d3-740edbf87770'/>";

/// SCRAM as a client speaks it.
pub struct Scram {
    pub hash: Hash,
    pub header: &'static str,
    pub bound: Vec<u8>,
    pub name: &'static str,
    pub password: &'static str,
}

impl Scram {
    pub fn of(name: &'static str, password: &'static str) -> Self {
        Self { hash: Hash::Sha256, header: "n,,", bound: Vec::new(), name, password }
    }

    pub fn first(&self) -> String {
        BASE64_STANDARD.encode(format!("{}n={},r=nonce", self.header, self.name))
    }

    /// The proof for a challenge, and what the server has to answer.
    pub fn last(&self, challenge: &str) -> (String, String) {
        let challenge = BASE64_STANDARD.decode(challenge).unwrap();
        let challenge = String::from_utf8(challenge).unwrap();
        let field = |name: &str| {
            challenge.split(',').find_map(|part| part.strip_prefix(name)).unwrap().to_owned()
        };
        let salt = BASE64_STANDARD.decode(field("s=")).unwrap();
        let salted = self.hash.salted(self.password, &salt, field("i=").parse().unwrap());
        let bound = BASE64_STANDARD.encode([self.header.as_bytes(), &self.bound].concat());
        let last = format!("c={bound},r={}", field("r="));
        let said = format!("n={},r=nonce,{challenge},{last}", self.name);
        let client = self.hash.hmac(&salted, b"Client Key");
        let stored = self.hash.digest(client.as_ref());
        let signature = self.hash.hmac(stored.as_ref(), said.as_bytes());
        let proof: Vec<u8> =
            client.as_ref().iter().zip(signature.as_ref()).map(|(one, two)| one ^ two).collect();
        let server = self.hash.hmac(&salted, b"Server Key");
        let expected = self.hash.hmac(server.as_ref(), said.as_bytes());
        let last = format!("{last},p={}", BASE64_STANDARD.encode(proof));
        let expected = format!("v={}", BASE64_STANDARD.encode(expected));
        (BASE64_STANDARD.encode(last), BASE64_STANDARD.encode(expected))
    }
}

async fn auth(app: &mut App, mechanism: &str, message: &str) -> Element {
    app.send(&format!("<auth xmlns='{SASL}' mechanism='{mechanism}'>{message}</auth>")).await;
    app.receive().await
}

async fn plain(app: &mut App, message: &str) -> Element {
    auth(app, "PLAIN", &BASE64_STANDARD.encode(message)).await
}

pub fn condition(failure: &Element) -> String {
    assert_eq!(failure.name, "failure", "{failure:?}");
    failure.children().next().unwrap().name.to_string()
}

/// Logs in by SCRAM in RFC 6120's way: the answer to the proof, and the expected signature.
async fn by_scram(app: &mut App, mechanism: &str, scram: &Scram) -> (Element, String) {
    let challenge = auth(app, mechanism, &scram.first()).await;
    assert_eq!(challenge.name, "challenge", "{challenge:?}");
    let (last, expected) = scram.last(&challenge.text());
    app.send(&format!("<response xmlns='{SASL}'>{last}</response>")).await;
    (app.receive().await, expected)
}

/// Logs in by PLAIN in XEP-0388's way, with `more` in the request.
pub async fn by_sasl2(app: &mut App, name: &str, more: &str) -> Element {
    let message = BASE64_STANDARD.encode(format!("\0{name}\0password of {name}"));
    app.send(&format!(
        "<authenticate xmlns='{SASL2}' mechanism='PLAIN'>\
         <initial-response>{message}</initial-response>{AGENT}{more}</authenticate>"
    ))
    .await;
    app.receive().await
}

async fn account(place: &Place, name: &'static str) -> Id {
    let unit = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
        Ok::<_, weir_community::Error>(users::chat_user(tx, env, name)?.unwrap().account_id)
    };
    place.community.read(Class::Interactive, unit).await.unwrap()
}

#[tokio::test]
async fn alice_proves_her_password_by_every_hash_and_the_server_proves_itself() {
    for mut place in places().await {
        place.person("alice").await;
        for (mechanism, hash) in [
            ("SCRAM-SHA-1", Hash::Sha1),
            ("SCRAM-SHA-256", Hash::Sha256),
            ("SCRAM-SHA-512", Hash::Sha512),
        ] {
            let mut app = place.app().await;
            let scram = Scram { hash, ..Scram::of("alice", "password of alice") };
            let (success, expected) = by_scram(&mut app, mechanism, &scram).await;
            assert_eq!((&*success.name, success.text()), ("success", expected), "{}", place.name);
        }
    }
}

#[tokio::test]
async fn a_wrong_password_and_a_name_that_nobody_has_look_the_same() {
    for mut place in places().await {
        place.person("alice").await;
        let mut answers = Vec::new();
        for name in ["alice", "nobody"] {
            let mut app = place.app().await;
            let scram = Scram::of(name, "wrong");
            let first = auth(&mut app, "SCRAM-SHA-256", &scram.first()).await;
            let (last, _) = scram.last(&first.text());
            app.send(&format!("<response xmlns='{SASL}'>{last}</response>")).await;
            let by_scram = app.receive().await;
            answers.push((by_scram, plain(&mut app, &format!("\0{name}\0wrong")).await));
        }
        assert_eq!(answers[0], answers[1]);
        assert_eq!(condition(&answers[0].0), "not-authorized");
    }
}

#[tokio::test]
async fn nobody_acts_as_somebody_else() {
    for mut place in places().await {
        place.person("alice").await;
        place.person("bob").await;
        let mut app = place.app().await;
        let as_bob = plain(&mut app, "bob@weir.test\0alice\0password of alice").await;
        assert_eq!(condition(&as_bob), "invalid-authzid");
        let as_oneself = plain(&mut app, "alice@weir.test\0alice\0password of alice").await;
        assert_eq!(as_oneself.name, "success");
    }
}

#[tokio::test]
async fn whom_staff_shuts_out_stays_out() {
    for mut place in places().await {
        place.person("alice").await;
        let alice = account(&place, "alice").await;
        let change = UserChange { disabled: Some(true), ..UserChange::default() };
        let shut = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
            users::change(tx, env, alice, &change)
        };
        place.community.write(Class::Interactive, shut).await.unwrap();
        let mut app = place.app().await;
        assert_eq!(
            condition(&plain(&mut app, "\0alice\0password of alice").await),
            "account-disabled"
        );
    }
}

#[tokio::test]
async fn a_new_password_counts_at_once() {
    for mut place in places().await {
        place.person("alice").await;
        let mut app = place.app().await;
        assert_eq!(plain(&mut app, "\0alice\0password of alice").await.name, "success");
        let alice = account(&place, "alice").await;
        let new = users::hash_password("another one").await.unwrap();
        let change = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
            users::change_password(tx, env, alice, &new, None)
        };
        place.community.write(Class::Interactive, change).await.unwrap();
        let mut app = place.app().await;
        assert_eq!(
            condition(&plain(&mut app, "\0alice\0password of alice").await),
            "not-authorized"
        );
        assert_eq!(plain(&mut app, "\0alice\0another one").await.name, "success");
    }
}

#[tokio::test]
async fn who_logged_in_by_the_old_password_just_before_the_change_does_not_stay() {
    for mut place in places().await {
        place.person("alice").await;
        let alice = account(&place, "alice").await;
        let mut app = place.app().await;
        app.log_in("alice").await;
        let new = users::hash_password("another one").await.unwrap();
        let change = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
            users::change_password(tx, env, alice, &new, None)
        };
        place.community.write(Class::Interactive, change).await.unwrap();
        // Those who are here were sent away before this one is.
        place.community.env().streams.settled().await;
        app.bind("home").await;
        assert_eq!(app.stream_error().await, "reset", "{}", place.name);
    }
}

#[tokio::test]
async fn somebody_without_keys_gets_them_by_the_first_plain_log_in() {
    for mut place in places().await {
        place.person("alice").await;
        let alice = account(&place, "alice").await;
        let hash = users::hash_password("taken over").await.unwrap().hash;
        let bare = KeptPassword::of_hash(hash.expose().clone());
        let change = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
            users::change_password(tx, env, alice, &bare, None)
        };
        place.community.write(Class::Interactive, change).await.unwrap();
        let scram = Scram::of("alice", "taken over");
        let mut app = place.app().await;
        let (before, _) = by_scram(&mut app, "SCRAM-SHA-256", &scram).await;
        assert_eq!(condition(&before), "not-authorized");
        assert_eq!(plain(&mut app, "\0alice\0taken over").await.name, "success");
        let mut app = place.app().await;
        assert_eq!(by_scram(&mut app, "SCRAM-SHA-256", &scram).await.0.name, "success");
    }
}

#[tokio::test]
async fn an_apps_token_opens_chat_if_it_is_good_for_it() {
    for mut place in places().await {
        place.person("alice").await;
        let alice = account(&place, "alice").await;
        let token = async |scopes: &str| {
            let scopes: oauth::Scopes = scopes.parse().unwrap();
            let unit = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
                oauth::issue(tx, env, Id::ZERO, Some(alice), &scopes)
            };
            let issued = place.community.write(Class::Interactive, unit).await.unwrap();
            let text =
                format!("n,a=alice@weir.test,\x01auth=Bearer {}\x01\x01", issued.token.expose());
            BASE64_STANDARD.encode(text)
        };
        let (whole, narrow) = (token("read write follow").await, token("read").await);
        let mut app = place.app().await;
        let told = auth(&mut app, "OAUTHBEARER", &narrow).await;
        assert_eq!(told.name, "challenge");
        let told = String::from_utf8(BASE64_STANDARD.decode(told.text()).unwrap()).unwrap();
        assert!(told.contains("insufficient_scope"), "{told}");
        app.send(&format!("<response xmlns='{SASL}'>AQ==</response>")).await;
        assert_eq!(condition(&app.receive().await), "not-authorized");
        assert_eq!(auth(&mut app, "OAUTHBEARER", &whole).await.name, "success");
    }
}

#[tokio::test]
async fn too_many_wrong_tries_have_to_wait_but_right_ones_do_not_count() {
    for fixture in databases() {
        let mut place = Place::on(fixture, false).await;
        place.person("alice").await;
        for _ in 0..10 {
            let mut app = crate::log_in_tls::app(&place).await;
            assert_eq!(plain(&mut app, "\0alice\0password of alice").await.name, "success");
            let mut app = crate::log_in_tls::app(&place).await;
            assert_eq!(condition(&plain(&mut app, "\0alice\0wrong").await), "not-authorized");
        }
        let mut app = crate::log_in_tls::app(&place).await;
        let late = plain(&mut app, "\0alice\0password of alice").await;
        assert_eq!(condition(&late), "temporary-auth-failure");
        place.clock.advance(60_000);
        assert_eq!(plain(&mut app, "\0alice\0password of alice").await.name, "success");
    }
}

#[tokio::test]
async fn a_connection_may_not_try_for_ever() {
    let mut place = places().await.remove(0);
    place.person("alice").await;
    let mut app = place.app().await;
    for _ in 0..5 {
        assert_eq!(condition(&plain(&mut app, "\0alice\0wrong").await), "not-authorized");
    }
    assert_eq!(app.stream_error().await, "policy-violation");
}

#[tokio::test]
async fn messages_out_of_turn_are_refused() {
    let mut place = places().await.remove(0);
    place.person("alice").await;
    let mut app = place.app().await;
    assert_eq!(condition(&auth(&mut app, "EXTERNAL", "=").await), "invalid-mechanism");
    assert_eq!(condition(&auth(&mut app, "PLAIN", "!").await), "incorrect-encoding");
    assert_eq!(auth(&mut app, "PLAIN", "").await.name, "challenge");
    app.send(&format!("<abort xmlns='{SASL}'/>")).await;
    assert_eq!(condition(&app.receive().await), "aborted");
    assert_eq!(condition(&auth(&mut app, "SCRAM-SHA-1", "Zm9v").await), "malformed-request");
}

#[tokio::test]
async fn one_request_logs_in_binds_and_turns_on_what_an_app_wants() {
    for mut place in places().await {
        place.person("alice").await;
        let mut app = place.app().await;
        let bind = "<bind xmlns='urn:xmpp:bind:0'><tag>Test</tag>\
                    <enable xmlns='urn:xmpp:carbons:2'/>\
                    <enable xmlns='urn:xmpp:sm:3' resume='true'/></bind>";
        let success = by_sasl2(&mut app, "alice", bind).await;
        assert_eq!(success.name, "success", "{success:?}");
        let address = success.child("authorization-identifier", SASL2).unwrap().text();
        assert!(address.starts_with("alice@weir.test/Test/"), "{address}");
        let bound = success.child("bound", "urn:xmpp:bind:0").unwrap();
        let previd = bound.child("enabled", SM).unwrap().attr("id").unwrap().to_owned();
        let features = app.receive().await;
        let names: Vec<&str> = features.children().map(|one| &*one.name).collect();
        assert_eq!((&*features.name, &*names), ("features", &["ver", "sub", "csi", "c"][..]));
        assert!(app.until_ping().await.is_empty());
        app.vanish().await;
        // The session is taken up by the next request.
        let mut app = place.app().await;
        let resume = format!("<resume xmlns='{SM}' previd='{previd}' h='1'/>");
        let success = by_sasl2(&mut app, "alice", &resume).await;
        assert!(success.has("resumed", SM), "{success:?}");
        assert_eq!(success.child("authorization-identifier", SASL2).unwrap().text(), address);
    }
}

#[tokio::test]
async fn the_same_app_gets_the_same_resource_and_takes_its_own_place() {
    for mut place in places().await {
        place.person("alice").await;
        let bind = "<bind xmlns='urn:xmpp:bind:0'/>";
        let mut addresses = Vec::new();
        let mut apps = Vec::new();
        for _ in 0..2 {
            let mut app = place.app().await;
            let success = by_sasl2(&mut app, "alice", bind).await;
            addresses.push(success.child("authorization-identifier", SASL2).unwrap().text());
            apps.push(app);
        }
        assert_eq!(addresses[0], addresses[1]);
        assert_eq!(apps[0].stream_error().await, "conflict");
    }
}

#[tokio::test]
async fn a_resumption_that_fails_falls_back_to_a_new_resource() {
    for mut place in places().await {
        place.person("alice").await;
        let mut app = place.app().await;
        let both =
            format!("<resume xmlns='{SM}' previd='stolen' h='0'/><bind xmlns='urn:xmpp:bind:0'/>");
        let success = by_sasl2(&mut app, "alice", &both).await;
        assert!(success.has("failed", SM) && success.has("bound", "urn:xmpp:bind:0"));
    }
}

/// The token of an app that asks for one.
pub async fn token(place: &Place) -> String {
    let mut app = place.app().await;
    let asks = "<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-NONE'/>";
    let success = by_sasl2(&mut app, "alice", asks).await;
    success.child("token", "urn:xmpp:fast:0").unwrap().attr("token").unwrap().to_owned()
}

pub async fn by_token(app: &mut App, token: &str, agent: &str, fast: &str) -> Element {
    let proof = Hash::Sha256.hmac(token.as_bytes(), b"Initiator");
    let message = BASE64_STANDARD.encode([&b"alice\0"[..], proof.as_ref()].concat());
    app.send(&format!(
        "<authenticate xmlns='{SASL2}' mechanism='HT-SHA-256-NONE'>\
         <initial-response>{message}</initial-response>{agent}{fast}</authenticate>"
    ))
    .await;
    app.receive().await
}

pub const FAST: &str = "<fast xmlns='urn:xmpp:fast:0'/>";

#[tokio::test]
async fn an_app_comes_back_by_its_token_and_both_sides_prove_it() {
    for mut place in places().await {
        place.person("alice").await;
        let token = token(&place).await;
        for _ in 0..2 {
            let mut app = place.app().await;
            let success = by_token(&mut app, &token, AGENT, FAST).await;
            let extra = success.child("additional-data", SASL2).unwrap().text();
            let expected = Hash::Sha256.hmac(token.as_bytes(), b"Responder");
            assert_eq!(extra, BASE64_STANDARD.encode(expected), "{}", place.name);
        }
    }
}

#[tokio::test]
async fn a_token_is_good_for_its_app_and_its_time_only() {
    for mut place in places().await {
        place.person("alice").await;
        let token = token(&place).await;
        let mut app = place.app().await;
        let other = AGENT.replace("d4565fa7", "00000000");
        let stolen = by_token(&mut app, &token, &other, FAST).await;
        assert_eq!(condition(&stolen), "not-authorized");
        assert_eq!(condition(&by_token(&mut app, &token, "", FAST).await), "malformed-request");
        assert_eq!(condition(&by_token(&mut app, &token, AGENT, "").await), "malformed-request");
        place.clock.advance(users::CHAT_TOKEN_LIFE_MS);
        assert_eq!(condition(&by_token(&mut app, &token, AGENT, FAST).await), "not-authorized");
    }
}

#[tokio::test]
async fn an_old_token_is_replaced_and_ends_when_the_new_one_is_used() {
    for mut place in places().await {
        place.person("alice").await;
        let old = token(&place).await;
        place.clock.advance(25 * 60 * 60 * 1_000);
        let mut app = place.app().await;
        let success = by_token(&mut app, &old, AGENT, FAST).await;
        let new = success.child("token", "urn:xmpp:fast:0").unwrap().attr("token").unwrap();
        let mut app = place.app().await;
        assert_eq!(by_token(&mut app, new, AGENT, FAST).await.name, "success");
        let mut app = place.app().await;
        assert_eq!(condition(&by_token(&mut app, &old, AGENT, FAST).await), "not-authorized");
    }
}

#[tokio::test]
async fn a_token_that_is_given_up_is_good_no_more() {
    for mut place in places().await {
        place.person("alice").await;
        let token = token(&place).await;
        let mut app = place.app().await;
        let gives_up = FAST.replace("/>", " invalidate='true'/>");
        assert_eq!(by_token(&mut app, &token, AGENT, &gives_up).await.name, "success");
        let mut app = place.app().await;
        assert_eq!(condition(&by_token(&mut app, &token, AGENT, FAST).await), "not-authorized");
    }
}

#[tokio::test]
async fn a_token_that_is_given_up_can_be_replaced_in_the_same_breath() {
    for mut place in places().await {
        place.person("alice").await;
        let old = token(&place).await;
        let mut app = place.app().await;
        let gives_up = FAST.replace("/>", " invalidate='1'/>")
            + "<request-token xmlns='urn:xmpp:fast:0' mechanism='HT-SHA-256-NONE'/>";
        let success = by_token(&mut app, &old, AGENT, &gives_up).await;
        let new = success.child("token", "urn:xmpp:fast:0").unwrap().attr("token").unwrap();
        for (token, outcome) in [(&*old, "failure"), (new, "success")] {
            let mut app = place.app().await;
            let answer = by_token(&mut app, token, AGENT, FAST).await;
            assert_eq!(answer.name, outcome, "{}", place.name);
        }
    }
}
