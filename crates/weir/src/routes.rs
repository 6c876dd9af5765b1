//! Which face answers which path.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::routing::{any_service, get};
use http::{HeaderMap, Method, Request, header};
use tokio_util::sync::CancellationToken;
use tower::{ServiceExt, service_fn};
use weir_activitypub::ActivityPub;
use weir_community::federation::{Alone, SharedResolver};
use weir_community::media::Proxy;
use weir_pages::Pages;
use weir_xmpp::Xmpp;

use crate::config::Checked;
use crate::federation::host_links;
use crate::options;
use crate::outside::Outside;
use crate::parts::Parts;
use crate::process;

/// The faces that may be left out.
#[derive(Clone, Copy)]
pub struct Faces<'f> {
    /// To other servers.
    pub federation: Option<&'f ActivityPub>,
    /// Chat.
    pub chat: Option<&'f Xmpp>,
}

/// Everything that is served over HTTP.
pub fn router(
    checked: &Checked,
    parts: &Parts,
    outside: &Outside,
    faces: Faces<'_>,
    shutdown: CancellationToken,
) -> Router {
    let cache_bytes_max = media_cache_bytes(&parts.community.env().data);
    let proxy = Proxy::new(parts.community.clone(), outside.fetch.clone(), cache_bytes_max);
    let Faces { federation, chat } = faces;
    let resolver: SharedResolver = match federation {
        Some(face) => Arc::new(face.clone()),
        None => Arc::new(Alone(parts.community.clone())),
    };
    let pages = Pages::new(parts.community.clone(), resolver.clone(), options::pages(checked));
    let own = Router::new().route("/health", get(async || "OK"));
    let own = own.merge(weir_http::media(&parts.community, proxy));
    let ddp = weir_ddp::weir(weir_ddp::Setup {
        community: parts.community.clone(),
        resolver: resolver.clone(),
        dev: checked.modes.dev,
        shutdown,
    });
    let own = own.merge(weir_ddp::router(ddp));
    let own = match chat {
        Some(chat) => own
            .merge(weir_xmpp::stream::router(chat.clone()))
            .merge(weir_xmpp::upload::router(parts.community.clone())),
        None => own,
    };
    let mastodon = weir_mastodon::Setup {
        community: parts.community.clone(),
        resolver,
        vapid_key: outside.vapid.public_key(),
        door: options::door(checked),
        dev: checked.modes.dev,
    };
    let nothing = weir_pages::nothing_here(pages.clone());
    let web = own.merge(weir_pages::router(pages)).merge(weir_mastodon::router(mastodon));
    let servers = match federation {
        Some(face) => weir_activitypub::router(face.clone()),
        None => weir_activitypub::host_meta_alone(host_links(checked, parts)),
    };
    by_what_is_asked(web, servers, nothing)
}

/// How much of other servers' media is kept on the disk under `data`, in bytes: a tenth of what is
/// free, within bounds.
fn media_cache_bytes(data: &Path) -> u64 {
    (process::free_disk_bytes(data) / 10).clamp(256 << 20, 16 << 30)
}

/// Lets `federation` answer those who send or ask for activities, and `web` everybody else. What
/// the one has no path for, the other is asked; `nothing` answers people for whom both have
/// nothing.
fn by_what_is_asked(web: Router, federation: Router, nothing: Router) -> Router {
    let web = weir_http::with_route_names(web);
    let federation = weir_http::with_route_names(federation);
    let to_servers = federation.clone().fallback_service(web.clone());
    let to_people = web.fallback_service(federation.fallback_service(nothing));
    Router::new().fallback_service(any_service(service_fn(move |request: Request<Body>| {
        let is_server = sends_activity(&request) || asks_for_activities(request.headers());
        let router = if is_server { &to_servers } else { &to_people };
        router.clone().oneshot(without_last_slash(request))
    })))
}

/// The request without slashes at the end of a path of the Mastodon API: toot and Mastodon.py
/// write some, and Mastodon forgives them.
fn without_last_slash(mut request: Request<Body>) -> Request<Body> {
    let uri = request.uri();
    let path = uri.path().trim_end_matches('/');
    let forgiven = path.starts_with("/api/") || path.starts_with("/oauth/");
    if !forgiven || path.len() == uri.path().len() {
        return request;
    }
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    if let Ok(target) = target.parse() {
        *request.uri_mut() = target;
    }
    request
}

/// ActivityPub's forms (its section 3.2).
const ACTIVITIES: &[&str] = &["application/activity+json", "application/ld+json"];

/// Whether one of ActivityPub's forms is sent: most of what comes in does not name a form it wants.
fn sends_activity(request: &Request<Body>) -> bool {
    let form = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    request.method() == Method::POST
        && form.is_some_and(|form| ACTIVITIES.iter().any(|known| form.starts_with(known)))
}

/// Whether one of ActivityPub's forms is asked for before a page.
fn asks_for_activities(headers: &HeaderMap) -> bool {
    const PAGES: &[&str] = &["text/html", "application/xhtml+xml"];
    let accept = headers.get_all(header::ACCEPT);
    let forms = accept.iter().filter_map(|value| value.to_str().ok());
    let forms = forms.flat_map(|value| value.split(',')).map(str::trim);
    let is = |form: &str, known: &[&str]| known.iter().any(|known| form.starts_with(known));
    forms
        .map(|form| (is(form, ACTIVITIES), is(form, PAGES)))
        .find(|(activity, page)| *activity || *page)
        .is_some_and(|(activity, _)| activity)
}

#[cfg(test)]
mod tests {
    use axum::routing::post;

    use super::*;

    async fn answer(router: &Router, path: &str, accept: &str) -> String {
        told(router, Request::get(path).header(header::ACCEPT, accept)).await
    }

    async fn told(router: &Router, request: http::request::Builder) -> String {
        let request = request.body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
        format!("{} {}", status.as_u16(), String::from_utf8_lossy(&body))
    }

    #[tokio::test]
    async fn one_path_serves_people_and_servers_each_in_their_form() {
        let web = Router::new()
            .route("/@{name}", get(async || "page"))
            .route("/about", get(async || "about"));
        let federation = Router::new()
            .route("/@{name}", get(async || "actor"))
            .route("/nodeinfo/2.1", get(async || "nodeinfo"));
        let router = by_what_is_asked(web, federation, Router::new().fallback(async || "nothing"));
        let ld = "application/ld+json; profile=\"https://www.w3.org/ns/activitystreams\"";
        for accept in [ld, "application/activity+json", "application/activity+json, text/html"] {
            assert_eq!(answer(&router, "/@alice", accept).await, "200 actor", "{accept}");
        }
        for accept in ["text/html,application/activity+json", "*/*", "", "application/json"] {
            assert_eq!(answer(&router, "/@alice", accept).await, "200 page", "{accept}");
        }
        assert_eq!(answer(&router, "/about", ld).await, "200 about");
        assert_eq!(answer(&router, "/nodeinfo/2.1", "*/*").await, "200 nodeinfo");
        assert_eq!(answer(&router, "/none", "*/*").await, "200 nothing");
        assert!(answer(&router, "/none", ld).await.starts_with("404"));
    }

    #[tokio::test]
    async fn who_sends_an_activity_is_a_server() {
        let web = Router::new()
            .route("/inbox", post(async || "form").get(async || "page"))
            .route("/web", post(async || "web"));
        let federation = Router::new().route("/inbox", post(async || "activity"));
        let router = by_what_is_asked(web, federation, Router::new().fallback(async || "nothing"));
        let send = |path: &str, form: &str| Request::post(path).header(header::CONTENT_TYPE, form);
        for form in ["application/activity+json", "application/ld+json; profile=\"a\""] {
            assert_eq!(told(&router, send("/inbox", form)).await, "200 activity", "{form}");
            assert_eq!(told(&router, send("/web", form)).await, "200 web", "{form}");
        }
        for form in ["application/json", "application/x-www-form-urlencoded"] {
            assert_eq!(told(&router, send("/inbox", form)).await, "200 form", "{form}");
        }
        let get = Request::get("/inbox").header(header::CONTENT_TYPE, "application/activity+json");
        assert_eq!(told(&router, get).await, "200 page", "nothing is sent");
    }
}
