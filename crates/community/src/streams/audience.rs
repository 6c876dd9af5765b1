//! Who is told of a post: what has to be read for that, and the topics it comes by.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};

use weir_base::Id;
use weir_db::Tx;
use weir_live::Hub;

use super::{Event, Topic};
use crate::statuses::{self, View, Visibility};
use crate::timelines::{Here, Source};
use crate::{Env, Error};

/// What is read of posts that came, changed or went, once for everybody.
#[derive(Default)]
pub(super) struct Read {
    /// The posts that are there, as everybody sees them.
    pub(super) views: Vec<View>,
    /// The lists in which their authors stand.
    lists: HashMap<Id, Vec<Id>>,
}

impl Read {
    /// These `posts`, and where posts of these `authors` were told.
    pub(super) fn load(
        tx: &mut Tx,
        env: &Env,
        posts: &[Id],
        authors: &[Id],
    ) -> Result<Self, Error> {
        let views = statuses::load_for_all(tx, env, posts)?;
        let wrote = views.iter().map(|view| view.account.id);
        let authors: BTreeSet<Id> = wrote.chain(authors.iter().copied()).collect();
        let authors: Vec<Id> = authors.into_iter().collect();
        let mut lists: HashMap<Id, Vec<Id>> = HashMap::new();
        let rows: Vec<(Id, Id)> = tx.query(
            "SELECT account_id, list_id FROM list_accounts WHERE account_id IN ids(?1)",
            &[weir_db::ids(&authors)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        for (author, list) in rows {
            lists.entry(author).or_default().push(list);
        }
        Ok(Self { views, lists })
    }

    /// The lists in which `author` stands.
    pub(super) fn lists_of(&self, author: Id) -> impl Iterator<Item = Topic> {
        self.lists.get(&author).into_iter().flatten().map(|list| Topic::List(*list))
    }
}

/// Those who are here, or may come back for what they miss, while some changes are told. They are
/// listed once, if at all: when somebody has more followers than that.
pub(super) struct Awaited<'e> {
    hub: &'e Hub<Topic, Event>,
    listed: OnceCell<Vec<Id>>,
}

impl<'e> Awaited<'e> {
    pub(super) fn new(env: &'e Env) -> Self {
        Self { hub: env.streams.hub(), listed: OnceCell::new() }
    }
}

impl Here for Awaited<'_> {
    fn count(&self) -> usize {
        self.hub.awaited_max()
    }

    fn has(&self, account: Id) -> bool {
        self.hub.is_awaited(account.0)
    }

    fn all(&self) -> &[Id] {
        self.listed.get_or_init(|| self.hub.awaited().into_iter().map(Id).collect())
    }
}

/// The home timelines of those of `awaited` who follow `author` or one of `tags`, are it or are
/// mentioned: each once.
pub(super) fn homes_here(
    env: &Env,
    awaited: &Awaited<'_>,
    author: Id,
    mentioned: &[Id],
    tags: impl Iterator<Item = Id>,
) -> Vec<Topic> {
    let sources = std::iter::once(Source::Author(author)).chain(tags.map(Source::Tag));
    let mut here: Vec<Id> =
        sources.flat_map(|source| env.feeds.followers_here(source, awaited)).collect();
    let named = mentioned.iter().chain(std::iter::once(&author));
    here.extend(named.filter(|account| awaited.has(**account)));
    here.sort();
    here.dedup();
    here.into_iter().map(Topic::Home).collect()
}

/// Where a post is told for everybody.
pub(super) fn public_topics(view: &View) -> Vec<Topic> {
    if view.status.visibility != Visibility::Public || view.boost.is_some() {
        return Vec::new();
    }
    let local = view.status.local;
    let mut topics = vec![Topic::Public];
    topics.push(if local { Topic::PublicLocal } else { Topic::PublicRemote });
    topics.extend(tag_topics(view.tags.iter().map(|tag| tag.name.clone()), local));
    topics
}

/// Where a post is told for those who look at its hashtags.
pub(super) fn tag_topics(
    names: impl Iterator<Item = String>,
    local: bool,
) -> impl Iterator<Item = Topic> {
    names.flat_map(move |name| {
        let here = local.then(|| Topic::TagLocal(name.clone()));
        std::iter::once(Topic::Tag(name)).chain(here)
    })
}
