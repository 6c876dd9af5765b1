//! Posts and boosts as the activities by which they came to be.

use weir_community::Env;
use weir_community::statuses::View;

use super::post::{Loaded, addressees, post};
use crate::wire::{Activity, Kind, Object, Urls};

/// How a local post, or boost of a post, came to be.
pub(crate) fn of_view(env: &Env, urls: &Urls, loaded: &Loaded, view: &View) -> Option<Activity> {
    if view.boost.is_some() { announce(urls, view) } else { create(env, urls, loaded, view) }
}

/// The Create of a local post.
pub(crate) fn create(env: &Env, urls: &Urls, loaded: &Loaded, view: &View) -> Option<Activity> {
    let status = &view.status;
    let post = post(env, urls, loaded, view)?;
    let (to, cc) = (post.to.clone(), post.cc.clone());
    let id = urls.of_post(status.account_id, status.id, "activity");
    let actor = urls.actor(status.account_id);
    let object = Object::Post(Box::new(post)).into();
    let published = Some(status.created_at);
    Some(Activity { to, cc, published, ..Activity::new(id, Kind::Create, actor, object) })
}

/// The Announce of a local boost.
pub(crate) fn announce(urls: &Urls, view: &View) -> Option<Activity> {
    let status = &view.status;
    let boosted = view.boost.as_ref()?;
    let author = boosted.account.uri.parse().ok()?;
    let (to, cc) = addressees(urls, status.account_id, status.visibility, vec![author]);
    let id = status.uri.parse().ok()?;
    let object: crate::wire::Uri = boosted.status.uri.parse().ok()?;
    let actor = urls.actor(status.account_id);
    let published = Some(status.created_at);
    Some(Activity { to, cc, published, ..Activity::new(id, Kind::Announce, actor, object.into()) })
}
