//! Redirects, and private addresses behind them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use url::Url;
use weir_fetch::{Error, Options, Request};

use crate::server::{Server, answer, development, fetch};

/// A server that redirects `/N` to `/N-1` and answers `/0` with the request it got.
async fn countdown(status: &'static str) -> Server {
    Server::start(move |request| {
        let path = request.split(' ').nth(1).unwrap_or("/");
        match path.trim_start_matches('/').parse::<u32>() {
            Ok(0) | Err(_) => answer("200 OK", &[], request.as_bytes()),
            Ok(left) => answer(status, &[&format!("location: /{}", left - 1)], b""),
        }
    })
    .await
}

#[tokio::test]
async fn five_redirects_are_followed_and_six_are_not() {
    let server = countdown("302 Found").await;
    let fetch = fetch(development());
    let response = fetch.get(Request::new(server.url("/5"))).await.unwrap();
    assert_eq!(response.final_url, server.url("/0"));
    let error = fetch.get(Request::new(server.url("/6"))).await.unwrap_err();
    assert!(matches!(error, Error::Redirects { max: 5, .. }), "{error}");
}

#[tokio::test]
async fn a_circle_of_redirects_ends() {
    let server = Server::start(|_| answer("301 Moved", &["location: /"], b"")).await;
    let error = fetch(development()).get(Request::new(server.url("/"))).await.unwrap_err();
    assert!(matches!(error, Error::Redirects { .. }) && !error.is_passing(), "{error}");
    assert_eq!(server.requests(), 6);
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_refused() {
    let server = Server::start(|request| {
        let to = match request.split(' ').nth(1) {
            Some("/name") => "http://localhost/",
            _ => "http://169.254.169.254/latest/meta-data/",
        };
        answer("302 Found", &[&format!("location: {to}")], b"")
    })
    .await;
    // The operator's table lets the first hop through; no private address besides.
    let resolve = HashMap::from([("remote.example".to_owned(), server.address)]);
    let options = Options { allow_http: true, resolve, ..Options::default() };
    let fetch = fetch(options);
    for path in ["/name", "/literal"] {
        let url = Url::parse(&format!("http://remote.example{path}")).unwrap();
        let error = fetch.get(Request::new(url)).await.unwrap_err();
        assert!(matches!(error, Error::Private { .. }) && !error.is_passing(), "{error}");
    }
    assert_eq!(server.requests(), 2);
}

#[tokio::test]
async fn a_name_that_stands_for_this_machine_is_refused() {
    let server = Server::start(|_| answer("200 OK", &[], b"secret")).await;
    let options = Options { allow_http: true, ..Options::default() };
    let error = fetch(options).get(Request::new(Url::parse("http://localhost/").unwrap())).await;
    assert!(matches!(error, Err(Error::Private { .. })));
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn each_hop_is_signed_for_its_own_url() {
    let server = countdown("307 Temporary Redirect").await;
    let sign = |method: &Method, url: &Url| {
        let value = HeaderValue::try_from(format!("{method} {}", url.path())).unwrap();
        HeaderMap::from_iter([(HeaderName::from_static("signature"), value)])
    };
    let fetch = fetch(development());
    let request = Request::new(server.url("/1")).sign(Arc::new(sign));
    let response = fetch.get(request.clone()).await.unwrap();
    let seen = String::from_utf8(response.body.to_vec()).unwrap();
    assert!(seen.contains("signature: GET /0\r\n"), "{seen}");
    assert!(!seen.contains("GET /1"), "{seen}");

    let response = fetch.post(request, Bytes::from_static(b"body")).await.unwrap();
    let seen = String::from_utf8(response.body.to_vec()).unwrap();
    assert!(seen.contains("signature: POST /0\r\n") && seen.ends_with("body"), "{seen}");
}

#[tokio::test]
async fn a_post_is_not_turned_into_a_get() {
    let server = countdown("302 Found").await;
    let request = Request::new(server.url("/1"));
    let response = fetch(development()).post(request, Bytes::from_static(b"x")).await.unwrap();
    assert_eq!((response.status.as_u16(), server.requests()), (302, 1));
    let now = weir_base::Clock::system().now();
    assert!(!response.success(now).unwrap_err().is_passing());
}

#[tokio::test]
async fn credentials_are_not_sent_on_to_another_host() {
    let other = Server::start(|request| answer("200 OK", &[], request.as_bytes())).await;
    let location = format!("location: {}", other.url("/"));
    let server = Server::start(move |_| answer("302 Found", &[&location], b"")).await;
    let request = Request::new(server.url("/"))
        .header(AUTHORIZATION, HeaderValue::from_static("Bearer secret"))
        .accept("application/json");
    let response = fetch(development()).get(request).await.unwrap();
    let seen = String::from_utf8(response.body.to_vec()).unwrap();
    assert!(seen.contains("accept: application/json") && !seen.contains("secret"), "{seen}");
}

#[tokio::test]
async fn who_stays_on_a_host_is_told_where_it_leads() {
    let other = Server::start(|request| answer("200 OK", &[], request.as_bytes())).await;
    let location = format!("location: {}", other.url("/there"));
    let server = Server::start(move |request| match request.starts_with("GET /near") {
        true => answer("302 Found", &["location: /"], b""),
        // What stands beside it is not read.
        false => answer("302 Found", &[&location, "content-encoding: gzip"], b"not packed"),
    })
    .await;
    let request = Request::new(server.url("/near")).stay_on_host();
    let response = fetch(development()).get(request).await.unwrap();
    assert_eq!(
        (response.final_url, response.leads_to),
        (server.url("/"), Some(other.url("/there")))
    );
    assert_eq!(other.requests(), 0);
}
