//! Size and time.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use weir_fetch::{Error, Request, Response};

use crate::server::{STAYS_OPEN, Server, answer, answer_of_length, development, fetch};

async fn get(server: &Server, limit_bytes: usize) -> Result<Response, Error> {
    fetch(development()).get(Request::new(server.url("/")).limit_bytes(limit_bytes)).await
}

fn gzipped_zeros(count: usize) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let piece = [0; 64 * 1024];
    for _ in 0..count / piece.len() {
        encoder.write_all(&piece).unwrap();
    }
    encoder.finish().unwrap()
}

#[tokio::test]
async fn an_answer_of_just_the_limit_is_read() {
    let headers = ["content-type: Text/HTML; charset=utf-8"];
    let server = Server::start(move |_| answer("200 OK", &headers, &[b'x'; 100])).await;
    let response = get(&server, 100).await.unwrap();
    assert_eq!((response.status.as_u16(), response.body.len()), (200, 100));
    assert_eq!(response.media_type(), "text/html");
}

#[tokio::test]
async fn an_answer_that_says_it_is_too_large_is_not_read() {
    // The body never comes: it is refused by its announcement.
    let head = answer_of_length("200 OK", &["content-length: 101"], STAYS_OPEN);
    let server = Server::start(move |_| head.clone()).await;
    let error = get(&server, 100).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit_bytes: 100, .. }), "{error}");
    assert!(!error.is_passing());
}

#[tokio::test]
async fn an_answer_that_does_not_tell_its_size_is_cut_at_the_limit() {
    let endless = [vec![b'x'; 300], STAYS_OPEN.to_vec()].concat();
    let server = Server::start(move |_| answer_of_length("200 OK", &[], &endless)).await;
    let error = get(&server, 100).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
}

#[tokio::test]
async fn a_refusal_is_one_however_long_its_page_is() {
    let page = [vec![b'x'; 300], STAYS_OPEN.to_vec()].concat();
    for announced in [&["content-length: 300"][..], &[]] {
        let answer = answer_of_length("503 Later", announced, &page);
        let server = Server::start(move |_| answer.clone()).await;
        let refusal = get(&server, 100).await.unwrap();
        assert_eq!((refusal.status.as_u16(), refusal.body.len()), (503, 0));
    }
}

#[tokio::test]
async fn a_small_answer_that_unpacks_to_a_large_one_is_cut_at_the_limit() {
    let bomb = gzipped_zeros(64 * 1024 * 1024);
    assert!(bomb.len() < 100_000);
    let server = Server::start(move |_| answer("200 OK", &["content-encoding: gzip"], &bomb)).await;
    let error = get(&server, 100_000).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
}

#[tokio::test]
async fn a_packed_answer_arrives_unpacked() {
    let packed = gzipped_zeros(128 * 1024);
    let server =
        Server::start(move |_| answer("200 OK", &["content-encoding: gzip"], &packed)).await;
    assert_eq!(get(&server, 1_000_000).await.unwrap().body.len(), 128 * 1024);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_passing_error() {
    let part = answer_of_length("200 OK", &["content-length: 10"], b"half");
    let server = Server::start(move |_| part.clone()).await;
    let error = get(&server, 100).await.unwrap_err();
    assert!(matches!(error, Error::Body { .. }) && error.is_passing(), "{error}");
}

#[tokio::test]
async fn a_host_that_never_finishes_is_cut_at_the_deadline() {
    for part in [
        STAYS_OPEN.to_vec(),
        b"HTTP/1.1 200 OK\r\nx-slow: [stays open]".to_vec(),
        answer_of_length("200 OK", &["content-length: 10"], b"abc[stays open]"),
    ] {
        let server = Server::start(move |_| part.clone()).await;
        let request = Request::new(server.url("/")).deadline(Duration::from_millis(300));
        let error = fetch(development()).get(request).await.unwrap_err();
        assert!(matches!(error, Error::Timeout { deadline_ms: 300, .. }), "{error}");
        assert!(error.is_passing());
    }
}

#[tokio::test]
async fn a_file_holds_the_answer_and_is_gone_where_there_is_none() {
    let server = Server::start(|request| match request.split(' ').nth(1) {
        Some("/good") => answer("200 OK", &["content-type: image/png"], &[7; 5000]),
        Some("/large") => answer_of_length("200 OK", &[], &[7; 50_000]),
        _ => answer("404 Not Found", &[], b"no"),
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("download");
    let fetch = fetch(development());
    let get = |of| Request::new(server.url(of)).limit_bytes(10_000);

    let saved = fetch.get_to_file(get("/good"), &path).await.unwrap();
    assert_eq!((saved.bytes, saved.media_type().as_str()), (5000, "image/png"));
    assert_eq!(std::fs::read(&path).unwrap(), [7; 5000]);
    std::fs::remove_file(&path).unwrap();

    let error = fetch.get_to_file(get("/large"), &path).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert!(!path.exists());
    let error = fetch.get_to_file(get("/gone"), &path).await.unwrap_err();
    assert_eq!(error.status().unwrap().as_u16(), 404);
    assert!(!path.exists() && !error.is_passing());
}

#[tokio::test]
async fn a_post_carries_its_body_and_headers() {
    let server = Server::start(|request| answer("202 Accepted", &[], request.as_bytes())).await;
    let request = Request::new(server.url("/inbox?a=b")).content_type("application/activity+json");
    let response = fetch(development()).post(request, Bytes::from_static(b"{}")).await.unwrap();
    let seen = String::from_utf8(response.body.to_vec()).unwrap();
    assert!(seen.starts_with("POST /inbox?a=b HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains("content-type: application/activity+json\r\n"), "{seen}");
    assert!(seen.contains(&format!("host: {}\r\n", server.host())), "{seen}");
    assert!(seen.contains("user-agent: weir/"), "{seen}");
    assert!(seen.ends_with("\r\n\r\n{}"), "{seen}");
}
