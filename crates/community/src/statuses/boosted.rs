//! What people of other servers do with posts: favourites, boosts, and taking them back.

use std::collections::BTreeSet;

use weir_base::Timestamp;
use weir_db::{Tx, params};

use super::receive::{self, Receipt};
use super::{Status, Visibility, by_uri, conversation, delete, marks, plain_marks};
use crate::accounts::Account;
use crate::federation::order::{self, BoostNote, Event, News, Relation, Version};
use crate::federation::{self, Fetch, Wanted, Wish, boosted_at};
use crate::{Env, Error};

/// Why a mark of what is not here is not kept (yet).
pub(super) const UNKNOWN: &str = "unknown";
/// A boost of long ago, in ms: nobody looks for what it shows at this moment.
const OLD_MS: i64 = 60_000;

/// Remote account `by` likes what stands at `object`, by `activity`. Only favourites of what was
/// written here are kept: of others their own server knows the number.
///
/// # Errors
/// The database's.
pub fn receive_like(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    object: &str,
    activity: &str,
    version: Version,
) -> Result<Receipt, Error> {
    if !env.site.is_local(object) {
        return Ok(Receipt::Refused("another server's"));
    }
    let event = Event { version, undo: false, activity: activity.into(), boost: None };
    let step = order::note(tx, &by.uri, object, Relation::Like, event)?;
    settle_like(tx, env, by, object, step.old().is_some(), step.now().is_some())
}

pub(super) fn settle_like(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    object: &str,
    before: bool,
    after: bool,
) -> Result<Receipt, Error> {
    let Some(post) = by_uri(tx, object)?.filter(|post| post.local) else {
        return Ok(Receipt::Refused(UNKNOWN));
    };
    match (before, after) {
        (false, true) if by.is_available() => {
            marks::add_favourite(tx, env, by.id, &post)?;
        }
        (true, false) => {
            marks::remove_favourite(tx, env, by.id, &post)?;
        }
        _ => {}
    }
    Ok(Receipt::Known(post.id))
}

/// Remote account `by` boosts what stands at `object`, by `activity`, written at `published`. What
/// is not known here is fetched, and boosted when it comes.
///
/// # Errors
/// The database's.
pub fn receive_boost(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    object: &str,
    activity: &str,
    visibility: Visibility,
    published: Option<Timestamp>,
    version: Version,
    arrived: Timestamp,
) -> Result<Receipt, Error> {
    let concerns = env.site.is_local(object) || receive::is_followed(tx, by.id)?;
    if !concerns {
        return Ok(Receipt::Refused("irrelevant"));
    }
    let at = boosted_at(published, arrived);
    let boost = Some(BoostNote { at, visibility: visibility.min(Visibility::Private) });
    let event = Event { version, undo: false, activity: activity.into(), boost };
    let step = order::note(tx, &by.uri, object, Relation::Boost, event)?;
    settle_boost(tx, env, by, object, step.now())
}

/// Brings the boost's row in line with what holds.
pub(super) fn settle_boost(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    object: &str,
    wanted: Option<&Event>,
) -> Result<Receipt, Error> {
    let Some(post) = by_uri(tx, object)?.filter(|post| post.boost_of_id.is_none()) else {
        order::meet(tx, &[object])?;
        let event = wanted.filter(|_| !env.site.is_local(object));
        if let Some(event) = event
            && !conversation::is_buried(tx, object)?
        {
            let fetch = fetch_of(env, object, event);
            let since = event.version.seq.time();
            federation::want_each(tx, env, [Wish { by: Some(by), since, fetch }])?;
        }
        return Ok(Receipt::Refused(UNKNOWN));
    };
    let own = post.account_id == by.id && post.visibility == Visibility::Private;
    let allowed = by.is_available() && (post.visibility.is_open() || own);
    let wanted = match wanted.filter(|_| allowed) {
        Some(event) if conversation::is_buried(tx, &event.activity)? => None,
        other => other,
    };
    let known: Option<Status> = tx.record(
        "SELECT {} FROM statuses WHERE boost_of_id = ?1 AND account_id = ?2",
        params![post.id, by.id],
    )?;
    let uri = wanted.map(|event| boost_uri(event, by, &post));
    if known.as_ref().map(|boost| &boost.uri) == uri.as_ref() {
        return Ok(Receipt::Known(post.id));
    }
    if let Some(boost) = &known {
        delete::erase(tx, env, boost)?;
    }
    let (Some(event), Some(uri)) = (wanted, uri) else { return Ok(Receipt::Known(post.id)) };
    let note = note_of(env, event);
    let Some(id) = receive::free_id(tx, env, note.at)? else {
        return Ok(Receipt::Refused("no free id"));
    };
    let visibility = note.visibility.max(post.visibility);
    let boost = marks::boost_row(env, &post, by.id, id, visibility, uri);
    marks::add_boost(tx, env, &boost, &post)?;
    Ok(Receipt::New(id))
}

/// When a boost was made, and to whom; what was noted without either is of when it was signed.
pub(super) fn note_of(env: &Env, event: &Event) -> BoostNote {
    event.boost.unwrap_or(BoostNote {
        at: event.version.at.min(env.clock.now()),
        visibility: Visibility::Public,
    })
}

/// The fetch of what is boosted by `event` and not known here.
pub(super) fn fetch_of(env: &Env, object: &str, event: &Event) -> Fetch {
    let is_old = event.boost.is_some_and(|it| env.clock.now().since_ms(it.at) > OLD_MS);
    Fetch { wanted: Wanted::Status { uri: object.into() }, depth: 0, patient: is_old }
}

fn boost_uri(event: &Event, by: &Account, post: &Status) -> String {
    if event.activity.is_empty() {
        format!("{}#boosts/{}", by.uri, post.id)
    } else {
        event.activity.clone()
    }
}

/// A favourite or boost that is taken back.
pub(crate) struct Unmark<'u> {
    /// Whose.
    pub(crate) by: &'u Account,
    /// A favourite or a boost.
    pub(crate) relation: Relation,
    /// The address of the post.
    pub(crate) object: &'u str,
    /// The address of what is undone; empty when it was not given.
    pub(crate) activity: &'u str,
    pub(crate) version: Version,
}

impl Unmark<'_> {
    fn news(&self) -> News<'_> {
        let activity = self.activity.to_owned();
        let event = Event { version: self.version, undo: true, activity, boost: None };
        News { actor: &self.by.uri, object: self.object, relation: self.relation, event }
    }
}

/// Takes in what takes favourites and boosts back, and tells of each what became of it: by
/// statements for all of it, but that boosts are removed one by one. No two may be of one person,
/// post and relation, or of one activity.
///
/// # Errors
/// The database's.
pub(crate) fn undo_marks(
    tx: &mut Tx,
    env: &Env,
    unmarks: &[Unmark<'_>],
) -> Result<Vec<Receipt>, Error> {
    let mut receipts = vec![Receipt::Refused("another server's"); unmarks.len()];
    let is_kept =
        |one: &Unmark<'_>| one.relation != Relation::Like || env.site.is_local(one.object);
    let kept: Vec<usize> = (0..unmarks.len()).filter(|at| is_kept(&unmarks[*at])).collect();
    let steps = order::note_each(tx, kept.iter().map(|at| unmarks[*at].news()).collect())?;
    let liked = kept.iter().filter(|at| unmarks[**at].relation == Relation::Like);
    let liked: BTreeSet<&str> = liked.map(|at| unmarks[*at].object).collect();
    let posts = plain_marks::posts(tx, liked)?;
    let mut unliked = Vec::new();
    for (at, step) in kept.into_iter().zip(steps) {
        let Unmark { by, relation, object, .. } = unmarks[at];
        receipts[at] = if relation == Relation::Boost {
            settle_boost(tx, env, by, object, step.now())?
        } else {
            let held = step.old().is_some() || step.before.is_empty();
            let post = posts.get(object).filter(|post| post.local);
            match (post, held, step.now().is_some()) {
                (None, ..) => Receipt::Refused(UNKNOWN),
                (Some(post), true, false) => {
                    unliked.push((by.id, post));
                    Receipt::Known(post.id)
                }
                (Some(_), false, true) => settle_like(tx, env, by, object, false, true)?,
                (Some(post), ..) => Receipt::Known(post.id),
            }
        };
    }
    marks::remove_favourites(tx, env, &unliked)?;
    Ok(receipts)
}
