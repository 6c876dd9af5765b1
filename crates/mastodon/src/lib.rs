//! The Mastodon API.
//!
//! This file is the table of the whole protocol: each line says which method and path is served by
//! which function of which file, one function per verb. An endpoint reads its request by extractors
//! ([`auth`] for who asks, [`weir_http::Form`] for what, [`Paging`] for which page), runs one unit of
//! work, and answers with [`entities`]. Faults take their form in [`Error`].

mod accounts;
pub mod auth;
mod door;
pub mod entities;
mod error;
mod face;
mod page;
mod pictures;
pub mod push;
mod timelines;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get};

pub use error::Error;
pub use face::{At, Face, Setup};
pub use page::{Page, Paging};

/// Everything this face serves.
pub fn router(setup: Setup) -> Router {
    let face = Face::new(setup);
    let table = Router::new()
        .merge(accounts_table())
        .merge(timelines_table())
        .route("/api/{*rest}", any(async || Error::not_found()))
        .method_not_allowed_fallback(async || Error::not_found());
    let served = table
        .layer(from_fn_with_state(face.clone(), door::door))
        .layer(weir_http::cors())
        .with_state(face);
    served
        .route("/avatars/original/missing.png", get(pictures::avatar))
        .route("/headers/original/missing.png", get(pictures::header))
}

/// People: looking at them, and at oneself.
fn accounts_table() -> Router<Face> {
    use accounts::verify_credentials;
    Router::new().route("/api/v1/accounts/verify_credentials", get(verify_credentials::get))
}

/// Posts of many.
fn timelines_table() -> Router<Face> {
    Router::new().route("/api/v1/timelines/home", get(timelines::home))
}
