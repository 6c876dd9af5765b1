//! Telling one device of one notification, or of a message in chat.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as B64;
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use url::Url;
use weir_base::Id;
use weir_community::notifications::{self, Kind, Notification};
use weir_community::push::{self, SendChat, SendPush, Subscription};
use weir_community::{Community, Env, Error as CommunityError, accounts, chat, text, users};
use weir_db::{Class, Tx};
use weir_fetch::{Fetch, Request};
use weir_jobs::{Claimed, Failure, Registry};

use super::{Keys, Vapid, aes128gcm, aesgcm};
use crate::entities;

/// How long a push service keeps what it cannot deliver yet, in s.
const LIFE_S: u32 = 48 * 60 * 60;
/// How long a push service may take.
const DEADLINE: Duration = Duration::from_secs(15);
/// Characters of a text that are shown.
const BODY_CHARACTERS_MAX: usize = 140;
/// Characters of a name that are shown.
const NAME_CHARACTERS_MAX: usize = 60;

/// Handles [`SendPush`] and [`SendChat`].
pub fn register(registry: &mut Registry, community: Community, fetch: Fetch, vapid: Arc<Vapid>) {
    let parts = (community, fetch, vapid);
    let of_chat = parts.clone();
    registry.task(move |claimed: Claimed<SendPush>| {
        let (community, fetch, vapid) = parts.clone();
        async move { send(&community, &fetch, &vapid, &claimed.job).await }
    });
    registry.task(move |claimed: Claimed<SendChat>| {
        let (community, fetch, vapid) = of_chat.clone();
        async move { send_chat(&community, &fetch, &vapid, claimed.job).await }
    });
}

async fn send(
    community: &Community,
    fetch: &Fetch,
    vapid: &Vapid,
    job: &SendPush,
) -> Result<(), Failure> {
    let (device, notification, reader) = (job.subscription, job.notification, job.account);
    let found = community
        .read(Class::Outbound, move |tx, env| prepare(tx, env, device, notification, reader))
        .await
        .map_err(Failure::retry)?;
    let Some((device, payload)) = found else {
        return Err(Failure::Discard("the notification or the device is gone".into()));
    };
    tell(community, fetch, vapid, device, &payload).await
}

async fn send_chat(
    community: &Community,
    fetch: &Fetch,
    vapid: &Vapid,
    job: SendChat,
) -> Result<(), Failure> {
    let found = community
        .read(Class::Outbound, move |tx, env| prepare_chat(tx, env, &job))
        .await
        .map_err(Failure::retry)?;
    let Some((device, payload)) = found else {
        return Err(Failure::Discard("the device is gone".into()));
    };
    tell(community, fetch, vapid, device, &payload).await
}

async fn tell(
    community: &Community,
    fetch: &Fetch,
    vapid: &Vapid,
    device: Subscription,
    payload: &str,
) -> Result<(), Failure> {
    let endpoint: Url = device
        .endpoint
        .parse()
        .map_err(|_| Failure::Discard("the device's address is no URL".into()))?;
    let (request, body) = encrypted(&endpoint, &device, vapid, fetch, payload.as_bytes())?;
    let answer = fetch.post(request, body).await;
    match answer.and_then(|answer| answer.success(fetch.now())) {
        Ok(_) => Ok(()),
        Err(error) if error.status().is_some_and(|status| matches!(status.as_u16(), 404 | 410)) => {
            let id = device.id;
            community
                .write(Class::Outbound, move |tx, _| push::forget(tx, id))
                .await
                .map_err(Failure::retry)?;
            metrics::counter!("weir_mastodon_push_gone_total").increment(1);
            Err(Failure::Discard("the device is gone".into()))
        }
        Err(error) if error.is_passing() => {
            let after_ms = error.retry_after_ms();
            Err(Failure::Retry { reason: error.to_string(), after_ms })
        }
        Err(error) => Err(Failure::Discard(error.to_string())),
    }
}

/// The device and what to tell it; none when either is gone.
fn prepare(
    tx: &mut Tx,
    env: &Env,
    device: Id,
    notification: Id,
    reader: Id,
) -> Result<Option<(Subscription, String)>, CommunityError> {
    let Some(device) = push::by_id(tx, device)? else { return Ok(None) };
    let notification = match notifications::get(tx, env, reader, notification) {
        Ok(found) => found,
        Err(CommunityError::NotFound(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let locale = users::by_account(tx, reader)?.locale;
    let avatar = entities::accounts(tx, env, [notification.account.as_ref()])?;
    let avatar = avatar.first().map(|account| account.avatar.clone()).unwrap_or_default();
    // Apps take the notification from the API by its id; the token that Mastodon puts here would
    // let the push service act for the person.
    let payload = serde_json::json!({
        "access_token": "",
        "preferred_locale": locale,
        "notification_id": notification.id,
        "notification_type": notification.kind.name(),
        "icon": avatar,
        "title": title(&notification),
        "body": body(&notification),
    });
    Ok(Some((device, payload.to_string())))
}

/// The device and what to tell it of a message in chat; none when it is gone.
fn prepare_chat(
    tx: &mut Tx,
    env: &Env,
    job: &SendChat,
) -> Result<Option<(Subscription, String)>, CommunityError> {
    let Some(device) = push::by_id(tx, job.subscription)? else { return Ok(None) };
    let locale = users::by_account(tx, job.account)?.locale;
    let from = accounts::by_ids(tx, job.from.as_slice())?;
    let from = entities::accounts(tx, env, &from)?;
    let icon = from.first().map(|account| account.avatar.clone()).unwrap_or_default();
    let name: String = job.name.chars().take(NAME_CHARACTERS_MAX).collect();
    let payload = serde_json::json!({
        "access_token": "",
        "preferred_locale": locale,
        "notification_id": job.message,
        "notification_type": chat::push::ALERT,
        "icon": icon,
        "title": format!("Message from {name}"),
        "body": job.says,
    });
    Ok(Some((device, payload.to_string())))
}

fn title(notification: &Notification) -> String {
    let account = &notification.account;
    let name =
        if account.display_name.is_empty() { account.acct() } else { account.display_name.clone() };
    let name: String = name.chars().take(NAME_CHARACTERS_MAX).collect();
    match notification.kind {
        Kind::Mention => format!("You were mentioned by {name}"),
        Kind::Status => format!("{name} just posted"),
        Kind::Reblog => format!("Your post was boosted by {name}"),
        Kind::Follow => format!("{name} is now following you"),
        Kind::FollowRequest => format!("Pending follower: {name}"),
        Kind::Favourite => format!("{name} favourited your post"),
        Kind::Poll => format!("A poll by {name} has ended"),
        Kind::Update => format!("{name} edited a post"),
        Kind::AdminSignUp => format!("{name} signed up"),
        Kind::AdminReport => format!("{name} submitted a report"),
        Kind::SeveredRelationships => "Lost connections".into(),
        Kind::ModerationWarning => "You have received a moderation warning".into(),
    }
}

/// The start of the post (its warning, if it has one) or of the profile's text.
fn body(notification: &Notification) -> String {
    let text = match &notification.status {
        Some(view) if !view.post().status.spoiler.is_empty() => view.post().status.spoiler.clone(),
        Some(view) => text::plain(&view.post().status.content),
        None => text::plain(&notification.account.note),
    };
    let mut short: String = text.chars().take(BODY_CHARACTERS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn encrypted(
    endpoint: &Url,
    device: &Subscription,
    vapid: &Vapid,
    fetch: &Fetch,
    payload: &[u8],
) -> Result<(Request, Bytes), Failure> {
    let discard = |reason: String| Failure::Discard(reason);
    let own =
        PrivateKey::generate(&ECDH_P256).map_err(|_| discard("no key could be made".into()))?;
    let mut salt = [0; 16];
    weir_base::Random::system().fill(&mut salt);
    let keys = Keys { device: &device.p256dh, auth: &device.auth, own: &own, salt };
    let origin = endpoint.origin().ascii_serialization();
    let token = vapid.token(&origin, fetch.now()).map_err(|error| discard(error.to_string()))?;
    let request =
        Request::new(endpoint.clone()).deadline(DEADLINE).content_type("application/octet-stream");
    let public = vapid.public_key();
    let (headers, body) = if device.standard {
        let body = aes128gcm(&keys, payload).map_err(|error| discard(error.to_string()))?;
        let headers = vec![
            ("content-encoding", "aes128gcm".to_owned()),
            ("authorization", format!("vapid t={token},k={public}")),
        ];
        (headers, body)
    } else {
        let message = aesgcm(&keys, payload).map_err(|error| discard(error.to_string()))?;
        let own = B64.encode(message.own_public);
        let headers = vec![
            ("content-encoding", "aesgcm".to_owned()),
            ("encryption", format!("salt={}", B64.encode(salt))),
            ("crypto-key", format!("dh={own};p256ecdsa={public}")),
            ("authorization", format!("WebPush {token}")),
        ];
        (headers, message.body)
    };
    let all =
        headers.into_iter().chain([("ttl", LIFE_S.to_string()), ("urgency", "normal".into())]);
    let mut request = request;
    for (name, value) in all {
        let value = HeaderValue::from_str(&value).map_err(|error| discard(error.to_string()))?;
        request = request.header(HeaderName::from_static(name), value);
    }
    Ok((request, Bytes::from(body)))
}
