//! What goes to one server goes over one connection, where it speaks HTTP/2.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::routing::post;
use axum::{Extension, Router};
use http::{StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use weir_community::Env;
use weir_community::statuses::Visibility;
use weir_db::{Tx, params};

use crate::peer::Peer;
use crate::place::{places_that_know, until};

const NAME: &str = "remote.example";
/// So many a server takes one by one, before it is sent several at once.
const BEFORE: usize = 4;
const FOLLOWERS: usize = BEFORE + 4;

/// A server with a certificate, which answers who comes after the first ones only when another one
/// has come too.
#[derive(Clone, Default)]
struct Encrypted(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// On which connection whoever came so far came, and what was spoken there. Of those that were
    /// given up before they stood nothing is heard.
    came: watch::Sender<Vec<(usize, Version)>>,
}

impl Encrypted {
    /// Listens and offers `protocols`; its address, and the certificate of who vouches for it.
    async fn start(&self, protocols: &[&[u8]]) -> (SocketAddr, Vec<u8>) {
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = ca.self_signed(&ca_key).unwrap().pem().into_bytes();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![NAME.to_owned()])
            .unwrap()
            .signed_by(&key, &Issuer::new(ca, ca_key))
            .unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router =
            Router::new().route("/users/{name}/inbox", post(take)).with_state(self.clone());
        tokio::spawn(async move {
            for number in 0_usize.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (acceptor, router) =
                    (acceptor.clone(), router.clone().layer(Extension(number)));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let stream = TokioIo::new(stream);
                    let service = TowerToHyperService::new(router);
                    let builder = auto::Builder::new(TokioExecutor::new());
                    // How it ends is the other side's affair.
                    let _ = builder.serve_connection(stream, service).await;
                });
            }
        });
        (address, pem)
    }
}

impl Encrypted {
    /// What comes next is of another server.
    fn forget(&self) {
        self.0.came.send_replace(Vec::new());
    }
}

async fn take(
    State(server): State<Encrypted>,
    Extension(connection): Extension<usize>,
    request: Request,
) -> StatusCode {
    server.0.came.send_modify(|came| came.push((connection, request.version())));
    let count = server.0.came.borrow().len();
    if count > BEFORE {
        let _ = server.0.came.subscribe().wait_for(|came| came.len() > BEFORE + 1).await;
    }
    StatusCode::ACCEPTED
}

async fn deliver(protocols: &[&[u8]]) -> Vec<(usize, Vec<Version>)> {
    let server = Encrypted::default();
    let (address, certificate) = server.start(protocols).await;
    let mut found = Vec::new();
    // Its people sign nothing here.
    let pem = Peer::start().await.public_pem();
    for place in places_that_know(NAME, address, &certificate) {
        server.forget();
        let alice = place.person("alice").await;
        for number in 0..FOLLOWERS {
            let (base, name) = (format!("https://{NAME}"), format!("bob{number}"));
            let follower = place.stranger_by(&base, &pem, &name, String::new()).await;
            // They follow since long ago: nobody has to be told that it is agreed.
            let row = "INSERT INTO follows (account_id, target_id, id) VALUES (?1, ?2, ?3)";
            let follows = move |tx: &mut Tx, env: &Env| {
                Ok(tx.execute(row, params![follower, alice, env.ids.next()])?)
            };
            place.write(follows).await.unwrap();
        }
        let running = place.start();
        place.post(alice, "Hello, all of you", Visibility::Public).await;
        until("everybody has it", async || {
            // Who waited long for the answer is asked again.
            place.pass(100);
            place.count("deliveries").await == 0 && server.0.came.borrow().len() >= FOLLOWERS
        })
        .await;
        running.stop().await;
        let (connections, versions): (BTreeSet<usize>, Vec<Version>) =
            server.0.came.borrow().iter().copied().unzip();
        found.push((connections.len(), versions));
    }
    found
}

#[tokio::test]
async fn deliveries_to_a_server_that_speaks_http_2_share_one_connection() {
    for (connections, versions) in deliver(&[b"h2", b"http/1.1"]).await {
        assert!(versions.iter().all(|version| *version == Version::HTTP_2), "{versions:?}");
        assert_eq!(connections, 1);
    }
}

#[tokio::test]
async fn a_server_that_does_not_has_a_connection_for_each_that_is_under_way() {
    for (connections, versions) in deliver(&[b"http/1.1"]).await {
        assert!(versions.iter().all(|version| *version == Version::HTTP_11), "{versions:?}");
        assert!(connections > 1, "nothing was under way beside another one");
    }
}
