//! Multipart bodies: fields as parameters, files in files of their own until they are taken.

use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::StatusCode;
use tempfile::TempPath;
use tokio::io::AsyncWriteExt;
use weir_community::media::Store;

use super::param::Param;
use super::{BODY_BYTES_MAX, FormError};

/// Files one request may carry.
const FILES_MAX: usize = 4;
/// Parts one request may have.
const PARTS_MAX: usize = 1_000;

/// Where files of uploads lie while their request is worked on.
#[derive(Clone)]
pub struct Spool {
    /// The store, in which they lie unfinished.
    pub store: Store,
    /// The largest file, in bytes.
    pub file_bytes_max: usize,
}

/// A file of an upload; it is removed when this is dropped.
#[derive(Debug)]
pub struct Upload {
    /// Where it lies.
    pub file: TempPath,
    /// Its size, in bytes.
    pub bytes: usize,
}

/// The files of an upload by parameter name.
#[derive(Debug, Default)]
pub struct Uploads(Vec<(String, Upload)>);

impl Uploads {
    /// Takes the file given as parameter `name`, if there is one.
    pub fn take(&mut self, name: &str) -> Option<Upload> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }
}

pub(super) async fn read<S: Send + Sync>(
    mut request: Request,
    state: &S,
    spool: Option<&Spool>,
    param: &mut Param,
) -> Result<Uploads, FormError> {
    let most = BODY_BYTES_MAX + spool.map_or(0, |spool| spool.file_bytes_max);
    let limit = axum::extract::DefaultBodyLimit::max(most);
    limit.apply(&mut request);
    let malformed = |_| FormError::Malformed("multipart");
    let mut parts = Multipart::from_request(request, state).await.map_err(malformed)?;
    let mut uploads = Uploads::default();
    let mut text_bytes = 0;
    for _ in 0..PARTS_MAX {
        let Some(part) = parts.next_field().await.map_err(refused)? else { return Ok(uploads) };
        let name = part.name().unwrap_or_default().to_owned();
        if part.file_name().is_some() {
            let Some(spool) = spool.filter(|_| uploads.0.len() < FILES_MAX) else { continue };
            let upload = keep(part, spool).await?;
            uploads.0.push((name, upload));
        } else {
            let text = text(part, BODY_BYTES_MAX - text_bytes).await?;
            text_bytes += text.len();
            param.add(&name, Param::Text(text))?;
        }
    }
    Err(FormError::TooMany)
}

fn refused(error: MultipartError) -> FormError {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        FormError::TooLarge
    } else {
        FormError::Malformed("multipart")
    }
}

/// A field that is text, of `most` bytes: the body may be far larger where it carries a file.
async fn text(mut part: Field<'_>, most: usize) -> Result<String, FormError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = part.chunk().await.map_err(refused)? {
        if bytes.len() + chunk.len() > most {
            return Err(FormError::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).map_err(|_| FormError::Malformed("multipart"))
}

async fn keep(mut part: Field<'_>, spool: &Spool) -> Result<Upload, FormError> {
    let made = spool.store.unfinished().map_err(|error| {
        tracing::error!(%error, "an upload cannot be stored");
        FormError::Storage
    })?;
    let (file, path) = made.into_parts();
    let mut upload = Upload { file: path, bytes: 0 };
    let mut file = tokio::fs::File::from_std(file);
    while let Some(chunk) = part.chunk().await.map_err(refused)? {
        upload.bytes += chunk.len();
        if upload.bytes > spool.file_bytes_max {
            return Err(FormError::TooLarge);
        }
        file.write_all(&chunk).await.map_err(|_| FormError::Storage)?;
    }
    file.flush().await.map_err(|_| FormError::Storage)?;
    Ok(upload)
}
