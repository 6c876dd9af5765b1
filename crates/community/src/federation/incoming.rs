//! What another server says, in the community's own terms, and what follows from it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use weir_base::{Id, Timestamp};
use weir_db::{Tx, params};

use super::order::{self, Event, Relation, Version};
use super::{AskOrigin, Fetch, Hearsay, Wanted, Wish, host_of, want_each};
use crate::accounts::{self, Account, RemoteAccount};
use crate::relationships::Act;
use crate::reports::{self, NewReport};
use crate::statuses::{self, Cause, Receipt, RemoteStatus, Status, Unmark, Visibility};
use crate::{Env, Error, hosts, relationships};

/// A message of another server that the door let in: its sender is who it says.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// The actor's address.
    pub actor: String,
    /// The activity's own address; empty when it has none.
    pub activity: String,
    /// When it was signed, and the door's sequence number.
    pub version: Version,
    /// When it came to the door.
    pub arrived: Timestamp,
    /// What the actor did.
    pub deed: Deed,
}

/// What a remote actor did.
#[derive(Debug, Clone)]
pub enum Deed {
    /// Wrote or edited a post.
    Post(Box<RemoteStatus>),
    /// Wrote a post, and gave only its address.
    Named {
        /// The address.
        uri: String,
    },
    /// Edited a post, or its profile, and gave only the address.
    Changed {
        /// The address.
        uri: String,
    },
    /// Voted in a poll.
    Vote {
        /// The poll's post.
        poll: String,
        /// The option's text.
        choice: String,
    },
    /// Deleted a post.
    Delete {
        /// Its address.
        uri: String,
    },
    /// Deleted itself.
    DeleteSelf,
    /// Changed its profile.
    Profile(Box<RemoteAccount>),
    /// Liked a post.
    Like {
        /// Its address.
        object: String,
    },
    /// Boosted a post.
    Boost {
        /// Its address.
        object: String,
        /// To whom.
        visibility: Visibility,
        /// When, as its server says.
        published: Option<Timestamp>,
    },
    /// Asked to follow.
    Follow {
        /// Whom.
        target: String,
    },
    /// Blocks somebody.
    Block {
        /// Whom.
        target: String,
    },
    /// Answered a wish to follow.
    Answer {
        /// Yes or no.
        accepted: bool,
        /// To what.
        follow: Answered,
    },
    /// Took something back.
    Undo(Undone),
    /// Reports people or posts of this server.
    Flag {
        /// Their addresses.
        objects: Vec<String>,
        /// Why.
        comment: String,
    },
    /// Moved to another account.
    Move {
        /// Its address.
        target: String,
    },
    /// Changed which posts it shows first.
    Featured,
}

/// The Follow that an answer is about.
#[derive(Debug, Clone, Default)]
pub struct Answered {
    /// The Follow's address; empty when it was not given.
    pub activity: String,
    /// Who asked; empty when it was not given.
    pub follower: String,
}

/// What an Undo is about.
#[derive(Debug, Clone, Default)]
pub struct Undone {
    /// The undone activity's address; empty when it was not given.
    pub activity: String,
    /// Its type in lower case (`follow`, `like`, `announce`, `block`); empty when not given.
    pub kind: String,
    /// Its object; empty when it was not given.
    pub object: String,
}

impl Undone {
    /// What is undone by its type; none where that is not given, or nothing of the kind.
    pub(super) fn relation(&self) -> Option<Relation> {
        match self.kind.as_str() {
            "follow" => Some(Relation::Follow),
            "like" => Some(Relation::Like),
            "announce" => Some(Relation::Boost),
            "block" => Some(Relation::Block),
            _ => None,
        }
    }
}

/// The senders of messages that are worked in one unit, and what staff wants of their servers:
/// read once for all of them.
#[derive(Debug, Default)]
pub struct Senders {
    accounts: HashMap<String, Option<Arc<Account>>>,
    policies: HashMap<String, hosts::Policy>,
}

impl Senders {
    /// Reads the senders of `batch`.
    ///
    /// # Errors
    /// The database's.
    pub fn read<'b>(
        tx: &mut Tx,
        batch: impl IntoIterator<Item = &'b Incoming>,
    ) -> Result<Self, Error> {
        let uris: BTreeSet<String> =
            batch.into_iter().map(|incoming| incoming.actor.clone()).collect();
        let uris: Vec<String> = uris.into_iter().collect();
        let found = accounts::by_uris(tx, &uris)?;
        let domains: BTreeSet<&str> = found.iter().map(|account| account.domain.as_str()).collect();
        let domains: Vec<&str> = domains.into_iter().collect();
        let mut policies: HashMap<String, hosts::Policy> =
            domains.iter().map(|domain| ((*domain).to_owned(), hosts::Policy::default())).collect();
        policies.extend(hosts::policies(tx, &domains)?);
        let mut accounts: HashMap<String, Option<Arc<Account>>> =
            uris.into_iter().map(|uri| (uri, None)).collect();
        for account in found {
            accounts.insert(account.uri.clone(), Some(Arc::new(account)));
        }
        Ok(Self { accounts, policies })
    }

    pub(super) fn get(&mut self, tx: &mut Tx, uri: &str) -> Result<Option<Arc<Account>>, Error> {
        if let Some(known) = self.accounts.get(uri) {
            return Ok(known.clone());
        }
        let found = accounts::by_uri(tx, uri)?.map(Arc::new);
        self.accounts.insert(uri.to_owned(), found.clone());
        Ok(found)
    }

    /// The author of a post.
    pub(super) fn of_post(&self, tx: &mut Tx, post: &Status) -> Result<Arc<Account>, Error> {
        let mut known = self.accounts.values().flatten();
        match known.find(|account| account.id == post.account_id) {
            Some(account) => Ok(account.clone()),
            None => accounts::by_id(tx, post.account_id).map(Arc::new),
        }
    }

    pub(super) fn policy(&mut self, tx: &mut Tx, domain: &str) -> Result<hosts::Policy, Error> {
        if let Some(known) = self.policies.get(domain) {
            return Ok(*known);
        }
        let found = hosts::policy(tx, domain)?;
        self.policies.insert(domain.to_owned(), found);
        Ok(found)
    }

    /// Forgets the accounts that a message may have changed.
    fn worked(&mut self, incoming: &Incoming) {
        let other = match &incoming.deed {
            Deed::Delete { uri } => {
                // Most often a post, which is nobody's account.
                self.accounts.remove(uri);
                return;
            }
            Deed::DeleteSelf => None,
            Deed::Profile(profile) => Some(&profile.uri),
            Deed::Move { target } => Some(target),
            Deed::Post(_)
            | Deed::Named { .. }
            | Deed::Changed { .. }
            | Deed::Vote { .. }
            | Deed::Like { .. }
            | Deed::Boost { .. }
            | Deed::Follow { .. }
            | Deed::Block { .. }
            | Deed::Answer { .. }
            | Deed::Undo(_)
            | Deed::Flag { .. }
            | Deed::Featured => return,
        };
        self.accounts.remove(&incoming.actor);
        if let Some(other) = other {
            self.accounts.remove(other);
        }
    }
}

/// Works one message of those whose senders are `senders`. What it refers to and is not known here
/// is asked for.
///
/// # Errors
/// The database's.
pub fn receive(
    tx: &mut Tx,
    env: &Env,
    senders: &mut Senders,
    incoming: &Incoming,
) -> Result<Receipt, Error> {
    receive_of(tx, env, senders, incoming, None)
}

/// [`receive`], where what stands at the address of the post it brings was read, as `known`.
pub(super) fn receive_of(
    tx: &mut Tx,
    env: &Env,
    senders: &mut Senders,
    incoming: &Incoming,
    known: Option<&Status>,
) -> Result<Receipt, Error> {
    let Some(by) = senders.get(tx, &incoming.actor)?.filter(|by| !by.is_local()) else {
        return Ok(Receipt::Refused("unknown actor"));
    };
    // What it wrote is looked at for the sake of those who answered it; votes and reports stay.
    let outlasts =
        |deed: &Deed| matches!(deed, Deed::Post(_) | Deed::Vote { .. } | Deed::Flag { .. });
    if by.deleted_at.is_some() && !outlasts(&incoming.deed) {
        return Ok(Receipt::Refused("deleted"));
    }
    let policy = senders.policy(tx, &by.domain)?;
    if policy.suspended || by.suspended_at.is_some() && !is_farewell(&incoming.deed) {
        return Ok(Receipt::Refused("suspended"));
    }
    let receipt = work(tx, env, &by, incoming, policy, known)?;
    senders.worked(incoming);
    if let Receipt::Refused(why) = receipt {
        refused(why);
    }
    Ok(receipt)
}

/// Counts what is not kept.
pub(super) fn refused(why: &'static str) {
    metrics::counter!("weir_community_incoming_refused_total", "why" => why).increment(1);
}

/// What even a suspended account may do: go, and take things back.
fn is_farewell(deed: &Deed) -> bool {
    matches!(deed, Deed::Delete { .. } | Deed::DeleteSelf | Deed::Undo(_) | Deed::Profile(_))
}

fn work(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    incoming: &Incoming,
    policy: hosts::Policy,
    known: Option<&Status>,
) -> Result<Receipt, Error> {
    let Incoming { activity, version, arrived, .. } = incoming;
    let (version, arrived) = (*version, *arrived);
    match &incoming.deed {
        Deed::Post(post) => {
            let version = Version { at: content_time(post, version), ..version };
            match known {
                Some(known) => statuses::revise(tx, env, by, known, post, version),
                None => statuses::receive(tx, env, by, post, version, arrived, Cause::Delivered),
            }
        }
        Deed::Named { uri } => named(tx, env, by, uri),
        Deed::Changed { uri } => changed(tx, env, by, uri),
        Deed::Vote { poll, choice } => statuses::receive_vote(tx, env, by, poll, choice, arrived),
        Deed::Delete { uri } => delete(tx, env, by, uri, version),
        Deed::DeleteSelf => {
            accounts::delete_remote(tx, env, by.id)?;
            Ok(Receipt::Known(by.id))
        }
        Deed::Profile(profile) => accounts::upsert(tx, env, profile, version).map(Receipt::Known),
        Deed::Like { object } => statuses::receive_like(tx, env, by, object, activity, version),
        Deed::Boost { object, visibility, published } => statuses::receive_boost(
            tx,
            env,
            by,
            object,
            activity,
            *visibility,
            *published,
            version,
            arrived,
        ),
        Deed::Follow { target } => {
            act(tx, env, by, target, Relation::Follow, false, activity, version)
        }
        Deed::Block { target } => {
            act(tx, env, by, target, Relation::Block, false, activity, version)
        }
        Deed::Answer { accepted, follow } => answer(tx, env, by, *accepted, follow),
        Deed::Undo(undone) => undo(tx, env, by, undone, version),
        Deed::Flag { .. } if policy.reject_reports => Ok(Receipt::Refused("reports rejected")),
        Deed::Flag { objects, comment } => flag(tx, env, by, objects, comment, activity),
        Deed::Move { target } => match accounts::by_uri(tx, target)? {
            Some(new) => relationships::receive_move(tx, env, by, &new),
            None => Ok(Receipt::Refused("unknown")),
        },
        Deed::Featured => {
            if !by.featured_uri.is_empty() {
                let wanted = Wanted::Featured { account: by.id, uri: by.featured_uri.clone() };
                let fetch = Fetch { wanted, depth: 0, patient: false };
                want_each(tx, env, [Wish { by: Some(by), since: env.clock.now(), fetch }])?;
            }
            Ok(Receipt::Known(by.id))
        }
    }
}

/// What the order of a post's versions goes by. A Create that is delivered late is signed late,
/// so its signature says nothing of the age of its content.
pub(crate) fn content_time(post: &RemoteStatus, version: Version) -> Timestamp {
    post.updated.or(post.published).unwrap_or(version.at).min(version.seq.time())
}

/// When a boost counts as done: when its server says, but not after it `arrived`.
pub(crate) fn boosted_at(published: Option<Timestamp>, arrived: Timestamp) -> Timestamp {
    published.unwrap_or(arrived).min(arrived).max(Timestamp::from_ms(1))
}

fn local(tx: &mut Tx, uri: &str) -> Result<Option<Account>, Error> {
    Ok(accounts::by_uri(tx, uri)?.filter(Account::is_local))
}

/// A post of which only the address came is fetched when somebody here follows its author.
fn named(tx: &mut Tx, env: &Env, by: &Account, uri: &str) -> Result<Receipt, Error> {
    if !may_come(tx, by, uri)? {
        return Ok(Receipt::Refused("irrelevant"));
    }
    let fetch = Fetch { wanted: Wanted::Status { uri: uri.into() }, depth: 0, patient: false };
    want_each(tx, env, [Wish { by: Some(by), since: env.clock.now(), fetch }])?;
    Ok(Receipt::Refused("asked for"))
}

/// What is known here and of which only the address came is read anew where it is from. So is what
/// is not known, if it would be taken in: as it was before, it may come in meanwhile.
fn changed(tx: &mut Tx, env: &Env, by: &Account, uri: &str) -> Result<Receipt, Error> {
    let is_own = |status: Status| status.account_id == by.id;
    if uri != by.uri && !statuses::by_uri(tx, uri)?.is_some_and(is_own) && !may_come(tx, by, uri)? {
        return Ok(Receipt::Refused("irrelevant"));
    }
    let told_by = host_of(&by.uri).unwrap_or_default().to_owned();
    let (queue, jobs) = (AskOrigin::QUEUE_NAME, &env.jobs);
    if jobs.depth(queue) >= AskOrigin::WAITING_MAX
        || jobs.depth_in(queue, &told_by) >= AskOrigin::WAITING_OF_ONE_MAX
    {
        return Ok(Receipt::Refused("too much is asked"));
    }
    let (actor, object) = (by.uri.clone(), uri.to_owned());
    let said = Hearsay::Update;
    let ask = AskOrigin { said, actor, object, in_reply_to: None, told_by };
    // Not what others say of it, which may be false in its other parts or never be looked at.
    let key = format!("own {}", ask.key());
    env.jobs.enqueue_unique(tx, &key, env.clock.now(), &ask)?;
    Ok(Receipt::Refused("asked for"))
}

/// Whether a post at `uri` of which only the address came is one that `by` may write and somebody
/// here waits for.
fn may_come(tx: &mut Tx, by: &Account, uri: &str) -> Result<bool, Error> {
    Ok(host_of(uri) == host_of(&by.uri) && statuses::is_followed(tx, by.id)?)
}

fn delete(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    uri: &str,
    version: Version,
) -> Result<Receipt, Error> {
    if uri == by.uri {
        accounts::delete_remote(tx, env, by.id)?;
        return Ok(Receipt::Known(by.id));
    }
    // Some take a boost back by deleting it.
    let boosted: Option<String> = tx.value(
        "SELECT p.uri FROM statuses b JOIN statuses p ON p.id = b.boost_of_id
         WHERE b.uri = ?1 AND b.account_id = ?2",
        params![uri, by.id],
    )?;
    if let Some(object) = boosted {
        return undo_mark(tx, env, by, Relation::Boost, &object, uri, version);
    }
    statuses::receive_delete(tx, env, host_of(&by.uri).unwrap_or_default(), uri)
}

fn answer(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    accepted: bool,
    follow: &Answered,
) -> Result<Receipt, Error> {
    let named = follow_id(env, &follow.activity);
    let follower = match named {
        Some((account, _)) => accounts::by_id(tx, account).ok(),
        None => local(tx, &follow.follower)?,
    };
    let Some(follower) = follower.filter(Account::is_local) else {
        return Ok(Receipt::Refused("unknown"));
    };
    let id = named.map(|(_, id)| id);
    relationships::receive_answer(tx, env, by, &follower, id, accepted)
}

/// Follower and id of a Follow that was sent from here: `…/ap/users/ID#follows/ID`.
fn follow_id(env: &Env, activity: &str) -> Option<(Id, Id)> {
    let (actor, follow) = activity.split_once("#follows/")?;
    let (account, None) = env.site.parse_local(actor)? else { return None };
    Some((account, follow.parse().ok()?))
}

fn undo(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    undone: &Undone,
    version: Version,
) -> Result<Receipt, Error> {
    let relation = match undone.relation() {
        None if !undone.kind.is_empty() => return Ok(Receipt::Refused("not to be undone")),
        relation => relation,
    };
    let known = match relation.filter(|_| !undone.object.is_empty()) {
        Some(relation) => Some((undone.object.clone(), relation)),
        None if undone.activity.is_empty() => None,
        None => order::find(tx, &by.uri, &undone.activity)?,
    };
    let Some((object, relation)) = known else {
        if undone.activity.is_empty() {
            return Ok(Receipt::Refused("unknown"));
        }
        let event = Event { version, undo: true, activity: undone.activity.clone(), boost: None };
        order::note_early_undo(tx, &by.uri, event)?;
        return Ok(Receipt::Refused("unknown"));
    };
    match relation {
        Relation::Like | Relation::Boost => {
            undo_mark(tx, env, by, relation, &object, &undone.activity, version)
        }
        Relation::Follow | Relation::Block => {
            act(tx, env, by, &object, relation, true, &undone.activity, version)
        }
    }
}

fn undo_mark(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    relation: Relation,
    object: &str,
    activity: &str,
    version: Version,
) -> Result<Receipt, Error> {
    let unmark = Unmark { by, relation, object, activity, version };
    let receipts = statuses::undo_marks(tx, env, &[unmark])?;
    // There is one for each.
    receipts.into_iter().next().ok_or(Error::Db(weir_db::Error::Rows(0)))
}

/// What `by` does to the account at `target`: a follow or a block, or taking one back.
fn act(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    target: &str,
    relation: Relation,
    undo: bool,
    activity: &str,
    version: Version,
) -> Result<Receipt, Error> {
    let Some(target) = local(tx, target)? else { return Ok(Receipt::Refused("unknown")) };
    let act = Act { by, target: &target, relation, undo, activity, version };
    relationships::receive_acts(tx, env, &[act])?;
    Ok(Receipt::Known(target.id))
}

fn flag(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    objects: &[String],
    comment: &str,
    activity: &str,
) -> Result<Receipt, Error> {
    order::meet(tx, &[activity])?;
    let known: Option<Id> = tx.value(
        "SELECT id FROM reports WHERE account_id = ?1 AND uri = ?2 AND uri <> ''",
        params![by.id, activity],
    )?;
    if let Some(known) = known {
        return Ok(Receipt::Known(known));
    }
    let mut target = None;
    let mut posts = Vec::new();
    for uri in objects {
        if let Some(account) = local(tx, uri)? {
            target = target.or(Some(account.id));
        } else if let Some(post) = statuses::by_uri(tx, uri)?.filter(|post| post.local) {
            target = target.or(Some(post.account_id));
            posts.push(post);
        }
    }
    let Some(target) = target else { return Ok(Receipt::Refused("unknown")) };
    if reports::are_too_many(tx, env, &by.domain)? {
        return Ok(Receipt::Refused("too many reports"));
    }
    let of_target = posts.iter().filter(|post| post.account_id == target);
    let new = NewReport {
        target_id: target,
        status_ids: of_target.map(|post| post.id).collect(),
        comment: comment.chars().take(1_000).collect(),
        ..NewReport::default()
    };
    let report = reports::create(tx, env, by.id, &new, activity)?;
    Ok(Receipt::New(report.id))
}
