//! Another server, as far as tests need one: it answers paths with bodies, and counts.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weir_base::Id;
use weir_db::params;
use weir_fetch::{Fetch, Options};

use crate::place::Place;

/// What never comes.
pub const HANGS: &str = "hangs";

pub struct Origin {
    pub base: String,
    asked: Arc<AtomicUsize>,
}

impl Origin {
    /// Answers each path with (media type, body), never where the media type is [`HANGS`], and
    /// everything else with 404.
    pub async fn serve(pages: impl IntoIterator<Item = (&str, &str, Vec<u8>)>) -> Self {
        Self::serve_at("127.0.0.1", pages).await
    }

    /// The same at an address of its own.
    pub async fn serve_at(
        address: &str,
        pages: impl IntoIterator<Item = (&str, &str, Vec<u8>)>,
    ) -> Self {
        let pages: HashMap<String, (String, Vec<u8>)> = pages
            .into_iter()
            .map(|(path, kind, body)| (path.to_owned(), (kind.to_owned(), body)))
            .collect();
        let (pages, asked) = (Arc::new(pages), Arc::new(AtomicUsize::new(0)));
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let count = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (pages, count) = (pages.clone(), count.clone());
                tokio::spawn(async move { answer(stream, &pages, &count).await });
            }
        });
        Self { base, asked }
    }

    /// Requests so far.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

async fn answer(
    mut stream: TcpStream,
    pages: &HashMap<String, (String, Vec<u8>)>,
    count: &AtomicUsize,
) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    count.fetch_add(1, Ordering::SeqCst);
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1)?;
    if pages.get(path).is_some_and(|(kind, _)| kind == HANGS) {
        return std::future::pending().await;
    }
    let none = (String::from("text/plain"), Vec::new());
    let (status, (kind, body)) = match pages.get(path) {
        Some(page) => ("200 OK", page),
        None => ("404 Not Found", &none),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.ok()?;
    stream.write_all(body).await.ok()
}

/// A way out that may reach tests' servers.
pub fn fetch() -> Fetch {
    Fetch::new(Options { allow_private: true, allow_http: true, ..Options::default() }).unwrap()
}

/// Somebody on another server.
pub async fn remote_person(place: &Place, name: &'static str, domain: &'static str) -> Id {
    let insert = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
        let id = env.ids.next();
        let uri = format!("https://{domain}/users/{name}");
        tx.execute(
            "INSERT INTO accounts (id, username, username_key, domain, uri, url, created_at)
             VALUES (?1, ?2, ?2, ?3, ?4, ?4, 0)",
            params![id, name, domain, uri],
        )?;
        Ok(id)
    };
    place.write(insert).await.unwrap()
}
