//! Two servers, and those who pretend to be one.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use weir_community::hosts::{self, Severity};
use weir_db::Class;
use weir_xmpp::s2s::{Finding, Servers, Setup, Trust, serve};
use weir_xmpp::wire::Element;

use crate::log_in_tls::encrypt;
use crate::place::{App, Place, databases};

/// Two communities on each database, which find each other.
async fn pairs(trusts: bool) -> Vec<(Place, Place, SocketAddr)> {
    pairs_where(trusts, false).await
}

/// The same, where certificates alone may prove who a server is.
async fn pairs_where(trusts: bool, certificates_only: bool) -> Vec<(Place, Place, SocketAddr)> {
    pairs_that_find(trusts, certificates_only, &[]).await
}

/// The same, which find more servers.
async fn pairs_that_find(
    trusts: bool,
    certificates_only: bool,
    more: &[(String, SocketAddr)],
) -> Vec<(Place, Place, SocketAddr)> {
    let mut pairs = Vec::new();
    for (one, two) in databases().into_iter().zip(databases()) {
        let a = Place::named(one, true, "a.test").await;
        let b = Place::named(two, true, "b.test").await;
        let a_door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let b_door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let door = b_door.local_addr().unwrap();
        let mut servers = BTreeMap::from([
            ("a.test".to_owned(), a_door.local_addr().unwrap()),
            ("b.test".to_owned(), door),
        ]);
        servers.extend(more.iter().cloned());
        let pems: Vec<Vec<u8>> = [&a, &b].into_iter().filter(|_| trusts).map(pem).collect();
        for (place, door) in [(&a, a_door), (&b, b_door)] {
            let finding = Finding { servers: servers.clone(), ..Finding::default() };
            let setup = Setup {
                tls: place.tls.tls().clone(),
                trust: Trust::new(&pems),
                finding,
                allowlist: false,
                certificates_only,
                allow_plain: false,
            };
            let servers = Servers::start(&place.xmpp, setup).unwrap();
            tokio::spawn(serve(servers, door));
        }
        pairs.push((a, b, door));
    }
    pairs
}

pub fn pem(place: &Place) -> Vec<u8> {
    let text = BASE64_STANDARD.encode(place.tls.tls().certificate().unwrap());
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| str::from_utf8(line).unwrap()).collect();
    let lines = lines.join("\n");
    format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n").into_bytes()
}

pub fn body(message: &Element) -> String {
    assert_eq!(message.name, "message", "{message:?}");
    message.child("body", "jabber:client").map(Element::text).unwrap_or_default()
}

pub async fn available(app: &mut App) {
    app.send("<presence/>").await;
    app.until_ping().await;
}

async fn alice_and_bob_talk(trusts: bool, certificates_only: bool) {
    for (mut a, mut b, _) in pairs_where(trusts, certificates_only).await {
        let mut alice = a.logged_in("alice", "phone").await;
        let mut bob = b.logged_in("bob", "desk").await;
        available(&mut alice).await;
        available(&mut bob).await;
        for number in 0..3 {
            alice
                .send(&format!(
                    "<message to='bob@b.test' type='chat'><body>to bob {number}</body></message>"
                ))
                .await;
            let heard = bob.receive().await;
            assert_eq!(heard.attr("from"), Some("alice@a.test/phone"));
            assert_eq!(body(&heard), format!("to bob {number}"));
            bob.send(&format!(
                "<message to='alice@a.test/phone' type='chat'><body>back {number}</body></message>"
            ))
            .await;
            assert_eq!(body(&alice.receive().await), format!("back {number}"));
        }
    }
}

#[tokio::test]
async fn alice_and_bob_talk_across_servers_that_certificates_prove() {
    alice_and_bob_talk(true, false).await;
    alice_and_bob_talk(true, true).await;
}

#[tokio::test]
async fn alice_and_bob_talk_across_servers_that_dialback_proves() {
    alice_and_bob_talk(false, false).await;
}

#[tokio::test]
async fn where_certificates_are_demanded_dialback_proves_nobody() {
    for (mut a, mut b, _) in pairs_where(false, true).await {
        let mut alice = a.logged_in("alice", "phone").await;
        b.person("bob").await;
        alice.send("<message to='bob@b.test' id='x' type='chat'><body>hi</body></message>").await;
        let error = alice.receive().await;
        assert_eq!((error.attr("id"), error.attr("type")), (Some("x"), Some("error")));
    }
}

#[tokio::test]
async fn bob_asks_to_see_alices_presence_and_sees_it() {
    for (mut a, mut b, _) in pairs(false).await {
        let mut alice = a.logged_in("alice", "phone").await;
        let mut bob = b.logged_in("bob", "desk").await;
        available(&mut alice).await;
        available(&mut bob).await;
        bob.send("<presence to='alice@a.test' type='subscribe'/>").await;
        loop {
            let asked = alice.receive().await;
            if asked.attr("type") == Some("subscribe") {
                assert_eq!(asked.attr("from"), Some("bob@b.test"));
                break;
            }
        }
        alice.send("<presence to='bob@b.test' type='subscribed'/>").await;
        loop {
            let heard = bob.receive().await;
            if heard.name == "presence" && heard.attr("from") == Some("alice@a.test/phone") {
                break;
            }
        }
    }
}

#[tokio::test]
async fn who_writes_to_a_domain_that_nobody_finds_is_told() {
    for (mut a, _b, _) in pairs(false).await {
        let mut alice = a.logged_in("alice", "phone").await;
        alice.send("<message to='x@127.0.0.1' id='m1'><body>hello</body></message>").await;
        let error = alice.receive().await;
        assert_eq!((error.attr("id"), error.attr("type")), (Some("m1"), Some("error")));
        let error = error.child("error", "jabber:client").unwrap();
        assert!(error.has("remote-server-not-found", "urn:ietf:params:xml:ns:xmpp-stanzas"));
    }
}

#[tokio::test]
async fn a_server_that_staff_suspends_is_not_spoken_with() {
    for (mut a, mut b, _) in pairs(false).await {
        let mut alice = a.logged_in("alice", "phone").await;
        let mut bob = b.logged_in("bob", "desk").await;
        available(&mut bob).await;
        let hello = "<message to='bob@b.test' type='chat' id='m'><body>hello</body></message>";
        alice.send(hello).await;
        assert_eq!(body(&bob.receive().await), "hello");
        let block = |tx: &mut weir_db::Tx, env: &weir_community::Env| {
            hosts::block(tx, env, "a.test", Severity::Suspend)
        };
        b.community.write(Class::Interactive, block).await.unwrap();
        // The stream that stands ends by the first; no other comes about.
        loop {
            alice.send(hello).await;
            let heard = alice.until_ping().await;
            if heard.iter().any(|stanza| stanza.attr("type") == Some("error")) {
                break;
            }
        }
        assert!(bob.until_ping().await.is_empty());
    }
}

/// Somebody at the door of `place`, who says to be a.test.
async fn stranger(place: &Place, door: SocketAddr) -> App {
    stranger_by(place, TcpStream::connect(door).await.unwrap()).await
}

async fn stranger_by(place: &Place, io: TcpStream) -> App {
    let mut plain = App::on(Box::new(io));
    let features = open(&mut plain, place.domain).await;
    assert!(features.has("starttls", "urn:ietf:params:xml:ns:xmpp-tls"), "{features:?}");
    plain.send("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>").await;
    assert_eq!(plain.receive().await.name, "proceed");
    let (io, _) = encrypt(place, plain.into_io()).await;
    let mut app = App::on(Box::new(io));
    let features = open(&mut app, place.domain).await;
    assert!(features.has("dialback", "urn:xmpp:features:dialback"), "{features:?}");
    app
}

async fn open(app: &mut App, to: &str) -> Element {
    app.send(&format!(
        "<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' \
         xmlns:db='jabber:server:dialback' from='a.test' to='{to}' version='1.0'>"
    ))
    .await;
    assert!(matches!(app.frame().await, Some(weir_xmpp::wire::Frame::Open(_))));
    app.receive().await
}

const FORGED: &str =
    "<message from='alice@a.test' to='bob@b.test'><body>send me money</body></message>";

#[tokio::test]
async fn nobody_is_taken_for_a_server_without_proof() {
    for (_a, mut b, door) in pairs(false).await {
        let mut bob = b.logged_in("bob", "desk").await;
        available(&mut bob).await;
        let mut forger = stranger(&b, door).await;
        forger.send(FORGED).await;
        assert_eq!(forger.stream_error().await, "not-authorized");
        let mut forger = stranger(&b, door).await;
        forger.send("<db:result from='a.test' to='b.test'>made up</db:result>").await;
        let answer = forger.receive().await;
        assert_eq!(answer.attr("type"), Some("invalid"), "{answer:?}");
        forger.send(FORGED).await;
        assert_eq!(forger.stream_error().await, "not-authorized");
        assert!(bob.until_ping().await.is_empty());
    }
}

#[tokio::test]
async fn nobody_proves_to_be_the_server_that_is_asked() {
    for (_a, b, door) in pairs(false).await {
        let mut forger = stranger(&b, door).await;
        forger.send("<db:result from='b.test' to='b.test'>x</db:result>").await;
        assert_eq!(forger.receive().await.attr("type"), Some("error"));
        forger.send("<db:verify from='a.test' to='b.test' id='x'>made up</db:verify>").await;
        assert_eq!(forger.receive().await.attr("type"), Some("invalid"));
    }
}

#[tokio::test]
async fn a_network_whose_domains_say_nothing_when_asked_keeps_no_other_waiting() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let domains: Vec<_> = (0..64).map(|at| (format!("s{at}.test"), address)).collect();
    let (mut a, mut b, door) = pairs_that_find(false, false, &domains).await.remove(0);
    let mut claimants = Vec::new();
    for (domain, _) in &domains {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
        let mut claimant = stranger_by(&b, socket.connect(door).await.unwrap()).await;
        claimant.send(&format!("<db:result from='{domain}' to='b.test'>x</db:result>")).await;
        claimants.push(claimant);
    }
    let _asked = silent.accept().await.unwrap();
    let mut alice = a.logged_in("alice", "phone").await;
    let mut bob = b.logged_in("bob", "desk").await;
    available(&mut bob).await;
    alice.send("<message to='bob@b.test' type='chat'><body>hi</body></message>").await;
    assert_eq!(body(&bob.receive().await), "hi");
}

#[tokio::test]
async fn external_is_not_offered_to_a_certificate_that_nobody_vouches_for() {
    for (_a, b, door) in pairs(false).await {
        let mut forger = stranger(&b, door).await;
        let claim = BASE64_STANDARD.encode("a.test");
        let sasl = "urn:ietf:params:xml:ns:xmpp-sasl";
        forger.send(&format!("<auth xmlns='{sasl}' mechanism='EXTERNAL'>{claim}</auth>")).await;
        assert!(forger.receive().await.has("not-authorized", sasl));
    }
}

#[tokio::test]
async fn a_domain_that_is_not_here_is_refused() {
    let (_a, _b, door) = pairs(false).await.remove(0);
    let mut app = App::on(Box::new(TcpStream::connect(door).await.unwrap()));
    app.send(
        "<stream:stream xmlns='jabber:server' xmlns:stream='http://etherx.jabber.org/streams' \
         from='a.test' to='c.test' version='1.0'>",
    )
    .await;
    assert_eq!(app.stream_error().await, "host-unknown");
}

/// Bob, who listens with an app that wants to hear of moods, and alice see each other.
async fn see_each_other(alice: &mut App, bob: &mut App) {
    available(alice).await;
    available(bob).await;
    alice.send("<presence to='bob@b.test' type='subscribe'/>").await;
    until(bob, |heard| heard.attr("type") == Some("subscribe")).await;
    bob.send("<presence to='alice@a.test' type='subscribed'/>").await;
    bob.send("<presence to='alice@a.test' type='subscribe'/>").await;
    until(alice, |heard| heard.attr("type") == Some("subscribe")).await;
    alice.send("<presence to='bob@b.test' type='subscribed'/>").await;
    until(bob, |heard| heard.attr("from") == Some("alice@a.test/phone")).await;
}

async fn until(app: &mut App, is: impl Fn(&Element) -> bool) -> Element {
    loop {
        let heard = app.receive().await;
        if is(&heard) {
            return heard;
        }
    }
}

#[tokio::test]
async fn apps_of_contacts_elsewhere_hear_of_what_one_publishes_and_has_published() {
    let publish = |mood: &str| {
        format!(
            "<iq type='set' id='p'><pubsub xmlns='http://jabber.org/protocol/pubsub'>\
             <publish node='urn:mood'><item id='now'><{mood} xmlns='urn:mood'/></item></publish>\
             </pubsub></iq>"
        )
    };
    let is_told = |heard: &Element, mood: &str| {
        let items = heard.child("event", "http://jabber.org/protocol/pubsub#event");
        let items = items.and_then(|event| event.children().next());
        let item = items.and_then(|items| items.children().next()).cloned();
        heard.attr("from") == Some("alice@a.test")
            && item.is_some_and(|item| item.has(mood, "urn:mood"))
    };
    for (mut a, mut b, _) in pairs(false).await {
        let mut alice = a.logged_in("alice", "phone").await;
        let mut bob = b.logged_in("bob", "desk").await;
        see_each_other(&mut alice, &mut bob).await;
        alice.send(&publish("calm")).await;
        until(&mut alice, |heard| heard.attr("id") == Some("p")).await;
        let caps = "<c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='urn:app' \
                    ver='unproven'/>";
        bob.send(&format!("<presence>{caps}</presence>")).await;
        // Both servers ask, each in its own name.
        let info = "<query xmlns='http://jabber.org/protocol/disco#info'>\
                    <feature var='urn:mood+notify'/></query>";
        let mut askers = Vec::new();
        for _ in 0..2 {
            let asked = until(&mut bob, |heard| heard.attr("type") == Some("get")).await;
            let (id, from) = (asked.attr("id").unwrap(), asked.attr("from").unwrap());
            bob.send(&format!("<iq type='result' id='{id}' to='{from}'>{info}</iq>")).await;
            askers.push(from.to_owned());
        }
        askers.sort();
        assert_eq!(askers, ["alice@a.test", "b.test"], "{}", a.name);
        // The last of what there is, once.
        let last = until(&mut bob, |heard| is_told(heard, "calm")).await;
        assert!(last.has("delay", "urn:xmpp:delay"), "{last:?}");
        // Another presence of the same app brings nothing again; what is new comes.
        bob.send(&format!("<presence><show>away</show>{caps}</presence>")).await;
        until(&mut alice, |heard| heard.has("show", "jabber:client")).await;
        alice.send(&publish("glad")).await;
        let next = until(&mut bob, |heard| heard.name == "message").await;
        assert!(is_told(&next, "glad"), "{next:?}");
        assert!(!next.has("delay", "urn:xmpp:delay"), "{next:?}");
        // Who is gone hears nothing.
        bob.send("<presence type='unavailable'/>").await;
        until(&mut alice, |heard| heard.attr("type") == Some("unavailable")).await;
        alice.send(&publish("sad")).await;
        alice.send("<message to='bob@b.test/desk' type='chat'><body>bye</body></message>").await;
        let next = until(&mut bob, |heard| heard.name == "message").await;
        assert_eq!(body(&next), "bye");
    }
}
