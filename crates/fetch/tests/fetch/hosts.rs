//! Breakers, places and the bounded table.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use url::Url;
use weir_base::{Clock, Timestamp};
use weir_fetch::{BreakerState, Error, Fetch, Options, Request, Response};

use crate::server::{STAYS_OPEN, Server, answer, development, fetch};

fn manual() -> (Clock, Options) {
    let clock = Clock::manual(Timestamp::from_ms(1_700_000_000_000));
    (clock.clone(), Options { clock, ..development() })
}

async fn get(fetch: &Fetch, url: &Url) -> Result<Response, Error> {
    fetch.get(Request::new(url.clone())).await
}

/// A port where nothing listens.
async fn dead() -> Url {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap()
}

#[tokio::test]
async fn a_dead_host_is_left_alone_and_probed_once_its_time_is_over() {
    let (clock, options) = manual();
    let (fetch, url) = (fetch(options), dead().await);
    for _ in 0..5 {
        let error = get(&fetch, &url).await.unwrap_err();
        assert!(matches!(error, Error::Connect { .. }) && error.is_passing(), "{error}");
    }
    let error = get(&fetch, &url).await.unwrap_err();
    assert_eq!(error.retry_after_ms(), Some(30_000), "{error}");
    assert!(matches!(error, Error::Open { .. }) && error.is_passing());

    clock.advance(30_000);
    let error = get(&fetch, &url).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "the probe: {error}");
    let error = get(&fetch, &url).await.unwrap_err();
    assert_eq!(error.retry_after_ms(), Some(60_000), "{error}");
}

#[tokio::test]
async fn who_insists_goes_to_a_host_that_is_left_alone_and_changes_nothing_for_others() {
    let (_, options) = manual();
    let fetch = fetch(options);
    let server = Server::start(|asked| match asked.starts_with("POST") {
        true if asked.starts_with("POST /busy") => {
            answer("429 Too Many Requests", &["Retry-After: 3600"], b"")
        }
        true => answer("202 Accepted", &[], b""),
        false => answer("502 Bad Gateway", &[], b""),
    })
    .await;
    let url = server.url("/");
    for _ in 0..5 {
        get(&fetch, &url).await.unwrap();
    }
    for (path, status) in [("/", 202), ("/busy", 429)] {
        let request = Request::new(server.url(path)).insist();
        let posted = fetch.post(request, Vec::new().into()).await.unwrap();
        assert_eq!(posted.status.as_u16(), status);
        let error = get(&fetch, &url).await.unwrap_err();
        assert!(matches!(error, Error::Open { .. }), "{error}");
        assert_eq!(error.retry_after_ms(), Some(30_000), "{path}");
    }
    let posted = fetch.post(Request::new(url.clone()), Vec::new().into()).await;
    assert!(matches!(posted, Err(Error::Open { .. })), "who does not insist");
}

#[tokio::test]
async fn a_host_that_comes_back_is_asked_as_before() {
    let (clock, options) = manual();
    let fetch = fetch(options);
    let away = Arc::new(AtomicBool::new(true));
    let seen = away.clone();
    let server = Server::start(move |_| match seen.load(Ordering::SeqCst) {
        true => answer("502 Bad Gateway", &[], b""),
        false => answer("200 OK", &[], b"back"),
    })
    .await;
    let url = server.url("/");
    for _ in 0..5 {
        assert_eq!(get(&fetch, &url).await.unwrap().status.as_u16(), 502);
    }
    assert!(matches!(get(&fetch, &url).await, Err(Error::Open { .. })));
    away.store(false, Ordering::SeqCst);
    clock.advance(30_000);
    assert_eq!(get(&fetch, &url).await.unwrap().body, "back");
    assert_eq!(fetch.hosts()[0].breaker, BreakerState::Closed);
}

#[tokio::test]
async fn the_operator_may_have_a_host_asked_at_once() {
    let (_, options) = manual();
    let (fetch, url) = (fetch(options), dead().await);
    for _ in 0..5 {
        get(&fetch, &url).await.unwrap_err();
    }
    assert!(matches!(fetch.hosts()[0].breaker, BreakerState::Open { .. }));
    let unknown = url::Url::parse("https://unknown.example/").unwrap();
    assert!(fetch.retry_host(&url) && !fetch.retry_host(&unknown));
    assert!(matches!(get(&fetch, &url).await, Err(Error::Connect { .. })));
}

#[tokio::test]
async fn a_host_that_asks_for_a_pause_gets_it() {
    let (clock, options) = manual();
    let fetch = fetch(options);
    let server = Server::start(|_| answer("429 Too Many Requests", &["retry-after: 7"], b"")).await;
    let response = get(&fetch, &server.url("/")).await.unwrap();
    let error = response.success(clock.now()).unwrap_err();
    assert_eq!(error.retry_after_ms(), Some(7_000));
    assert!(error.is_passing());
    let error = get(&fetch, &server.url("/")).await.unwrap_err();
    assert_eq!(error.retry_after_ms(), Some(7_000), "{error}");
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn answers_that_only_tell_against_the_request_do_not_open_the_breaker() {
    let (_, options) = manual();
    let fetch = fetch(options);
    let server = Server::start(|_| answer("500 Internal Server Error", &[], b"")).await;
    for _ in 0..10 {
        assert_eq!(get(&fetch, &server.url("/")).await.unwrap().status.as_u16(), 500);
    }
}

#[tokio::test]
async fn a_slow_host_keeps_only_its_own_requests_waiting() {
    let options = Options {
        connections_per_host: 1,
        waiting_per_host_max: 1,
        in_flight_max: 2,
        ..development()
    };
    let fetch = fetch(options);
    let slow = Server::start(|_| STAYS_OPEN.to_vec()).await;
    let fast = Server::start(|_| answer("200 OK", &[], b"fast")).await;
    let ask = |deadline_ms| {
        let (fetch, url) = (fetch.clone(), slow.url("/"));
        let deadline = Duration::from_millis(deadline_ms);
        tokio::spawn(async move { fetch.get(Request::new(url).deadline(deadline)).await })
    };
    let (runs, waits) = (ask(60_000), ask(60_000));
    while fetch.hosts().first().is_none_or(|host| host.running + host.waiting < 2) {
        tokio::task::yield_now().await;
    }
    // One runs, one waits; the third finds no room, and another host has all it needs.
    let third = ask(60_000).await.unwrap();
    assert!(matches!(third, Err(Error::Busy { .. })));
    for _ in 0..3 {
        assert_eq!(get(&fetch, &fast.url("/")).await.unwrap().body, "fast");
    }
    waits.abort();
    assert!(waits.await.unwrap_err().is_cancelled());
    // Its place in the queue is free again: this one waits until its time is over.
    assert!(matches!(ask(50).await.unwrap(), Err(Error::Busy { .. })));
    runs.abort();
}

#[tokio::test]
async fn the_table_of_hosts_stays_within_its_limit() {
    let (_, options) = manual();
    let fetch = fetch(Options { hosts_max: 8, ..options });
    let broken = dead().await;
    for _ in 0..5 {
        get(&fetch, &broken).await.unwrap_err();
    }
    let mut servers = Vec::new();
    for _ in 0..20 {
        let server = Server::start(|_| answer("200 OK", &[], b"")).await;
        get(&fetch, &server.url("/")).await.unwrap();
        servers.push(server);
        assert!(fetch.hosts().len() <= 8);
    }
    // Hosts that answer are forgotten before one that does not.
    assert!(matches!(get(&fetch, &broken).await, Err(Error::Open { .. })));
}
