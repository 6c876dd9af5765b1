//! `/api/v1/push/subscription`: where a device wants to be told.

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_base::Id;
use weir_community::chat;
use weir_community::notifications::Kind;
use weir_community::push::{self, Alerts, NewSubscription, Subscription};
use weir_http::Form;

use crate::auth::{Person, Push};
use crate::{Error, Face};

/// What a device asks for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Asked {
    subscription: AskedSubscription,
    data: AskedData,
}

/// Where to tell it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct AskedSubscription {
    endpoint: String,
    keys: AskedKeys,
    standard: bool,
}

/// Its keys, in either form of base64.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct AskedKeys {
    p256dh: String,
    auth: String,
}

/// What it wants to be told of.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct AskedData {
    alerts: Option<Alerts>,
    policy: Option<String>,
}

/// A subscription as the API shows it.
#[derive(Debug, Clone, Serialize)]
pub struct Shown {
    id: Id,
    endpoint: String,
    standard: bool,
    alerts: Value,
    policy: String,
    server_key: String,
}

fn shown(face: &Face, subscription: Subscription) -> Json<Shown> {
    let wanted = |kind: Kind| subscription.alerts.0.get(kind.name()).copied();
    // Those that are not among the documented kinds are shown to those who asked for them.
    let rare = |kind| matches!(kind, Kind::SeveredRelationships | Kind::ModerationWarning);
    let shown = Kind::ALL.into_iter().filter(|kind| !rare(*kind) || wanted(*kind).is_some());
    let alerts = shown.map(|kind| (kind.name().to_owned(), json!(wanted(kind).unwrap_or(false))));
    let chat = subscription.alerts.0.get(chat::push::ALERT);
    let alerts = alerts.chain(chat.map(|wanted| (chat::push::ALERT.to_owned(), json!(wanted))));
    Json(Shown {
        id: subscription.id,
        alerts: Value::Object(alerts.collect()),
        endpoint: subscription.endpoint,
        standard: subscription.standard,
        policy: subscription.policy,
        server_key: face.vapid_key.clone(),
    })
}

/// Bytes from either form of base64, with or without its padding.
fn bytes(text: &str) -> Vec<u8> {
    let text = text.trim_end_matches('=');
    let decoded = BASE64_URL_SAFE_NO_PAD.decode(text);
    decoded.or_else(|_| BASE64_STANDARD_NO_PAD.decode(text)).unwrap_or_default()
}

/// `POST`: this token's device wants to be told.
pub async fn post(
    State(face): State<Face>,
    person: Person<Push>,
    Form(asked): Form<Asked>,
) -> Result<Json<Shown>, Error> {
    let (token, account) = (person.bearer.token_id, person.id);
    let new = NewSubscription {
        p256dh: bytes(&asked.subscription.keys.p256dh),
        auth: bytes(&asked.subscription.keys.auth),
        endpoint: asked.subscription.endpoint,
        standard: asked.subscription.standard,
        alerts: asked.data.alerts.unwrap_or_default(),
        policy: asked.data.policy.unwrap_or_default(),
    };
    let made = face.write(move |tx, env| push::subscribe(tx, env, token, account, &new)).await?;
    Ok(shown(&face, made))
}

/// `GET`: what this token's device wants.
pub async fn get(State(face): State<Face>, person: Person<Push>) -> Result<Json<Shown>, Error> {
    let token = person.bearer.token_id;
    let found = face.read(move |tx, _| push::by_token(tx, token)).await?;
    Ok(shown(&face, found))
}

/// `PUT`: it wants something else.
pub async fn put(
    State(face): State<Face>,
    person: Person<Push>,
    Form(asked): Form<Asked>,
) -> Result<Json<Shown>, Error> {
    let token = person.bearer.token_id;
    let AskedData { alerts, policy } = asked.data;
    let changed =
        face.write(move |tx, _| push::update(tx, token, alerts.clone(), policy.as_deref())).await?;
    Ok(shown(&face, changed))
}

/// `DELETE`: it wants nothing any more.
pub async fn delete(State(face): State<Face>, person: Person<Push>) -> Result<Json<Value>, Error> {
    let token = person.bearer.token_id;
    face.write(move |tx, _| push::unsubscribe(tx, token)).await?;
    Ok(Json(json!({})))
}
