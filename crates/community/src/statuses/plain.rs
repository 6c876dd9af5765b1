//! Many posts of other servers taken in together, by statements for all of them: what a flood
//! mostly is made of. Posts that are known, and what holds more than text, tags, people and media,
//! are left to [`receive`](super::receive).

use std::collections::{BTreeMap, HashMap, HashSet};

use weir_base::{Id, Timestamp};
use weir_db::{Json, Tx, Value, texts};

use super::look::{Look, Question, look_each};
use super::publish::{self, Posted, Reach};
use super::receive::{
    Addressee, MENTION, concerns_local, insert_media_each, missing, named, of_remote, written_at,
};
use super::remote::RemoteStatus;
use super::{Cause, Status, Visibility, conversation, plain_marks};
use crate::accounts::Account;
use crate::federation::{
    self, Wish,
    order::{self, Version},
};
use crate::{Env, Error, emojis, tags};

/// A delivered post and what is known of it before the database is asked.
pub(crate) struct Coming<'c> {
    /// Its author, who is remote.
    pub(crate) by: &'c Account,
    pub(crate) remote: &'c RemoteStatus,
    pub(crate) version: Version,
    /// When it came to the door.
    pub(crate) arrived: Timestamp,
    /// Whether media of the author's server is not taken.
    pub(crate) reject_media: bool,
}

/// One that is written.
struct New<'c> {
    coming: &'c Coming<'c>,
    status: Status,
    people: Vec<Addressee>,
    named: Vec<Id>,
    here: Vec<Id>,
    look: Look,
}

/// What became of a post.
pub(crate) enum Taken {
    /// It stands, as this row.
    New(Box<Status>),
    /// It is not kept, and why.
    Refused(&'static str),
}

/// Takes in those of `posts` that are plain; none for the others. Of posts that refer to each
/// other only the first can be.
pub(crate) fn receive_plain(
    tx: &mut Tx,
    env: &Env,
    posts: &[Coming<'_>],
) -> Result<Vec<Option<Taken>>, Error> {
    let mut taken: Vec<Option<Taken>> = posts.iter().map(|_| None).collect();
    let chosen = unrelated(env, posts);
    if chosen.len() < 2 {
        return Ok(taken);
    }
    let mut keys: Vec<&str> = chosen.iter().map(|one| posts[one.at].remote.uri.as_str()).collect();
    keys.extend(chosen.iter().filter_map(|one| posts[one.at].remote.in_reply_to.as_deref()));
    order::meet(tx, &keys)?;
    let question = |one: &Chosen| {
        let Coming { by, remote, .. } = &posts[one.at];
        Question { uri: &remote.uri, author: by.id, id: one.id }
    };
    let looks = look_each(tx, chosen.iter().map(question))?;
    let answered = |one: &Chosen| posts[one.at].remote.in_reply_to.as_ref();
    let parents = Parents::find(tx, addresses(chosen.iter().filter_map(answered)))?;
    let free = |one: &Chosen, look: &Look| {
        let parent = posts[one.at].remote.in_reply_to.as_ref();
        look.is_plain() && parent.is_none_or(|uri| parents.are_plain(uri))
    };
    let mut gone = Vec::new();
    for (one, look) in chosen.iter().zip(&looks) {
        let remote = posts[one.at].remote;
        if look.buried && !look.known {
            // All that is taken from it is what it answered.
            let answered = remote.in_reply_to.as_deref();
            let own = conversation::of_unknown(&remote.uri);
            gone.push((&*remote.uri, answered.map_or(own, |uri| parents.conversation(uri))));
            taken[one.at] = Some(Taken::Refused("deleted"));
        }
    }
    let buried: Vec<(&str, Option<Id>)> = gone.iter().map(|(uri, of)| (*uri, Some(*of))).collect();
    conversation::bury_each(tx, env, &buried)?;
    let plain: Vec<(Chosen, Look)> =
        chosen.into_iter().zip(looks).filter(|(one, look)| free(one, look)).collect();
    let mut people = People::find(tx, plain.iter().map(|(one, _)| posts[one.at].remote))?;
    let mut new = Vec::with_capacity(plain.len());
    for (Chosen { at, id, written }, look) in plain {
        let coming = &posts[at];
        let people = people.of(coming.remote);
        if !look.followed && !concerns_local(env, coming.remote, &people) {
            taken[at] = Some(Taken::Refused("irrelevant"));
            continue;
        }
        let answered = coming.remote.in_reply_to.as_deref();
        let parent = answered.and_then(|uri| parents.known.get(uri));
        let mut status = of_remote(coming.by, coming.remote, parent, id, written);
        status.conversation_id = answered.map_or(id, |uri| parents.conversation(uri));
        let (named, here) = named(&people);
        new.push((at, New { coming, status, people, named, here, look }));
    }
    let (places, mut new): (Vec<usize>, Vec<New<'_>>) = new.into_iter().unzip();
    write(tx, env, &mut new, gone)?;
    for (at, one) in places.into_iter().zip(new) {
        taken[at] = Some(Taken::New(Box::new(one.status)));
    }
    Ok(taken)
}

/// A post that may be plain, with the id it would have.
struct Chosen {
    at: usize,
    id: Id,
    written: Timestamp,
}

/// Those of `posts` that may be plain and have nothing to do with each other.
fn unrelated(env: &Env, posts: &[Coming<'_>]) -> Vec<Chosen> {
    let mut chosen = Vec::with_capacity(posts.len());
    let (mut uris, mut parents, mut ids) = (HashSet::new(), HashSet::new(), HashSet::new());
    for (at, coming) in posts.iter().enumerate() {
        let Coming { by, remote, arrived, .. } = coming;
        let gone = by.suspended_at.is_some() || by.deleted_at.is_some();
        let uri = remote.uri.as_str();
        let related = uris.contains(uri)
            || parents.contains(uri)
            || remote.in_reply_to.as_deref().is_some_and(|parent| uris.contains(parent));
        let more = remote.poll.is_some() || remote.visibility == Visibility::Direct;
        if gone || related || more {
            continue;
        }
        let written = written_at(remote, *arrived);
        let id = env.ids.at(written);
        if ids.insert(id) {
            uris.insert(uri);
            parents.extend(remote.in_reply_to.as_deref());
            chosen.push(Chosen { at, id, written });
        }
    }
    chosen
}

fn addresses<'u>(uris: impl Iterator<Item = &'u String>) -> Vec<&'u str> {
    let mut uris: Vec<&str> = uris.map(String::as_str).collect();
    uris.sort_unstable();
    uris.dedup();
    uris
}

/// What posts answer.
struct Parents {
    /// By address.
    known: HashMap<String, Status>,
    /// Where something stood, and the conversation that it belonged to, if that is known.
    buried: HashMap<String, Option<Id>>,
}

impl Parents {
    fn find(tx: &mut Tx, uris: Vec<&str>) -> Result<Self, Error> {
        if uris.is_empty() {
            return Ok(Self { known: HashMap::new(), buried: HashMap::new() });
        }
        let sql = "SELECT {} FROM statuses WHERE uri IN texts(?1)";
        let known: Vec<Status> = tx.records(sql, &[texts(&uris)])?;
        let known = known.into_iter().map(|status| (status.uri.clone(), status)).collect();
        let sql = "SELECT uri, conversation_id FROM tombstones WHERE uri IN texts(?1)";
        let buried = tx.query(sql, &[texts(&uris)], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Self { known, buried: buried.into_iter().collect() })
    }

    /// Whether what stands at `uri` is a post, or is not known at all.
    fn are_plain(&self, uri: &str) -> bool {
        let is_boost = self.known.get(uri).is_some_and(|parent| parent.boost_of_id.is_some());
        !is_boost && !self.buried.contains_key(uri)
    }

    /// The conversation of what answers what stands at `uri`, or stood there.
    fn conversation(&self, uri: &str) -> Id {
        let post = self.known.get(uri).filter(|parent| parent.boost_of_id.is_none());
        let buried = || self.buried.get(uri).copied().flatten();
        let known = post.map(|parent| parent.conversation_id).or_else(buried);
        known.unwrap_or_else(|| conversation::of_unknown(uri))
    }
}

/// Those whom the posts are for, as far as they are known here: by address, id and server.
struct People(HashMap<String, (Id, bool)>);

impl People {
    fn find<'r>(tx: &mut Tx, posts: impl Iterator<Item = &'r RemoteStatus>) -> Result<Self, Error> {
        let uris = addresses(posts.flat_map(|post| &post.mentions).map(|mention| &mention.uri));
        let mut known = HashMap::new();
        if !uris.is_empty() {
            let found: Vec<(String, Id, String)> = tx.query(
                "SELECT uri, id, domain FROM accounts
                 WHERE uri IN texts(?1) AND deleted_at IS NULL",
                &[texts(uris)],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )?;
            let local = |domain: String| domain.is_empty();
            known.extend(found.into_iter().map(|(uri, id, domain)| (uri, (id, local(domain)))));
        }
        Ok(Self(known))
    }

    fn of(&mut self, post: &RemoteStatus) -> Vec<Addressee> {
        let known = |mention: &super::RemoteMention| {
            let (id, local) = *self.0.get(&mention.uri)?;
            Some(Addressee { id, uri: mention.uri.clone(), local, silent: mention.silent })
        };
        post.mentions.iter().filter_map(known).collect()
    }
}

/// Writes what is new; `apart` is what was deleted before it came, and to which conversation it
/// belonged.
fn write<'w>(
    tx: &mut Tx,
    env: &Env,
    new: &'w mut [New<'_>],
    apart: Vec<(&'w str, Id)>,
) -> Result<(), Error> {
    if new.is_empty() {
        return conversation::adopt_each(tx, env, [], apart);
    }
    let with_media = new.iter().filter(|one| !one.coming.reject_media);
    let with_media = with_media.map(|one| (&one.status, one.coming.remote));
    let media = insert_media_each(tx, env, with_media)?;
    for one in new.iter_mut() {
        one.status.media_ids = Json(media.get(&one.status.id).cloned().unwrap_or_default());
    }
    let new: &'w [New<'_>] = new;
    publish::insert_each(tx, new.iter().map(|one| (&one.status, one.coming.version)))?;
    mention_each(tx, new)?;
    tag_each(tx, env, new)?;
    for one in new.iter().filter(|one| !one.coming.remote.emojis.is_empty()) {
        emojis::upsert_remote(tx, env, &one.coming.by.domain, &one.coming.remote.emojis)?;
    }
    publish::count_each(tx, env, new.iter().map(|one| &one.status))?;
    let parent = |one: &New<'_>| Some((one.status.in_reply_to_id?, one.status.visibility));
    publish::answered_each(tx, env, new.iter().filter_map(parent))?;
    conversation::adopt_each(tx, env, new.iter().map(|one| (&one.status, &one.look)), apart)?;
    let posted = |one: &'w New<'_>| {
        let open = one.coming.by.indexable && one.status.visibility == Visibility::Public;
        let reach = Reach { searchable: open || !one.here.is_empty(), watched: one.look.watched };
        Posted { status: &one.status, mentioned: &one.named, here: &one.here, reach }
    };
    publish::announce_each(tx, env, &new.iter().map(posted).collect::<Vec<_>>())?;
    let awaited = new.iter().filter(|one| one.look.is_awaited());
    federation::came(tx, env, &awaited.map(|one| one.status.uri.as_str()).collect::<Vec<_>>())?;
    let boosted = new.iter().filter(|one| one.look.boosted).map(|one| one.status.id);
    plain_marks::boost_waiting(tx, env, &boosted.collect::<Vec<_>>())?;
    let wanted = new.iter().flat_map(|one| {
        let fetches = missing(env, &one.status, one.coming.remote, &one.people, Cause::Delivered);
        let (by, since) = (Some(one.coming.by), one.coming.version.seq.time());
        fetches.into_iter().map(move |fetch| Wish { by, since, fetch })
    });
    federation::want_each(tx, env, wanted)
}

fn mention_each(tx: &mut Tx, new: &[New<'_>]) -> Result<(), Error> {
    // Somebody may be named twice by one post; no row may be written twice.
    let mut rows = BTreeMap::new();
    for one in new {
        for Addressee { id, silent, .. } in &one.people {
            rows.insert((one.status.id, *id), *silent);
        }
    }
    let row = |((status, account), silent): (&(Id, Id), &bool)| {
        [Value::Int(status.0), Value::Int(account.0), Value::Int(i64::from(*silent))]
    };
    tx.run_all(MENTION, rows.iter().map(row))?;
    Ok(())
}

fn tag_each(tx: &mut Tx, env: &Env, new: &[New<'_>]) -> Result<(), Error> {
    let names: Vec<&str> =
        new.iter().flat_map(|one| &one.coming.remote.tags).map(String::as_str).collect();
    let known: HashMap<String, Id> =
        tags::ensure(tx, env, &names)?.into_iter().map(|tag| (tag.name, tag.id)).collect();
    let mut links = Vec::new();
    let mut latest: BTreeMap<Id, Timestamp> = BTreeMap::new();
    for one in new {
        let keys = one.coming.remote.tags.iter().map(|name| crate::text::tag_key(name));
        let mut tags: Vec<Id> = keys.filter_map(|key| known.get(&key).copied()).collect();
        tags.sort_unstable();
        tags.dedup();
        for tag in tags {
            links.push((tag, one.status.id));
            if one.status.visibility == Visibility::Public {
                let at = latest.entry(tag).or_insert(one.status.created_at);
                *at = (*at).max(one.status.created_at);
                env.feeds.tagged(tx, tag, one.status.id);
            }
        }
    }
    tags::link_each(tx, &links)?;
    tags::used_each(tx, &latest)
}
