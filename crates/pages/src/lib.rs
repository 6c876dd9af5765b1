//! The face of server-rendered pages: everything works without a script.
//!
//! The table below shows all paths. A handler is a file; it reads through
//! [`weir_community::Community`], fills a template of `templates/` and gives it to
//! [`frame::show`]. What goes wrong is a [`fault::Fault`], of which the outermost layer makes a
//! page that says what to do.

mod admin;
mod assets;
mod auth;
mod emoji;
mod face;
mod fault;
mod form;
mod frame;
mod headers;
mod oauth;
mod paging;
mod post;
mod problems;
mod public;
mod settings;
mod time;
mod visitor;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::{Method, Uri};
use weir_community::Community;
use weir_community::federation::SharedResolver;
use weir_community::users::Door;
use weir_http::Throttle;

/// Bytes that a form may have.
const FORM_BYTES_MAX: usize = 128 * weir_base::KIB;

/// What is configured about pages.
#[derive(Debug, Clone)]
pub struct Options {
    /// How people come in.
    pub door: Door,
    /// Whether log-ins and sign-ups are slowed down; off for development.
    pub throttle: bool,
}

/// The pages' handle; clones share it.
#[derive(Clone)]
pub struct Pages {
    community: Community,
    options: Arc<Options>,
    resolver: SharedResolver,
    log_ins_by_source: Arc<Throttle>,
    log_ins_by_name: Arc<Throttle>,
    sign_ups: Arc<Throttle>,
    mails: Arc<Throttle>,
    /// Addresses of other servers that people ask for.
    lookups: Arc<Throttle>,
}

impl Pages {
    /// Pages of `community`; by `resolver` they find people and posts on other servers.
    pub fn new(community: Community, resolver: SharedResolver, options: Options) -> Self {
        let clock = community.env().clock.clone();
        let every = |name, burst, every_ms| {
            Arc::new(Throttle::new(name, clock.clone(), options.throttle, burst, every_ms))
        };
        Self {
            log_ins_by_source: every("log_ins_by_source", 30, 10_000),
            log_ins_by_name: every("log_ins_by_name", 10, 60_000),
            sign_ups: every("sign_ups", 10, 120_000),
            mails: every("mails", 5, 300_000),
            lookups: every("lookups", 30, 10_000),
            resolver,
            community,
            options: Arc::new(options),
        }
    }

    /// Whether cookies are for encrypted connections only.
    fn is_https(&self) -> bool {
        self.community.env().site.base.starts_with("https://")
    }
}

/// Everything the pages answer.
pub fn router(pages: Pages) -> Router {
    let all = Router::new()
        .merge(public())
        .merge(entrance())
        .merge(settings())
        .merge(staff())
        .route("/assets/weir.css", get(assets::css));
    with_layers(all, pages)
}

/// The answer to every path that nobody serves: a page that says so.
pub fn nothing_here(pages: Pages) -> Router {
    with_layers(Router::new().fallback(elsewhere), pages)
}

/// The page of this address without the slashes at its end, if it has any.
async fn elsewhere(method: Method, uri: Uri) -> Response {
    let path = uri.path().trim_end_matches('/');
    // Not `//host` and its like, which lead to another server.
    let is_ours = path.len() > 1 && auth::sign_in::local_path(path) == path;
    if method != Method::GET || path == uri.path() || !is_ours {
        return fault::Fault::not_found().into_response();
    }
    match uri.query() {
        Some(query) => Redirect::permanent(&format!("{path}?{query}")).into_response(),
        None => Redirect::permanent(path).into_response(),
    }
}

fn with_layers(router: Router<Pages>, pages: Pages) -> Router {
    router
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
        .layer(from_fn_with_state(pages.clone(), fault::into_pages))
        .layer(from_fn_with_state(pages.clone(), headers::add))
        .with_state(pages)
}

/// What everybody may read.
fn public() -> Router<Pages> {
    use public::{
        about, follow, front, interaction, old_addresses, people, profile, status, tag, timeline,
    };
    Router::new()
        .route("/", get(front::page))
        .route("/public/local", get(timeline::page))
        .route("/about", get(about::page))
        .route("/about/more", get(about::page))
        .route("/about/privacy", get(about::privacy))
        .route("/privacy-policy", get(about::privacy))
        .route("/about/terms", get(about::terms))
        .route("/directory", get(people::directory))
        .route("/tags/{name}", get(tag::page))
        .route("/@{name}", get(profile::posts))
        .route("/@{name}/with_replies", get(profile::with_replies))
        .route("/@{name}/media", get(profile::with_media))
        .route("/@{name}/followers", get(people::followers))
        .route("/@{name}/following", get(people::following))
        .route("/@{name}/follow", post(follow::submit))
        .route("/@{name}/remote_follow", get(follow::ask).post(follow::leave))
        .route("/@{name}/{id}", get(status::page))
        .route("/authorize_interaction", get(interaction::page).post(interaction::submit))
        .route("/users/{name}", get(old_addresses::user))
        .route("/ap/users/{id}", get(old_addresses::actor))
        .route("/ap/users/{id}/statuses/{status}", get(old_addresses::object))
}

/// Joining, logging in and out, and letting apps in.
fn entrance() -> Router<Pages> {
    use auth::{confirmation, password, sign_in, sign_out, sign_up};
    use oauth::{authorize, native};
    Router::new()
        .route("/auth/sign_in", get(sign_in::page).post(sign_in::submit))
        .route("/auth/sign_out", post(sign_out::submit))
        .route("/auth/sign_up", get(sign_up::page).post(sign_up::submit))
        .route("/invite/{code}", get(sign_up::invited))
        .route("/auth/confirmation", get(confirmation::confirm))
        .route("/auth/confirmation/new", get(confirmation::ask).post(confirmation::send))
        .route("/auth/password/new", get(password::ask).post(password::send))
        .route("/auth/password/edit", get(password::page).post(password::submit))
        .route("/oauth/authorize", get(authorize::page).post(authorize::submit))
        .route("/oauth/authorize/native", get(native::page))
}

/// What a person sets.
fn settings() -> Router<Pages> {
    use settings::{account, apps, invites, migration, pictures, preferences, profile, sessions};
    Router::new()
        .route("/settings", get(profile::first))
        .route("/settings/profile", get(profile::page).post(profile::submit))
        .route("/settings/pictures", post(pictures::submit))
        .route("/settings/preferences", get(preferences::page).post(preferences::submit))
        .route("/settings/account", get(account::page))
        .route("/settings/email", post(account::email))
        .route("/settings/password", post(account::password))
        .route("/settings/delete", get(account::leave).post(account::delete))
        .route("/settings/migration", get(migration::page).post(migration::submit))
        .route("/settings/apps", get(apps::page).post(apps::revoke))
        .route("/settings/sessions", get(sessions::page).post(sessions::end))
        .route("/settings/invites", get(invites::page).post(invites::submit))
}

/// What staff does.
fn staff() -> Router<Pages> {
    use admin::{domains, first, instance, joining, pending, people, reports};
    Router::new()
        .route("/admin", get(first))
        .route("/admin/reports", get(reports::list))
        .route("/admin/reports/{id}", get(reports::page).post(reports::act))
        .route("/admin/pending", get(pending::page).post(pending::act))
        .route("/admin/people", get(people::list))
        .route("/admin/people/{id}", get(people::page).post(people::act))
        .route("/admin/domains", get(domains::page).post(domains::act))
        .route("/admin/joining", get(joining::page).post(joining::act))
        .route("/admin/instance", get(instance::page).post(instance::save))
        .route("/admin/rules", post(instance::rules))
}
