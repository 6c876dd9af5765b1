//! XMPP over requests of HTTP (XEP-0124, XEP-0206).

use std::net::SocketAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use weir_xmpp::wire::{Element, ns, parse};

use super::place::places;
use super::websocket::serve;

const SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";

/// A request and its answer, on a connection of its own.
async fn post(address: SocketAddr, body: &str) -> Element {
    let mut io = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "POST /http-bind HTTP/1.1\r\nhost: weir.test\r\nconnection: close\r\n\
         content-type: text/xml\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    io.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    io.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    parse::element(body).unwrap()
}

struct Client {
    address: SocketAddr,
    sid: String,
    rid: u64,
}

impl Client {
    async fn begin(address: SocketAddr) -> (Self, Element) {
        let answer = post(
            address,
            "<body xmlns='http://jabber.org/protocol/httpbind' xmlns:xmpp='urn:xmpp:xbosh' \
             rid='100' to='weir.test' hold='1' wait='5' ver='1.11' xmpp:version='1.0'/>",
        )
        .await;
        let sid = answer.attr("sid").unwrap().to_owned();
        (Self { address, sid, rid: 100 }, answer)
    }

    fn body(&mut self, attributes: &str, inside: &str) -> String {
        self.rid += 1;
        let (sid, rid) = (&self.sid, self.rid);
        format!(
            "<body xmlns='http://jabber.org/protocol/httpbind' xmlns:xmpp='urn:xmpp:xbosh' \
             sid='{sid}' rid='{rid}'{attributes}>{inside}</body>"
        )
    }

    async fn send(&mut self, attributes: &str, inside: &str) -> Element {
        let body = self.body(attributes, inside);
        post(self.address, &body).await
    }

    /// What comes, after however many empty answers.
    async fn send_and_hear(&mut self, attributes: &str, inside: &str) -> Element {
        let mut answer = self.send(attributes, inside).await;
        while answer.children().next().is_none() && answer.attr("type").is_none() {
            answer = self.send("", "").await;
        }
        answer
    }

    async fn log_in(address: SocketAddr, name: &str) -> Self {
        let (mut client, answer) = Self::begin(address).await;
        assert!(answer.has("features", ns::STREAM), "{answer:?}");
        let message = BASE64_STANDARD.encode(format!("\0{name}\0password of {name}"));
        let auth = format!("<auth xmlns='{SASL}' mechanism='PLAIN'>{message}</auth>");
        assert!(client.send_and_hear("", &auth).await.has("success", SASL));
        let answer = client.send_and_hear(" to='weir.test' xmpp:restart='true'", "").await;
        assert!(answer.has("features", ns::STREAM), "{answer:?}");
        let bind = "<iq xmlns='jabber:client' type='set' id='b'>\
             <bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
        let answer = client.send_and_hear("", bind).await;
        assert_eq!(answer.child("iq", ns::CLIENT).unwrap().attr("type"), Some("result"));
        client
    }
}

#[tokio::test]
async fn alice_and_bob_talk_by_requests() {
    for mut place in places().await {
        place.person("alice").await;
        place.person("bob").await;
        let address = serve(&place).await;
        let mut alice = Client::log_in(address, "alice").await;
        let mut bob = Client::log_in(address, "bob").await;
        let answer = bob.send_and_hear("", "<presence xmlns='jabber:client'/>").await;
        assert!(answer.has("presence", ns::CLIENT), "{answer:?}");
        let body = bob.body("", "");
        let held = tokio::spawn(async move { post(address, &body).await });
        alice
            .send(
                " type='terminate'",
                "<message xmlns='jabber:client' to='bob@weir.test' type='chat'>\
                 <body>hello</body></message>",
            )
            .await;
        let answer = held.await.unwrap();
        let message = answer.child("message", ns::CLIENT).unwrap();
        assert_eq!(message.child("body", ns::CLIENT).unwrap().text(), "hello");
        let answer = alice.send("", "").await;
        assert_eq!(answer.attr("condition"), Some("item-not-found"), "her session is over");
    }
}

#[tokio::test]
async fn an_answer_that_got_lost_is_given_again() {
    let mut place = places().await.remove(0);
    place.person("alice").await;
    let address = serve(&place).await;
    let (mut client, _) = Client::begin(address).await;
    let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='NONE'/>";
    let body = client.body("", auth);
    let first = post(address, &body).await;
    assert!(first.has("failure", SASL), "{first:?}");
    assert_eq!(post(address, &body).await, first);
}

#[tokio::test]
async fn who_has_no_session_is_told_so() {
    let place = places().await.remove(0);
    let address = serve(&place).await;
    let around = "xmlns='http://jabber.org/protocol/httpbind'";
    let answer = post(address, &format!("<body {around} sid='made-up' rid='5'/>")).await;
    assert_eq!(answer.attr("type"), Some("terminate"));
    assert_eq!(answer.attr("condition"), Some("item-not-found"));
    let answer = post(address, &format!("<body {around}/>")).await;
    assert_eq!(answer.attr("condition"), Some("bad-request"));
    let answer = post(address, "<!DOCTYPE x><body/>").await;
    assert_eq!(answer.attr("condition"), Some("bad-request"));
}

#[tokio::test]
async fn an_error_of_the_stream_ends_the_session_with_it() {
    let place = places().await.remove(0);
    let address = serve(&place).await;
    let (mut client, _) = Client::begin(address).await;
    let answer = client.send_and_hear("", "<message xmlns='jabber:client'/>").await;
    assert_eq!(answer.attr("condition"), Some("remote-stream-error"));
    assert!(answer.has("error", ns::STREAM), "{answer:?}");
}
