//! What is held in memory of a reader, and what is decided with it.

use std::collections::HashSet;

use weir_base::{Id, Timestamp};
use weir_community::filters::{Applied, Rules, Searched};
use weir_community::relationships::{self, Bonds};
use weir_community::statuses::{Bond, View, may_see};
use weir_community::{lists, timelines, users};

use super::stream::Kind;
use crate::{Error, Face};

/// A reader's relations, filters and wishes; reloaded when an event says they changed, and when
/// one of them ends by itself.
#[derive(Debug, Default)]
pub(crate) struct ReaderSets {
    id: Option<Id>,
    bonds: Bonds,
    filters: Rules,
    excluded: HashSet<Id>,
    tags: HashSet<Id>,
    languages: Vec<String>,
    ends_at: Option<Timestamp>,
}

impl ReaderSets {
    /// What is true of the account `id` now.
    ///
    /// # Errors
    /// The database's.
    pub(crate) async fn load(face: &Face, id: Id) -> Result<Self, Error> {
        face.read(move |tx, env| {
            let (user, now) = (users::by_account(tx, id), env.clock.now());
            let filters = Rules::load(tx, id, now)?;
            let ends = [filters.next_end(), relationships::next_mute_end(tx, id, now)?];
            Ok(Self {
                id: Some(id),
                bonds: relationships::all_bonds(tx, id, now)?,
                filters,
                ends_at: ends.into_iter().flatten().min(),
                excluded: lists::excluded_from_home(tx, id)?.into_iter().collect(),
                tags: env.feeds.followed_tags(id).into_iter().collect(),
                languages: user.map(|user| user.settings.0.chosen_languages).unwrap_or_default(),
            })
        })
        .await
    }

    /// Whether a mute or a filter has ended by itself since this was loaded.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        self.ends_at.is_some_and(|at| at <= now)
    }

    /// Whether a post belongs into a stream of this kind for this reader. Who may see it comes
    /// first, and of a boost both must be seen.
    pub(crate) fn wants(&self, view: &View, kind: Kind) -> bool {
        let seen = self.may_see(view) && view.boost.as_deref().is_none_or(|of| self.may_see(of));
        seen && match kind {
            Kind::User => self.comes_home(view),
            Kind::Public => self.is_public_for(view),
            Kind::List => self.comes_to_list(view),
            Kind::Direct | Kind::Notifications => false,
        }
    }

    fn may_see(&self, view: &View) -> bool {
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

    fn comes_home(&self, view: &View) -> bool {
        let Some(reader) = self.id else { return false };
        let author = view.account.id;
        let followed = author == reader
            || self.bonds.following.contains(&author)
            || view.tags.iter().any(|tag| self.tags.contains(&tag.id));
        followed
            && !self.excluded.contains(&author)
            && timelines::comes_home(view, reader, &self.bonds)
    }

    fn comes_to_list(&self, view: &View) -> bool {
        self.id.is_some_and(|reader| timelines::comes_home(view, reader, &self.bonds))
    }

    fn is_public_for(&self, view: &View) -> bool {
        let author = view.account.id;
        let understood = match &view.status.language {
            Some(language) => self.languages.is_empty() || self.languages.contains(language),
            None => true,
        };
        let silenced = view.account.silenced_at.is_some()
            && self.id != Some(author)
            && !self.bonds.following.contains(&author);
        understood
            && !silenced
            && !self.bonds.blocking.contains(&author)
            && !self.bonds.muting.contains(&author)
            && !self.bonds.domains.contains(&view.account.domain)
    }

    /// The reader's filters that match the post.
    pub(crate) fn matching(&self, view: &View, searched: &Searched) -> Vec<Applied> {
        let Some(reader) = self.id else { return Vec::new() };
        self.filters.matching_in(searched, view, reader)
    }
}
