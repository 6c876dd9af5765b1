//! What is told, and by whom.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::json;
use tokio::sync::Mutex;

use super::count::Count;
use super::wire::{TEXT, Wire};
use crate::api::Api;

/// Who tells it.
pub(super) enum Publisher {
    /// Somebody who posts.
    Mastodon {
        /// The server.
        api: Api,
        /// Whose token.
        token: String,
    },
    /// Whoever sends it to an address of the server.
    Http {
        /// Sends.
        client: reqwest::Client,
        /// Where to.
        url: String,
    },
    /// Speakers who hear themselves.
    Echo(Vec<Arc<Mutex<Wire>>>),
    /// Nobody: only connecting can be measured.
    Nobody,
}

impl Publisher {
    /// Tells message `number`, due at `due`.
    pub(super) async fn publish(
        &self,
        count: &Count,
        number: usize,
        due: Instant,
        text: String,
    ) -> Result<()> {
        count.due(number, due);
        match self {
            Self::Mastodon { api, token } => {
                let post = json!({ "status": text, "visibility": "public" });
                api.post(token, "/api/v1/statuses", &post).await?;
            }
            Self::Http { client, url } => {
                let answer = client.post(url).body(text).send().await;
                answer.and_then(reqwest::Response::error_for_status).context("--publish fails")?;
            }
            Self::Echo(speakers) => {
                let Some(speaker) = speakers.get(number % speakers.len().max(1)) else {
                    return Ok(());
                };
                let mut speaker = speaker.lock().await;
                speaker.send(TEXT, text.as_bytes()).await?;
                let mut heard = false;
                while !heard {
                    let read = speaker
                        .read(|_, payload| {
                            heard = true;
                            count.got(number, payload);
                        })
                        .await?;
                    anyhow::ensure!(read > 0, "the server closed the connection");
                }
            }
            Self::Nobody => {}
        }
        Ok(())
    }
}
