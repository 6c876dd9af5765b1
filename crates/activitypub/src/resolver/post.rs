//! Posts of other servers.

use weir_base::Id;
use weir_community::federation::order::Version;
use weir_community::statuses::{self, Cause, Fate, Receipt};
use weir_community::{accounts, federation};
use weir_db::{Class, Tx};

use super::{RemoteError, Sought};
use crate::ActivityPub;
use crate::read;
use crate::wire::{Activity, Kind, Object, ObjectRef, Post, Uri};

/// Pinned posts that are read of one account.
const FEATURED_MAX: usize = 20;

impl ActivityPub {
    /// What is known of the post with this id.
    pub(super) async fn fate(&self, uri: &str) -> Result<Fate, RemoteError> {
        let uri = uri.to_owned();
        let read = move |tx: &mut Tx, _: &_| statuses::fate(tx, &uri);
        Ok(self.community().read(Class::Inbound, read).await?)
    }

    /// The post with this id that is here. Of one that was deleted its server is not asked: what it
    /// says now, as it may not know yet, would not be taken in.
    async fn known_post(&self, uri: &Uri) -> Result<Option<Id>, RemoteError> {
        match self.fate(uri.as_str()).await? {
            Fate::Here(id) => Ok(Some(id)),
            Fate::Deleted => Err(RemoteError::Gone(uri.to_string())),
            Fate::Unknown => Ok(None),
        }
    }

    /// The post with this id, fetched when it is unknown; `depth` is how many steps it is away
    /// from what came in by itself.
    pub(crate) async fn post(&self, uri: &Uri, depth: u32) -> Result<Id, RemoteError> {
        if let Some(known) = self.known_post(uri).await? {
            return Ok(known);
        }
        let _alone = self.finder().budgets.alone(uri.as_str()).await;
        if let Some(known) = self.known_post(uri).await? {
            return Ok(known);
        }
        if let Some(error) = self.finder().budgets.failed(Sought::Post, uri.as_str()) {
            return Err(error);
        }
        let learnt = match self.document(uri).await {
            Ok(object) => self.take_in_post(uri, object, depth).await,
            Err(error) => Err(error),
        };
        if let Err(error) = &learnt
            && !error.is_passing()
        {
            self.finder().budgets.note_failure(Sought::Post, uri.as_str(), error);
        }
        learnt
    }

    /// Fetches a post whatever is known of it, and takes in what is newer.
    pub(crate) async fn reread_post(&self, uri: &Uri, depth: u32) -> Result<Id, RemoteError> {
        let _alone = self.finder().budgets.alone(uri.as_str()).await;
        let object = self.document(uri).await?;
        self.take_in_post(uri, object, depth).await
    }

    /// Writes a fetched post down.
    pub(super) async fn take_in_post(
        &self,
        uri: &Uri,
        object: Object,
        depth: u32,
    ) -> Result<Id, RemoteError> {
        let unfit = |why| RemoteError::Unfit(uri.to_string(), why);
        let post = match object {
            Object::Post(post) => post,
            // Of its own server: the way to it may have begun on another one.
            Object::Activity(Activity { id: Some(id), kind: Kind::Create, object, .. }) => {
                match object {
                    ObjectRef::Embedded(inner) => match *inner {
                        Object::Post(post) if post.id.is_of_same_host(&id) => post,
                        _ => return Err(unfit("it is no post")),
                    },
                    ObjectRef::Uri(_) => return Err(unfit("it is no post")),
                }
            }
            Object::Tombstone(stone) if stone.id.is_of_same_host(uri) => {
                return Err(RemoteError::Gone(uri.to_string()));
            }
            _ => return Err(unfit("it is no post")),
        };
        let id = self.keep_of_author(&post, depth).await?;
        // Somebody wanted this very post: then what answers it too.
        if depth == 0 && post.replies.is_some() && post.is_public() {
            let uri = post.id.to_string();
            self.community()
                .write(Class::Housekeeping, move |tx, env| {
                    federation::want_replies(tx, env, &uri, 0)
                })
                .await?;
        }
        Ok(id)
    }

    /// Writes a fetched post down, and its author before.
    pub(super) async fn keep_of_author(&self, post: &Post, depth: u32) -> Result<Id, RemoteError> {
        let unfit = |why| RemoteError::Unfit(post.id.to_string(), why);
        let author = post.author().cloned().ok_or_else(|| unfit("it has no author"))?;
        if !author.is_of_same_host(&post.id) {
            return Err(unfit("its author lives elsewhere"));
        }
        let by = self.account(&author).await?;
        self.keep(by, post, depth).await
    }

    async fn keep(&self, by: Id, post: &Post, depth: u32) -> Result<Id, RemoteError> {
        let read = move |tx: &mut Tx, _: &_| accounts::by_id(tx, by);
        let account = self.community().read(Class::Inbound, read).await?;
        let remote = read::post(post, &account.followers_uri, self.urls()).cleaned()?;
        let arrived = self.now();
        let receipt = self
            .community()
            .write(Class::Inbound, move |tx, env| {
                let by = accounts::by_id(tx, by)?;
                let at = remote.updated.or(remote.published).unwrap_or(arrived).min(arrived);
                let version = Version { at, seq: env.ids.next() };
                let cause = Cause::Wanted { depth };
                statuses::receive(tx, env, &by, &remote, version, arrived, cause)
            })
            .await?;
        match receipt {
            Receipt::New(id) | Receipt::Known(id) => Ok(id),
            Receipt::Refused("deleted") => Err(RemoteError::Gone(post.id.to_string())),
            Receipt::Refused(why) => Err(RemoteError::Unfit(post.id.to_string(), why)),
        }
    }

    /// Reads which posts an account shows first, and fetches those.
    pub(super) async fn read_featured(&self, account: Id, uri: &Uri) -> Result<(), RemoteError> {
        let Object::Collection(collection) = self.document(uri).await? else {
            return Err(RemoteError::Unfit(uri.to_string(), "it is no collection"));
        };
        let mut pinned = Vec::new();
        for item in self.items(uri, collection, 1).await?.into_iter().take(FEATURED_MAX) {
            let Some(id) = item.id().filter(|id| id.is_of_same_host(uri)).cloned() else {
                continue;
            };
            match self.post(&id, super::job::LEAF_DEPTH).await {
                Ok(post) => pinned.push(post),
                Err(error) if error.is_passing() => return Err(error),
                Err(error) => tracing::debug!(%error, "a pinned post is left out"),
            }
        }
        self.community()
            .write(Class::Inbound, move |tx, env| statuses::set_pins(tx, env, account, &pinned))
            .await?;
        Ok(())
    }
}
