//! The Mastodon API.
//!
//! This file is the table of the whole protocol: each line says which method and path is served by
//! which function of which file, one function per verb. An endpoint reads its request by extractors
//! ([`auth`] for who asks, [`weir_http::Form`] for what, [`Paging`] for which page), runs one unit
//! of work, and answers with [`entities`]. Faults take their form in [`Error`].

mod accounts;
mod announcements;
mod apps;
mod async_refreshes;
pub mod auth;
mod conversations;
mod custom_emojis;
mod directory;
mod domain_blocks;
mod door;
mod emails;
pub mod entities;
mod error;
mod face;
mod filters;
mod instance;
mod lists;
mod marked;
mod markers;
mod media;
mod notifications;
mod oauth;
mod oembed;
mod page;
mod pictures;
mod polls;
mod preferences;
mod profile;
pub mod push;
mod relations;
mod reports;
mod scheduled_statuses;
mod search;
mod statuses;
mod streaming;
mod suggestions;
mod tags;
mod timelines;
mod trends;

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{any, delete, get, patch, post, put};

pub use error::Error;
pub use face::{At, Done, Face, Setup};
pub use page::{Page, Paging};

/// Everything this face serves.
pub fn router(setup: Setup) -> Router {
    let face = Face::new(setup);
    let table = Router::new()
        .merge(apps_table())
        .merge(accounts_table())
        .merge(relations_table())
        .merge(statuses_table())
        .merge(timelines_table())
        .merge(media_table())
        .merge(profile_table())
        .merge(instance_table())
        .merge(push_table())
        .merge(streaming::table())
        .merge(notifications_table())
        .merge(filters_table())
        .merge(lists_table())
        .merge(tags_table())
        .merge(own_table())
        .route("/api/{*rest}", any(async || Error::not_found()))
        .method_not_allowed_fallback(async || Error::not_found());
    let served = table
        .layer(from_fn_with_state(face.clone(), door::door))
        .layer(from_fn(door::keep_private))
        .layer(weir_http::cors())
        .with_state(face);
    served
        .route("/avatars/original/missing.png", get(pictures::avatar))
        .route("/headers/original/missing.png", get(pictures::header))
}

/// Apps and their tokens.
fn apps_table() -> Router<Face> {
    Router::new()
        .route("/api/v1/apps", post(apps::register))
        .route("/api/v1/apps/verify_credentials", get(apps::verify_credentials))
        .route("/oauth/token", post(oauth::token::post))
        .route("/oauth/revoke", post(oauth::revoke::post))
        .route("/oauth/userinfo", get(oauth::userinfo::get).post(oauth::userinfo::get))
        .route("/.well-known/oauth-authorization-server", get(oauth::metadata::get))
}

/// People: looking at them, and at oneself.
#[rustfmt::skip]
fn accounts_table() -> Router<Face> {
    use accounts::*;
    Router::new()
        .route("/api/v1/accounts", get(show::many).post(sign_up::post))
        .route("/api/v1/accounts/verify_credentials", get(verify_credentials::get))
        .route("/api/v1/accounts/update_credentials", patch(update_credentials::patch))
        .route("/api/v1/accounts/relationships", get(relationships::get))
        .route("/api/v1/accounts/familiar_followers", get(familiar_followers::get))
        .route("/api/v1/accounts/search", get(search::get))
        .route("/api/v1/accounts/lookup", get(lookup::get))
        .route("/api/v1/accounts/{id}", get(show::one))
        .route("/api/v1/accounts/{id}/statuses", get(statuses::get))
        .route("/api/v1/accounts/{id}/followers", get(related::followers))
        .route("/api/v1/accounts/{id}/following", get(related::following))
        .route("/api/v1/accounts/{id}/endorsements", get(related::endorsements))
        .route("/api/v1/accounts/{id}/featured_tags", get(featured_tags::get))
        .route("/api/v1/accounts/{id}/lists", get(lists::get))
        .route("/api/v1/accounts/{id}/identity_proofs", get(show::identity_proofs))
        .route("/api/v1/accounts/{id}/follow", post(follow::follow))
        .route("/api/v1/accounts/{id}/unfollow", post(follow::unfollow))
        .route("/api/v1/accounts/{id}/remove_from_followers", post(follow::remove_from_followers))
        .route("/api/v1/accounts/{id}/block", post(block::block))
        .route("/api/v1/accounts/{id}/unblock", post(block::unblock))
        .route("/api/v1/accounts/{id}/mute", post(mute::mute))
        .route("/api/v1/accounts/{id}/unmute", post(mute::unmute))
        .route("/api/v1/accounts/{id}/endorse", post(endorse::endorse))
        .route("/api/v1/accounts/{id}/unendorse", post(endorse::unendorse))
        .route("/api/v1/accounts/{id}/pin", post(endorse::endorse))
        .route("/api/v1/accounts/{id}/unpin", post(endorse::unendorse))
        .route("/api/v1/accounts/{id}/note", post(note::post))
}

/// One's own lists of people and servers.
fn relations_table() -> Router<Face> {
    let domains = get(domain_blocks::list).post(domain_blocks::block);
    Router::new()
        .route("/api/v1/blocks", get(relations::blocks))
        .route("/api/v1/mutes", get(relations::mutes))
        .route("/api/v1/endorsements", get(relations::endorsements))
        .route("/api/v1/follow_requests", get(relations::follow_requests))
        .route("/api/v1/follow_requests/{id}/authorize", post(relations::authorize))
        .route("/api/v1/follow_requests/{id}/reject", post(relations::reject))
        .route("/api/v1/domain_blocks", domains.delete(domain_blocks::unblock))
        .route("/api/v1/domain_blocks/preview", get(domain_blocks::preview))
}

/// Posts, and what people do with them.
#[rustfmt::skip]
fn statuses_table() -> Router<Face> {
    use statuses::*;
    let one = get(show::one).put(edit::put).delete(delete::delete);
    Router::new()
        .route("/api/v1/statuses", get(show::many).post(publish::post))
        .route("/api/v1/statuses/{id}", one)
        .route("/api/v1/statuses/{id}/context", get(context::get))
        .route("/api/v1/statuses/{id}/history", get(history::history))
        .route("/api/v1/statuses/{id}/source", get(history::source))
        .route("/api/v1/statuses/{id}/translate", post(translate::post))
        .route("/api/weir/v1/statuses/{id}/deliveries", get(deliveries::get))
        .route("/api/v1/statuses/{id}/quotes", get(quotes::get))
        .route("/api/v1/statuses/{id}/card", get(show::card))
        .route("/api/v1/statuses/{id}/reblogged_by", get(people::reblogged_by))
        .route("/api/v1/statuses/{id}/favourited_by", get(people::favourited_by))
        .route("/api/v1/statuses/{id}/favourite", post(marks::favourite))
        .route("/api/v1/statuses/{id}/unfavourite", post(marks::unfavourite))
        .route("/api/v1/statuses/{id}/reblog", post(marks::reblog))
        .route("/api/v1/statuses/{id}/unreblog", post(marks::unreblog))
        .route("/api/v1/statuses/{id}/bookmark", post(marks::bookmark))
        .route("/api/v1/statuses/{id}/unbookmark", post(marks::unbookmark))
        .route("/api/v1/statuses/{id}/mute", post(marks::mute))
        .route("/api/v1/statuses/{id}/unmute", post(marks::unmute))
        .route("/api/v1/statuses/{id}/pin", post(marks::pin))
        .route("/api/v1/statuses/{id}/unpin", post(marks::unpin))
        .route("/api/v1/polls/{id}", get(polls::get))
        .route("/api/v1/polls/{id}/votes", post(polls::vote))
        .route("/api/v1/bookmarks", get(marked::bookmarks))
        .route("/api/v1/favourites", get(marked::favourites))
}

/// Attachments, and search.
fn media_table() -> Router<Face> {
    Router::new()
        .route("/api/v2/media", post(media::post))
        .route("/api/v2/search", get(search::get))
        .route("/api/v1/search", get(search::get_v1))
        .route("/api/v1/media", post(media::post_v1))
        .route("/api/v1/media/{id}", get(media::get).put(media::put).delete(media::delete))
}

/// Posts of many.
fn timelines_table() -> Router<Face> {
    Router::new()
        .route("/api/v1/timelines/home", get(timelines::home))
        .route("/api/v1/timelines/list/{id}", get(timelines::list))
        .route("/api/v1/timelines/public", get(timelines::public))
        .route("/api/v1/timelines/tag/{name}", get(timelines::tag))
        .route("/api/v1/timelines/link", get(timelines::link))
        .route("/api/v1/timelines/direct", get(timelines::direct))
}

/// What one prefers and shows of oneself.
fn profile_table() -> Router<Face> {
    Router::new()
        .route("/api/v1/preferences", get(preferences::get))
        .route("/api/v1/profile", get(profile::get).patch(profile::patch))
        .route("/api/v1/profile/avatar", delete(profile::delete_avatar))
        .route("/api/v1/profile/header", delete(profile::delete_header))
}

/// What this community is.
#[rustfmt::skip]
fn instance_table() -> Router<Face> {
    use instance::*;
    Router::new()
        .route("/api/v2/instance", get(v2::get))
        .route("/api/v1/instance", get(v1::get))
        .route("/api/v1/instance/peers", get(peers::get))
        .route("/api/v1/peers/search", get(peers::search))
        .route("/api/v1/instance/activity", get(activity::get))
        .route("/api/v1/instance/rules", get(about::rules))
        .route("/api/v1/instance/domain_blocks", get(domain_blocks::get))
        .route("/api/v1/instance/extended_description", get(about::extended_description))
        .route("/api/v1/instance/privacy_policy", get(about::privacy_policy))
        .route("/api/v1/instance/terms_of_service", get(about::terms_of_service))
        .route("/api/v1/instance/terms_of_service/{date}", get(about::terms_of_service_at))
        .route("/api/v1/instance/languages", get(languages::get))
        .route("/api/v1/instance/translation_languages", get(languages::translation))
        .route("/api/v1/custom_emojis", get(custom_emojis::get))
        .route("/api/v1/directory", get(directory::get))
        .route("/api/oembed", get(oembed::get))
}

/// Devices that want to be told.
fn push_table() -> Router<Face> {
    use push::subscription::{delete, get as show, post, put};
    let path = "/api/v1/push/subscription";
    Router::new().route(path, get(show).post(post).put(put).delete(delete))
}

/// What one does not want to see.
#[rustfmt::skip]
fn filters_table() -> Router<Face> {
    use filters::*;
    Router::new()
        .route("/api/v2/filters", get(filter::list).post(filter::create))
        .route("/api/v2/filters/{id}", get(filter::get).put(filter::update).delete(filter::delete))
        .route("/api/v2/filters/{id}/keywords", get(keywords::list).post(keywords::add))
        .route("/api/v2/filters/{id}/statuses", get(statuses::list).post(statuses::add))
        .route("/api/v2/filters/keywords/{id}", get(keywords::get).put(keywords::update).delete(keywords::delete))
        .route("/api/v2/filters/statuses/{id}", get(statuses::get).delete(statuses::delete))
        .route("/api/v1/filters", get(v1::list).post(v1::create))
        .route("/api/v1/filters/{id}", get(v1::get).put(v1::update).delete(v1::delete))
}

/// Lists of people.
fn lists_table() -> Router<Face> {
    let members = get(lists::members).post(lists::add).delete(lists::remove);
    Router::new()
        .route("/api/v1/lists", get(lists::all).post(lists::create))
        .route("/api/v1/lists/{id}", get(lists::get).put(lists::update).delete(lists::delete))
        .route("/api/v1/lists/{id}/accounts", members)
}

/// Hashtags.
fn tags_table() -> Router<Face> {
    use tags::{featured, followed, tag};
    Router::new()
        .route("/api/v1/followed_tags", get(followed::get))
        .route("/api/v1/tags/{name}", get(tag::get))
        .route("/api/v1/tags/{name}/follow", post(tag::follow))
        .route("/api/v1/tags/{name}/unfollow", post(tag::unfollow))
        .route("/api/v1/tags/{name}/feature", post(tag::feature))
        .route("/api/v1/tags/{name}/unfeature", post(tag::unfeature))
        .route("/api/v1/featured_tags", get(featured::list).post(featured::add))
        .route("/api/v1/featured_tags/suggestions", get(featured::suggestions))
        .route("/api/v1/featured_tags/{id}", delete(featured::remove))
}

/// What one has for oneself, and what one says to staff and hears from it.
fn own_table() -> Router<Face> {
    use scheduled_statuses as waiting;
    let reaction = "/api/v1/announcements/{id}/reactions/{name}";
    let waiting_one = get(waiting::get).put(waiting::put).delete(waiting::delete);
    Router::new()
        .route("/api/v1/conversations", get(conversations::list))
        .route("/api/v1/conversations/{id}", delete(conversations::delete))
        .route("/api/v1/conversations/{id}/read", post(conversations::read))
        .route("/api/v1/conversations/{id}/unread", post(conversations::unread))
        .route("/api/v1/markers", get(markers::get).post(markers::post))
        .route("/api/v1/suggestions", get(suggestions::list_v1))
        .route("/api/v1/suggestions/{id}", delete(suggestions::dismiss))
        .route("/api/v2/suggestions", get(suggestions::list))
        .route("/api/v1/announcements", get(announcements::list))
        .route("/api/v1/announcements/{id}/dismiss", post(announcements::dismiss))
        .route(reaction, put(announcements::react).delete(announcements::unreact))
        .route("/api/v1/reports", post(reports::post))
        .route("/api/v1/scheduled_statuses", get(waiting::list))
        .route("/api/v1/scheduled_statuses/{id}", waiting_one)
        .route("/api/v1/emails/confirmations", post(emails::confirmations))
        .route("/api/v1/emails/check_confirmation", get(emails::check))
        .route("/api/v1/trends", get(trends::tags))
        .route("/api/v1/trends/tags", get(trends::tags))
        .route("/api/v1/trends/statuses", get(trends::statuses))
        .route("/api/v1/trends/links", get(trends::links))
        .route("/api/v1_alpha/async_refreshes/{id}", get(async_refreshes::get))
}

/// What one is told.
#[rustfmt::skip]
fn notifications_table() -> Router<Face> {
    use notifications::*;
    Router::new()
        .route("/api/v1/notifications", get(list::get))
        .route("/api/v1/notifications/clear", post(clear::all))
        .route("/api/v1/notifications/destroy_multiple", delete(clear::some))
        .route("/api/v1/notifications/dismiss", post(one::dismiss_named))
        .route("/api/v1/notifications/unread_count", get(unread_count::each))
        .route("/api/v1/notifications/policy", get(policy::get_v1).put(policy::put_v1).patch(policy::put_v1))
        .route(
            "/api/v2/notifications/policy",
            get(policy::get).patch(policy::patch).put(policy::patch),
        )
        .route("/api/v1/notifications/requests", get(requests::list))
        .route("/api/v1/notifications/requests/accept", post(requests::accept_many))
        .route("/api/v1/notifications/requests/dismiss", post(requests::dismiss_many))
        .route("/api/v1/notifications/requests/merged", get(requests::merged))
        .route("/api/v1/notifications/requests/{id}", get(requests::get))
        .route("/api/v1/notifications/requests/{id}/accept", post(requests::accept))
        .route("/api/v1/notifications/requests/{id}/dismiss", post(requests::dismiss))
        .route("/api/v1/notifications/{id}", get(one::get))
        .route("/api/v1/notifications/{id}/dismiss", post(one::dismiss))
        .route("/api/v2/notifications", get(grouped::get))
        .route("/api/v2/notifications/unread_count", get(unread_count::groups))
        .route("/api/v2/notifications/{group_key}", get(group::get))
        .route("/api/v2/notifications/{group_key}/accounts", get(group::accounts))
        .route("/api/v2/notifications/{group_key}/dismiss", post(group::dismiss))
}
