//! Stored files: whole or in part (RFC 9110, 14), with nothing in them ever run as a page of ours.

use std::io::{self, SeekFrom};

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;
use weir_community::media::Opened;

/// What is read from the disk at a time, in bytes.
const PIECE_BYTES: usize = 64 * 1024;
/// Names are never used again for other contents, so what was fetched once stays good.
const FOREVER: &str = "public, max-age=31536000, immutable";
/// No scripts, forms or frames; a file shown by itself may show itself.
const POLICY: &str = "default-src 'none'; img-src 'self'; media-src 'self'; \
                      style-src 'unsafe-inline'; form-action 'none'; sandbox";

/// What part of a file is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// From the first to the last byte, both included.
    Bytes(u64, u64),
    /// A part that the file does not have.
    Outside,
}

/// Answers a request for an open file.
pub async fn file(method: &Method, headers: &HeaderMap, opened: Opened) -> Response {
    let tag = format!("\"{}\"", opened.name);
    if is_known(headers, &tag) {
        return with_headers(StatusCode::NOT_MODIFIED.into_response(), &opened, &tag);
    }
    let (total, part) = (opened.bytes, part(headers, opened.bytes));
    let (status, first, length) = match part {
        Part::Whole => (StatusCode::OK, 0, total),
        Part::Bytes(first, last) => (StatusCode::PARTIAL_CONTENT, first, last - first + 1),
        Part::Outside => {
            let range = [(header::CONTENT_RANGE, format!("bytes */{total}"))];
            return (StatusCode::RANGE_NOT_SATISFIABLE, range).into_response();
        }
    };
    let body = if method == Method::HEAD {
        Ok(Body::empty())
    } else {
        match opened.file.try_clone() {
            Ok(file) => read(file, first, length).await,
            Err(error) => Err(error),
        }
    };
    let body = match body {
        Ok(body) => body,
        Err(error) => return unreadable(&error),
    };
    let mut response = with_headers((status, body).into_response(), &opened, &tag);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if let Part::Bytes(first, last) = part
        && let Ok(range) = HeaderValue::try_from(format!("bytes {first}-{last}/{total}"))
    {
        headers.insert(header::CONTENT_RANGE, range);
    }
    response
}

async fn read(file: std::fs::File, first: u64, length: u64) -> io::Result<Body> {
    let mut file = tokio::fs::File::from_std(file);
    file.seek(SeekFrom::Start(first)).await?;
    Ok(Body::from_stream(ReaderStream::with_capacity(file.take(length), PIECE_BYTES)))
}

fn unreadable(error: &io::Error) -> Response {
    tracing::error!(%error, "a stored file cannot be read; check the disk");
    StatusCode::INTERNAL_SERVER_ERROR.into_response()
}

fn with_headers(mut response: Response, opened: &Opened, tag: &str) -> Response {
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, opened.content_type),
        (header::CACHE_CONTROL, FOREVER),
        (header::ACCEPT_RANGES, "bytes"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("cross-origin"));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// Whether the client has it already (`If-None-Match`).
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH);
    known
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|value| value.trim().trim_start_matches("W/"))
        .any(|value| value == tag || value == "*")
}

/// One range is served; several, or one that cannot be read, count as none (RFC 9110, 14.2).
fn part(headers: &HeaderMap, total: u64) -> Part {
    let asked = headers.get(header::RANGE).and_then(|value| value.to_str().ok());
    let Some((first, last)) = asked
        .and_then(|value| value.trim().strip_prefix("bytes="))
        .and_then(|range| range.split_once('-'))
    else {
        return Part::Whole;
    };
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        text => text.parse::<u64>().ok().map(Some),
    };
    match (number(first), number(last)) {
        (Some(Some(first)), Some(last)) => {
            let last = last.unwrap_or(u64::MAX);
            if last < first {
                Part::Whole
            } else if first >= total {
                Part::Outside
            } else {
                Part::Bytes(first, last.min(total - 1))
            }
        }
        (Some(None), Some(Some(0))) => Part::Outside,
        (Some(None), Some(Some(_))) if total == 0 => Part::Outside,
        (Some(None), Some(Some(length))) => Part::Bytes(total.saturating_sub(length), total - 1),
        _ => Part::Whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> Opened {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ab12.png");
        std::fs::write(&path, b"0123456789").unwrap();
        Opened::open(&path).unwrap()
    }

    async fn ask(
        method: Method,
        name: header::HeaderName,
        value: &str,
    ) -> (StatusCode, String, HeaderMap) {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        let response = file(&method, &headers, stored()).await;
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, 100).await.unwrap();
        (parts.status, String::from_utf8_lossy(&body).into_owned(), parts.headers)
    }

    #[tokio::test]
    async fn ranges_are_served_as_the_specification_says() {
        for (asked, status, body, range) in [
            ("bytes=0-3", 206, "0123", "bytes 0-3/10"),
            ("bytes=4-", 206, "456789", "bytes 4-9/10"),
            ("bytes=-3", 206, "789", "bytes 7-9/10"),
            ("bytes=-30", 206, "0123456789", "bytes 0-9/10"),
            ("bytes=8-99999999999", 206, "89", "bytes 8-9/10"),
            ("bytes=10-", 416, "", "bytes */10"),
            ("bytes=-0", 416, "", "bytes */10"),
            ("bytes=5-2", 200, "0123456789", ""),
            ("bytes=0-1,4-5", 200, "0123456789", ""),
            ("bytes=a-b", 200, "0123456789", ""),
            ("bytes=-", 200, "0123456789", ""),
            ("lines=1-2", 200, "0123456789", ""),
        ] {
            let (given, text, headers) = ask(Method::GET, header::RANGE, asked).await;
            let given_range =
                headers.get(header::CONTENT_RANGE).map_or("", |v| v.to_str().unwrap());
            assert_eq!((given.as_u16(), &*text, given_range), (status, body, range), "{asked}");
        }
    }

    #[tokio::test]
    async fn files_are_never_run_and_stay_good_forever() {
        let (status, body, headers) = ask(Method::HEAD, header::ACCEPT, "*/*").await;
        assert_eq!((status, &*body), (StatusCode::OK, ""));
        assert_eq!(headers[header::CONTENT_LENGTH], "10");
        assert_eq!(headers[header::CONTENT_TYPE], "image/png");
        assert_eq!(headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert!(headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap().contains("sandbox"));
        assert!(headers[header::CACHE_CONTROL].to_str().unwrap().contains("immutable"));
        let tag = headers[header::ETAG].to_str().unwrap().to_owned();
        let (status, body, _) = ask(Method::GET, header::IF_NONE_MATCH, &tag).await;
        assert_eq!((status, &*body), (StatusCode::NOT_MODIFIED, ""));
    }
}
