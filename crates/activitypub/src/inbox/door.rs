//! `POST /inbox` and `POST /ap/users/ID/inbox`: what is decided while the sender waits.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri as HttpUri, header};
use weir_community::federation::AskOrigin;
use weir_community::{Env, Error, federation};
use weir_db::{Class, Tx};
use weir_http::ClientIp;

use super::Admitted;
use super::bodies::{self, Unread};
use super::callers::Callers;
use super::compact::Compact;
use super::full::Refusal;
use super::hearsay;
use super::seen;
use super::unknown::{ROW_BYTES, RefetchKey, Unverified};
use super::work::{Inbound, Late, is_late};
use crate::deed;
use crate::resolver::{Sought, Standing};
use crate::serve::Refusal as Refused;
use crate::signature::{self, Checked, Received, SignatureError};
use crate::wire::{self, Activity, Kind, Uri, WireError};
use crate::{ActivityPub, Signer};

/// When to come again, in s, where a message could not be made durable.
const FAILED_AGAIN_S: u32 = 60;

/// The longest body, in bytes, of which what it says stays with the message while that is in hand:
/// it takes more memory than the payload, by which what is in hand is counted.
const IN_HAND_BYTES_MAX: usize = 4 * 1_024;

/// What becomes of a message.
enum Verdict {
    Accepted,
    /// The same, and its signature is verified later.
    ToVerify,
    /// Without effect, and why.
    Ignored(&'static str),
    Refused(StatusCode, &'static str, String),
    Later(Refusal),
    /// It could not be made durable.
    Failed,
}

impl From<SignatureError> for Verdict {
    fn from(error: SignatureError) -> Self {
        Self::Refused(error.status(), error.kind(), error.to_string())
    }
}

impl From<WireError> for Verdict {
    fn from(error: WireError) -> Self {
        match error {
            WireError::UnknownType(_) => Self::Ignored("unknown_type"),
            other => Self::Refused(other.status(), other.kind(), other.to_string()),
        }
    }
}

fn forbidden(kind: &'static str, why: &str) -> Verdict {
    Verdict::Refused(StatusCode::FORBIDDEN, kind, why.to_owned())
}

/// The door of the inbox that all share.
pub(crate) async fn receive(
    State(face): State<ActivityPub>,
    client: ClientIp,
    uri: HttpUri,
    headers: HeaderMap,
    request: Request,
) -> Response {
    take_in(face, None, client, uri, headers, request).await
}

/// The door of one person's inbox: who sends to nobody is told so, and sends there no more.
pub(crate) async fn receive_for(
    State(face): State<ActivityPub>,
    Path(account): Path<String>,
    client: ClientIp,
    uri: HttpUri,
    headers: HeaderMap,
    request: Request,
) -> Response {
    take_in(face, Some(account), client, uri, headers, request).await
}

async fn take_in(
    face: ActivityPub,
    account: Option<String>,
    client: ClientIp,
    uri: HttpUri,
    headers: HeaderMap,
    request: Request,
) -> Response {
    let bodies = &face.inbox().bodies;
    let kept = match bodies::read(bodies, client.source(), &headers, request.into_body()).await {
        Ok(kept) => kept,
        Err(Unread::Later(refusal)) => return put_off(refusal),
        Err(Unread::Refused(status, kind)) => {
            return answer(Verdict::Refused(status, kind, kind.replace('_', " ")));
        }
    };
    let door = face.inbox().door.clone();
    let caller = Callers::come(&face.inbox().callers);
    let judged = door.spawn(async move {
        let _caller = caller;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let body = &kept.bytes;
        let account = account.as_deref();
        Message { face: &face, client, account, path, headers: &headers, body }.judge().await
    });
    match judged.await {
        Ok(Ok(verdict)) => answer(verdict),
        Ok(Err(error)) => {
            tracing::warn!(%error, "a message could not be taken in");
            answer(Verdict::Failed)
        }
        // It ends there, or ended with a panic, which was reported.
        Err(_) => answer(Verdict::Failed),
    }
}

fn count(outcome: &'static str) {
    metrics::counter!("weir_activitypub_inbox_total", "outcome" => outcome).increment(1);
}

fn answer(verdict: Verdict) -> Response {
    match verdict {
        Verdict::Accepted | Verdict::ToVerify => {
            count("accepted");
            StatusCode::ACCEPTED.into_response()
        }
        Verdict::Ignored(why) => {
            count(why);
            StatusCode::ACCEPTED.into_response()
        }
        Verdict::Refused(status, kind, why) => {
            count(kind);
            (status, axum::Json(serde_json::json!({ "error": why }))).into_response()
        }
        Verdict::Later(refusal) => put_off(refusal),
        Verdict::Failed => {
            count("failed");
            later(StatusCode::SERVICE_UNAVAILABLE, FAILED_AGAIN_S)
        }
    }
}

/// It is not taken now: who sends is told when to come again.
fn put_off(refusal: Refusal) -> Response {
    match refusal {
        Refusal::Sender(seconds) => {
            count("sender_full");
            later(StatusCode::TOO_MANY_REQUESTS, seconds)
        }
        Refusal::Everybody(seconds) => {
            count("full");
            later(StatusCode::SERVICE_UNAVAILABLE, seconds)
        }
    }
}

fn later(status: StatusCode, seconds: u32) -> Response {
    let retry_after = [(header::RETRY_AFTER, HeaderValue::from(seconds))];
    let error = serde_json::json!({ "error": "too much waits: come again later" });
    (status, retry_after, axum::Json(error)).into_response()
}

struct Message<'m> {
    face: &'m ActivityPub,
    client: ClientIp,
    /// Whose inbox it came to, where that is one person's.
    account: Option<&'m str>,
    path: &'m str,
    headers: &'m HeaderMap,
    body: &'m Bytes,
}

impl Message<'_> {
    async fn judge(&self) -> Result<Verdict, Error> {
        let now = self.face.now();
        let (scheme, authority) = self.face.urls().origin();
        let received = Received {
            method: &Method::POST,
            scheme,
            authority,
            path_and_query: self.path,
            headers: self.headers,
        };
        let checked = match signature::check(&received, self.body, now) {
            Ok(checked) => checked,
            Err(error) => return Ok(error.into()),
        };
        let Ok(key) = checked.claim.key_id.parse::<Uri>() else {
            let why = "the key's id is no web address".to_owned();
            return Ok(Verdict::Refused(StatusCode::UNAUTHORIZED, "key_id", why));
        };
        match self.face.standing(key.authority()).await? {
            Standing::Welcome => {}
            Standing::Refused => return Ok(forbidden("blocked", "your server is blocked here")),
            Standing::Own => {
                return Ok(forbidden("forged", "this server does not write to itself"));
            }
        }
        if let Some(verdict) = self.nobody().await {
            return Ok(verdict);
        }
        let activity = match wire::parse_activity(self.body) {
            Ok(activity) => Arc::new(activity),
            Err(error) => return Ok(error.into()),
        };
        if let Some(why) = deed::forgery(&activity) {
            return Ok(forbidden("forged", why));
        }
        if !activity.actor.is_of_same_host(&key) {
            return self.hearsay(&checked, &key, &activity).await;
        }
        let mark = seen::mark(key.as_str(), checked.signed_at, self.body);
        let unverified = seen::mark_unverified(&mark, checked.signature());
        let seen = &self.face.inbox().seen;
        if seen.message(&mark) || seen.message(&unverified) {
            return Ok(Verdict::Ignored("repeated"));
        }
        let verdict = self.decide(&checked, &key, &activity).await?;
        match verdict {
            Verdict::Accepted => seen.note_message(mark),
            Verdict::ToVerify => seen.note_message(unverified),
            _ => {}
        }
        Ok(verdict)
    }

    /// What becomes of it where nobody has the inbox that it came to.
    async fn nobody(&self) -> Option<Verdict> {
        let refusal = self.face.check_resident(self.account?).await.err()?;
        let (status, why) = match &*refusal {
            Refused::NotFound => (StatusCode::NOT_FOUND, "nobody has this inbox"),
            Refused::Gone(_) => (StatusCode::GONE, "nobody has this inbox any more"),
            refused => {
                tracing::warn!(?refused, "whose inbox it is could not be read");
                return Some(Verdict::Failed);
            }
        };
        Some(Verdict::Refused(status, "to_nobody", why.to_owned()))
    }

    async fn decide(
        &self,
        checked: &Checked,
        key: &Uri,
        activity: &Arc<Activity>,
    ) -> Result<Verdict, Error> {
        let Some(known) = self.face.remembered_owner(key.as_str()).await? else {
            return self.unknown(key, activity).await;
        };
        let Err(error) = checked.verify(&known.key) else {
            return self.take(checked, key, activity, &known).await;
        };
        let (source, now) = (self.client.source(), self.face.now());
        let sources = &self.face.inbox().sources;
        if sources.is_spent(source, now) {
            return Ok(error.into());
        }
        // The key in memory may be older than the one in its row, and that than the one over there.
        // What is fetched in between is not what is read.
        let was_refetched = self.face.was_refetched(key.as_str());
        let fresh = self.face.key_owner(key.as_str()).await?;
        if let Some(fresh) = fresh.filter(|fresh| checked.verify(&fresh.key).is_ok()) {
            return self.take(checked, key, activity, &fresh).await;
        }
        if was_refetched {
            sources.forged(source, now);
            return Ok(error.into());
        }
        self.unknown(key, activity).await
    }

    /// A message whose signature fits.
    async fn take(
        &self,
        checked: &Checked,
        key: &Uri,
        activity: &Arc<Activity>,
        known: &Signer,
    ) -> Result<Verdict, Error> {
        let (face, host) = (self.face, key.authority());
        if activity.actor != known.uri.as_str() {
            return Ok(forbidden("forged", "the key is another actor's"));
        }
        if !is_farewell(activity.kind) {
            if known.suspended {
                return Ok(forbidden("suspended", "the actor is suspended here"));
            }
            if face.is_barred(known, host).await? {
                return Ok(forbidden("blocked", "the server of the actor's name is blocked here"));
            }
        }
        let Ok(body) = std::str::from_utf8(self.body) else {
            return Ok(WireError::Json("it is not UTF-8".into()).into());
        };
        let body = Compact::of(body);
        let (jobs, now) = (&face.community().env().jobs, face.now());
        let bytes = ROW_BYTES + 2 * host.len() + known.uri.len() + body.len_bytes();
        if let Some(refusal) = face.inbox().full.lock().inbound(jobs, now, host, bytes) {
            return Ok(Verdict::Later(refusal));
        }
        let inbound = Inbound {
            host: host.to_owned(),
            actor: known.uri.clone(),
            body,
            signed_at: checked.signed_at,
            arrived: now,
            seq: None,
            looked_up: false,
            activity: (self.body.len() <= IN_HAND_BYTES_MAX).then(|| activity.clone()),
        };
        face.note_coming(activity, true);
        let admitted = match is_late(activity, now) {
            true => Admitted::Late(Late(inbound)),
            false => Admitted::Known(inbound),
        };
        Ok(match face.inbox().admitted.ask(face.community(), admitted).await {
            Some(()) => {
                face.heard_from(host);
                Verdict::Accepted
            }
            None => Verdict::Failed,
        })
    }

    /// A message that another server hands on: it proves nothing but who says so, and is reason
    /// enough to ask its origin.
    async fn hearsay(
        &self,
        checked: &Checked,
        key: &Uri,
        activity: &Activity,
    ) -> Result<Verdict, Error> {
        let face = self.face;
        let Some(ask) = hearsay::question(activity, key.authority()) else {
            return Ok(forbidden("forged", "the key is not the actor's"));
        };
        match face.standing(activity.actor.authority()).await? {
            Standing::Welcome => {}
            Standing::Refused => return Ok(forbidden("blocked", "its author's server is blocked")),
            Standing::Own => return Ok(forbidden("forged", "its author lives here")),
        }
        let Some(known) = self.verified(checked, key).await? else {
            let why = "who hands this on is not known here, or its key does not fit".to_owned();
            return Ok(Verdict::Refused(StatusCode::UNAUTHORIZED, "unknown_forwarder", why));
        };
        if known.suspended {
            return Ok(forbidden("suspended", "the actor is suspended here"));
        }
        self.ask(ask, "hearsay_of_no_concern").await
    }

    /// What was said is asked of its origin, whose answer alone has an effect; `of_no_concern` is
    /// why it is not, where it is about nothing that is known here.
    async fn ask(&self, ask: AskOrigin, of_no_concern: &'static str) -> Result<Verdict, Error> {
        let face = self.face;
        let (jobs, now) = (&face.community().env().jobs, face.now());
        if let Some(refusal) = face.inbox().full.lock().hearsay(jobs, now, &ask.told_by) {
            return Ok(Verdict::Later(refusal));
        }
        let write = move |tx: &mut Tx, env: &Env| {
            let in_reply_to = ask.in_reply_to.as_deref();
            if !federation::concerns(tx, ask.said, &ask.actor, &ask.object, in_reply_to)? {
                return Ok(false);
            }
            env.jobs.enqueue_unique(tx, &ask.key(), env.clock.now(), &ask)?;
            Ok(true)
        };
        let kept = face.community().write(Class::Inbound, write).await?;
        Ok(if kept { Verdict::Accepted } else { Verdict::Ignored(of_no_concern) })
    }

    /// Whose key it is, if the signature fits; where it does not, the key is fetched again.
    async fn verified(&self, checked: &Checked, key: &Uri) -> Result<Option<Arc<Signer>>, Error> {
        let fits = |known: &Arc<Signer>| checked.verify(&known.key).is_ok();
        let Some(known) = self.face.remembered_owner(key.as_str()).await? else { return Ok(None) };
        if fits(&known) {
            return Ok(Some(known));
        }
        let (source, now) = (self.client.source(), self.face.now());
        let sources = &self.face.inbox().sources;
        if sources.is_spent(source, now) {
            return Ok(None);
        }
        let was_refetched = self.face.was_refetched(key.as_str());
        if let Some(fresh) = self.face.key_owner(key.as_str()).await?.filter(fits) {
            return Ok(Some(fresh));
        }
        if was_refetched {
            sources.forged(source, now);
        } else if self.face.inbox().seen.wants_again(key.as_str()) {
            self.refetch(key).await?;
        }
        Ok(None)
    }

    /// Somebody is gone, by a signature that fits no key known here: mostly nobody here knew them.
    /// Of who was known the key may have been renewed, and can be fetched no more: their server is
    /// asked, at the expense of who says so, whose claim to be of that server proves nothing.
    async fn farewell(&self, activity: &Activity) -> Result<Verdict, Error> {
        let (face, source) = (self.face, self.client.source());
        let ignored = Ok(Verdict::Ignored("unknown_gone"));
        let Some(ask) = hearsay::question(activity, &source.to_string()) else { return ignored };
        let (said, actor) = (ask.said, ask.actor.clone());
        let read = move |tx: &mut Tx, _: &Env| federation::concerns(tx, said, &actor, &actor, None);
        if !face.community().read(Class::Inbound, read).await? {
            return ignored;
        }
        if face.inbox().sources.is_spent(source, face.now()) {
            return Ok(Verdict::Later(Refusal::SENDER));
        }
        if !face.inbox().seen.wants_again(activity.actor.as_str()) {
            return ignored;
        }
        face.inbox().sources.forged(source, face.now());
        match self.ask(ask, "unknown_gone").await? {
            // Nothing is noted of it: it proves nothing.
            Verdict::Accepted => Ok(Verdict::Ignored("farewell_asked")),
            other => Ok(other),
        }
    }

    /// A message whose sender is not known here, or whose key may have been renewed over there.
    async fn unknown(&self, key: &Uri, activity: &Activity) -> Result<Verdict, Error> {
        let face = self.face;
        // Most often: somebody gone whom nobody here knew.
        let of_itself = activity.object.id() == Some(&activity.actor);
        if activity.kind == Kind::Delete && of_itself {
            return self.farewell(activity).await;
        }
        if face.finder().failed(Sought::Account, activity.actor.as_str()) {
            let why = "the actor could not be found lately".to_owned();
            return Ok(Verdict::Refused(StatusCode::UNAUTHORIZED, "unknown_actor", why));
        }
        let source = self.client.source();
        if face.inbox().sources.is_spent(source, face.now()) {
            return Ok(Verdict::Later(Refusal::SENDER));
        }
        let text = |value: &HeaderValue| value.to_str().ok().map(str::to_owned);
        let headers = self.headers.iter();
        let unverified = Unverified {
            host: key.authority().to_owned(),
            source: source.to_string(),
            key_id: key.to_string(),
            actor: activity.actor.to_string(),
            path: self.path.to_owned(),
            headers: headers
                .filter_map(|(name, value)| Some((name.to_string(), text(value)?)))
                .collect(),
            body: Compact::of(&String::from_utf8_lossy(self.body)),
            arrived: face.now(),
        };
        let (jobs, now) = (&face.community().env().jobs, face.now());
        let lane = unverified.lane_name();
        face.count_unknown().await;
        let bytes = unverified.len_bytes();
        let full = face.inbox().full.lock().unknown(jobs, now, &lane, bytes);
        if let Some(refusal) = full {
            return Ok(Verdict::Later(refusal));
        }
        face.note_coming(activity, false);
        let admitted = Admitted::Unknown(unverified);
        let kept = face.inbox().admitted.ask(face.community(), admitted).await;
        face.inbox().full.lock().crowd.came(&lane, kept.is_some());
        Ok(match kept {
            Some(()) => Verdict::ToVerify,
            None => Verdict::Failed,
        })
    }

    /// The key may have been renewed over there: it is fetched again in the background.
    async fn refetch(&self, key: &Uri) -> Result<(), Error> {
        let job = RefetchKey { key_id: key.to_string(), host: key.authority().into() };
        let name = format!("key {key}");
        let write = move |tx: &mut Tx, env: &Env| {
            Ok(env.jobs.enqueue_unique(tx, &name, env.clock.now(), &job)?)
        };
        self.face.community().write(Class::Inbound, write).await?;
        Ok(())
    }
}

/// What even a suspended account may do: go, and take things back.
fn is_farewell(kind: Kind) -> bool {
    matches!(kind, Kind::Delete | Kind::Undo | Kind::Update)
}
