//! TLS: offered, demanded, and log-ins bound to it.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use weir_community::users::scram::Hash;
use weir_xmpp::wire::Element;

use crate::log_in::{AGENT, FAST, SASL2, Scram, by_sasl2, condition};
use crate::place::{App, Io, Place, databases, places};

/// TLS over `io`, with the exporter of the connection.
pub async fn encrypt<T: Io>(place: &Place, io: T) -> (TlsStream<T>, Vec<u8>) {
    let mut roots = RootCertStore::empty();
    roots.add(place.tls.tls().certificate().unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"xmpp-client".to_vec(), b"xmpp-server".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from(place.domain).unwrap();
    let stream = connector.connect(name, io).await.unwrap();
    let label = b"EXPORTER-Channel-Binding";
    let exported = stream.get_ref().1.export_keying_material([0; 32], label, Some(&[])).unwrap();
    (stream, exported.to_vec())
}

/// An app that has come by TLS from the first byte.
pub async fn app(place: &Place) -> App {
    let io = TcpStream::connect(place.tls_address).await.unwrap();
    let mut app = App::on(Box::new(encrypt(place, io).await.0));
    app.open().await;
    app
}

#[tokio::test]
async fn without_tls_nothing_but_tls_is_offered() {
    let place = Place::on(databases().remove(0), false).await;
    let mut app = App::silent(place.address).await;
    let features = app.open().await;
    let names: Vec<&str> = features.children().map(|feature| &*feature.name).collect();
    assert_eq!(names, ["starttls"]);
    let message = BASE64_STANDARD.encode("\0alice\0password of alice");
    let sasl = "urn:ietf:params:xml:ns:xmpp-sasl";
    app.send(&format!("<auth xmlns='{sasl}' mechanism='PLAIN'>{message}</auth>")).await;
    let refused = app.receive().await;
    assert!(refused.has("invalid-mechanism", sasl), "{refused:?}");
}

#[tokio::test]
async fn a_stream_turns_to_tls_and_binds_the_log_in_to_it() {
    for fixture in databases() {
        let mut place = Place::on(fixture, false).await;
        place.person("alice").await;
        let mut app = place.app().await;
        // Some clients end each element with a line.
        app.send("<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>\n").await;
        assert_eq!(app.receive().await.name, "proceed");
        let (io, exported) = encrypt(&place, app.into_io()).await;
        let mut app = App::on(Box::new(io));
        let features = app.open().await;
        let bindings = features.child("sasl-channel-binding", "urn:xmpp:sasl-cb:0").unwrap();
        let bindings: Vec<_> = bindings.children().map(|one| one.attr("type").unwrap()).collect();
        assert_eq!(bindings, ["tls-exporter", "tls-server-end-point"]);
        let endpoint = Hash::Sha256.digest(&place.tls.tls().certificate().unwrap());
        let sasl = "urn:ietf:params:xml:ns:xmpp-sasl";
        for (header, bound, outcome) in [
            ("p=tls-exporter,,", vec![0; 32], "failure"),
            ("p=tls-server-end-point,,", exported.clone(), "failure"),
            ("p=tls-exporter,,", endpoint.as_ref().to_vec(), "failure"),
            ("p=tls-exporter,,", exported, "success"),
        ] {
            let scram = Scram { header, bound, ..Scram::of("alice", "password of alice") };
            let first = scram.first();
            let mechanism = "SCRAM-SHA-256-PLUS";
            app.send(&format!("<auth xmlns='{sasl}' mechanism='{mechanism}'>{first}</auth>")).await;
            let (last, expected) = scram.last(&app.receive().await.text());
            app.send(&format!("<response xmlns='{sasl}'>{last}</response>")).await;
            let answer = app.receive().await;
            assert_eq!(answer.name, outcome, "{header} {}", place.name);
            if outcome == "success" {
                assert_eq!(answer.text(), expected);
                break;
            }
        }
    }
}

#[tokio::test]
async fn tls_from_the_first_byte_serves_a_whole_session() {
    for fixture in databases() {
        let mut place = Place::on(fixture, false).await;
        place.person("alice").await;
        let mut app = app(&place).await;
        app.log_in("alice").await;
        app.bind("phone").await;
        assert!(app.until_ping().await.is_empty());
    }
}

#[tokio::test]
async fn a_renewed_certificate_counts_for_those_who_come_and_disturbs_nobody_who_is_here() {
    let mut place = places().await.remove(0);
    place.person("alice").await;
    let before = place.tls.tls().certificate().unwrap();
    let mut early = app(&place).await;
    place.renew_certificate();
    assert_ne!(place.tls.tls().certificate().unwrap(), before);
    // Believes the new one alone.
    app(&place).await;
    early.log_in("alice").await;
}

#[tokio::test]
async fn what_is_said_in_the_clear_behind_starttls_is_not_taken_for_said_in_secret() {
    for place in places().await {
        let mut app = place.app().await;
        app.send(
            "<starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>\
             <auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>AGEAYg==</auth>",
        )
        .await;
        assert_eq!(app.receive().await.name, "proceed");
        assert_eq!(app.stream_error().await, "none");
    }
}

/// An app over TLS of its own, and what tells its connection from all others.
async fn app_and_exported(place: &Place) -> (App, Vec<u8>) {
    let io = TcpStream::connect(place.tls_address).await.unwrap();
    let (io, exported) = encrypt(place, io).await;
    let mut app = App::on(Box::new(io));
    app.open().await;
    (app, exported)
}

/// Logs in by a token, proven for a connection that has this `binding`.
async fn by_bound_token(app: &mut App, mechanism: &str, token: &str, binding: &[u8]) -> Element {
    let said = [&b"Initiator"[..], binding].concat();
    let proof = Hash::Sha256.hmac(token.as_bytes(), &said);
    let message = BASE64_STANDARD.encode([&b"alice\0"[..], proof.as_ref()].concat());
    app.send(&format!(
        "<authenticate xmlns='{SASL2}' mechanism='{mechanism}'>\
         <initial-response>{message}</initial-response>{AGENT}{FAST}</authenticate>"
    ))
    .await;
    app.receive().await
}

#[tokio::test]
async fn a_token_bound_to_the_connection_is_proven_anew_on_each() {
    for fixture in databases() {
        let mut place = Place::on(fixture, false).await;
        place.person("alice").await;
        let certificate = place.tls.tls().certificate().unwrap();
        let endpoint = Hash::Sha256.digest(&certificate).as_ref().to_vec();
        for mechanism in ["HT-SHA-256-EXPR", "HT-SHA-256-ENDP"] {
            let is_exporter = mechanism.ends_with("EXPR");
            let bound = |exported: &[u8]| match is_exporter {
                true => exported.to_vec(),
                false => endpoint.clone(),
            };
            let asks = format!("<request-token xmlns='urn:xmpp:fast:0' mechanism='{mechanism}'/>");
            let (mut app, first) = app_and_exported(&place).await;
            let success = by_sasl2(&mut app, "alice", &asks).await;
            let token = success.child("token", "urn:xmpp:fast:0").unwrap();
            let token = token.attr("token").unwrap();
            // What was proven on another connection, or to another server, proves nothing here.
            let strange = if is_exporter { first } else { vec![0; 32] };
            let (mut app, own) = app_and_exported(&place).await;
            let replayed = by_bound_token(&mut app, mechanism, token, &strange).await;
            assert_eq!(condition(&replayed), "not-authorized", "{mechanism} {}", place.name);
            // Nor does anybody do without the binding.
            let unbound = by_bound_token(&mut app, "HT-SHA-256-NONE", token, &[]).await;
            assert_eq!(condition(&unbound), "not-authorized", "{mechanism} {}", place.name);
            let success = by_bound_token(&mut app, mechanism, token, &bound(&own)).await;
            let extra = success.child("additional-data", SASL2).unwrap().text();
            let said = [&b"Responder"[..], &bound(&own)].concat();
            let expected = Hash::Sha256.hmac(token.as_bytes(), &said);
            assert_eq!(extra, BASE64_STANDARD.encode(expected), "{mechanism} {}", place.name);
        }
    }
}
