//! Reading an answer within its limits, to memory or to a file.
//!
//! What is counted are unpacked bytes, as they come: a small answer that unpacks to a large one
//! is cut at the limit, with no more than one piece of it held.

use std::path::Path;

use bytes::{Bytes, BytesMut};
use reqwest::Response;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout_at};

use crate::Error;
use crate::client::cause_of;

/// The limits of one answer.
pub(crate) struct Limits<'a> {
    pub(crate) host: &'a str,
    pub(crate) limit_bytes: usize,
    pub(crate) until: Instant,
    pub(crate) deadline_ms: u64,
}

impl Limits<'_> {
    /// The next piece of the body.
    async fn chunk(&self, from: &mut Response) -> Result<Option<Bytes>, Error> {
        let host = || self.host.to_owned();
        match timeout_at(self.until, from.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(Error::Body { host: host(), cause: cause_of(&error) }),
            Err(_) => Err(Error::Timeout { host: host(), deadline_ms: self.deadline_ms }),
        }
    }

    /// Checks what the answer says of itself, before any of it is read.
    fn check_announced(&self, from: &Response) -> Result<(), Error> {
        match from.content_length() {
            Some(length) if length > self.limit_bytes as u64 => Err(self.too_large()),
            _ => Ok(()),
        }
    }

    fn too_large(&self) -> Error {
        Error::TooLarge { host: self.host.to_owned(), limit_bytes: self.limit_bytes }
    }
}

/// Reads the whole body.
pub(crate) async fn read(mut from: Response, limits: &Limits<'_>) -> Result<Bytes, Error> {
    limits.check_announced(&from)?;
    let mut body = BytesMut::new();
    while let Some(chunk) = limits.chunk(&mut from).await? {
        if body.len() + chunk.len() > limits.limit_bytes {
            return Err(limits.too_large());
        }
        body.extend_from_slice(&chunk);
    }
    metrics::counter!("weir_fetch_body_bytes_total").increment(body.len() as u64);
    Ok(body.freeze())
}

/// Writes the whole body to a new file at `path`, and gives its length in bytes. The file is not
/// synced. Where this fails no file is left.
pub(crate) async fn save(from: Response, limits: &Limits<'_>, path: &Path) -> Result<u64, Error> {
    limits.check_announced(&from)?;
    let mut unfinished = Unfinished(Some(path));
    let result = write(from, limits, path).await;
    if result.is_ok() {
        unfinished.0 = None;
    }
    result
}

async fn write(mut from: Response, limits: &Limits<'_>, path: &Path) -> Result<u64, Error> {
    let failed = |cause| Error::File { path: path.to_owned(), cause };
    let mut file = tokio::fs::File::create(path).await.map_err(failed)?;
    let mut written_bytes = 0;
    while let Some(chunk) = limits.chunk(&mut from).await? {
        written_bytes += chunk.len();
        if written_bytes > limits.limit_bytes {
            return Err(limits.too_large());
        }
        file.write_all(&chunk).await.map_err(failed)?;
    }
    file.flush().await.map_err(failed)?;
    metrics::counter!("weir_fetch_body_bytes_total").increment(written_bytes as u64);
    Ok(written_bytes as u64)
}

/// Removes the file of a download that failed or was cancelled.
struct Unfinished<'a>(Option<&'a Path>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            // It may not be there yet; what is left otherwise is cleared with its folder.
            let _ = std::fs::remove_file(path);
        }
    }
}
