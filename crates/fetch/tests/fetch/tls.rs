//! HTTPS with a certificate authority of one's own.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use url::Url;
use weir_fetch::{Error, Fetch, Options, Request, StartError};

use crate::server::{Answer, answer, fetch, serve};

/// An authority's certificate (PEM) and a server for `remote.example` that it vouches for.
async fn start(reply: Answer) -> (Vec<u8>, SocketAddr) {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let pem = ca.self_signed(&ca_key).unwrap().pem().into_bytes();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["remote.example".to_owned()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                serve(stream, reply.clone(), Arc::new(AtomicUsize::new(0))).await;
            }
        }
    });
    (pem, address)
}

fn options(address: SocketAddr, extra_ca: Vec<Vec<u8>>) -> Options {
    let resolve = HashMap::from([("remote.example".to_owned(), address)]);
    Options { resolve, extra_ca, ..Options::default() }
}

fn request() -> Request {
    Request::new(Url::parse("https://remote.example/").unwrap())
}

#[tokio::test]
async fn a_given_authority_is_trusted_and_no_other() {
    let (pem, address) = start(Arc::new(|_| answer("200 OK", &[], b"hello"))).await;
    let response = fetch(options(address, vec![pem])).get(request()).await.unwrap();
    assert_eq!(response.body, "hello");
    let (other, _) = start(Arc::new(|_| answer("200 OK", &[], b""))).await;
    let error = fetch(options(address, vec![other])).get(request()).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
}

#[tokio::test]
async fn https_is_not_left_by_a_redirect() {
    let to = ["location: http://remote.example/"];
    let (pem, address) = start(Arc::new(move |_| answer("301 Moved", &to, b""))).await;
    let options = Options { allow_http: true, ..options(address, vec![pem]) };
    let error = fetch(options).get(request()).await.unwrap_err();
    assert!(matches!(error, Error::Url { .. }) && error.to_string().contains("https"), "{error}");
}

#[test]
fn an_extra_authority_that_is_none_is_refused_at_the_start() {
    for bad in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "hello"] {
        let options = Options { extra_ca: vec![bad.into()], ..Options::default() };
        assert!(Fetch::new(options).is_err(), "{bad:?}");
    }
    let options = Options { extra_ca: vec![b"hello".to_vec()], ..Options::default() };
    assert!(matches!(Fetch::new(options), Err(StartError::ExtraCa(_))));
}
