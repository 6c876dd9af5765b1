//! Attachments: `POST /api/v2/media`, `POST /api/v1/media`, `GET|PUT|DELETE /api/v1/media/:id`.

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_community::Error as CommunityError;
use weir_community::media::{self, Body, Media, MediaChange, NewMedia};
use weir_http::WithUploads;

use crate::auth::{Person, WriteMedia};
use crate::entities::MediaAttachment;
use crate::{At, Error, Face};

/// What is said of an attachment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct About {
    description: Option<String>,
    focus: Option<String>,
}

impl About {
    /// The focus as two numbers: `0.5,-0.25`.
    fn focus(&self) -> Result<Option<(f64, f64)>, Error> {
        let Some(text) = self.focus.as_deref().filter(|text| !text.trim().is_empty()) else {
            return Ok(None);
        };
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|part| part.is_finite());
        let pair = text.split_once(',').and_then(|(x, y)| Some((number(x)?, number(y)?)));
        match pair {
            Some(pair) => Ok(Some(pair)),
            None => {
                let message = "must be two numbers with a comma between them";
                Err(CommunityError::invalid("focus", "ERR_INVALID", message).into())
            }
        }
    }
}

/// Takes a file in. What still has to be worked on is answered with 202 and without an address.
pub async fn post(
    State(face): State<Face>,
    person: Person<WriteMedia>,
    WithUploads { form, uploads }: WithUploads<About>,
) -> Result<(StatusCode, Json<MediaAttachment>), Error> {
    let media = take(&face, person, form, uploads).await?;
    let processing = media.state == "processing";
    let status = if processing { StatusCode::ACCEPTED } else { StatusCode::OK };
    Ok((status, Json(MediaAttachment::of(face.env(), &media))))
}

/// As [`post`], in the older form: always 200.
pub async fn post_v1(
    State(face): State<Face>,
    person: Person<WriteMedia>,
    WithUploads { form, uploads }: WithUploads<About>,
) -> Result<Json<MediaAttachment>, Error> {
    let media = take(&face, person, form, uploads).await?;
    Ok(Json(MediaAttachment::of(face.env(), &media)))
}

async fn take(
    face: &Face,
    person: Person<WriteMedia>,
    form: About,
    mut uploads: weir_http::Uploads,
) -> Result<Media, Error> {
    let Some(file) = uploads.take("file") else {
        return Err(CommunityError::invalid("file", "ERR_BLANK", "can't be blank").into());
    };
    let new = NewMedia {
        body: Body::File(file.file),
        focus: form.focus()?,
        description: form.description,
        thumbnail: uploads.take("thumbnail").map(|thumbnail| Body::File(thumbnail.file)),
    };
    Ok(media::upload(&face.community, person.id, new).await?)
}

/// One's own attachment: 206 while it is worked on, 422 when that failed.
pub async fn get(
    State(face): State<Face>,
    person: Person<WriteMedia>,
    At(id): At,
) -> Result<(StatusCode, Json<MediaAttachment>), Error> {
    let by = person.id;
    let media = face.read(move |tx, _| media::get(tx, by, id)).await?;
    let status = match media.state.as_str() {
        "processing" => StatusCode::PARTIAL_CONTENT,
        "failed" => {
            let message = "Error processing thumbnail for uploaded media";
            return Err(Error::new(StatusCode::UNPROCESSABLE_ENTITY, message));
        }
        _ => StatusCode::OK,
    };
    Ok((status, Json(MediaAttachment::of(face.env(), &media))))
}

/// Changes description, focus or thumbnail of what no post uses yet.
pub async fn put(
    State(face): State<Face>,
    person: Person<WriteMedia>,
    At(id): At,
    WithUploads { form, mut uploads }: WithUploads<About>,
) -> Result<Json<MediaAttachment>, Error> {
    let by = person.id;
    let change = MediaChange { focus: form.focus()?, description: form.description };
    if let Some(thumbnail) = uploads.take("thumbnail") {
        media::set_thumbnail(&face.community, by, id, Body::File(thumbnail.file)).await?;
    }
    let media = face.write(move |tx, _| media::update(tx, by, id, &change)).await?;
    Ok(Json(MediaAttachment::of(face.env(), &media)))
}

/// Deletes what no post uses.
pub async fn delete(
    State(face): State<Face>,
    person: Person<WriteMedia>,
    At(id): At,
) -> Result<Json<Value>, Error> {
    let by = person.id;
    face.write(move |tx, env| media::delete(tx, env, by, id)).await?;
    Ok(Json(json!({})))
}
