//! Components: what they prove, and what they may say.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use weir_base::Secret;
use weir_xmpp::s2s::serve_components;
use weir_xmpp::wire::Frame;

use crate::place::{App, Place, places};

async fn door(place: &Place) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let secrets = BTreeMap::from([("irc.weir.test".to_owned(), Secret::new("hush".to_owned()))]);
    tokio::spawn(serve_components(place.xmpp.clone(), listener, secrets));
    address
}

async fn greet(door: SocketAddr, secret: &str) -> App {
    let mut app = App::on(Box::new(TcpStream::connect(door).await.unwrap()));
    app.send(
        "<stream:stream xmlns='jabber:component:accept' \
         xmlns:stream='http://etherx.jabber.org/streams' to='irc.weir.test'>",
    )
    .await;
    let Some(Frame::Open(header)) = app.frame().await else { panic!("no header") };
    let text = format!("{}{secret}", header.attr("id").unwrap());
    let sha1 = weir_community::users::scram::Hash::Sha1.digest(text.as_bytes());
    let proof: String = sha1.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    app.send(&format!("<handshake>{proof}</handshake>")).await;
    app
}

#[tokio::test]
async fn alice_and_a_gateway_talk() {
    for mut place in places().await {
        let door = door(&place).await;
        let mut gateway = greet(door, "hush").await;
        assert_eq!(gateway.receive().await.name, "handshake");
        let mut alice = place.logged_in("alice", "phone").await;
        alice.send("<presence/>").await;
        alice.until_ping().await;
        alice.send("<message to='room@irc.weir.test' id='1'><body>hi</body></message>").await;
        let heard = gateway.receive().await;
        assert_eq!(heard.attr("from"), Some("alice@weir.test/phone"), "{}", place.name);
        gateway
            .send(
                "<message from='room@irc.weir.test/x' to='alice@weir.test'>\
                 <body>welcome</body></message>",
            )
            .await;
        assert_eq!(alice.receive().await.attr("from"), Some("room@irc.weir.test/x"));
    }
}

#[tokio::test]
async fn a_component_without_the_secret_is_refused() {
    let place = places().await.remove(0);
    let door = door(&place).await;
    assert_eq!(greet(door, "guess").await.stream_error().await, "not-authorized");
}

#[tokio::test]
async fn a_component_speaks_for_nobody_else() {
    let place = places().await.remove(0);
    let door = door(&place).await;
    let mut gateway = greet(door, "hush").await;
    assert_eq!(gateway.receive().await.name, "handshake");
    gateway
        .send("<message from='bob@weir.test' to='alice@weir.test'><body>x</body></message>")
        .await;
    assert_eq!(gateway.stream_error().await, "invalid-from");
}

#[tokio::test]
async fn one_component_serves_a_domain_at_a_time() {
    let place = places().await.remove(0);
    let door = door(&place).await;
    let mut first = greet(door, "hush").await;
    assert_eq!(first.receive().await.name, "handshake");
    assert_eq!(greet(door, "hush").await.stream_error().await, "conflict");
}

#[tokio::test]
async fn occupants_of_a_room_elsewhere_ask_whoever_is_in_it_and_nobody_else() {
    for mut place in places().await {
        let door = door(&place).await;
        let mut gateway = greet(door, "hush").await;
        assert_eq!(gateway.receive().await.name, "handshake");
        let mut alice = place.logged_in("alice", "phone").await;
        alice.send("<presence to='tea@irc.weir.test/al'/>").await;
        assert_eq!(gateway.receive().await.name, "presence");
        let asks = |from: &str, id: &str| {
            format!(
                "<iq type='get' from='{from}' to='alice@weir.test/phone' id='{id}'>\
                 <query xmlns='jabber:iq:version'/></iq>"
            )
        };
        gateway.send(&asks("tea@irc.weir.test/bo", "in")).await;
        assert_eq!(alice.receive().await.attr("id"), Some("in"), "{}", place.name);
        gateway.send(&asks("ham@irc.weir.test/bo", "out")).await;
        let answer = gateway.receive().await;
        assert_eq!((answer.attr("id"), answer.attr("type")), (Some("out"), Some("error")));
    }
}

#[tokio::test]
async fn who_cannot_be_told_elsewhere_is_in_a_room_no_more_and_who_blocks_stays() {
    for mut place in places().await {
        let door = door(&place).await;
        let mut gateway = greet(door, "hush").await;
        assert_eq!(gateway.receive().await.name, "handshake");
        super::dialogue::play_at(&mut place, super::rooms::ROOM).await;
        let mut alice = place.logged_in("alice", "phone").await;
        let enter = |from: &str, to: &str| {
            format!(
                "<presence {from} to='tea@conference.weir.test/{to}'>\
                 <x xmlns='http://jabber.org/protocol/muc'/></presence>"
            )
        };
        alice.send(&enter("", "al")).await;
        alice.until_ping().await;
        gateway.send(&enter("from='bob@irc.weir.test/x'", "bo")).await;
        let came = alice.receive().await;
        assert_eq!(came.attr("from"), Some("tea@conference.weir.test/bo"), "{}", place.name);
        alice
            .send(
                "<message to='tea@conference.weir.test/bo' type='chat' id='p'><body>psst</body>\
                 </message>",
            )
            .await;
        while gateway.receive().await.attr("id") != Some("p") {}
        let error = |to: &str, id: &str| {
            format!(
                "<message type='error' id='{id}' from='bob@irc.weir.test/x' \
                 to='tea@conference.weir.test{to}'><error type='cancel'><service-unavailable \
                 xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>"
            )
        };
        gateway.send(&error("/al", "p")).await;
        let told = alice.receive().await;
        assert_eq!((told.attr("type"), told.attr("id")), (Some("error"), Some("p")), "{told:?}");
        alice
            .send(
                "<message to='tea@conference.weir.test' type='groupchat' id='g'><body>hi</body>\
                 </message>",
            )
            .await;
        assert_eq!(alice.receive().await.attr("id"), Some("g"));
        // It is in the room still, and now for nobody.
        assert_eq!(gateway.receive().await.attr("id"), Some("g"));
        gateway.send(&error("/al", "g")).await;
        let left = alice.receive().await;
        assert_eq!(left.attr("type"), Some("unavailable"), "{left:?}");
        assert_eq!(left.attr("from"), Some("tea@conference.weir.test/bo"));
    }
}

#[tokio::test]
async fn who_is_invited_from_elsewhere_is_let_in_at_once_and_asked_back() {
    for mut place in places().await {
        let door = door(&place).await;
        let mut gateway = greet(door, "hush").await;
        assert_eq!(gateway.receive().await.name, "handshake");
        let code = crate::invited::code(&mut place).await;
        let mut alice = place.logged_in("alice", "phone").await;
        alice.send("<presence/>").await;
        alice.until_ping().await;
        gateway
            .send(&format!(
                "<presence from='bob@irc.weir.test' to='alice@weir.test' type='subscribe'>\
                 <preauth xmlns='urn:xmpp:pars:0' token='{code}'/></presence>"
            ))
            .await;
        let mut kinds = Vec::new();
        while kinds.len() < 3 {
            let heard = gateway.receive().await;
            assert_eq!(heard.attr("to"), Some("bob@irc.weir.test"), "{heard:?}");
            kinds.push(heard.attr("type").unwrap_or("available").to_owned());
        }
        kinds.sort();
        assert_eq!(kinds, ["available", "subscribe", "subscribed"], "{}", place.name);
        assert!(alice.until_ping().await.is_empty(), "nobody has to be asked");
    }
}
