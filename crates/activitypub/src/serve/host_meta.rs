//! `GET /.well-known/host-meta` (RFC 6415) and `host-meta.json`: where WebFinger is, and what else
//! this server has told of itself, such as how chat is reached by the web (XEP-0156).

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing;
use serde_json::{Value, json};

use super::answer::{Kept, open, typed};
use crate::{ActivityPub, HostLink};

/// The document where there is no federation: `links` alone.
pub fn alone(links: Vec<HostLink>) -> Router {
    async fn as_xml(State(links): State<Arc<[HostLink]>>) -> Response {
        xml(None, &links)
    }
    async fn as_json(State(links): State<Arc<[HostLink]>>) -> Response {
        json(None, &links)
    }
    Router::new()
        .route("/.well-known/host-meta", routing::get(as_xml))
        .route("/.well-known/host-meta.json", routing::get(as_json))
        .with_state(links.into())
}

/// The document.
pub async fn get(State(face): State<ActivityPub>) -> Response {
    xml(Some(template(&face)), face.host_links())
}

/// The same as JSON (RFC 6415, appendix A).
pub async fn get_json(State(face): State<ActivityPub>) -> Response {
    json(Some(template(&face)), face.host_links())
}

fn template(face: &ActivityPub) -> String {
    face.urls().at(".well-known/webfinger?resource={uri}").to_string()
}

fn xml(template: Option<String>, links: &[HostLink]) -> Response {
    let mut body = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
                    <XRD xmlns=\"http://docs.oasis-open.org/ns/xri/xrd-1.0\">\n"
        .to_owned();
    if let Some(template) = template {
        body.push_str(&format!("  <Link rel=\"lrdd\" template=\"{template}\"/>\n"));
    }
    for link in links {
        let href = link.href.replace('&', "&amp;").replace('"', "&quot;");
        body.push_str(&format!("  <Link rel=\"{}\" href=\"{href}\"/>\n", link.rel));
    }
    body.push_str("</XRD>\n");
    open(typed(Kept::ByAll, "application/xrd+xml; charset=utf-8", body))
}

fn json(template: Option<String>, links: &[HostLink]) -> Response {
    let own = template.map(|template| json!({ "rel": "lrdd", "template": template }));
    let further = links.iter().map(|link| json!({ "rel": link.rel, "href": link.href }));
    let links: Vec<Value> = own.into_iter().chain(further).collect();
    let body = json!({ "links": links }).to_string();
    open(typed(Kept::ByAll, "application/json; charset=utf-8", body))
}
