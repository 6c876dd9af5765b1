//! The face of server-rendered pages: everything works without a script.
//!
//! The table below shows all paths. A handler is a file; it reads through
//! [`weir_community::Community`], fills a template of `templates/` and gives it to
//! [`frame::show`]. What goes wrong is a [`fault::Fault`], of which the outermost layer makes a
//! page that says what to do.

mod assets;
mod auth;
mod fault;
mod form;
mod frame;
mod headers;
mod oauth;
mod throttle;
mod visitor;

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use weir_community::Community;
use weir_community::users::Door;

use throttle::Throttle;

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
    log_ins_by_source: Arc<Throttle>,
    log_ins_by_name: Arc<Throttle>,
}

impl Pages {
    /// Pages of `community`.
    pub fn new(community: Community, options: Options) -> Self {
        let clock = community.env().clock.clone();
        let every = |burst, every_ms| {
            Arc::new(Throttle::new(clock.clone(), options.throttle, burst, every_ms))
        };
        Self {
            log_ins_by_source: every(30, 10_000),
            log_ins_by_name: every(10, 60_000),
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
    Router::new()
        .route("/assets/weir.css", get(assets::css))
        .route("/auth/sign_in", get(auth::sign_in::page).post(auth::sign_in::submit))
        .route("/auth/sign_out", post(auth::sign_out::submit))
        .route("/oauth/authorize", get(oauth::authorize::page).post(oauth::authorize::submit))
        .route("/oauth/authorize/native", get(oauth::native::page))
        .layer(DefaultBodyLimit::max(FORM_BYTES_MAX))
        .layer(from_fn_with_state(pages.clone(), fault::into_pages))
        .layer(from_fn_with_state(pages.clone(), headers::add))
        .with_state(pages)
}
