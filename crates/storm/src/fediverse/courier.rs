//! What the fake side sends by itself, outside of any measured part.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use serde_json::Value;
use url::Url;
use weir_base::Clock;

use super::{Fediverse, SignedRequest};

/// How often an answer to a Follow is sent at most, and how long after the first time it is sent
/// again; each further time a little later.
const AGREES_MAX: u32 = 6;
const AGAIN_AFTER: Duration = Duration::from_millis(200);
/// How long an answer is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// Carries activities to the inboxes of people.
#[derive(Clone)]
pub struct Courier {
    client: reqwest::Client,
    /// Inboxes by actor, once they were asked for.
    inboxes: Arc<Mutex<HashMap<String, Url>>>,
}

impl Courier {
    /// One that knows nobody yet.
    ///
    /// # Errors
    /// When the system lacks what a client needs.
    pub fn new() -> Result<Self> {
        let client =
            reqwest::Client::builder().timeout(ANSWER_MAX).pool_max_idle_per_host(64).build()?;
        Ok(Self { client, inboxes: Arc::default() })
    }

    /// Where to send to a person: the shared inbox of their server, if it has one.
    ///
    /// # Errors
    /// When their document cannot be had.
    pub async fn inbox_of(&self, fediverse: &Fediverse, person: &str) -> Result<Url> {
        let known = self.inboxes.lock().ok().and_then(|all| all.get(person).cloned());
        if let Some(known) = known {
            return Ok(known);
        }
        let document = self.document_of(fediverse, person).await?;
        let inbox = document["endpoints"]["sharedInbox"].as_str().or(document["inbox"].as_str());
        let inbox = inbox.with_context(|| format!("{person} has no inbox"))?;
        let inbox = Url::parse(inbox).with_context(|| format!("{inbox} is no address"))?;
        if let Ok(mut inboxes) = self.inboxes.lock() {
            inboxes.insert(person.to_owned(), inbox.clone());
        }
        Ok(inbox)
    }

    /// The document of a person, asked for by the first actor.
    ///
    /// # Errors
    /// When it cannot be had.
    pub(super) async fn document_of(&self, fediverse: &Fediverse, person: &str) -> Result<Value> {
        let url = Url::parse(person).with_context(|| format!("{person} is no address"))?;
        let headers = fediverse.sign_get(0, url.authority(), url.path(), Clock::system().now())?;
        let mut request = self.client.get(url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let document = match request.send().await.and_then(reqwest::Response::error_for_status) {
            Ok(answer) => answer.json().await,
            Err(error) => Err(error),
        };
        document.with_context(|| format!("the document of {person} cannot be had"))
    }

    /// Signs an activity of `actor` and takes it to `person`; the status of the answer.
    ///
    /// # Errors
    /// When nothing is answered in time.
    pub async fn tell(
        &self,
        fediverse: &Fediverse,
        actor: usize,
        person: &str,
        activity: &Value,
    ) -> Result<u16> {
        let inbox = self.inbox_of(fediverse, person).await?;
        let (host, path) = (inbox.authority().to_owned(), inbox.path().to_owned());
        let signed = fediverse.sign(actor, activity, &host, &path, Clock::system().now())?;
        self.send(inbox, signed).await
    }

    /// Sends what is signed already; the status of the answer.
    ///
    /// # Errors
    /// When nothing is answered in time.
    pub async fn send(&self, inbox: Url, signed: SignedRequest) -> Result<u16> {
        let mut request = self.client.post(inbox.clone()).body(signed.body);
        for (name, value) in signed.headers {
            request = request.header(name, value);
        }
        let answer = request.send().await;
        let answer = answer.with_context(|| format!("what is sent to {inbox} is not answered"))?;
        Ok(answer.status().as_u16())
    }

    /// Agrees to a Follow, in the background; sends the answer again where it was not taken, as
    /// servers do.
    pub(super) fn agree(&self, fediverse: &Arc<Fediverse>, follow: Value) {
        let (courier, fediverse) = (self.clone(), fediverse.clone());
        tokio::spawn(async move {
            if let Err(error) = courier.accept(&fediverse, follow).await {
                eprintln!("a Follow could not be answered: {error:#}");
            }
        });
    }

    async fn accept(&self, fediverse: &Fediverse, follow: Value) -> Result<()> {
        let person = follow["actor"].as_str().context("nobody follows")?.to_owned();
        let target = follow["object"].as_str().unwrap_or_default();
        let name = target.rsplit("/users/a").next().unwrap_or_default();
        let actor: usize = name.parse().with_context(|| format!("{target} is nobody here"))?;
        let number = weir_base::Random::system().below(u64::MAX);
        let accept = fediverse.about(actor, "Accept", number, follow);
        let mut attempt = 1;
        loop {
            let told = match self.tell(fediverse, actor, &person, &accept).await {
                Ok(200..=299) => return Ok(()),
                Ok(status) => Err(anyhow!("{person} answered {status}")),
                Err(error) => Err(error),
            };
            if attempt == AGREES_MAX {
                return told;
            }
            tokio::time::sleep(AGAIN_AFTER * attempt).await;
            attempt += 1;
        }
    }
}
