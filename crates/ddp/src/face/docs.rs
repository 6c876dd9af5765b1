//! What Weir's queries give: documents of the community's nouns, in the form clients see.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::accounts::Account;
use weir_community::filters::{Applied, Filter, Rules, Searched};
use weir_community::statuses::{ReaderState, View};
use weir_community::streams::Noun;
use weir_community::{Env, Error, accounts, media};
use weir_db::Tx;

use super::places::Places;
use crate::collections::{
    AccountDoc, AccountField, ChatContactDoc, FilterDoc, FilterResultDoc, MediaDoc, MentionDoc,
    PollDoc, PollOptionDoc, StatusDoc, StatusStateDoc, TimelineEntryDoc,
};
use crate::document::{Documents, Revision};
use crate::joined::{Level, Tree, Unread};

/// A result in the making, and what of it the shelf is to keep up to date.
pub(crate) struct Docs {
    documents: Documents,
    /// The revisions.
    pub(crate) revisions: Vec<Arc<Revision>>,
    /// Posts and accounts among them, and when posts were last edited.
    pub(crate) nouns: BTreeMap<Noun, Option<Timestamp>>,
    /// The places of posts in a timeline that takes new ones without being read.
    pub(crate) places: Option<Places>,
    /// Contacts of chat of whom it is told whether they are there.
    pub(crate) contacts: BTreeMap<Id, Arc<Revision>>,
    /// Accounts whose names something else says too.
    pub(crate) names: BTreeMap<Id, Box<str>>,
    /// The oldest post of a timeline that has more.
    pub(crate) oldest: Option<Id>,
    /// Posts that were found, where only their state was read.
    pub(crate) read: usize,
    /// When the result changes by itself.
    pub(crate) ends_at: Option<Timestamp>,
    /// The reader, and their filters.
    filters: Option<(Id, Rules)>,
}

impl Docs {
    pub(crate) fn new(documents: &Documents) -> Self {
        let (revisions, nouns) = (Vec::new(), BTreeMap::new());
        let (documents, places) = (documents.clone(), None);
        Self {
            documents,
            revisions,
            nouns,
            places,
            contacts: BTreeMap::new(),
            names: BTreeMap::new(),
            oldest: None,
            read: 0,
            ends_at: None,
            filters: None,
        }
    }

    /// From now on posts say which of `reader`'s filters match them.
    pub(crate) fn filter_for(&mut self, tx: &mut Tx, env: &Env, reader: Id) -> Result<(), Error> {
        let rules = Rules::load(tx, reader, env.clock.now())?;
        self.ends_at = [self.ends_at, rules.next_end()].into_iter().flatten().min();
        self.filters = Some((reader, rules));
        Ok(())
    }

    /// The reader's filters that match a post.
    pub(crate) fn matching(&self, view: &View) -> Vec<Applied> {
        let filters = self.filters.as_ref();
        filters.map_or(Vec::new(), |(reader, rules)| rules.matching(view, *reader))
    }

    /// One document.
    pub(crate) fn put(&mut self, collection: &str, id: &str, document: &impl Serialize) {
        self.revisions.extend(revision(&self.documents, collection, id, document));
    }

    /// Posts with what they boost and who wrote them, and what their reader did with them.
    pub(crate) fn posts<'v>(&mut self, env: &Env, views: impl IntoIterator<Item = &'v View>) {
        for view in views {
            self.post(env, view);
            if let Some(boost) = &view.boost {
                self.post(env, boost);
            }
        }
    }

    fn post(&mut self, env: &Env, view: &View) {
        let noun = Noun::Post(view.status.id);
        if self.nouns.insert(noun, view.status.edited_at).is_some() {
            return;
        }
        self.revisions.extend(status(&self.documents, env, view));
        self.account(env, &view.account);
        self.revisions.extend(state(&self.documents, view, &self.matching(view)));
    }

    /// What the reader did with a post, and nothing else of it.
    pub(crate) fn state(&mut self, view: &View) {
        self.revisions.extend(state(&self.documents, view, &self.matching(view)));
    }

    /// Somebody.
    pub(crate) fn account(&mut self, env: &Env, one: &Account) {
        if self.nouns.insert(Noun::Account(one.id), None).is_none() {
            self.revisions.extend(account(&self.documents, env, one));
        }
    }

    /// All documents of a tree.
    pub(crate) fn join<'c, T>(
        &mut self,
        tx: &mut Tx<'c>,
        tree: &Tree<'_, Tx<'c>, T, Error>,
    ) -> Result<(), Error> {
        let read = match tree.read(tx, &self.documents) {
            Ok(read) => read,
            Err(Unread::Query(error)) => return Err(error),
            Err(Unread::Document(error)) => {
                tracing::error!(%error, "this is a defect in Weir");
                return Ok(());
            }
        };
        for revision in read {
            let key = revision.key();
            if let ("accounts", Ok(id)) = (key.collection(), key.id().parse()) {
                self.nouns.insert(Noun::Account(id), None);
            }
            self.revisions.push(revision);
        }
        Ok(())
    }

    /// A contact of chat, `account` being the person of here whose presence is seen.
    pub(crate) fn contact(&mut self, jid: &str, document: &ChatContactDoc, account: Option<Id>) {
        let made = revision(&self.documents, "chat_contacts", jid, document);
        if let (Some(account), Some(made)) = (account, &made) {
            self.nouns.insert(Noun::Chatting(account), None);
            self.contacts.insert(account, made.clone());
        }
        self.revisions.extend(made);
    }

    /// Posts as entries of a timeline.
    pub(crate) fn entries(&mut self, timeline: &str, views: &[View]) {
        for view in views {
            self.revisions.extend(entry(&self.documents, timeline, view.status.id));
        }
    }
}

/// Accounts that the rows above name.
pub(crate) fn named_accounts<'l, 'c: 'l, P: 'l>(
    env: &'l Env,
    name: impl Fn(&P) -> Id + Send + Sync + 'l,
) -> Level<'l, Tx<'c>, P, Account, Error> {
    let find = move |tx: &mut Tx<'c>, parents: &[P]| {
        let ids: Vec<Id> = parents.iter().map(&name).collect();
        let mut found = accounts::by_ids(tx, &ids)?;
        found.retain(Account::is_available);
        Ok(found)
    };
    Level::new("accounts", find, |one: &Account| (one.id.to_string(), account_doc(env, one)))
}

/// The id of a post's entry in a timeline.
pub(crate) fn entry_id(timeline: &str, id: Id) -> String {
    format!("{timeline}/{id}")
}

/// A post as entry of a timeline.
pub(crate) fn entry(documents: &Documents, timeline: &str, id: Id) -> Option<Arc<Revision>> {
    let entry = TimelineEntryDoc { timeline: timeline.to_owned(), status_id: id };
    revision(documents, "timeline_entries", &entry_id(timeline, id), &entry)
}

/// A new post as documents, made once for all who get it and attached to its event.
pub(crate) struct PostDocs {
    /// Of the post, what it boosts, and who wrote them.
    pub(crate) parts: Vec<(Noun, Option<Timestamp>, Option<Arc<Revision>>)>,
    /// What filters look at.
    pub(crate) searched: Searched,
}

impl PostDocs {
    pub(crate) fn of(documents: &Documents, env: &Env, view: &View) -> Self {
        let mut parts = Vec::new();
        for one in std::iter::once(view).chain(view.boost.as_deref()) {
            let (id, edited_at) = (one.status.id, one.status.edited_at);
            parts.push((Noun::Post(id), edited_at, status(documents, env, one)));
            parts.push((
                Noun::Account(one.account.id),
                None,
                account(documents, env, &one.account),
            ));
        }
        Self { parts, searched: Searched::of(view) }
    }
}

fn revision(
    documents: &Documents,
    collection: &str,
    id: &str,
    document: &impl Serialize,
) -> Option<Arc<Revision>> {
    documents
        .revision(collection, id, document)
        .inspect_err(|error| tracing::error!(%error, "this is a defect in Weir"))
        .ok()
}

/// A post as everybody sees it.
pub(crate) fn status(documents: &Documents, env: &Env, view: &View) -> Option<Arc<Revision>> {
    let row = &view.status;
    let sensitized = view.account.sensitized_at.is_some() && !view.media.is_empty();
    let url = if row.url.is_empty() { &row.uri } else { &row.url };
    let document = StatusDoc {
        account_id: row.account_id,
        created_at: row.created_at.into(),
        edited_at: row.edited_at.map(Into::into),
        visibility: row.visibility.name(),
        content: row.content.clone(),
        spoiler_text: row.spoiler.clone(),
        sensitive: row.sensitive || sensitized,
        language: row.language.clone(),
        in_reply_to_id: row.in_reply_to_id,
        in_reply_to_account_id: row.in_reply_to_account_id,
        reblog_id: row.boost_of_id,
        uri: row.uri.clone(),
        url: url.clone(),
        replies_count: row.replies_count,
        reblogs_count: row.boosts_count,
        favourites_count: row.favourites_count,
        media: view.media.iter().map(|one| medium(env, one)).collect(),
        mentions: view.mentions.iter().map(mention).collect(),
        tags: view.tags.iter().map(|tag| tag.name.clone()).collect(),
        poll: view.poll.as_ref().map(|poll| {
            let hidden = poll.hide_totals && !poll.expired(env.clock.now());
            let option = |(at, title): (usize, &String)| PollOptionDoc {
                title: title.clone(),
                votes_count: (!hidden).then(|| poll.tallies.get(at).copied().unwrap_or(0)),
            };
            PollDoc {
                id: poll.id,
                expires_at: poll.expires_at.map(Into::into),
                multiple: poll.multiple,
                voters_count: poll.voters_count,
                options: poll.options.iter().enumerate().map(option).collect(),
            }
        }),
        card: view.card.as_ref().map(|(card, _)| card.clone()),
        application: view.app.as_ref().filter(|_| row.local).map(|(name, _)| name.clone()),
    };
    revision(documents, "statuses", &row.id.to_string(), &document)
}

fn medium(env: &Env, one: &media::Media) -> MediaDoc {
    MediaDoc {
        id: one.id,
        kind: one.kind.clone(),
        url: media::url(env, one),
        preview_url: media::preview_url(env, one),
        description: one.description.clone(),
        blurhash: one.blurhash.clone(),
        meta: one.meta.0.clone(),
    }
}

fn mention(one: &weir_community::statuses::MentionView) -> MentionDoc {
    let at = if one.domain.is_empty() { "" } else { "@" };
    MentionDoc {
        account_id: one.account_id,
        acct: format!("{}{at}{}", one.username, one.domain),
        url: if one.url.is_empty() { one.uri.clone() } else { one.url.clone() },
    }
}

/// What its reader did with a post; none where that is nothing.
fn state(documents: &Documents, view: &View, applied: &[Applied]) -> Option<Arc<Revision>> {
    let votes = view.poll.as_ref().map(|poll| poll.own_votes.clone()).unwrap_or_default();
    let filtered = applied.iter().map(filter_result).collect();
    state_of(documents, view.status.id, view.reader?, votes, filtered)
}

/// A filter.
pub(crate) fn filter(one: &Filter) -> FilterDoc {
    FilterDoc {
        id: one.id,
        title: one.title.clone(),
        context: one.contexts.clone(),
        filter_action: one.action.clone(),
        expires_at: one.expires_at.map(Into::into),
    }
}

fn filter_result(applied: &Applied) -> FilterResultDoc {
    FilterResultDoc {
        filter: filter(&applied.filter),
        keyword_matches: applied.keywords.clone(),
        status_matches: applied.statuses.clone(),
    }
}

/// What a reader did with post `id`; none where that is nothing.
pub(crate) fn state_of(
    documents: &Documents,
    id: Id,
    state: ReaderState,
    votes: Vec<usize>,
    filtered: Vec<FilterResultDoc>,
) -> Option<Arc<Revision>> {
    if state == ReaderState::default() && votes.is_empty() && filtered.is_empty() {
        return None;
    }
    let document = StatusStateDoc {
        favourited: state.favourited,
        reblogged: state.boosted,
        bookmarked: state.bookmarked,
        muted: state.muted,
        pinned: state.pinned,
        own_votes: votes,
        filtered,
    };
    revision(documents, "status_states", &id.to_string(), &document)
}

/// A person as everybody sees them.
fn account_doc(env: &Env, one: &Account) -> AccountDoc {
    let shown = one.is_available();
    let text = |text: &String| if shown { text.clone() } else { String::new() };
    let picture = |url: Option<String>| url.filter(|_| shown);
    let fields = one.fields.0.iter().filter(|_| shown);
    AccountDoc {
        username: one.username.clone(),
        acct: one.acct(),
        display_name: text(&one.display_name),
        note: text(&one.note),
        url: one.url.clone(),
        uri: one.uri.clone(),
        avatar: picture(media::avatar_url(env, one)),
        avatar_static: picture(media::avatar_static_url(env, one)),
        header: picture(media::header_url(env, one)),
        locked: one.locked,
        bot: one.is_bot(),
        group: one.kind == "group",
        fields: fields
            .map(|field| AccountField {
                name: field.name.clone(),
                value: field.value.clone(),
                verified_at: field.verified_at.map(Into::into),
            })
            .collect(),
        created_at: one.created_at.into(),
        moved_to_id: one.moved_to_id,
        followers_count: one.followers_count,
        following_count: one.following_count,
        statuses_count: one.statuses_count,
        limited: one.silenced_at.is_some(),
    }
}

pub(crate) fn account(documents: &Documents, env: &Env, one: &Account) -> Option<Arc<Revision>> {
    revision(documents, "accounts", &one.id.to_string(), &account_doc(env, one))
}
