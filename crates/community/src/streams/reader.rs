//! What is held in memory of a reader, and what is decided with it.

use std::collections::{HashMap, HashSet};

use weir_base::{Id, Timestamp};
use weir_db::Tx;

use crate::filters::{Applied, Rules, Searched};
use crate::lists::{self, Replies};
use crate::relationships::{self, Bonds};
use crate::statuses::{Bond, View, Visibility, may_see};
use crate::{Env, Error, timelines, users};

/// A reader's relations, filters and wishes. The default is what is known of visitors: nothing.
#[derive(Debug, Default)]
pub struct ReaderSets {
    id: Option<Id>,
    bonds: Bonds,
    filters: Rules,
    excluded: HashSet<Id>,
    lists: HashMap<Id, Replies>,
    tags: HashSet<Id>,
    languages: Vec<String>,
    ends_at: Option<Timestamp>,
}

impl ReaderSets {
    /// What is true of the account `id` now.
    ///
    /// # Errors
    /// The database's.
    pub fn load(tx: &mut Tx, env: &Env, id: Id) -> Result<Self, Error> {
        let (user, now) = (users::by_account(tx, id), env.clock.now());
        let filters = Rules::load(tx, id, now)?;
        let ends = [filters.next_end(), relationships::next_mute_end(tx, id, now)?];
        Ok(Self {
            id: Some(id),
            bonds: relationships::all_bonds(tx, id, now)?,
            filters,
            ends_at: ends.into_iter().flatten().min(),
            excluded: lists::excluded_from_home(tx, id)?.into_iter().collect(),
            lists: lists::replies(tx, id)?,
            tags: env.feeds.followed_tags(id).into_iter().collect(),
            languages: user.map(|user| user.settings.0.chosen_languages).unwrap_or_default(),
        })
    }

    /// Whether a mute or a filter has ended by itself since this was loaded.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.ends_at.is_some_and(|at| at <= now)
    }

    /// Whether the reader may see a post: of a boost, both.
    pub fn may_see(&self, view: &View) -> bool {
        self.sees(view) && view.boost.as_deref().is_none_or(|of| self.sees(of))
    }

    fn sees(&self, view: &View) -> bool {
        let author = view.account.id;
        may_see(&Bond {
            visibility: view.status.visibility,
            author: self.id == Some(author),
            follows: self.bonds.following.contains(&author),
            mentioned: view.mentions.iter().any(|mention| Some(mention.account_id) == self.id),
            blocked: self.bonds.blocked_by.contains(&author),
            available: view.account.is_available(),
        })
    }

    /// Whether a post that they may see belongs into the reader's home timeline.
    pub fn comes_home(&self, view: &View) -> bool {
        let Some(reader) = self.id else { return false };
        let author = view.account.id;
        let is_public = view.status.visibility == Visibility::Public;
        let followed = author == reader
            || self.bonds.following.contains(&author)
            || (is_public && view.tags.iter().any(|tag| self.tags.contains(&tag.id)));
        followed
            && !self.excluded.contains(&author)
            && timelines::comes_home(view, reader, &self.bonds)
    }

    /// Whether a post of somebody in `list` belongs into it; into none that is not the reader's.
    pub fn comes_to_list(&self, view: &View, list: Id) -> bool {
        let (Some(reader), Some(replies)) = (self.id, self.lists.get(&list)) else { return false };
        timelines::comes_to_list(view, reader, &self.bonds, replies)
    }

    /// Whether the reader finds a post of somebody in their profile.
    pub fn comes_to_profile(&self, view: &View) -> bool {
        timelines::comes_to_profile(view, self.id, &self.bonds)
    }

    /// Whether a public post is shown to the reader where everybody's are.
    pub fn is_public_for(&self, view: &View) -> bool {
        !self.bonds.keep_out(self.id, &view.account)
    }

    /// Whether a post is in a language that the reader chose, or in none that is known.
    pub fn understands(&self, view: &View) -> bool {
        match &view.status.language {
            Some(language) => self.languages.is_empty() || self.languages.contains(language),
            None => true,
        }
    }

    /// The reader's filters that match the post.
    pub fn matching(&self, view: &View, searched: &Searched) -> Vec<Applied> {
        let Some(reader) = self.id else { return Vec::new() };
        self.filters.matching_in(searched, view, reader)
    }
}
