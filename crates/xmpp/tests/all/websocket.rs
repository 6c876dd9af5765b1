//! XMPP over WebSocket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, HeaderValue};
use tokio::net::{TcpListener, TcpStream};
use weir_base::Random;
use weir_live::socket::client::{self, Client, ConnectError};
use weir_live::socket::{Message, Sockets};

use crate::place::{Place, places};

const SASL: &str = "urn:ietf:params:xml:ns:xmpp-sasl";
const OPEN: &str =
    "<open xmlns='urn:ietf:params:xml:ns:xmpp-framing' to='weir.test' version='1.0'/>";

pub async fn serve(place: &Place) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = weir_http::Serving {
        router: weir_xmpp::stream::router(place.xmpp.clone()),
        tls: None,
        limits: weir_http::Limits::default(),
        trusted_proxies: Arc::from([]),
        random: Random::seeded(1),
    };
    tokio::spawn(weir_http::serve(listener, serving, place.xmpp.shutdown.clone()));
    address
}

async fn handshake(
    address: SocketAddr,
    protocol: Option<&'static str>,
) -> Result<Client<TcpStream>, ConnectError> {
    let io = TcpStream::connect(address).await.unwrap();
    let mut headers = HeaderMap::new();
    if let Some(protocol) = protocol {
        headers.insert("sec-websocket-protocol", HeaderValue::from_static(protocol));
    }
    let (host, path) = ("weir.test".into(), "/xmpp-websocket".into());
    let request = client::Request { host, path, headers, deflate: false };
    client::connect(io, &Sockets::default(), &request, Random::seeded(2)).await
}

struct Web(Client<TcpStream>);

impl Web {
    async fn connect(address: SocketAddr) -> Self {
        let client = handshake(address, Some("xmpp")).await.unwrap();
        assert_eq!(client.answer.get("sec-websocket-protocol").unwrap(), "xmpp");
        Self(client)
    }

    async fn send(&mut self, text: &str) {
        self.0.send_text(text).await.unwrap();
    }

    async fn receive(&mut self) -> String {
        let next = tokio::time::timeout(Duration::from_secs(20), self.0.recv());
        match next.await.expect("nothing comes").unwrap() {
            Message::Text(text) => text,
            other => panic!("no text: {other:?}"),
        }
    }

    async fn log_in(address: SocketAddr, name: &str) -> Self {
        let mut web = Self::connect(address).await;
        web.send(OPEN).await;
        assert!(web.receive().await.starts_with("<open "));
        assert!(
            web.receive().await.starts_with("<stream:features xmlns='jabber:client' xmlns:str")
        );
        let message = BASE64_STANDARD.encode(format!("\0{name}\0password of {name}"));
        web.send(&format!("<auth xmlns='{SASL}' mechanism='PLAIN'>{message}</auth>")).await;
        assert!(web.receive().await.starts_with("<success xmlns='urn:ietf"));
        web.send(OPEN).await;
        web.receive().await;
        web.receive().await;
        web.send(
            "<iq xmlns='jabber:client' type='set' id='bind'>\
             <bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>",
        )
        .await;
        assert!(web.receive().await.starts_with("<iq xmlns='jabber:client' "));
        web
    }
}

#[tokio::test]
async fn alice_and_bob_talk_over_websockets() {
    for mut place in places().await {
        place.person("alice").await;
        place.person("bob").await;
        let address = serve(&place).await;
        let mut alice = Web::log_in(address, "alice").await;
        let mut bob = Web::log_in(address, "bob").await;
        bob.send("<presence xmlns='jabber:client'/>").await;
        bob.receive().await;
        alice
            .send(
                "<message xmlns='jabber:client' to='bob@weir.test' type='chat'>\
                 <body>hello</body></message>",
            )
            .await;
        let heard = bob.receive().await;
        assert!(heard.starts_with("<message xmlns='jabber:client' "), "{heard}");
        assert!(heard.contains("<body>hello</body>"), "{heard}");
        alice.send("<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>").await;
        let close = "<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>";
        assert_eq!(alice.receive().await, close);
        let end = alice.0.recv().await;
        assert!(matches!(end, Ok(Message::Close(_))), "{end:?}");
    }
}

#[tokio::test]
async fn only_who_offers_xmpp_is_spoken_to() {
    let place = places().await.remove(0);
    let address = serve(&place).await;
    let refused = handshake(address, None).await.map(drop);
    assert!(matches!(refused, Err(ConnectError::Refused(400))), "{refused:?}");
}

#[tokio::test]
async fn broken_xml_ends_the_stream_with_its_error() {
    let place = places().await.remove(0);
    let address = serve(&place).await;
    let mut web = Web::connect(address).await;
    web.send(OPEN).await;
    web.receive().await;
    web.receive().await;
    web.send("<auth><").await;
    assert!(web.receive().await.contains("<not-well-formed"));
}

#[tokio::test]
async fn a_document_type_ends_the_stream_there_too() {
    let place = places().await.remove(0);
    let address = serve(&place).await;
    let mut web = Web::connect(address).await;
    web.send(OPEN).await;
    web.receive().await;
    web.receive().await;
    web.send("<!DOCTYPE a [<!ENTITY b \"bbbb\">]><auth>&b;</auth>").await;
    assert!(web.receive().await.contains("<restricted-xml"));
}
