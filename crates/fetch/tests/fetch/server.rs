//! A server that answers what a test tells it to, byte by byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use url::Url;
use weir_fetch::{Fetch, Options};

/// How a request is answered: from its head and body, whole bytes to send.
pub type Answer = Arc<dyn Fn(&str) -> Vec<u8> + Send + Sync>;

/// A server on a port of its own, gone when dropped.
pub struct Server {
    pub address: SocketAddr,
    requests: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Server {
    pub async fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let (answer, counted): (Answer, _) = (Arc::new(answer), requests.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answer.clone(), counted.clone()));
            }
        });
        Self { address, requests, task }
    }

    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    pub fn host(&self) -> String {
        self.address.to_string()
    }

    /// How many requests came in.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads one request, answers it and closes.
pub async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: Answer,
    requests: Arc<AtomicUsize>,
) {
    let mut got = Vec::new();
    while !is_complete(&got) {
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => got.extend_from_slice(&buffer[..count]),
        }
    }
    requests.fetch_add(1, Ordering::SeqCst);
    let bytes = answer(&String::from_utf8_lossy(&got));
    let stays_open = bytes.is_empty() || bytes.ends_with(STAYS_OPEN);
    let _ = stream.write_all(bytes.strip_suffix(STAYS_OPEN).unwrap_or(&bytes)).await;
    if stays_open {
        std::future::pending::<()>().await;
    }
    let _ = stream.shutdown().await;
}

/// At the end of an answer: nothing more comes, and the connection stays open.
pub const STAYS_OPEN: &[u8] = b"[stays open]";

fn is_complete(got: &[u8]) -> bool {
    let text = String::from_utf8_lossy(got);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok())
        .unwrap_or(0);
    body.len() >= length
}

/// A complete answer.
pub fn answer(status: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let length = format!("content-length: {}", body.len());
    answer_of_length(status, &[headers, &[length.as_str()]].concat(), body)
}

/// An answer with just these headers.
pub fn answer_of_length(status: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 {status}\r\nconnection: close\r\n").into_bytes();
    for header in headers {
        bytes.extend_from_slice(format!("{header}\r\n").as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// What development may fetch.
pub fn development() -> Options {
    Options { allow_private: true, allow_http: true, ..Options::default() }
}

pub fn fetch(options: Options) -> Fetch {
    Fetch::new(options).unwrap()
}
