//! A job as Sidekiq writes it: reading, making and rewriting. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use weir_base::{Id, Timestamp};

use super::{args, jid};
use crate::rows::Claim;
use crate::{Last, Retry};

/// How moments are written inside of jobs. Both forms are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Times {
    /// Seconds with a fraction, as Sidekiq up to 7 does.
    #[default]
    Seconds,
    /// Whole milliseconds, as Sidekiq 8 does.
    Millis,
}

impl Times {
    pub(crate) fn text(self, at: Timestamp) -> String {
        match self {
            Self::Seconds => seconds(at),
            Self::Millis => at.as_ms().to_string(),
        }
    }
}

/// `at` in seconds: how scores are written in every version.
pub(crate) fn seconds(at: Timestamp) -> String {
    let ms = at.as_ms().max(0);
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}

/// The moment of a score.
pub(crate) fn from_seconds(seconds: f64) -> Timestamp {
    // Out of range saturates.
    Timestamp::from_ms((seconds * 1_000.0).round() as i64)
}

/// The moment that a number in a job tells: a fraction is of seconds, a whole number is of
/// milliseconds, unless it is so small that only seconds make sense.
pub(crate) fn time(number: &serde_json::Number) -> Option<Timestamp> {
    const SECONDS_BELOW: i64 = 100_000_000_000;
    match number.as_i64() {
        Some(whole) if whole < SECONDS_BELOW => Some(from_seconds(whole as f64)),
        Some(ms) => Some(Timestamp::from_ms(ms)),
        None => number.as_f64().map(from_seconds),
    }
}

/// What is read of each job that is taken.
#[derive(Deserialize)]
pub(crate) struct Job<'a> {
    #[serde(borrow)]
    pub(crate) class: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) args: &'a RawValue,
    #[serde(borrow)]
    pub(crate) jid: Cow<'a, str>,
    #[serde(default)]
    pub(crate) retry_count: Option<i64>,
    #[serde(default)]
    pub(crate) created_at: Option<serde_json::Number>,
    #[serde(default)]
    pub(crate) enqueued_at: Option<serde_json::Number>,
    /// Ours; others keep it.
    #[serde(default, borrow)]
    pub(crate) weir: Option<Own<'a>>,
}

/// What only we know of a job.
#[derive(Deserialize)]
pub(crate) struct Own<'a> {
    #[serde(default, borrow)]
    pub(crate) lane: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(crate) key: Option<Cow<'a, str>>,
    /// In ms.
    #[serde(default)]
    pub(crate) expires_at: Option<i64>,
    #[serde(default)]
    pub(crate) batch: Option<i64>,
}

impl<'a> Job<'a> {
    pub(crate) fn parse(raw: &'a [u8]) -> Result<Self, String> {
        let job: Self = serde_json::from_slice(raw).map_err(|error| error.to_string())?;
        if !job.args.get().trim_start().starts_with('[') {
            return Err("its arguments are no array".into());
        }
        Ok(job)
    }

    /// Its id, if it is a member of a batch.
    pub(crate) fn member(&self) -> Option<Id> {
        self.weir.as_ref()?.batch.map(|_| jid::id(&self.jid))
    }

    /// Which attempt this is, from 1.
    pub(crate) fn attempt(&self) -> u32 {
        // Sidekiq's button for a retry by hand takes one off, so it may be -1.
        let count = self.retry_count.map_or(1, |count| count.saturating_add(2).max(1));
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// As handlers take it. `kind` is the name of its type here.
    pub(crate) fn claim(&self, kind: &str) -> Claim {
        let own = self.weir.as_ref();
        let created_at = self.created_at.as_ref().and_then(time);
        let ready_at = self.enqueued_at.as_ref().and_then(time);
        let unknown = Timestamp::from_ms(0);
        Claim {
            lane: own.map_or("", |own| own.lane.as_ref()).into(),
            id: jid::id(&self.jid),
            kind: kind.to_owned().into(),
            attempt: self.attempt(),
            enqueued_at: created_at.or(ready_at).unwrap_or(unknown),
            ready_at: ready_at.or(created_at).unwrap_or(unknown),
            unique_key: own.and_then(|own| own.key.as_deref()).map(str::to_owned),
            payload: self.args.get().to_owned(),
            batch_id: own.and_then(|own| own.batch).map(Id),
            expires_at: own.and_then(|own| own.expires_at).map(Timestamp::from_ms),
            postponed_since: None,
            jid: Some(Arc::from(&*self.jid)),
            in_hand: None,
        }
    }
}

/// The field that tells when a job was ready first that was put off since.
pub(crate) const POSTPONED_SINCE: &str = "postponed_since";

/// Where a job goes when it is handed over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A queue.
    Ready,
    /// The schedule, or the set of retries.
    Later,
}

/// A job of the database as Sidekiq would write it.
pub(crate) fn compose(
    row: &Claim,
    queue: &str,
    class: &str,
    retry: &Retry,
    times: Times,
    place: Place,
) -> String {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let created_at = times.text(row.enqueued_at);
    let mut job = format!(
        r#"{{"class":{},"args":{},"jid":"{}","queue":{},"retry":{},"created_at":{created_at}"#,
        text(class),
        args::write(&row.payload),
        jid::of(row.id),
        text(queue),
        retry.attempts_max.max(1) - 1,
    );
    if place == Place::Ready {
        job.push_str(&format!(r#","enqueued_at":{}"#, times.text(row.ready_at)));
    }
    if let Some(since) = row.postponed_since {
        job.push_str(&format!(r#","{POSTPONED_SINCE}":{}"#, times.text(since)));
    }
    if retry.last == Last::Discard {
        job.push_str(r#","dead":false"#);
    }
    if row.attempt > 1 {
        job.push_str(&format!(r#","retry_count":{}"#, row.attempt - 2));
        // Sidekiq Web cannot show a retry without them; all that is known is that it was later.
        job.push_str(&format!(r#","failed_at":{created_at},"retried_at":{created_at}"#));
    }
    let rest = [row.expires_at.map(Timestamp::as_ms), row.batch_id.map(|id| id.0)];
    if !row.lane.is_empty() || row.unique_key.is_some() || rest != [None, None] {
        let own = serde_json::json!({
            "lane": &*row.lane, "key": &row.unique_key, "expires_at": rest[0], "batch": rest[1],
        });
        job.push_str(&format!(r#","weir":{own}"#));
    }
    job.push('}');
    job
}

/// A job whose fields can be changed without touching the others.
pub(crate) struct Fields(BTreeMap<String, Box<RawValue>>);

impl Fields {
    pub(crate) fn parse(raw: &[u8]) -> Option<Self> {
        serde_json::from_slice(raw).ok().map(Self)
    }

    pub(crate) fn get<T: for<'d> Deserialize<'d>>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.0.get(name)?.get()).ok()
    }

    pub(crate) fn time(&self, name: &str) -> Option<Timestamp> {
        time(&self.get::<serde_json::Number>(name)?)
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<serde_json::Value>) {
        self.set_raw(name, value.into().to_string());
    }

    pub(crate) fn set_time(&mut self, name: &str, at: Timestamp, times: Times) {
        self.set_raw(name, times.text(at));
    }

    fn set_raw(&mut self, name: &str, json: String) {
        if let Ok(raw) = RawValue::from_string(json) {
            self.0.insert(name.to_owned(), raw);
        }
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn raw(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|raw| raw.get())
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        // A map of texts and raw values always serialises.
        serde_json::to_vec(&self.0).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
