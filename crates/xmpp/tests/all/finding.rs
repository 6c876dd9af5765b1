//! Other servers as name servers tell of them (RFC 6120, 3.2; XEP-0368; RFC 2782).

use std::net::{Ipv4Addr, SocketAddr};

use hickory_resolver::proto::op::{Message, MessageType, OpCode};
use hickory_resolver::proto::rr::rdata::{A, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record};
use tokio::net::{TcpListener, TcpSocket, UdpSocket};
use weir_xmpp::s2s::{Finding, Servers, Setup, Trust, serve};

use crate::place::{Place, databases};
use crate::servers::{available, body, pem};

/// A name server that knows these records only.
async fn name_server(records: Vec<Record>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = [0; 1_500];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            let question = Message::from_vec(&buffer[..length]).unwrap();
            let id = question.metadata.id;
            let mut answer = Message::new(id, MessageType::Response, OpCode::Query);
            for query in question.queries {
                let fits = |record: &&Record| {
                    record.name == *query.name() && record.record_type() == query.query_type()
                };
                answer.add_answers(records.iter().filter(fits).cloned().collect::<Vec<_>>());
                answer.add_query(query);
            }
            socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
        }
    });
    address
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).unwrap()
}

fn service(of: &str, priority: u16, port: u16, target: &str) -> Record {
    let srv = SRV::new(priority, 0, port, name(target));
    Record::from_rdata(name(of), 60, RData::SRV(srv))
}

fn address() -> Record {
    Record::from_rdata(name("chat.b.test."), 60, RData::A(A(Ipv4Addr::LOCALHOST)))
}

/// Two communities on each database, of which the first asks a name server that says of the second
/// what `told` makes of its port and of one that nobody listens on.
async fn pairs(told: fn(u16, u16) -> Vec<Record>) -> Vec<(Place, Place)> {
    let mut pairs = Vec::new();
    for (one, two) in databases().into_iter().zip(databases()) {
        let a = Place::named(one, true, "a.test").await;
        let b = Place::named(two, true, "b.test").await;
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        // Held, so that nobody else listens there either.
        let closed = TcpSocket::new_v4().unwrap();
        closed.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let (open, shut) = (door.local_addr().unwrap(), closed.local_addr().unwrap());
        let known = told(open.port(), shut.port());
        let asked = Finding {
            name_server: Some(name_server(known).await),
            allow_private: true,
            ..Finding::default()
        };
        let start = |place: &Place, finding| {
            let setup = Setup {
                tls: place.tls.tls().clone(),
                trust: Trust::new(&[pem(&a), pem(&b)]),
                finding,
                allowlist: false,
                certificates_only: true,
                allow_plain: false,
            };
            Servers::start(&place.xmpp, setup).unwrap()
        };
        start(&a, asked);
        let serving = serve(start(&b, Finding::default()), door);
        tokio::spawn(async move {
            serving.await;
            drop(closed);
        });
        pairs.push((a, b));
    }
    pairs
}

async fn alice_reaches_bob(told: fn(u16, u16) -> Vec<Record>) {
    for (mut a, mut b) in pairs(told).await {
        let mut alice = a.logged_in("alice", "phone").await;
        let mut bob = b.logged_in("bob", "desk").await;
        available(&mut bob).await;
        alice.send("<message to='bob@b.test' type='chat'><body>hi</body></message>").await;
        assert_eq!(body(&bob.receive().await), "hi");
    }
}

#[tokio::test]
async fn a_server_is_reached_by_its_record() {
    let told =
        |open, _| vec![service("_xmpp-server._tcp.b.test.", 5, open, "chat.b.test."), address()];
    alice_reaches_bob(told).await;
}

#[tokio::test]
async fn a_server_is_reached_with_tls_from_the_first_byte() {
    let told = |open, closed| {
        vec![
            service("_xmpps-server._tcp.b.test.", 5, open, "chat.b.test."),
            service("_xmpp-server._tcp.b.test.", 5, closed, "chat.b.test."),
            address(),
        ]
    };
    alice_reaches_bob(told).await;
}

#[tokio::test]
async fn where_the_first_place_is_closed_the_next_one_is_tried() {
    let told = |open, closed| {
        vec![
            service("_xmpp-server._tcp.b.test.", 1, closed, "chat.b.test."),
            service("_xmpp-server._tcp.b.test.", 2, open, "chat.b.test."),
            address(),
        ]
    };
    alice_reaches_bob(told).await;
}

#[tokio::test]
async fn a_domain_that_says_it_has_no_chat_is_not_looked_for_elsewhere() {
    let told = |_, _| vec![service("_xmpp-server._tcp.b.test.", 0, 0, "."), address()];
    for (mut a, _b) in pairs(told).await {
        let mut alice = a.logged_in("alice", "phone").await;
        alice.send("<message to='bob@b.test' id='x' type='chat'><body>hi</body></message>").await;
        let error = alice.receive().await;
        assert_eq!((error.attr("id"), error.attr("type")), (Some("x"), Some("error")));
        let told = error.child("error", "jabber:client").unwrap();
        assert!(told.has("remote-server-not-found", "urn:ietf:params:xml:ns:xmpp-stanzas"));
    }
}
