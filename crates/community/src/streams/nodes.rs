//! What the nodes of one community tell each other: what changed, never rendered bytes. Each reads
//! the rows itself, and whoever missed something reads anew what it holds.

use std::sync::atomic::Ordering;

use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use weir_base::Id;
use weir_db::{Class, Db, Tx};
use weir_live::Shared;
use weir_live::bus::{Bus, Ear, Heard};

use super::anew::Anew;
use super::touches::Outward;
use super::{Change, EVENT_BYTES, Event, Streams, Topic, tell};
use crate::timelines::Source;
use crate::{Community, Env, Error};

/// The bus between the nodes, where there are several.
pub struct Nodes {
    pub(super) bus: Bus,
    pub(super) ear: Ear,
}

impl Nodes {
    /// The nodes of this community, by the Redis at `url`. Needs a tokio runtime.
    ///
    /// # Errors
    /// One line that says what is wrong with the address.
    pub fn join(community: &Community, url: &str) -> Result<Self, String> {
        let env = community.env();
        let channel = format!("weir:{}:changes", env.site.domain);
        let joined = Bus::open(url, &channel, &env.random).map_err(|error| error.to_string())?;
        env.streams.among_others.store(true, Ordering::Relaxed);
        env.streams.touches.gather();
        Ok(Self { bus: joined.0, ear: joined.1 })
    }
}

impl Streams {
    /// Has what is held in memory read anew when nobody knows whether a commit in `db` stands.
    pub(crate) fn doubt_with(&self, db: &Db) {
        let unsure = self.unsure.clone();
        db.on_doubt(move || unsure.notify_one());
    }
}

/// Tells the other nodes.
pub(super) fn pass_on(bus: &Bus, changes: &[Change]) {
    let ours = |change: &&Change| !matches!(change, Change::Settled(_));
    let changes: Vec<&Change> = changes.iter().filter(ours).collect();
    if changes.is_empty() {
        return;
    }
    match serde_json::to_vec(&changes) {
        Ok(told) => bus.tell(&told),
        Err(error) => tracing::error!(%error, "a change could not be told to the other nodes"),
    }
}

/// Tells the other nodes what is not told yet, and that this one leaves.
pub(super) async fn tell_the_last(
    streams: &Streams,
    bus: &Bus,
    receiver: &mut mpsc::Receiver<Change>,
    anew: &Anew,
) {
    let mut rest = Vec::new();
    while let Ok(change) = receiver.try_recv() {
        rest.push(change);
    }
    let doubted = streams.unsure.notified().now_or_never().is_some();
    if doubted || anew.is_untold() || streams.overflowed.load(Ordering::Acquire) {
        rest.push(Change::Missed);
    }
    rest.extend(streams.touches.take_outward().map(Change::from));
    pass_on(bus, &rest);
    bus.leave().await;
}

impl From<Outward> for Change {
    fn from(outward: Outward) -> Self {
        match outward {
            Outward::Nouns(nouns) => Self::Touched(nouns.into_iter().collect()),
            Outward::Many => Self::Missed,
        }
    }
}

/// What the other nodes say next.
pub(super) async fn hear(ear: &mut Option<Ear>) -> Heard {
    match ear {
        Some(ear) => match ear.next().await {
            Some(heard) => heard,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// Another node changed something, or may have: whether something of it was missed.
pub(super) async fn hear_of(community: &Community, heard: Heard) -> Result<bool, Error> {
    let elsewhere = &community.env().streams.elsewhere;
    let (node, changes): (u64, Vec<Change>) = match heard {
        Heard::Message { node, payload } => match serde_json::from_slice(&payload) {
            Ok(changes) => (node, changes),
            Err(error) => {
                // A node of another version speaks of what is not known here.
                tracing::warn!(%error, "what another node told is not understood");
                return Ok(true);
            }
        },
        Heard::Missed => {
            elsewhere.doubt();
            return Ok(true);
        }
        Heard::Joined(node) => {
            elsewhere.joined(node);
            return Ok(false);
        }
        Heard::Left(node) => {
            elsewhere.left(node);
            return Ok(false);
        }
    };
    let missed = changes.iter().any(|change| matches!(change, Change::Missed));
    let followed: Vec<Id> = changes
        .iter()
        .filter_map(|change| match change {
            Change::To { topic: Topic::Own(id), event: Event::BondsChanged } => Some(*id),
            _ => None,
        })
        .collect();
    let posts: Vec<Id> = changes
        .iter()
        .filter_map(|change| match change {
            // An edit may have brought a hashtag.
            Change::Created { id, .. } | Change::Edited { id } => Some(*id),
            _ => None,
        })
        .collect();
    for change in &changes {
        match change {
            Change::Deleted { author, .. } => {
                community.env().feeds.forget([Source::Author(*author)]);
            }
            Change::Untagged(tags) => {
                community.env().feeds.forget(tags.iter().map(|tag| Source::Tag(*tag)));
            }
            Change::AccessChanged(_) | Change::RoleChanged(_) => {
                community.env().log_ins.changed_elsewhere();
            }
            Change::Touched(nouns) => {
                community.env().streams.touches.note(nouns.iter().copied());
            }
            Change::Whereabouts(told) => {
                let moved = elsewhere.hear(node, told.clone());
                community.env().streams.moved_elsewhere(moved);
            }
            _ => {}
        }
    }
    let read = match followed.is_empty() && posts.is_empty() {
        true => Ok(()),
        false => {
            let before = community.env().feeds.changed();
            let read = move |tx: &mut Tx, env: &Env| {
                followed.iter().try_for_each(|id| env.feeds.read_follows(tx, *id, before))?;
                for (author, tag) in sources(tx, &posts)? {
                    let tag = (tag != Id::ZERO).then_some(Source::Tag(tag));
                    env.feeds.forget(tag.into_iter().chain([Source::Author(author)]));
                }
                Ok::<_, Error>(())
            };
            community.read(Class::Live, read).await
        }
    };
    // Whatever could not be read: a revocation among these is told.
    tell(community, changes).await.and(read).map(|()| missed)
}

/// Something that changed was missed: nobody resumes over the gap, and what is held in
/// memory is read anew.
pub(super) async fn read_anew(community: &Community) -> Result<(), Error> {
    let hub = &community.env().streams.hub;
    hub.forget();
    community.env().log_ins.changed_elsewhere();
    community.env().streams.touches.missed();
    community.env().streams.doubted.notify_one();
    let before = community.env().feeds.changed();
    let read = move |tx: &mut Tx, env: &Env| {
        env.instance.load(tx)?;
        env.feeds.read_anew(tx, before)
    };
    community.read(Class::Live, read).await?;
    hub.publish(&Topic::Everybody, Shared::sized(Event::Missed, EVENT_BYTES));
    community.env().streams.bonds_changed_of(None);
    Ok(())
}

/// The authors and tags of posts; the tag is zero where there is none.
fn sources(tx: &mut Tx, posts: &[Id]) -> Result<Vec<(Id, Id)>, Error> {
    if posts.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT s.account_id, coalesce(t.tag_id, 0) FROM statuses s
               LEFT JOIN status_tags t ON t.status_id = s.id WHERE s.id IN ids(?1)";
    Ok(tx.query(sql, &[weir_db::ids(posts)], |row| Ok((row.get(0)?, row.get(1)?)))?)
}
