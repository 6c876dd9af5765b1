//! One try to deliver.

use std::sync::Arc;
use std::time::Instant;

use http::{Method, StatusCode};
use url::Url;
use weir_community::Error as CommunityError;
use weir_fetch::{Error, Request, Response, Signer};

use super::patience::Patience;
use super::payloads::Payload;
use super::peers::Peer;
use super::signer::Haste;
use crate::resolver::{SERVERS_MAX, Standing};
use crate::signature::{self, Form, Outgoing};
use crate::wire::{MEDIA_TYPE, Uri};
use crate::{ActivityPub, Signing};

/// The longest answer to a delivery that is read, in bytes; nothing is done with it.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// How a try ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    /// The other side has it.
    Taken,
    /// The other side will never take it.
    Refused(String),
    /// There is no such inbox any more (410).
    Gone(String),
    /// It may work later.
    Later {
        /// What went wrong.
        reason: String,
        /// With what.
        fault: Fault,
        /// When the other side asks to come again, in ms.
        after_ms: Option<i64>,
    },
}

/// What a failure that may pass tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Of this message, or of what the other side makes of it.
    Message,
    /// Of the other side as a whole.
    Host,
    /// Of this side, which has too much to do.
    Here,
    /// Of the other side, which takes long while too many do.
    Slow,
}

/// Why there is no answer to go by.
enum Lost {
    /// This server's own trouble.
    Here(CommunityError),
    /// There was none, or not as it should be.
    Failed(Error),
    /// There was none in the time that there is for it.
    Slow,
    /// It is led to where nothing is delivered, and why.
    Astray(String),
}

impl From<CommunityError> for Lost {
    fn from(error: CommunityError) -> Self {
        Self::Here(error)
    }
}

/// How a delivery goes its way.
pub struct Way<'a> {
    /// Whether it is signed before others.
    pub haste: Haste,
    /// To whom.
    pub peer: &'a Peer,
    /// What it may wait; none where it has a place to wait in already.
    pub patience: Option<&'a Patience>,
}

/// Delivers `payload` to `inbox`, signed as `peer` takes it, and tells in which form that was, and
/// how long the other side took for its answers, in ms.
/// Where it is another server's message that is only passed on, a refusal to believe it is final.
///
/// # Errors
/// Failures of this server: its database, or a key that cannot be made.
pub async fn try_once(
    face: &ActivityPub,
    payload: &Payload,
    inbox: &str,
    known: Form,
    way: &Way<'_>,
) -> Result<(Tried, Form, i64), CommunityError> {
    let mut took_ms = 0;
    let Ok(url) = Url::parse(inbox) else {
        return Ok((Tried::Refused("the inbox is no URL".to_owned()), known, took_ms));
    };
    let signing = face.keys().of_account(payload.by).await?;
    let other = if known == Form::Cavage { Form::Rfc9421 } else { Form::Cavage };
    let (mut tried, mut form) = (Tried::Taken, known);
    for next in [known, other] {
        form = next;
        let answer = match post(face, payload, &url, &signing, form, way, &mut took_ms).await {
            Ok(answer) => Ok(answer),
            Err(Lost::Here(error)) => return Err(error),
            Err(Lost::Failed(error)) => Err(error),
            Err(Lost::Slow) => {
                let reason = "it takes long to answer, and many do".to_owned();
                let tried = Tried::Later { reason, fault: Fault::Slow, after_ms: None };
                return Ok((tried, form, took_ms));
            }
            Err(Lost::Astray(reason)) => return Ok((Tried::Refused(reason), form, took_ms)),
        };
        let doubted = matches!(&answer, Ok(answer) if is_doubt(answer.status));
        tried = judge(face, answer);
        if !doubted {
            return Ok((tried, form, took_ms));
        }
    }
    match tried {
        Tried::Later { reason, .. } if payload.passed_on => {
            Ok((Tried::Refused(reason), form, took_ms))
        }
        tried => Ok((tried, form, took_ms)),
    }
}

async fn post(
    face: &ActivityPub,
    payload: &Payload,
    url: &Url,
    signing: &Signing,
    form: Form,
    way: &Way<'_>,
    took_ms: &mut i64,
) -> Result<Response, Lost> {
    let (key, body) = (signing.clone(), payload.body.clone());
    let clock = face.community().env().clock.clone();
    let sign = move |method: &Method, url: &Url| {
        let request = Outgoing { method, url, body: Some((MEDIA_TYPE, &body)) };
        let signed = signature::sign(form, &request, &key.key_id, &key.key, clock.now());
        signed.unwrap_or_else(|error| {
            tracing::error!(%error, key_id = key.key_id, "a delivery was not signed");
            http::HeaderMap::new()
        })
    };
    // Where there are redirects, the later ones are signed when they are known.
    let (sign, first) = (Arc::new(sign), url.clone());
    let (signing, target) = (sign.clone(), url.clone());
    let ready =
        face.outbound().signer.run(way.haste, move || signing(&Method::POST, &target)).await;
    let Some(ready) = ready else {
        let host = url.host_str().unwrap_or_default().to_owned();
        return Err(Lost::Failed(Error::Busy { host }));
    };
    let signer = move |method: &Method, url: &Url| {
        if *method == Method::POST && *url == first { ready.clone() } else { sign(method, url) }
    };
    let begun = Instant::now();
    let asked = ask(face, payload, url, Arc::new(signer));
    let answer = match way.patience {
        Some(patience) => patience.bear(way.peer, asked).await,
        None => Some(asked.await),
    };
    *took_ms += i64::try_from(begun.elapsed().as_millis()).unwrap_or(i64::MAX);
    answer.unwrap_or(Err(Lost::Slow))
}

/// Asks the server of `url`, and those to which it leads, all within the time of one request.
async fn ask(
    face: &ActivityPub,
    payload: &Payload,
    url: &Url,
    signer: Signer,
) -> Result<Response, Lost> {
    let (begun, time_max) = (Instant::now(), face.fetch().deadline());
    let mut at = url.clone();
    for _ in 0..=SERVERS_MAX {
        let request = Request::new(at)
            .accept("application/activity+json, application/json")
            .limit_bytes(ANSWER_BYTES_MAX)
            .deadline(time_max.saturating_sub(begun.elapsed()))
            .stay_on_host()
            .insist()
            .sign(signer.clone());
        let answer = face.fetch().post(request, payload.body.clone()).await;
        let answer = answer.map_err(Lost::Failed)?;
        let Some(next) = answer.leads_to.clone() else { return Ok(answer) };
        if let Some(reason) = astray(face, &next).await? {
            return Err(Lost::Astray(reason));
        }
        at = next;
    }
    let host = url.host_str().unwrap_or_default().to_owned();
    Err(Lost::Failed(Error::Redirects { host, max: SERVERS_MAX }))
}

/// Why nothing is delivered at `next`, where a server leads a delivery, if that is so.
async fn astray(face: &ActivityPub, next: &Url) -> Result<Option<String>, CommunityError> {
    let Ok(next) = next.as_str().parse::<Uri>() else {
        return Ok(Some("it leads to what is no address of an inbox".to_owned()));
    };
    let server = next.authority();
    Ok(match face.standing(server).await? {
        Standing::Welcome => None,
        Standing::Refused => {
            Some(format!("it leads to {server}, with which this server does not speak"))
        }
        Standing::Own => Some("it leads back to this server".to_owned()),
    })
}

/// What a server answers that does not understand, or not believe, a signature.
fn is_doubt(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED)
}

fn judge(face: &ActivityPub, answer: Result<Response, Error>) -> Tried {
    let error = match answer.and_then(|answer| answer.success(face.fetch().now())) {
        Ok(_) => return Tried::Taken,
        Err(error) => error,
    };
    let reason = error.to_string();
    match error {
        // It was taken, for only then is its length looked at: the answer alone was too much.
        Error::TooLarge { .. } => Tried::Taken,
        Error::Url { .. } | Error::Private { .. } => Tried::Refused(reason),
        Error::Status { status, retry_after_ms, .. } if is_passing(status) => {
            Tried::Later { reason, fault: fault_of(status), after_ms: retry_after_ms }
        }
        Error::Status { status: StatusCode::GONE, .. } => Tried::Gone(reason),
        Error::Status { .. } => Tried::Refused(reason),
        Error::Busy { .. } => Tried::Later { reason, fault: Fault::Here, after_ms: None },
        _ => Tried::Later { reason, fault: Fault::Host, after_ms: error.retry_after_ms() },
    }
}

/// Whom a passing failure tells of: errors of a server are rarely of one message, and doubts about
/// a signature always.
fn fault_of(status: StatusCode) -> Fault {
    let of_host = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    if of_host { Fault::Host } else { Fault::Message }
}

/// Whether a server that answers this may take the same delivery later. It may be unable to fetch
/// the key for a while (401).
fn is_passing(status: StatusCode) -> bool {
    let wait = [
        StatusCode::UNAUTHORIZED,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::MISDIRECTED_REQUEST,
        StatusCode::TOO_EARLY,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    !status.is_client_error() || wait.contains(&status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_change_is_tried_again() {
        for passing in [301, 401, 408, 429, 500, 502, 503, 504, 521] {
            assert!(is_passing(StatusCode::from_u16(passing).unwrap()), "{passing}");
        }
        for permanent in [400, 403, 404, 405, 410, 413, 422] {
            assert!(!is_passing(StatusCode::from_u16(permanent).unwrap()), "{permanent}");
        }
    }
}
