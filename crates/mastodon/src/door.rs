//! What every request of the API goes through: its token, and how often it may ask.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, Method, StatusCode, header};
use weir_base::Timestamp;
use weir_http::{Allowance, Asker, ClientIp, Rule};

use crate::auth::Caller;
use crate::streaming::{self, Arrival};
use crate::{Error, Face};

/// Everything: 300 in 5 minutes.
const ALL: Rule = Rule { name: "api", most: 300, window_s: 300 };
/// Uploads: 30 in 30 minutes.
const UPLOADS: Rule = Rule { name: "media", most: 30, window_s: 1_800 };
/// Deleting posts and taking boosts back: 30 in 30 minutes.
const DELETIONS: Rule = Rule { name: "delete", most: 30, window_s: 1_800 };
/// New accounts: 5 in 30 minutes.
const SIGN_UPS: Rule = Rule { name: "sign_up", most: 5, window_s: 1_800 };
/// New apps: 25 in 10 minutes; so few write rows without anybody behind them.
const APPS: Rule = Rule { name: "apps", most: 25, window_s: 600 };
/// Letters that prove an address: 5 in 30 minutes by source, and by person where they are sent.
pub(crate) const CONFIRMATIONS: Rule = Rule { name: "confirmations", most: 5, window_s: 1_800 };

/// Says that nobody may keep an answer for others but where a handler says otherwise: most are for
/// one person, whose token many a proxy does not look at.
pub(crate) async fn keep_private(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let private = HeaderValue::from_static("private, no-store");
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(private);
    response
}

/// Finds out who asks, refuses who asks too often, and says how much is left.
pub(crate) async fn door(State(face): State<Face>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    if streaming::is_arrival(&parts.method, parts.uri.path()) {
        // Before the token is looked up, so that a crowd stands in line for that too.
        match Arrival::enter(&face).await {
            Ok(arrival) => parts.extensions.insert(arrival),
            Err(error) => return error.into_response(),
        };
    }
    let caller = match weir_http::token(&parts) {
        Some(token) => face.tokens.bearer(&token).await.map(Some).map_err(Error::from),
        None => Ok(None),
    };
    let person = caller.as_ref().ok().and_then(Option::as_ref).and_then(|one| one.account_id);
    let ip = parts.extensions.get::<ClientIp>().copied();
    parts.extensions.insert(Caller(caller));
    let source = ip.map_or(std::net::Ipv4Addr::UNSPECIFIED.into(), ClientIp::source);
    let asker = person.map_or(Asker::Source(source), Asker::Account);
    let special = rule(&parts.method, parts.uri.path());
    if face.dev || parts.method == Method::OPTIONS {
        return next.run(Request::from_parts(parts, body)).await;
    }
    let mut allowance = face.limiter.count(ALL, asker);
    if let Some(rule) = special.filter(|_| allowance.granted) {
        let by_source = [SIGN_UPS, APPS, CONFIRMATIONS].contains(&rule);
        let asker = if by_source { Asker::Source(source) } else { asker };
        allowance = face.limiter.count(rule, asker);
    }
    let mut response = if allowance.granted {
        next.run(Request::from_parts(parts, body)).await
    } else {
        Error::new(StatusCode::TOO_MANY_REQUESTS, "Too many requests").into_response()
    };
    say(&mut response, &allowance, face.env().clock.now());
    response
}

/// The narrower rule for what costs more.
fn rule(method: &Method, path: &str) -> Option<Rule> {
    match (method.as_str(), path) {
        ("POST", "/api/v1/media" | "/api/v2/media") => Some(UPLOADS),
        ("POST", "/api/v1/accounts") => Some(SIGN_UPS),
        ("POST", "/api/v1/apps") => Some(APPS),
        ("POST", "/api/v1/emails/confirmations") => Some(CONFIRMATIONS),
        ("DELETE", path) if path.starts_with("/api/v1/statuses/") => Some(DELETIONS),
        ("POST", path) if path.starts_with("/api/v1/statuses/") && path.ends_with("/unreblog") => {
            Some(DELETIONS)
        }
        _ => None,
    }
}

fn say(response: &mut Response, allowance: &Allowance, now: Timestamp) {
    let headers = response.headers_mut();
    headers.insert("x-ratelimit-limit", HeaderValue::from(allowance.most));
    headers.insert("x-ratelimit-remaining", HeaderValue::from(allowance.remaining));
    if let Ok(reset) = HeaderValue::from_str(&allowance.reset_at.to_string()) {
        headers.insert("x-ratelimit-reset", reset);
    }
    if !allowance.granted {
        let wait_s = allowance.reset_at.since_ms(now).max(0) as u64 / 1_000 + 1;
        headers.insert(http::header::RETRY_AFTER, HeaderValue::from(wait_s));
    }
}
