//! Web Push: where a person's devices want to be told, and the job that tells them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_db::{Class, Json, Tx, params};
use weir_jobs::{Delay, Job, Last, Queue, Retry};

use crate::notifications::{Kind, Notice};
use crate::{Env, Error};

/// What happened longer ago is not pushed, unless it mentions the receiver.
const FRESH_MS: i64 = 10 * 60 * 1_000;

/// Which notifications a device wants, by the Mastodon API's names.
pub type Alerts = std::collections::BTreeMap<String, bool>;

weir_db::record! {
    /// Where one device of a person wants to be told (RFC 8030), bound to one token.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Subscription {
        /// Its id.
        pub id: Id,
        /// The token it was made with, and ends with.
        pub token_id: Id,
        /// Whose.
        pub account_id: Id,
        /// Where to post.
        pub endpoint: String,
        /// The device's public key: an uncompressed point on P-256, 65 bytes.
        pub p256dh: Vec<u8>,
        /// The device's authentication secret, 16 bytes.
        pub auth: Vec<u8>,
        /// Which kinds it wants.
        pub alerts: Json<Alerts>,
        /// From whom: `all`, `followed`, `follower` or `none`.
        pub policy: String,
        /// Whether the device knows RFC 8291; otherwise its draft of 2016 is spoken.
        pub standard: bool,
    }
}

/// A subscription as a device asks for it.
#[derive(Debug, Clone)]
pub struct NewSubscription {
    /// Where to post; `https` only, but for development.
    pub endpoint: String,
    /// The device's public key.
    pub p256dh: Vec<u8>,
    /// The device's authentication secret.
    pub auth: Vec<u8>,
    /// Which kinds it wants.
    pub alerts: Alerts,
    /// From whom; `all` when empty.
    pub policy: String,
    /// Whether the device knows RFC 8291.
    pub standard: bool,
}

/// The job that tells one device of one notification.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SendPush {
    /// The device.
    pub subscription: Id,
    /// The notification.
    pub notification: Id,
    /// Whose.
    pub account: Id,
}

impl Job for SendPush {
    const KIND: &'static str = "push";
    const QUEUE: Queue = Queue::new("push", Class::Outbound);
    // What could not be told for an hour is not worth telling.
    const RETRY: Retry = Retry { attempts_max: 5, delay: Delay::Growing, last: Last::Discard };

    fn lane(&self) -> Cow<'_, str> {
        Cow::Owned(self.account.to_string())
    }
}

/// The job that tells one device of a message in chat.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SendChat {
    /// The device.
    pub subscription: Id,
    /// Whose.
    pub account: Id,
    /// The message.
    pub message: Id,
    /// Who wrote it, where it is somebody of here.
    pub from: Option<Id>,
    /// What they call themselves, or their address.
    pub name: String,
    /// How it begins.
    pub says: String,
}

impl Job for SendChat {
    const KIND: &'static str = "push_chat";
    const QUEUE: Queue = SendPush::QUEUE;
    const RETRY: Retry = SendPush::RETRY;

    fn lane(&self) -> Cow<'_, str> {
        Cow::Owned(self.account.to_string())
    }
}

fn check(new: &NewSubscription) -> Result<(), Error> {
    let secure = new.endpoint.starts_with("https://") || new.endpoint.starts_with("http://");
    if !secure || new.endpoint.len() > 2_000 {
        return Err(Error::invalid("endpoint", "ERR_INVALID", "must be a valid URL"));
    }
    if new.p256dh.len() != 65 || new.p256dh.first() != Some(&4) {
        return Err(Error::invalid("key_p256dh", "ERR_INVALID", "must be a point on P-256"));
    }
    if new.auth.len() != 16 {
        return Err(Error::invalid("key_auth", "ERR_INVALID", "must have 16 bytes"));
    }
    if !matches!(new.policy.as_str(), "" | "all" | "followed" | "follower" | "none") {
        let message = "must be all, followed, follower or none";
        return Err(Error::invalid("policy", "ERR_INCLUSION", message));
    }
    Ok(())
}

/// Sets the one subscription of `token`.
///
/// # Errors
/// [`Error::Invalid`].
pub fn subscribe(
    tx: &mut Tx,
    env: &Env,
    token: Id,
    account: Id,
    new: &NewSubscription,
) -> Result<Subscription, Error> {
    check(new)?;
    unsubscribe(tx, token)?;
    let policy = if new.policy.is_empty() { "all" } else { new.policy.as_str() };
    tx.run(
        "INSERT INTO push_subscriptions (id, token_id, account_id, endpoint, p256dh, auth, alerts,
           policy, standard) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            env.ids.next(),
            token,
            account,
            new.endpoint,
            new.p256dh,
            new.auth,
            Json(&new.alerts),
            policy,
            new.standard
        ],
    )?;
    by_token(tx, token)
}

/// The subscription of `token`.
///
/// # Errors
/// [`Error::NotFound`].
pub fn by_token(tx: &mut Tx, token: Id) -> Result<Subscription, Error> {
    tx.record("SELECT {} FROM push_subscriptions WHERE token_id = ?1", params![token])?
        .ok_or(Error::NotFound("Subscription"))
}

/// Subscription `id`, if it is still there.
///
/// # Errors
/// The database's.
pub fn by_id(tx: &mut Tx, id: Id) -> Result<Option<Subscription>, Error> {
    Ok(tx.record("SELECT {} FROM push_subscriptions WHERE id = ?1", params![id])?)
}

/// Changes what `token`'s device wants.
///
/// # Errors
/// [`Error::NotFound`].
pub fn update(
    tx: &mut Tx,
    token: Id,
    alerts: Option<Alerts>,
    policy: Option<&str>,
) -> Result<Subscription, Error> {
    by_token(tx, token)?;
    if policy.is_some_and(|one| !matches!(one, "all" | "followed" | "follower" | "none")) {
        let message = "must be all, followed, follower or none";
        return Err(Error::invalid("policy", "ERR_INCLUSION", message));
    }
    tx.run(
        "UPDATE push_subscriptions SET alerts = coalesce(?2, alerts),
           policy = coalesce(?3, policy) WHERE token_id = ?1",
        params![token, alerts.map(Json), policy],
    )?;
    by_token(tx, token)
}

/// Ends `token`'s subscription. Without one it is no error.
///
/// # Errors
/// The database's.
pub fn unsubscribe(tx: &mut Tx, token: Id) -> Result<(), Error> {
    tx.run("DELETE FROM push_subscriptions WHERE token_id = ?1", params![token])?;
    Ok(())
}

/// Ends subscription `id`: its device is gone.
///
/// # Errors
/// The database's.
pub fn forget(tx: &mut Tx, id: Id) -> Result<(), Error> {
    tx.run("DELETE FROM push_subscriptions WHERE id = ?1", params![id])?;
    Ok(())
}

/// Writes a job for each device that wants to know of one of these notifications.
pub(crate) fn enqueue_each(tx: &mut Tx, env: &Env, notices: &[(Notice, Id)]) -> Result<(), Error> {
    let now = env.clock.now();
    let is_wanted = |notice: &Notice| {
        let happened = notice.status.map_or(now, Id::time);
        let is_old = now.since_ms(happened) > FRESH_MS;
        !(is_old && matches!(notice.kind, Kind::Status | Kind::Update))
    };
    let wanted: Vec<&(Notice, Id)> =
        notices.iter().filter(|(notice, _)| is_wanted(notice)).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let people = wanted.iter().map(|(notice, _)| &notice.to);
    let devices = devices(tx, people)?;
    for (notice, id) in wanted {
        let Notice { to, kind, from, .. } = *notice;
        for device in devices.iter().filter(|device| device.account_id == to) {
            let is_asked_for = device.alerts.0.get(kind.name()).copied().unwrap_or(false);
            if is_asked_for && device.hears(tx, Some(from))? {
                let job = SendPush { subscription: device.id, notification: *id, account: to };
                env.jobs.enqueue(tx, &job)?;
            }
        }
    }
    Ok(())
}

/// The devices of these people.
pub(crate) fn devices<'i>(
    tx: &mut Tx,
    people: impl IntoIterator<Item = &'i Id>,
) -> Result<Vec<Subscription>, Error> {
    let sql = "SELECT {} FROM push_subscriptions WHERE account_id IN ids(?1)";
    Ok(tx.records(sql, &[weir_db::ids(people)])?)
}

impl Subscription {
    /// Whether the device wants to hear of what this account does, or somebody who has none here.
    pub(crate) fn hears(&self, tx: &mut Tx, from: Option<Id>) -> Result<bool, Error> {
        let to = self.account_id;
        let (follower, followed) = match (self.policy.as_str(), from) {
            ("none", _) | ("followed" | "follower", None) => return Ok(false),
            ("followed", Some(from)) => (to, from),
            ("follower", Some(from)) => (from, to),
            _ => return Ok(true),
        };
        let sql = "SELECT 1 FROM follows WHERE account_id = ?1 AND target_id = ?2";
        Ok(tx.value::<i64>(sql, params![follower, followed])?.is_some())
    }
}
