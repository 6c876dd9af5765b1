//! What a post that is held takes in memory, with all that is shown beside it: for buffers that
//! are bounded in bytes.

use serde_json::Value as JsonValue;

use super::view::View;
use crate::accounts::{Account, Field};
use crate::media::Media;

/// What a text or a part of a JSON value takes besides what is in it, about, in bytes.
const EACH_BYTES: usize = 24;

impl View {
    /// About what it takes in memory, in bytes. All of it comes from whoever wrote it: profiles,
    /// mentions and descriptions of media may be far longer than its text.
    pub(crate) fn held_bytes(&self) -> usize {
        let status = &self.status;
        let post = texts([&status.uri, &status.url, &status.content, &status.source])
            + texts([&status.spoiler])
            + texts([&status.language, &status.in_reply_to_uri].into_iter().flatten())
            + status.media_ids.0.len() * size_of::<i64>();
        let mentions = self
            .mentions
            .iter()
            .map(|one| size_of_val(one) + texts([&one.username, &one.domain, &one.url, &one.uri]));
        let tags = self.tags.iter().map(|tag| size_of_val(tag) + texts([&tag.name, &tag.display]));
        let poll = self.poll.iter().map(|poll| texts(&poll.options) + poll.tallies.len() * 8);
        let card = self.card.iter().map(|(card, url)| json(card) + texts([url]));
        let app = self.app.iter().map(|(name, page)| texts([name]) + texts(page));
        size_of::<Self>()
            + size_of_val(&**status)
            + post
            + account(&self.account)
            + self.media.iter().map(media).sum::<usize>()
            + mentions.sum::<usize>()
            + tags.sum::<usize>()
            + poll.sum::<usize>()
            + card.sum::<usize>()
            + app.sum::<usize>()
            + self.around.held_bytes()
            + self.boost.as_deref().map_or(0, Self::held_bytes)
    }
}

fn account(account: &Account) -> usize {
    size_of_val(account)
        + texts([
            &account.username,
            &account.domain,
            &account.uri,
            &account.url,
            &account.kind,
            &account.display_name,
            &account.note,
            &account.note_source,
            &account.avatar,
            &account.avatar_description,
            &account.header,
            &account.header_description,
            &account.inbox,
            &account.shared_inbox,
            &account.outbox,
            &account.followers_uri,
            &account.following_uri,
            &account.featured_uri,
        ])
        + fields(&account.fields.0)
        + fields(&account.fields_source.0)
        + texts(&account.attribution_domains.0)
        + texts(&account.also_known_as.0)
}

fn fields(fields: &[Field]) -> usize {
    fields.iter().map(|field| size_of_val(field) + texts([&field.name, &field.value])).sum()
}

fn media(media: &Media) -> usize {
    size_of_val(media)
        + texts([&media.kind, &media.state, &media.content_type, &media.file, &media.thumbnail])
        + texts([&media.remote_url])
        + texts([&media.blurhash, &media.description].into_iter().flatten())
        + json(&media.meta.0)
}

fn texts<'t>(texts: impl IntoIterator<Item = &'t String>) -> usize {
    texts.into_iter().map(|text| EACH_BYTES + text.len()).sum()
}

/// Values are read from JSON that was bounded in depth.
fn json(value: &JsonValue) -> usize {
    let within = match value {
        JsonValue::Null | JsonValue::Bool(_) | JsonValue::Number(_) => 0,
        JsonValue::String(text) => text.len(),
        JsonValue::Array(values) => values.iter().map(json).sum(),
        JsonValue::Object(members) => {
            members.iter().map(|(name, value)| EACH_BYTES + name.len() + json(value)).sum()
        }
    };
    EACH_BYTES + within
}
