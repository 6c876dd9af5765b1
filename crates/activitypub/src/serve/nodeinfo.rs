//! `GET /.well-known/nodeinfo` and `/nodeinfo/2.0`, `/nodeinfo/2.1`: what runs here.

use axum::extract::State;
use axum::response::Response;
use parking_lot::Mutex;
use serde_json::{Value, json};
use weir_base::Timestamp;
use weir_community::Error;
use weir_db::{Class, Tx, params};

use super::answer::{Kept, Refusal, open, typed};
use crate::ActivityPub;

const SCHEMA: &str = "http://nodeinfo.diaspora.software/ns/schema/";
/// How long counts are kept, in ms.
const COUNTED_FOR_MS: i64 = 10 * 60 * 1_000;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// What people here do, counted now and then.
#[derive(Default)]
pub struct Usage {
    last: Mutex<Option<(Timestamp, Counts)>>,
}

#[derive(Debug, Clone, Copy)]
struct Counts {
    people: i64,
    active_month: i64,
    active_half_year: i64,
    posts: i64,
}

/// Where the documents are.
pub async fn links(State(face): State<ActivityPub>) -> Response {
    let link = |version: &str| {
        let href = face.urls().at(&format!("nodeinfo/{version}"));
        json!({ "rel": format!("{SCHEMA}{version}"), "href": href.as_str() })
    };
    let server = json!({
        "rel": "https://www.w3.org/ns/activitystreams#Application",
        "href": face.urls().instance_actor().as_str(),
    });
    let document = json!({ "links": [link("2.0"), link("2.1"), server] });
    open(typed(Kept::ByAll, "application/json; charset=utf-8", document.to_string()))
}

/// The document in version 2.0.
pub async fn version_2_0(State(face): State<ActivityPub>) -> Result<Response, Refusal> {
    let software = json!({ "name": "weir", "version": env!("CARGO_PKG_VERSION") });
    send(&face, "2.0", software).await
}

/// The document in version 2.1.
pub async fn version_2_1(State(face): State<ActivityPub>) -> Result<Response, Refusal> {
    let software = json!({
        "name": "weir",
        "version": env!("CARGO_PKG_VERSION"),
        "repository": env!("CARGO_PKG_REPOSITORY"),
    });
    send(&face, "2.1", software).await
}

async fn send(face: &ActivityPub, version: &str, software: Value) -> Result<Response, Refusal> {
    let counts = counts(face).await?;
    let settings = face.community().env().instance.settings();
    let document = json!({
        "version": version,
        "software": software,
        "protocols": ["activitypub"],
        "services": { "inbound": [], "outbound": [] },
        "openRegistrations": face.registrations_open(),
        "usage": {
            "users": {
                "total": counts.people,
                "activeMonth": counts.active_month,
                "activeHalfyear": counts.active_half_year,
            },
            "localPosts": counts.posts,
        },
        "metadata": {
            "nodeName": settings.title,
            "nodeDescription": settings.short_description,
        },
    });
    Ok(open(typed(Kept::ByAll, "application/json; charset=utf-8", document.to_string())))
}

async fn counts(face: &ActivityPub) -> Result<Counts, Error> {
    let now = face.community().env().clock.now();
    let last = *face.usage().last.lock();
    if let Some((at, counts)) = last
        && now.since_ms(at) < COUNTED_FOR_MS
    {
        return Ok(counts);
    }
    let read = face.community().read(Class::Housekeeping, move |tx: &mut Tx, _| {
        let (month, half_year) = (now.plus_ms(-30 * DAY_MS), now.plus_ms(-180 * DAY_MS));
        let counts = tx.query_one(
            "SELECT count(*),
               CAST(coalesce(sum(CASE WHEN u.seen_at > ?1 THEN 1 ELSE 0 END), 0) AS BIGINT),
               CAST(coalesce(sum(CASE WHEN u.seen_at > ?2 THEN 1 ELSE 0 END), 0) AS BIGINT),
               CAST(coalesce(sum(u.posts), 0) AS BIGINT)
             FROM (SELECT a.statuses_count AS posts,
                 CASE WHEN coalesce(u.last_sign_in_at, 0) > coalesce(a.last_status_at, 0)
                   THEN coalesce(u.last_sign_in_at, 0) ELSE coalesce(a.last_status_at, 0) END
                   AS seen_at
               FROM users u JOIN accounts a ON a.id = u.account_id
               WHERE u.confirmed_at IS NOT NULL AND u.approved = 1) u",
            params![month, half_year],
            |row| {
                Ok(Counts {
                    people: row.get(0)?,
                    active_month: row.get(1)?,
                    active_half_year: row.get(2)?,
                    posts: row.get(3)?,
                })
            },
        )?;
        Ok(counts)
    });
    let counts = read.await?;
    *face.usage().last.lock() = Some((now, counts));
    Ok(counts)
}
