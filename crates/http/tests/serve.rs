//! The server that every HTTP face gets: limits, TLS, shutdown, panics, the client's address.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use futures_util::{StreamExt, stream};
use http::Request;
use http_body_util::BodyExt;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use weir_base::Random;
use weir_http::{ClientIp, Limits, Serving, Tls, serve};

struct Server {
    address: std::net::SocketAddr,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

async fn start(router: Router, tls: Option<Tls>, limits: Limits) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let trusted_proxies = Arc::from(["127.0.0.0/8".parse().unwrap()]);
    let serving = Serving { router, tls, limits, trusted_proxies, random: Random::seeded(1) };
    let task = tokio::spawn(serve(listener, serving, shutdown.clone()));
    Server { address, shutdown, task }
}

async fn exchange(mut io: impl AsyncRead + AsyncWrite + Unpin, head: &str) -> String {
    let request = format!("{head}\r\nHost: weir\r\nConnection: close\r\n\r\n");
    io.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    io.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

impl Server {
    async fn ask(&self, head: &str) -> String {
        exchange(TcpStream::connect(self.address).await.unwrap(), head).await
    }
}

#[tokio::test]
async fn a_panic_answers_500_and_the_next_request_is_served() {
    let panics = get(async || -> &'static str { panic!("on purpose") });
    let router = Router::new().route("/", panics).route("/fine", get(async || "fine"));
    let server = start(router, None, Limits::default()).await;
    assert!(server.ask("GET / HTTP/1.1").await.starts_with("HTTP/1.1 500 "));
    assert!(server.ask("GET /fine HTTP/1.1").await.ends_with("fine"));
}

#[tokio::test]
async fn a_handler_sees_the_client_behind_a_trusted_proxy() {
    let router = Router::new().route("/", get(async |client: ClientIp| client.0.to_string()));
    let server = start(router, None, Limits::default()).await;
    let head = "GET / HTTP/1.1\r\nX-Forwarded-For: 6.6.6.6, 203.0.113.9";
    assert!(server.ask(head).await.ends_with("203.0.113.9"));
    assert!(server.ask("GET / HTTP/1.1").await.ends_with("127.0.0.1"));
}

#[tokio::test]
async fn a_running_request_ends_before_the_server_does() {
    let (started, mut has_started) = tokio::sync::mpsc::channel::<()>(1);
    let (end, may_end) = tokio::sync::watch::channel(false);
    let router = Router::new().route(
        "/",
        get(async move || {
            started.send(()).await.unwrap();
            may_end.clone().wait_for(|end| *end).await.unwrap();
            "whole"
        }),
    );
    let server = start(router, None, Limits::default()).await;
    let io = TcpStream::connect(server.address).await.unwrap();
    let answer = tokio::spawn(exchange(io, "GET / HTTP/1.1"));
    has_started.recv().await.unwrap();
    server.shutdown.cancel();
    // The listener is gone as soon as a new connection is refused.
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!server.task.is_finished());
    end.send(true).unwrap();
    assert!(answer.await.unwrap().ends_with("whole"));
    server.task.await.unwrap();
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let limits = Limits { head_timeout: Duration::from_millis(20), ..Limits::default() };
    let server = start(Router::new(), None, limits).await;
    for opening in ["", "PRI * HTT", "GET / HTTP/1.1\r\nHost: long-enough-to-be-http-1\r\n"] {
        let mut io = TcpStream::connect(server.address).await.unwrap();
        io.write_all(opening.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        // It ends, by a close or a reset; without the limit it would wait for ever.
        let _ = io.read_to_end(&mut rest).await;
    }
}

#[tokio::test]
async fn a_full_server_takes_the_next_connection_when_one_ends() {
    let limits = Limits { connections_max: 1, ..Limits::default() };
    let router = Router::new().route("/", get(async || "fine"));
    let server = start(router, None, limits).await;
    let first = TcpStream::connect(server.address).await.unwrap();
    let second = TcpStream::connect(server.address).await.unwrap();
    let waiting = tokio::spawn(exchange(second, "GET / HTTP/1.1"));
    assert!(exchange(first, "GET / HTTP/1.1").await.ends_with("fine"));
    assert!(waiting.await.unwrap().ends_with("fine"));
}

fn write_certificate(dir: &Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["weir.test".to_owned()]).unwrap();
    let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (cert, key)
}

/// Connects over TLS, trusting only the certificate in `cert` and offering these protocols.
async fn connect_tls(
    server: &Server,
    cert: &Path,
    protocols: &[&[u8]],
) -> Result<TlsStream<TcpStream>, std::io::Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(cert).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let io = TcpStream::connect(server.address).await?;
    connector.connect(ServerName::try_from("weir.test").unwrap(), io).await
}

async fn ask_tls(server: &Server, cert: &Path) -> Result<String, std::io::Error> {
    Ok(exchange(connect_tls(server, cert, &[]).await?, "GET / HTTP/1.1").await)
}

/// The start of an answer by HTTP/2 that does not end, and its version as the server saw it.
async fn begin_http_2(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> String {
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(io));
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://weir.test/").body(Body::empty()).unwrap();
    let mut body = sender.send_request(request).await.unwrap().into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    String::from_utf8(first.to_vec()).unwrap()
}

#[tokio::test]
async fn http_2_is_spoken_by_who_agreed_on_it_over_tls_and_by_who_knows_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = write_certificate(dir.path());
    let tls = Tls::from_files(&cert, &key).unwrap();
    let endless = get(async |request: Request<Body>| {
        let first = stream::iter([Ok::<_, Infallible>(format!("{:?}", request.version()))]);
        Body::from_stream(first.chain(stream::pending()))
    });
    let router = Router::new().route("/", endless);
    let server = start(router.clone(), Some(tls), Limits::default()).await;
    let io = connect_tls(&server, &cert, &[b"h2", b"http/1.1"]).await.unwrap();
    assert_eq!(io.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    assert_eq!(begin_http_2(io).await, "HTTP/2.0");
    let server = start(router, None, Limits::default()).await;
    let io = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(begin_http_2(io).await, "HTTP/2.0");
}

#[tokio::test]
async fn certificates_are_read_again_without_a_restart() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (cert, key) = write_certificate(first.path());
    let (new_cert, new_key) = write_certificate(second.path());
    let tls = Tls::from_files(&cert, &key).unwrap();
    let router = Router::new().route("/", get(async || "over TLS"));
    let server = start(router, Some(tls.clone()), Limits::default()).await;
    assert!(ask_tls(&server, &cert).await.unwrap().ends_with("over TLS"));
    assert!(ask_tls(&server, &new_cert).await.is_err());

    std::fs::copy(&new_cert, &cert).unwrap();
    assert!(tls.reload().is_err(), "the key on disk is still the old one");
    std::fs::copy(&new_key, &key).unwrap();
    tls.reload().unwrap();
    assert!(ask_tls(&server, &new_cert).await.unwrap().ends_with("over TLS"));
}

#[test]
fn a_file_that_holds_no_certificate_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = write_certificate(dir.path());
    std::fs::write(&cert, "nothing").unwrap();
    let error = Tls::from_files(&cert, &key).err().unwrap().to_string();
    assert!(error.contains("cert.pem"), "{error}");
    let error = Tls::from_files(&key, &dir.path().join("none")).err().unwrap().to_string();
    assert!(error.contains("certificate"), "{error}");
}
