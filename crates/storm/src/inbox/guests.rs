//! People who use the server meanwhile: an open loop, timed from the moment each request was due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::Sample;
use crate::api::Api;

/// What people do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Errand {
    /// They read their home timeline.
    Home,
    /// They look who spoke to them.
    Notifications,
    /// They write.
    Post,
}

/// All errands with their names, and how many of ten requests they are.
pub(super) const ERRANDS: [(Errand, &str, u64); 3] = [
    (Errand::Home, "home", 4),
    (Errand::Notifications, "notifications", 4),
    (Errand::Post, "post", 2),
];

/// Has people (by their tokens) run an errand `per_s` times a second until `stop`.
pub(super) async fn run(
    api: Api,
    tokens: Arc<Vec<String>>,
    errand: Errand,
    per_s: f64,
    began: Instant,
    stop: CancellationToken,
) -> Vec<Sample> {
    let (sender, mut answers) = mpsc::unbounded_channel();
    let first = Instant::now();
    for number in 0_u32.. {
        let due = first + Duration::from_secs_f64(f64::from(number) / per_s);
        tokio::select! {
            () = tokio::time::sleep_until(due.into()) => {}
            () = stop.cancelled() => break,
        }
        let (api, tokens, sender) = (api.clone(), tokens.clone(), sender.clone());
        tokio::spawn(async move {
            let token = &tokens[number as usize % tokens.len()];
            let fine = one(&api, token, errand, number).await;
            // The receiver lives until every sender is gone.
            let _ = sender.send(Sample::new(began, due, Instant::now(), fine));
        });
    }
    drop(sender);
    let mut samples = Vec::new();
    while let Some(sample) = answers.recv().await {
        samples.push(sample);
    }
    samples
}

async fn one(api: &Api, token: &str, errand: Errand, number: u32) -> bool {
    match errand {
        Errand::Home => api.is_answered(token, "/api/v1/timelines/home", None).await,
        Errand::Notifications => api.is_answered(token, "/api/v1/notifications", None).await,
        Errand::Post => {
            let text = format!("Said meanwhile, number {number}, by one who notices nothing.");
            let body = json!({ "status": text });
            api.is_answered(token, "/api/v1/statuses", Some(&body)).await
        }
    }
}
