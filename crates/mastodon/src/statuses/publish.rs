//! `POST /api/v1/statuses`: posts, at once or later.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use weir_base::{Id, Timestamp};
use weir_community::statuses::{self, Draft, Visibility};
use weir_community::users::Preferences;
use weir_community::{Env, Error as CommunityError, federation, users};
use weir_db::Tx;
use weir_http::Form;

use super::draft::Params;
use crate::auth::{Person, WriteStatuses};
use crate::entities::{self, ScheduledStatus, Status};
use crate::{Error, Face};

/// The longest key of a request, in bytes.
const KEY_BYTES_MAX: usize = 255;

enum Made {
    Status(Box<Status>),
    Scheduled(Box<ScheduledStatus>),
}

/// Posts, or schedules a post. The same `Idempotency-Key` gives the same post again.
pub async fn post(
    State(face): State<Face>,
    person: Person<WriteStatuses>,
    headers: HeaderMap,
    Form(params): Form<Params>,
) -> Result<Response, Error> {
    let text = params.status.as_deref().unwrap_or_default();
    federation::meet_mentioned(&face.community, &*face.resolver, text).await?;
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let key = key.filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX).map(str::to_owned);
    let at = scheduled_at(&params, face.env().clock.now())?;
    let (by, app) = (person.id, person.bearer.app_id);
    let app = Some(app).filter(|app| *app != Id::ZERO);
    if at.is_none() {
        face.env().streams.caught_up().await;
    }
    let made = face.write(move |tx, env| {
        let preferences = users::by_account(tx, by)?.settings.0;
        let draft =
            Draft { app_id: app, idempotency_key: key.clone(), ..draft(&params, &preferences)? };
        make(tx, env, by, &draft, at)
    });
    Ok(match made.await? {
        Made::Status(status) => Json(status).into_response(),
        Made::Scheduled(scheduled) => Json(scheduled).into_response(),
    })
}

fn make(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    draft: &Draft,
    at: Option<Timestamp>,
) -> Result<Made, CommunityError> {
    if let Some(at) = at {
        let id = statuses::schedule(tx, env, by, draft, at)?;
        let scheduled = statuses::scheduled_one(tx, by, id)?;
        return Ok(Made::Scheduled(Box::new(ScheduledStatus::of(env, &scheduled))));
    }
    let id = statuses::publish(tx, env, by, draft)?;
    let view = statuses::load_one(tx, env, Some(by), id)?;
    Ok(Made::Status(Box::new(entities::status(tx, env, Some(by), &view)?)))
}

/// When the post is to appear; a moment that has passed counts as now.
fn scheduled_at(params: &Params, now: Timestamp) -> Result<Option<Timestamp>, CommunityError> {
    let Some(text) = params.scheduled_at.as_deref().filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    let at: Timestamp = text.parse().map_err(|_| {
        let message = "is not a time like 2024-05-01T10:00:00Z";
        CommunityError::invalid("scheduled_at", "ERR_INVALID", message)
    })?;
    Ok(Some(at).filter(|at| *at > now))
}

fn draft(params: &Params, preferences: &Preferences) -> Result<Draft, CommunityError> {
    let name = params.visibility.as_deref().filter(|name| !name.is_empty());
    let name = name.unwrap_or(&preferences.default_visibility);
    let visibility = Visibility::parse(name).ok_or_else(|| {
        CommunityError::invalid("visibility", "ERR_INCLUSION", "is not included in the list")
    })?;
    let media = params.media_ids.clone().unwrap_or_default();
    let warned = params.spoiler_text.as_deref().is_some_and(|text| !text.is_empty());
    let usual = preferences.default_sensitive && !media.is_empty();
    let mut text = params.status.clone().unwrap_or_default();
    let mut spoiler = params.spoiler_text.clone().unwrap_or_default();
    // A warning without a text is the text.
    if warned && text.trim().is_empty() && media.is_empty() && params.poll()?.is_none() {
        text = std::mem::take(&mut spoiler);
    }
    Ok(Draft {
        text,
        spoiler,
        sensitive: params.sensitive.unwrap_or(usual) || warned,
        visibility,
        language: params.language().or_else(|| preferences.default_language.clone()),
        in_reply_to: params.in_reply_to_id,
        media,
        poll: params.poll()?,
        app_id: None,
        idempotency_key: None,
    })
}
