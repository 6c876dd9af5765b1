//! Multipart bodies: fields as parameters, files in a folder of their own until they are taken.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::StatusCode;
use tokio::io::AsyncWriteExt;

use super::param::Param;
use super::{BODY_BYTES_MAX, FormError};

/// Files one request may carry.
const FILES_MAX: usize = 4;
/// Parts one request may have.
const PARTS_MAX: usize = 1_000;

/// Where files of uploads lie while their request is worked on.
#[derive(Debug, Clone)]
pub struct Spool {
    /// The folder; made when it is missing.
    pub folder: PathBuf,
    /// The largest file, in bytes.
    pub file_bytes_max: usize,
}

/// A file of an upload; it is removed when this is dropped.
#[derive(Debug)]
pub struct Upload {
    /// Where it lies.
    pub path: PathBuf,
    /// Its size, in bytes.
    pub bytes: usize,
    /// Its media type, as the client says.
    pub content_type: String,
    /// Its name, as the client says.
    pub name: String,
}

impl Drop for Upload {
    fn drop(&mut self) {
        // It may have been moved to where it stays.
        let _ = std::fs::remove_file(&self.path);
    }
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
            let text = part.text().await.map_err(refused)?;
            text_bytes += text.len();
            if text_bytes > BODY_BYTES_MAX {
                return Err(FormError::TooLarge);
            }
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

async fn keep(mut part: Field<'_>, spool: &Spool) -> Result<Upload, FormError> {
    let path = spool.fresh();
    let mut upload = Upload {
        path: path.clone(),
        bytes: 0,
        content_type: part.content_type().unwrap_or_default().to_owned(),
        name: part.file_name().unwrap_or_default().to_owned(),
    };
    let mut file = create(&spool.folder, &path).await.map_err(|error| {
        tracing::error!(path = %path.display(), %error, "an upload cannot be stored");
        FormError::Storage
    })?;
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

async fn create(folder: &Path, path: &Path) -> std::io::Result<tokio::fs::File> {
    tokio::fs::create_dir_all(folder).await?;
    tokio::fs::File::create(path).await
}

impl Spool {
    /// A path that no other upload of this process has.
    fn fresh(&self) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.folder.join(format!("upload-{}-{number}", std::process::id()))
    }
}
