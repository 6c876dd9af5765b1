//! Many favourites and boosts of other servers taken in together, by statements for all of them.
//! Favourites of posts that are not known, and what may not be, are left to
//! [`receive_like`](super::receive_like) and [`receive_boost`](super::receive_boost).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use weir_base::{Id, Timestamp};
use weir_db::{Json, ToValue, Tx, ids, texts};

use super::boosted::{self, UNKNOWN, settle_boost, settle_like};
use super::publish::{self, Posted, Reach};
use super::{Receipt, Status, Visibility, marks};
use crate::accounts::{self, Account};
use crate::federation::order::{self, BoostNote, Event, News, Relation, Step, Version};
use crate::federation::{self, Wish};
use crate::notifications::{self, Kind, Notice};
use crate::streams::Noun;
use crate::{Env, Error};

/// Boosts that may wait for one post.
const WAITING_MAX: usize = 1_000;
/// Posts whose boosts are written at once.
const BOOSTED_AT_ONCE: usize = 16;

/// A favourite or boost that was delivered.
pub(crate) struct ComingMark<'m> {
    /// Whose, who is remote and available.
    pub(crate) by: &'m Account,
    /// The address of the post.
    pub(crate) object: &'m str,
    /// The activity's own address.
    pub(crate) activity: &'m str,
    pub(crate) version: Version,
    /// Of a boost: when, and to whom.
    pub(crate) boost: Option<(Timestamp, Visibility)>,
}

impl ComingMark<'_> {
    fn news(&self) -> News<'_> {
        let boost = self.boost.map(|(at, visibility)| BoostNote { at, visibility });
        let activity = self.activity.to_owned();
        let event = Event { version: self.version, undo: false, activity, boost };
        let relation = if boost.is_some() { Relation::Boost } else { Relation::Like };
        News { actor: &self.by.uri, object: self.object, relation, event }
    }
}

/// Takes in those of `marks` that can be together; none for the others.
pub(crate) fn receive_marks(
    tx: &mut Tx,
    env: &Env,
    marks: &[ComingMark<'_>],
) -> Result<Vec<Option<Receipt>>, Error> {
    let mut receipts = vec![None; marks.len()];
    let posts = posts(tx, marks.iter().map(|mark| mark.object).collect())?;
    let followed = followed(tx, env, marks)?;
    let (mut pairs, mut activities) = (HashSet::new(), HashSet::new());
    let (mut chosen, mut early) = (Vec::new(), Vec::new());
    for (at, mark) in marks.iter().enumerate() {
        let is_boost = mark.boost.is_some();
        let concerns = is_boost && followed.contains(&mark.by.id);
        if !env.site.is_local(mark.object) && !concerns {
            let why = if is_boost { "irrelevant" } else { "another server's" };
            receipts[at] = Some(Receipt::Refused(why));
            continue;
        }
        let alone = pairs.insert((is_boost, mark.by.id, mark.object))
            && !mark.activity.is_empty()
            && activities.insert(mark.activity);
        match posts.get(mark.object) {
            Some(post) => {
                let fits = if is_boost {
                    post.boost_of_id.is_none() && post.visibility.is_open()
                } else {
                    post.local
                };
                if fits && alone {
                    chosen.push((at, post));
                }
            }
            None if alone && is_boost && !env.site.is_local(mark.object) => {
                receipts[at] = Some(Receipt::Refused(UNKNOWN));
                early.push(mark);
            }
            None => {}
        }
    }
    boost_early(tx, env, early)?;
    let news = chosen.iter().map(|(at, _)| marks[*at].news()).collect();
    let steps = order::note_each(tx, news)?;
    let (mut likes, mut boosts) = (Vec::new(), Vec::new());
    for ((at, post), step) in chosen.into_iter().zip(steps) {
        receipts[at] = Some(Receipt::Known(post.id));
        let one = (&marks[at], post, step);
        if one.0.boost.is_some() { boosts.push(one) } else { likes.push(one) }
    }
    let mut notices = like(tx, env, likes)?;
    let (mut held, mut others) = (Vec::new(), Vec::new());
    for (mark, post, step) in &boosts {
        match step.now().filter(|event| event.activity == mark.activity) {
            Some(event) => held.push(Boost { by: mark.by, post, event }),
            None => others.push((mark.by, mark.object, step.now())),
        }
    }
    notices.extend(boost(tx, env, held, others)?);
    notifications::notify_each(tx, env, notices)?;
    Ok(receipts)
}

/// Writes the boosts that waited for `posts`, which have just come.
pub(super) fn boost_waiting(tx: &mut Tx, env: &Env, posts: &[Id]) -> Result<(), Error> {
    posts.chunks(BOOSTED_AT_ONCE).try_for_each(|some| boost_waiting_for(tx, env, some))
}

fn boost_waiting_for(tx: &mut Tx, env: &Env, posts: &[Id]) -> Result<(), Error> {
    // As they stand: what came with them may have joined their conversations to others.
    let posts: Vec<Status> =
        tx.records("SELECT {} FROM statuses WHERE id IN ids(?1)", &[ids(posts)])?;
    let mut waiting: Vec<(String, String, Json<Vec<Event>>)> = Vec::new();
    let sql = format!(
        "SELECT object, actor, events FROM versions WHERE object = ?1 AND relation = 'boost'
         LIMIT {WAITING_MAX}"
    );
    tx.query_each(&sql, posts.iter().map(|post| [post.uri.to_value()]), |row| {
        waiting.push((row.get(0)?, row.get(1)?, row.get(2)?));
        Ok(())
    })?;
    let actors: BTreeSet<&String> = waiting.iter().map(|(_, actor, _)| actor).collect();
    let actors: Vec<String> = actors.into_iter().cloned().collect();
    let people = accounts::by_uris(tx, &actors)?;
    let people: HashMap<&str, &Account> =
        people.iter().map(|account| (account.uri.as_str(), account)).collect();
    let posts: HashMap<&str, &Status> =
        posts.iter().map(|post| (post.uri.as_str(), post)).collect();
    let (mut held, mut others, mut activities) = (Vec::new(), Vec::new(), HashSet::new());
    for (object, actor, events) in &waiting {
        let (Some(by), Some(post)) = (people.get(actor.as_str()), posts.get(object.as_str()))
        else {
            continue;
        };
        let event = order::fold(&events.0);
        let fits = by.is_available() && post.visibility.is_open();
        let plain = event.filter(|event| {
            fits && !event.activity.is_empty() && activities.insert(event.activity.as_str())
        });
        match plain {
            Some(event) => held.push(Boost { by, post, event }),
            None => others.push((*by, object.as_str(), event)),
        }
    }
    // Whoever deletes one of them meanwhile meets on its address.
    order::meet(tx, &activities.into_iter().collect::<Vec<_>>())?;
    let notices = boost(tx, env, held, others)?;
    notifications::notify_each(tx, env, notices)
}

/// Notes boosts of what is not known here, which are settled when it comes, and asks for it.
fn boost_early(tx: &mut Tx, env: &Env, marks: Vec<&ComingMark<'_>>) -> Result<(), Error> {
    if marks.is_empty() {
        return Ok(());
    }
    let objects: BTreeSet<&str> = marks.iter().map(|mark| mark.object).collect();
    let objects: Vec<&str> = objects.into_iter().collect();
    order::meet(tx, &objects)?;
    let steps = order::note_each(tx, marks.iter().map(|mark| mark.news()).collect())?;
    let buried: HashSet<String> = tx
        .column("SELECT uri FROM tombstones WHERE uri IN texts(?1)", &[texts(objects)])?
        .into_iter()
        .collect();
    let wanted = marks.iter().zip(&steps).filter_map(|(mark, step)| {
        let event = step.now().filter(|_| !buried.contains(mark.object))?;
        let fetch = boosted::fetch_of(env, mark.object, event);
        Some(Wish { by: Some(mark.by), since: event.version.seq.time(), fetch })
    });
    federation::want_each(tx, env, wanted.collect::<Vec<_>>())
}

/// What stands at `uris`, as far as it is known, by address.
pub(super) fn posts(tx: &mut Tx, uris: BTreeSet<&str>) -> Result<HashMap<String, Status>, Error> {
    if uris.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = "SELECT {} FROM statuses WHERE uri IN texts(?1)";
    let found: Vec<Status> = tx.records(sql, &[texts(uris)])?;
    Ok(found.into_iter().map(|post| (post.uri.clone(), post)).collect())
}

/// Those who boosted what is not from here, and whom somebody here follows, or asked to.
fn followed(tx: &mut Tx, env: &Env, marks: &[ComingMark<'_>]) -> Result<HashSet<Id>, Error> {
    let foreign = marks.iter().filter(|mark| mark.boost.is_some());
    let foreign = foreign.filter(|mark| !env.site.is_local(mark.object));
    let people: BTreeSet<Id> = foreign.map(|mark| mark.by.id).collect();
    let mut followed = HashSet::new();
    // As `is_followed`.
    let sql =
        "SELECT CAST(?1 AS BIGINT), coalesce((SELECT 1 FROM follows WHERE target_id = ?1 LIMIT 1),
         (SELECT 1 FROM follow_requests WHERE target_id = ?1 LIMIT 1))";
    tx.query_each(sql, people.iter().map(|of| [of.to_value()]), |row| {
        if row.get::<Option<i64>>(1)?.is_some() {
            followed.insert(row.get(0)?);
        }
        Ok(())
    })?;
    Ok(followed)
}

type Noted<'n> = (&'n ComingMark<'n>, &'n Status, Step);

/// Writes favourites that are new; who is to be told of them.
fn like(tx: &mut Tx, env: &Env, likes: Vec<Noted<'_>>) -> Result<Vec<Notice>, Error> {
    let mut new = Vec::new();
    for (mark, post, step) in likes {
        match (step.old().is_some(), step.now().is_some()) {
            (false, true) => new.push((mark.by.id, post)),
            (before, after) => {
                settle_like(tx, env, mark.by, mark.object, before, after)?;
            }
        }
    }
    let rows = new.iter().map(|(by, post)| marks::favourite_row(env.ids.next(), *by, post.id));
    let mut inserted = HashSet::new();
    tx.query_each(&format!("{} RETURNING account_id, status_id", marks::FAVOURITE), rows, |row| {
        inserted.insert((row.get::<Id>(0)?, row.get::<Id>(1)?));
        Ok(())
    })?;
    new.retain(|(by, post)| inserted.contains(&(*by, post.id)));
    count(tx, env, "favourites_count", new.iter().map(|(_, post)| post.id))?;
    let notice = |(from, post): (Id, &Status)| Notice {
        to: post.account_id,
        kind: Kind::Favourite,
        from,
        status: Some(post.id),
    };
    Ok(new.into_iter().map(notice).collect())
}

/// A boost that holds, by somebody who is there, of an open post.
struct Boost<'b> {
    by: &'b Account,
    post: &'b Status,
    /// No two are of one activity.
    event: &'b Event,
}

/// A boost to be settled by itself: whose, of what, and what holds.
type Other<'o> = (&'o Account, &'o str, Option<&'o Event>);

/// Writes boosts and announces them; who is to be told of them. Those of which something was known
/// are settled one by one, and so are `others`.
fn boost<'b>(
    tx: &mut Tx,
    env: &Env,
    boosts: Vec<Boost<'b>>,
    mut others: Vec<Other<'b>>,
) -> Result<Vec<Notice>, Error> {
    let note = |boost: &Boost<'_>| boosted::note_of(env, boost.event);
    let ids: Vec<Id> = boosts.iter().map(|boost| env.ids.at(note(boost).at)).collect();
    let each = boosts.iter().zip(&ids).map(|(boost, id)| {
        let activity = boost.event.activity.to_value();
        [activity, boost.post.id.to_value(), boost.by.id.to_value(), id.to_value()]
    });
    let mut free = Vec::with_capacity(boosts.len());
    tx.query_each(
        "SELECT (SELECT 1 FROM tombstones WHERE uri = ?1),
           (SELECT 1 FROM statuses WHERE boost_of_id = ?2 AND account_id = ?3),
           (SELECT 1 FROM statuses WHERE id = ?4),
           (SELECT 1 FROM statuses WHERE uri = ?1)",
        each,
        |row| {
            let is = |column| Ok::<_, weir_db::Error>(row.get::<Option<i64>>(column)?.is_some());
            free.push(!(is(0)? || is(1)? || is(2)? || is(3)?));
            Ok(())
        },
    )?;
    let mut taken = HashSet::new();
    let mut new = Vec::new();
    for ((boost, id), free) in boosts.iter().zip(ids).zip(free) {
        let Boost { by, post, event } = *boost;
        if !(free && taken.insert(id)) {
            others.push((by, &post.uri, Some(event)));
            continue;
        }
        let visibility = note(boost).visibility.max(post.visibility);
        let uri = event.activity.clone();
        new.push((marks::boost_row(env, post, by.id, id, visibility, uri), post));
    }
    let version = |boost: &Status| Version { at: boost.created_at, seq: boost.id };
    publish::insert_each(tx, new.iter().map(|(boost, _)| (boost, version(boost))))?;
    count(tx, env, "boosts_count", new.iter().map(|(_, post)| post.id))?;
    publish::count_each(tx, env, new.iter().map(|(boost, _)| boost))?;
    let posted: Vec<Posted<'_>> = new
        .iter()
        .map(|(status, _)| Posted { status, mentioned: &[], here: &[], reach: Reach::UNKNOWN })
        .collect();
    publish::announce_each(tx, env, &posted)?;
    // Only now, for they take ids that are free in the database.
    for (by, object, event) in others {
        settle_boost(tx, env, by, object, event)?;
    }
    let notice = |(boost, post): &(Status, &Status)| Notice {
        to: post.account_id,
        kind: Kind::Reblog,
        from: boost.account_id,
        status: Some(post.id),
    };
    Ok(new.iter().map(notice).collect())
}

/// Counts what was done to posts.
fn count(
    tx: &mut Tx,
    env: &Env,
    column: &'static str,
    posts: impl IntoIterator<Item = Id>,
) -> Result<(), Error> {
    let mut counts: BTreeMap<Id, i64> = BTreeMap::new();
    for post in posts {
        *counts.entry(post).or_default() += 1;
    }
    counts.keys().for_each(|post| env.streams.touched(tx, Noun::Post(*post)));
    let sql = format!("UPDATE statuses SET {column} = {column} + ?2 WHERE id = ?1");
    tx.run_all(&sql, counts.iter().map(|(post, count)| [post.to_value(), count.to_value()]))?;
    Ok(())
}
