//! What a request asks for, in one type, whether it came in the query, as a form, as multipart or
//! as JSON.

mod multipart;
mod param;
mod read;
#[cfg(test)]
mod tests;

use axum::body::to_bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{StatusCode, header};
use serde::de::DeserializeOwned;

pub use multipart::{Spool, Upload, Uploads};
use param::Param;

/// The largest body that is not an upload, in bytes.
const BODY_BYTES_MAX: usize = weir_base::MIB;

/// The parameters of a request: of its query, then of its body (form, multipart or JSON), which
/// wins. Files in a multipart body are left out; see [`WithUploads`].
#[derive(Debug, Clone)]
pub struct Form<T>(pub T);

/// The parameters of a request's query alone, with lists (`types[]=a&types[]=b`).
#[derive(Debug, Clone)]
pub struct Query<T>(pub T);

/// The parameters of a request, and the files in its multipart body, kept on disk meanwhile.
#[derive(Debug)]
pub struct WithUploads<T> {
    /// The parameters, as [`Form`] reads them.
    pub form: T,
    /// The files by parameter name.
    pub uploads: Uploads,
}

/// A request's parameters cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    /// Too many parameters, or brackets nested too deep.
    #[error("too many parameters")]
    TooMany,
    /// The body is not what its type says.
    #[error("the request is not valid {0}")]
    Malformed(&'static str),
    /// The body is larger than allowed.
    #[error("the request is too large")]
    TooLarge,
    /// A file of an upload could not be kept.
    #[error("the upload could not be stored; try again later")]
    Storage,
    /// A parameter has a value that does not fit, or is missing.
    #[error("Validation failed: {0}")]
    Unfit(String),
}

impl FormError {
    /// The status this is answered with.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooMany | Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Storage => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unfit(_) => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }
}

impl IntoResponse for FormError {
    fn into_response(self) -> Response {
        metrics::counter!("weir_http_bad_forms_total").increment(1);
        let body = serde_json::json!({ "error": self.to_string() });
        (self.status(), axum::Json(body)).into_response()
    }
}

fn read<T: DeserializeOwned>(param: Param) -> Result<T, FormError> {
    T::deserialize(param).map_err(|read::ReadError(why)| FormError::Unfit(why))
}

fn query(parts: &Parts) -> Result<Param, FormError> {
    let mut param = Param::empty();
    param.add_urlencoded(parts.uri.query().unwrap_or_default().as_bytes(), true)?;
    Ok(param)
}

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = FormError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, FormError> {
        Ok(Self(read(query(parts)?)?))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Form<T> {
    type Rejection = FormError;

    async fn from_request(request: Request, state: &S) -> Result<Self, FormError> {
        let (param, _) = everything(request, state, None).await?;
        Ok(Self(read(param)?))
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for WithUploads<T>
where
    Spool: axum::extract::FromRef<S>,
{
    type Rejection = FormError;

    async fn from_request(request: Request, state: &S) -> Result<Self, FormError> {
        let spool = <Spool as axum::extract::FromRef<S>>::from_ref(state);
        let (param, uploads) = everything(request, state, Some(&spool)).await?;
        Ok(Self { form: read(param)?, uploads })
    }
}

async fn everything<S: Send + Sync>(
    request: Request,
    state: &S,
    spool: Option<&Spool>,
) -> Result<(Param, Uploads), FormError> {
    let (parts, body) = request.into_parts();
    let mut param = query(&parts)?;
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("multipart/form-data") {
        let request = Request::from_parts(parts, body);
        let uploads = multipart::read(request, state, spool, &mut param).await?;
        return Ok((param, uploads));
    }
    let is_json = kind.eq_ignore_ascii_case("application/json");
    let bytes = to_bytes(body, BODY_BYTES_MAX).await.map_err(|_| FormError::TooLarge)?;
    if is_json {
        param.add_json(&bytes)?;
    } else {
        param.add_urlencoded(&bytes, false)?;
    }
    Ok((param, Uploads::default()))
}
