//! Many deletions of other servers taken in together, by statements for all of them.

use std::collections::{HashMap, HashSet};

use weir_base::Id;
use weir_db::{Tx, texts};

use super::{Status, conversation, delete};
use crate::federation::order;
use crate::{Env, Error};

/// What stands at addresses of which deletions came.
pub(crate) struct Going {
    posts: HashMap<String, Status>,
    boosts: delete::Boosts,
}

impl Going {
    /// Looks for what stands at `uris`.
    pub(crate) fn find(tx: &mut Tx, uris: &[&str]) -> Result<Self, Error> {
        order::meet(tx, uris)?;
        let posts: Vec<Status> =
            tx.records("SELECT {} FROM statuses WHERE uri IN texts(?1)", &[texts(uris)])?;
        let boosts = match posts.is_empty() {
            true => delete::Boosts::default(),
            false => delete::boosts_of(tx, &posts.iter().collect::<Vec<_>>())?,
        };
        let posts = posts.into_iter().map(|post| (post.uri.clone(), post)).collect();
        Ok(Self { posts, boosts })
    }

    /// The post or boost at `uri`.
    pub(crate) fn at(&self, uri: &str) -> Option<&Status> {
        self.posts.get(uri)
    }

    /// Whether somebody here boosted `post`, or may have, where there are too many to know.
    pub(crate) fn is_boosted_here(&self, post: Id) -> bool {
        let is_here = |boost: &Status| boost.boost_of_id == Some(post) && boost.local;
        self.boosts.are_more || self.boosts.list.iter().any(is_here)
    }

    /// Takes away the posts at `known`, with all that hangs on them, and remembers of `unknown`
    /// that what comes from there later is gone.
    pub(crate) fn erase(
        mut self,
        tx: &mut Tx,
        env: &Env,
        known: &[&str],
        unknown: &[&str],
    ) -> Result<(), Error> {
        let never: Vec<_> = unknown.iter().map(|uri| (*uri, None)).collect();
        conversation::bury_each(tx, env, &never)?;
        let posts: Vec<&Status> = known.iter().filter_map(|uri| self.posts.get(*uri)).collect();
        let ids: HashSet<Id> = posts.iter().map(|post| post.id).collect();
        self.boosts.list.retain(|boost| boost.boost_of_id.is_some_and(|of| ids.contains(&of)));
        match posts.is_empty() {
            true => Ok(()),
            false => delete::erase_with(tx, env, &posts, &self.boosts),
        }
    }
}
