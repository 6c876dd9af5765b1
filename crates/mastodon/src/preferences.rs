//! `GET /api/v1/preferences`: what the person prefers, for apps to follow.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use weir_community::users;

use crate::auth::{Person, ReadAccounts};
use crate::{Error, Face};

/// The preferences.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadAccounts>,
) -> Result<Json<Value>, Error> {
    let id = person.id;
    let wishes = face.read(move |tx, _| Ok(users::by_account(tx, id)?.settings.0)).await?;
    Ok(Json(json!({
        "posting:default:visibility": wishes.default_visibility,
        "posting:default:sensitive": wishes.default_sensitive,
        "posting:default:language": wishes.default_language,
        "posting:default:quote_policy": "nobody",
        "reading:expand:media": wishes.expand_media,
        "reading:expand:spoilers": wishes.expand_spoilers,
        "reading:autoplay:gifs": wishes.autoplay_gifs,
    })))
}
