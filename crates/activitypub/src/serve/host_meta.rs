//! `GET /.well-known/host-meta` (RFC 6415): where WebFinger is.

use axum::extract::State;
use axum::response::Response;

use super::answer::{Kept, open, typed};
use crate::ActivityPub;

/// The document.
pub async fn get(State(face): State<ActivityPub>) -> Response {
    let template = face.urls().at(".well-known/webfinger?resource={uri}");
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <XRD xmlns=\"http://docs.oasis-open.org/ns/xri/xrd-1.0\">\n  \
         <Link rel=\"lrdd\" template=\"{template}\"/>\n</XRD>\n"
    );
    open(typed(Kept::ByAll, "application/xrd+xml; charset=utf-8", body))
}
