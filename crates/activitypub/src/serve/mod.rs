//! Documents for others to read. This file is the table: each line says which file answers.

mod account;
mod answer;
mod featured;
mod featured_tags;
mod followers;
mod following;
mod host_meta;
mod instance_actor;
mod nodeinfo;
mod outbox;
mod page;
mod people;
mod profile;
mod reader;
mod replies;
mod status;
mod webfinger;

use axum::Router;
use axum::routing::get;

use crate::{ActivityPub, inbox};
pub(crate) use account::find_as as find_account;
pub(crate) use answer::Refusal;
pub use host_meta::alone as host_meta_alone;
pub(crate) use nodeinfo::Usage;

/// Everything that others read, and where they write to.
pub fn router(face: ActivityPub) -> Router {
    Router::new()
        .route("/.well-known/webfinger", get(webfinger::get))
        .route("/.well-known/host-meta", get(host_meta::get))
        .route("/.well-known/host-meta.json", get(host_meta::get_json))
        .route("/.well-known/nodeinfo", get(nodeinfo::links))
        .route("/nodeinfo/2.0", get(nodeinfo::version_2_0))
        .route("/nodeinfo/2.1", get(nodeinfo::version_2_1))
        .route("/actor", get(instance_actor::get))
        .route("/actor/outbox", get(instance_actor::outbox))
        .route("/ap/users/{account}", get(account::get))
        .route("/users/{account}", get(account::get))
        .route("/ap/users/{account}/outbox", get(outbox::get))
        .route("/ap/users/{account}/followers", get(followers::get))
        .route("/ap/users/{account}/following", get(following::get))
        .route("/ap/users/{account}/collections/featured", get(featured::get))
        .route("/ap/users/{account}/collections/tags", get(featured_tags::get))
        .route("/ap/users/{account}/statuses/{status}", get(status::get))
        .route("/ap/users/{account}/statuses/{status}/activity", get(status::activity))
        .route("/ap/users/{account}/statuses/{status}/replies", get(replies::get))
        .route("/@{name}", get(profile::account))
        .route("/@{name}/{status}", get(profile::status))
        .merge(inbox::router())
        .with_state(face)
}
