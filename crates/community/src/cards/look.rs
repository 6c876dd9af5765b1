//! Looking at a page: its beginning, its oEmbed document, and its picture.

use std::time::Duration;

use url::Url;
use weir_base::{KIB, MIB};
use weir_fetch::{Fetch, Request};

use super::preview::{Kind, Preview};
use super::{oembed, page};
use crate::media::{self, Files};

/// What is read of a page, in bytes.
const PAGE_BYTES_MAX: usize = MIB;
/// The largest oEmbed document, in bytes.
const OEMBED_BYTES_MAX: usize = 64 * KIB;
/// The largest picture, in bytes.
const IMAGE_BYTES_MAX: usize = 8 * MIB;
const DEADLINE: Duration = Duration::from_secs(15);

/// Fetches and reads the page; none when there is nothing to show.
pub(super) async fn look(fetch: &Fetch, files: &Files, address: &str) -> Option<Preview> {
    let request = Request::new(Url::parse(address).ok()?)
        .accept("text/html, application/xhtml+xml")
        .limit_bytes(PAGE_BYTES_MAX)
        .deadline(DEADLINE);
    let answer = fetch.get(request).await.and_then(|answer| answer.success(fetch.now()));
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            tracing::debug!(%error, address, "no preview");
            return None;
        }
    };
    if !matches!(answer.media_type().as_str(), "text/html" | "application/xhtml+xml") {
        return None;
    }
    let (html, final_url) = (answer.body, answer.final_url);
    // Parsing a large page takes a while; hostile ones longer.
    let read = move || page::read(&String::from_utf8_lossy(&html), &final_url);
    let (mut preview, document) = tokio::task::spawn_blocking(read).await.ok().flatten()?;
    if let Some(document) = document {
        embed(fetch, &mut preview, document).await;
    }
    measure(fetch, files, &mut preview).await;
    Some(preview)
}

/// Adds what the page's oEmbed document says, if it can be had.
async fn embed(fetch: &Fetch, preview: &mut Preview, document: Url) -> Option<()> {
    let request = Request::new(document)
        .accept("application/json")
        .limit_bytes(OEMBED_BYTES_MAX)
        .deadline(DEADLINE);
    let answer = fetch.get(request).await.ok()?.success(fetch.now()).ok()?;
    oembed::add(preview, &answer.body, &answer.final_url)
}

/// Looks at the picture for its size and its blurred preview; what is no picture is not shown.
async fn measure(fetch: &Fetch, files: &Files, preview: &mut Preview) -> Option<()> {
    let url = Url::parse(preview.image.as_deref()?).ok()?;
    let request =
        Request::new(url).accept("image/*").limit_bytes(IMAGE_BYTES_MAX).deadline(DEADLINE);
    let answer = fetch.get(request).await.and_then(|answer| answer.success(fetch.now()));
    let bytes = match answer {
        Ok(answer) => answer.body,
        // It may be there when somebody looks at it.
        Err(error) if error.is_passing() => return None,
        Err(_) => return forgo_image(preview),
    };
    let Some((width, height, blurhash)) = media::look_at(files, bytes.into()).await else {
        return forgo_image(preview);
    };
    preview.blurhash = Some(blurhash);
    if preview.kind != Kind::Video || preview.width == 0 {
        (preview.width, preview.height) = (width, height);
    }
    Some(())
}

fn forgo_image(preview: &mut Preview) -> Option<()> {
    preview.image = None;
    if preview.kind == Kind::Photo {
        preview.kind = Kind::Link;
    }
    None
}
