//! Posts as the API shows them.

use serde::Serialize;
use weir_base::{Id, Timestamp};
use weir_community::statuses::{View, Visibility};
use weir_community::{Env, Error};
use weir_db::Tx;

use super::shapes::Shapes;
use super::{
    Account, CustomEmoji, FilterResult, MediaAttachment, Poll, PreviewCard, Shared, filter, poll,
};

/// A post, or a boost of one.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// Its id.
    pub id: Id,
    /// When it was written.
    pub created_at: Timestamp,
    /// What it answers.
    pub in_reply_to_id: Option<Id>,
    /// Whom it answers.
    pub in_reply_to_account_id: Option<Id>,
    /// Whether its media is hidden at first.
    pub sensitive: bool,
    /// The content warning.
    pub spoiler_text: String,
    /// Who may see it.
    pub visibility: Visibility,
    /// Its language.
    pub language: Option<String>,
    /// Its id on the network.
    pub uri: String,
    /// Its page.
    pub url: Option<String>,
    /// Replies.
    pub replies_count: i64,
    /// Boosts.
    pub reblogs_count: i64,
    /// Favourites.
    pub favourites_count: i64,
    /// Quotes; there are none here.
    pub quotes_count: i64,
    /// When it was last edited.
    pub edited_at: Option<Timestamp>,
    /// How the reader stands to it; not there for visitors.
    #[serde(flatten)]
    pub reader: Option<ReaderPart>,
    /// The text, as HTML.
    pub content: String,
    /// The text as written; only where it is to be edited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What it boosts.
    pub reblog: Option<Box<Status>>,
    /// The app it was written with; local posts only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<PostingApp>,
    /// Who wrote (or boosted) it.
    pub account: Shared<Account>,
    /// Its media.
    pub media_attachments: Vec<MediaAttachment>,
    /// Whom it mentions.
    pub mentions: Vec<Mention>,
    /// Its hashtags.
    pub tags: Vec<StatusTag>,
    /// Emoji in its text.
    pub emojis: Vec<CustomEmoji>,
    /// A preview of what it links to.
    pub card: Option<PreviewCard>,
    /// Its poll.
    pub poll: Option<Poll>,
    /// What it quotes; posts here do not.
    pub quote: Option<()>,
}

/// What is different for each reader.
#[derive(Debug, Clone, Serialize)]
pub struct ReaderPart {
    /// The reader favourited it.
    pub favourited: bool,
    /// The reader boosted it.
    pub reblogged: bool,
    /// The reader muted its conversation.
    pub muted: bool,
    /// The reader bookmarked it.
    pub bookmarked: bool,
    /// The reader pinned it; own posts only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<bool>,
    /// Filters of the reader that match.
    pub filtered: Vec<FilterResult>,
}

/// An app as it is shown with a post.
#[derive(Debug, Clone, Serialize)]
pub struct PostingApp {
    /// Its name.
    pub name: String,
    /// Its page.
    pub website: Option<String>,
}

/// Somebody a post mentions.
#[derive(Debug, Clone, Serialize)]
pub struct Mention {
    /// Who.
    pub id: Id,
    /// The name.
    pub username: String,
    /// Their page.
    pub url: String,
    /// With the server, for remote people.
    pub acct: String,
}

/// A hashtag of a post.
#[derive(Debug, Clone, Serialize)]
pub struct StatusTag {
    /// Its name, without the sign.
    pub name: String,
    /// Its page.
    pub url: String,
}

impl Status {
    /// Whether a filter of the reader hides it altogether where it would stand: one of
    /// [`weir_community::filters::CONTEXTS`].
    pub fn hidden_in(&self, context: &str) -> bool {
        let filtered = self.reader.as_ref().map_or(&[][..], |reader| &reader.filtered);
        filtered.iter().any(|matched| {
            let filter = &matched.filter;
            filter.filter_action == "hide" && filter.context.iter().any(|place| place == context)
        })
    }
}

/// Posts as `reader` (none: a visitor) sees them, in their order.
///
/// # Errors
/// The database's.
pub fn statuses(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    views: &[View],
) -> Result<Vec<Status>, Error> {
    if views.is_empty() {
        return Ok(Vec::new());
    }
    let each: Vec<&View> = views.iter().collect();
    let shapes = Shapes::load(tx, env, reader, &[], &each)?;
    Ok(views.iter().filter_map(|view| shapes.status(view)).collect())
}

/// One post as `reader` sees it.
///
/// # Errors
/// The database's.
pub fn status(tx: &mut Tx, env: &Env, reader: Option<Id>, view: &View) -> Result<Status, Error> {
    let shaped = statuses(tx, env, reader, std::slice::from_ref(view))?;
    shaped.into_iter().next().ok_or(Error::NotFound("Status"))
}

/// The texts of a post that may name emoji.
pub(super) fn emoji_texts(view: &View) -> impl Iterator<Item = &str> {
    let options = view.poll.iter().flat_map(|poll| poll.options.iter().map(String::as_str));
    [&*view.status.content, &*view.status.spoiler].into_iter().chain(options)
}

impl Shapes<'_> {
    /// One of the posts for which this was loaded.
    pub(super) fn status(&self, view: &View) -> Option<Status> {
        let (row, site) = (&view.status, &self.env.site);
        let boost = match &view.boost {
            Some(boost) => Some(Box::new(self.status(boost)?)),
            None => None,
        };
        let url = if row.url.is_empty() { &row.uri } else { &row.url };
        let tags = view.tags.iter();
        let app = view.app.as_ref().filter(|_| row.local);
        let sensitized = view.account.sensitized_at.is_some() && !view.media.is_empty();
        Some(Status {
            id: row.id,
            created_at: row.created_at,
            in_reply_to_id: row.in_reply_to_id,
            in_reply_to_account_id: row.in_reply_to_account_id,
            sensitive: row.sensitive || sensitized,
            spoiler_text: row.spoiler.clone(),
            visibility: row.visibility,
            language: row.language.clone(),
            uri: row.uri.clone(),
            url: Some(url.clone()),
            replies_count: row.replies_count,
            reblogs_count: row.boosts_count,
            favourites_count: row.favourites_count,
            quotes_count: 0,
            edited_at: row.edited_at,
            reader: self.reader_part(view),
            content: row.content.clone(),
            text: None,
            reblog: boost,
            application: app
                .map(|(name, page)| PostingApp { name: name.clone(), website: page.clone() }),
            account: self.account(view.account.id)?,
            media_attachments: view
                .media
                .iter()
                .map(|media| MediaAttachment::of(self.env, media))
                .collect(),
            mentions: view.mentions.iter().map(mention).collect(),
            tags: tags
                .map(|tag| StatusTag { name: tag.name.clone(), url: site.tag_url(&tag.name) })
                .collect(),
            emojis: self.emojis.of(&view.account.domain, emoji_texts(view)),
            card: view.card.as_ref().map(|card| PreviewCard::of(self.env, card)),
            poll: view.poll.as_ref().map(|one| {
                poll::shape(self.env, one, self.reader, &view.account.domain, &self.emojis)
            }),
            quote: None,
        })
    }

    fn reader_part(&self, view: &View) -> Option<ReaderPart> {
        let (reader, state) = (self.reader?, view.post().reader.unwrap_or_default());
        let own = view.post().status.account_id == reader;
        let matched = self.filters.matching(view, reader);
        Some(ReaderPart {
            favourited: state.favourited,
            reblogged: state.boosted,
            muted: state.muted,
            bookmarked: state.bookmarked,
            pinned: own.then_some(state.pinned),
            filtered: matched.iter().map(filter::result).collect(),
        })
    }
}

fn mention(mention: &weir_community::statuses::MentionView) -> Mention {
    let at = if mention.domain.is_empty() { "" } else { "@" };
    Mention {
        id: mention.account_id,
        username: mention.username.clone(),
        url: if mention.url.is_empty() { mention.uri.clone() } else { mention.url.clone() },
        acct: format!("{}{at}{}", mention.username, mention.domain),
    }
}
