//! Collections of other servers page by page, and the answers to their posts.

use weir_community::federation;
use weir_community::statuses::Fate;
use weir_db::Class;

use super::{RemoteError, Sought};
use crate::ActivityPub;
use crate::wire::{Collection, CollectionRef, Object, ObjectRef, Uri};

/// What is taken of one collection at most, however many pages it has.
const ITEMS_MAX: usize = 200;

impl ActivityPub {
    /// What is in a collection and on its first `pages_max` pages. Only pages of the host `of` are
    /// asked for.
    pub(super) async fn items(
        &self,
        of: &Uri,
        collection: Collection,
        pages_max: usize,
    ) -> Result<Vec<ObjectRef>, RemoteError> {
        let mut items = collection.items;
        let mut next = match collection.first {
            Some(first) if items.is_empty() => Some(first),
            _ => collection.next.map(CollectionRef::Uri),
        };
        let mut seen: Vec<Uri> = Vec::new();
        for _ in 0..pages_max {
            let page = match next.take() {
                Some(CollectionRef::Embedded(page)) => *page,
                Some(CollectionRef::Uri(uri))
                    if uri.is_of_same_host(of) && !seen.contains(&uri) =>
                {
                    seen.push(uri.clone());
                    match self.document(&uri).await? {
                        Object::Collection(page) => page,
                        _ => break,
                    }
                }
                _ => break,
            };
            items.extend(page.items);
            next = page.next.map(CollectionRef::Uri);
            if items.len() >= ITEMS_MAX {
                break;
            }
        }
        items.truncate(ITEMS_MAX);
        Ok(items)
    }

    /// Reads what answers the post at `uri`, and asks for what of that is not known here.
    pub(super) async fn read_replies(&self, uri: &Uri, level: u32) -> Result<(), RemoteError> {
        let Object::Post(post) = self.document(uri).await? else { return Ok(()) };
        let collection = match post.replies {
            Some(CollectionRef::Embedded(collection)) => *collection,
            Some(CollectionRef::Uri(at)) if at.is_of_same_host(uri) => {
                match self.document(&at).await? {
                    Object::Collection(collection) => collection,
                    _ => return Ok(()),
                }
            }
            _ => return Ok(()),
        };
        let items = self.items(uri, collection, federation::REPLIES_PAGES_MAX).await?;
        let listed: Vec<String> =
            items.iter().filter_map(ObjectRef::id).map(ToString::to_string).collect();
        metrics::counter!("weir_activitypub_replies_listed_total").increment(listed.len() as u64);
        let to = uri.to_string();
        self.community()
            .write(Class::Housekeeping, move |tx, env| {
                federation::choose(tx, env, &to, level, &listed)
            })
            .await?;
        Ok(())
    }

    /// Takes in the post at `uri` if it answers `to` and everybody may see it.
    pub(super) async fn read_reply(
        &self,
        uri: &Uri,
        to: &str,
        level: u32,
    ) -> Result<(), RemoteError> {
        let is_unknown = self.fate(uri.as_str()).await? == Fate::Unknown;
        if !is_unknown || self.finder().failed(Sought::Post, uri.as_str()) {
            return Ok(());
        }
        let Object::Post(post) = self.document(uri).await? else {
            return Err(RemoteError::Unfit(uri.to_string(), "it is no post"));
        };
        if post.in_reply_to.as_ref().is_none_or(|answered| *answered != to) || !post.is_public() {
            return Err(RemoteError::Unfit(uri.to_string(), "it is no answer to what lists it"));
        }
        self.keep_of_author(&post, 1).await?;
        if post.replies.is_some() && federation::wants_answers(level) {
            let uri = post.id.to_string();
            self.community()
                .write(Class::Housekeeping, move |tx, env| {
                    federation::want_replies(tx, env, &uri, level)
                })
                .await?;
        }
        Ok(())
    }
}
