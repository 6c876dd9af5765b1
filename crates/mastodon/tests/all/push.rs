//! Devices that want to be told, and what reaches them.

use std::sync::Arc;

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as B64;
use http::{HeaderMap, Method};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use weir_base::Clock;
use weir_community::chat::messages::Side;
use weir_community::chat::{self, push::Waits};
use weir_community::statuses::Visibility;
use weir_fetch::{Fetch, Options};
use weir_jobs::{Registry, Workers};
use weir_mastodon::push::{self, Vapid};

use crate::place::{Place, places};

/// A push service that notes what it gets.
async fn service() -> (String, mpsc::Receiver<(HeaderMap, Vec<u8>)>) {
    let (sender, received) = mpsc::channel(8);
    let router = axum::Router::new().route(
        "/device",
        axum::routing::post(async move |headers: HeaderMap, body: bytes::Bytes| {
            sender.send((headers, body.to_vec())).await.unwrap();
            http::StatusCode::CREATED
        }),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    (format!("http://{address}/device"), received)
}

/// Works what is to be pushed until it is cancelled.
fn work(place: &Place) -> (tempfile::TempDir, Workers, CancellationToken) {
    let data = tempfile::tempdir().unwrap();
    let vapid = Vapid::open(data.path(), "mailto:staff@weir.test".into()).unwrap();
    let fetch = Fetch::new(Options {
        allow_private: true,
        allow_http: true,
        clock: Clock::system(),
        ..Options::default()
    })
    .unwrap();
    let mut registry = Registry::new();
    push::register(&mut registry, place.community.clone(), fetch, Arc::new(vapid));
    registry.simple_unit(
        |_, batch: &[weir_jobs::Claimed<weir_community::federation::Distribute>]| {
            Ok(batch.iter().map(|_| weir_jobs::Outcome::Done).collect())
        },
    );
    weir_community::search::register(&mut registry, &place.community);
    let ended = CancellationToken::new();
    let workers = place.community.env().jobs.start(registry, ended.clone()).unwrap();
    (data, workers, ended)
}

/// What a device asks for that is told at `endpoint` of what `alert` names.
fn device(endpoint: &str, alert: &str) -> serde_json::Value {
    let own = PrivateKey::generate(&ECDH_P256).unwrap();
    let own = B64.encode(own.compute_public_key().unwrap().as_ref());
    json!({
        "subscription": {
            "endpoint": endpoint,
            "keys": { "p256dh": own, "auth": B64.encode([7; 16]) },
            "standard": true
        },
        "data": { "alerts": { alert: true }, "policy": "all" }
    })
}

#[tokio::test]
async fn a_device_is_told_of_a_mention_in_the_form_it_knows() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let (endpoint, mut received) = service().await;
        let asked = device(&endpoint, "mention");
        let made = place.do_post("/api/v1/push/subscription", &bob, asked).await;
        assert_eq!(made["alerts"]["mention"], true);
        assert_eq!(made["alerts"]["follow"], false);
        assert_eq!(made["alerts"].get("chat"), None);
        let (_data, workers, ended) = work(&place);
        place.post(&alice, "@bob wake up", Visibility::Public).await;
        let (headers, body) = received.recv().await.unwrap();
        assert_eq!(headers["content-encoding"], "aes128gcm");
        assert!(headers["authorization"].to_str().unwrap().starts_with("vapid t="));
        assert!(body.len() > 100);
        ended.cancel();
        drop(workers);
    }
}

#[tokio::test]
async fn a_device_that_asks_for_it_is_told_of_a_message_in_chat() {
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let (endpoint, mut received) = service().await;
        let asked = device(&endpoint, "chat");
        let made = place.do_post("/api/v1/push/subscription", &bob, asked).await;
        assert_eq!(made["alerts"]["chat"], true);
        let (_data, workers, ended) = work(&place);
        let side = |account, jid: &str| Side { account: Some(account), jid: jid.into() };
        let (from, to) = (side(alice.id, "alice@weir.test/x"), side(bob.id, "bob@weir.test"));
        let told = place.write(move |tx, env| {
            let message = env.ids.next();
            let (from, to, says) = (from.clone(), to.clone(), "wake up".into());
            chat::push::tell_devices(tx, env, &[Waits { message, from, to, says }])
        });
        told.await;
        let (headers, body) = received.recv().await.unwrap();
        assert_eq!(headers["content-encoding"], "aes128gcm");
        assert!(body.len() > 100);
        ended.cancel();
        drop(workers);
    }
}

#[tokio::test]
async fn a_subscription_can_be_looked_at_changed_and_ended_and_bad_keys_are_refused() {
    for place in places() {
        let bob = place.person("bob").await;
        let path = "/api/v1/push/subscription";
        assert_eq!(place.refused(Method::GET, path, &bob, json!(null)).await.0, 404);
        let bad = json!({ "subscription": { "endpoint": "https://push.test/1" } });
        assert_eq!(place.refused(Method::POST, path, &bob, bad).await.0, 422);
        let key = B64.encode([4; 65]);
        let good = json!({ "subscription": { "endpoint": "https://push.test/1",
            "keys": { "p256dh": key, "auth": B64.encode([7; 16]) } } });
        place.do_post(path, &bob, good).await;
        let wish = json!({ "data": { "alerts": { "follow": true }, "policy": "followed" } });
        let answer = place.call(Method::PUT, path, Some(&bob), wish).await;
        assert_eq!(answer.body["policy"], "followed");
        assert_eq!(place.get(path, &bob).await["alerts"]["follow"], true);
        place.call(Method::DELETE, path, Some(&bob), json!(null)).await;
        assert_eq!(place.refused(Method::GET, path, &bob, json!(null)).await.0, 404);
    }
}
