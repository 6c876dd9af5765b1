//! `GET /.well-known/host-meta` (RFC 6415) and `host-meta.json`: where WebFinger is, and what else
//! this server has told of itself, such as how chat is reached by the web (XEP-0156).

use axum::extract::State;
use axum::response::Response;
use serde_json::json;

use super::answer::{Kept, open, typed};
use crate::ActivityPub;

/// The document.
pub async fn get(State(face): State<ActivityPub>) -> Response {
    let template = face.urls().at(".well-known/webfinger?resource={uri}");
    let mut body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <XRD xmlns=\"http://docs.oasis-open.org/ns/xri/xrd-1.0\">\n  \
         <Link rel=\"lrdd\" template=\"{template}\"/>\n"
    );
    for link in face.host_links() {
        let href = link.href.replace('&', "&amp;").replace('"', "&quot;");
        body.push_str(&format!("  <Link rel=\"{}\" href=\"{href}\"/>\n", link.rel));
    }
    body.push_str("</XRD>\n");
    open(typed(Kept::ByAll, "application/xrd+xml; charset=utf-8", body))
}

/// The same as JSON (RFC 6415, appendix A).
pub async fn get_json(State(face): State<ActivityPub>) -> Response {
    let template = face.urls().at(".well-known/webfinger?resource={uri}").to_string();
    let mut links = vec![json!({ "rel": "lrdd", "template": template })];
    links
        .extend(face.host_links().iter().map(|link| json!({ "rel": link.rel, "href": link.href })));
    let body = json!({ "links": links }).to_string();
    open(typed(Kept::ByAll, "application/json; charset=utf-8", body))
}
