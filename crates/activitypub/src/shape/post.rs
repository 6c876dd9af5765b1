//! Posts of people here as notes and questions.

use std::collections::HashMap;

use weir_base::Id;
use weir_community::emojis::Emoji;
use weir_community::media::Media;
use weir_community::statuses::{self, View, Visibility};
use weir_community::{Env, Error, media};
use weir_db::{Tx, ids};

use super::emoji;
use crate::wire::{
    Attachment, AttachmentKind, Focus, Poll, PollOption, Post, PostKind, Source, Tag, Uri, Urls,
};

/// Posts with everything their documents need.
pub(crate) struct Loaded {
    pub views: Vec<View>,
    parents: HashMap<Id, String>,
    emojis: Vec<Emoji>,
}

/// Reads what the documents of `views` need.
///
/// # Errors
/// The database's.
pub(crate) fn loaded(tx: &mut Tx, views: Vec<View>) -> Result<Loaded, Error> {
    let wanted: Vec<Id> =
        views.iter().map(post_of).filter_map(|view| view.status.in_reply_to_id).collect();
    let parents = if wanted.is_empty() {
        HashMap::new()
    } else {
        let sql = "SELECT id, uri FROM statuses WHERE id IN ids(?1)";
        let rows = tx.query(sql, &[ids(&wanted)], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.into_iter().collect()
    };
    let emojis = emoji::named(tx, views.iter().map(post_of).flat_map(texts))?;
    Ok(Loaded { views, parents, emojis })
}

/// The post itself: of a boost what it boosts.
fn post_of(view: &View) -> &View {
    view.boost.as_deref().unwrap_or(view)
}

fn texts(view: &View) -> impl Iterator<Item = &str> {
    let options = view.poll.iter().flat_map(|poll| poll.options.iter().map(String::as_str));
    [&*view.status.content, &*view.status.spoiler].into_iter().chain(options)
}

/// For whom a post or boost of `author` is: `to` and `cc`.
pub(crate) fn addressees(
    urls: &Urls,
    author: Id,
    visibility: Visibility,
    named: Vec<Uri>,
) -> (Vec<Uri>, Vec<Uri>) {
    let followers = urls.of_actor(author, "followers");
    let with = |first: Uri| std::iter::once(first).chain(named.clone()).collect();
    match visibility {
        Visibility::Public => (vec![Uri::public()], with(followers)),
        Visibility::Unlisted => (vec![followers], with(Uri::public())),
        Visibility::Private => (vec![followers], named),
        Visibility::Direct => (named, Vec::new()),
    }
}

/// The document of a local post, which is one of `loaded`.
pub(crate) fn post(env: &Env, urls: &Urls, loaded: &Loaded, view: &View) -> Option<Post> {
    let status = &view.status;
    let kind = if view.poll.is_some() { PostKind::Question } else { PostKind::Note };
    let id = status.uri.parse().ok()?;
    let named = view.mentions.iter().filter_map(|mention| mention.uri.parse().ok()).collect();
    let (to, cc) = addressees(urls, status.account_id, status.visibility, named);
    let parent = match status.in_reply_to_id {
        Some(parent) => loaded.parents.get(&parent),
        None => status.in_reply_to_uri.as_ref(),
    };
    let source =
        |content: &String| Source { content: content.clone(), media_type: "text/plain".to_owned() };
    Some(Post {
        summary: Some(status.spoiler.clone()).filter(|text| !text.is_empty()),
        content: Some(status.content.clone()),
        language: status.language.clone(),
        source: Some(&status.source).filter(|text| !text.is_empty()).map(source),
        published: Some(status.created_at),
        updated: status.edited_at,
        in_reply_to: parent.and_then(|uri| uri.parse().ok()),
        to,
        cc,
        url: status.url.parse().ok(),
        sensitive: status.sensitive,
        tags: tags(env, loaded, view),
        attachments: view.media.iter().filter_map(|media| attachment(env, media)).collect(),
        replies: Some(urls.of_post(status.account_id, status.id, "replies").into()),
        poll: view.poll.as_ref().map(|of| poll(env, of)),
        ..Post::new(id, kind, urls.actor(status.account_id))
    })
}

fn tags(env: &Env, loaded: &Loaded, view: &View) -> Vec<Tag> {
    let mentions = view.mentions.iter().filter_map(|mention| {
        let name = format!("@{}", env.site.address(&mention.username, &mention.domain));
        Some(Tag::Mention { href: mention.uri.parse().ok()?, name: Some(name) })
    });
    let hashtags = view.tags.iter().map(|tag| Tag::Hashtag {
        name: tag.name.clone(),
        href: env.site.tag_url(&tag.name).parse().ok(),
    });
    let emojis = emoji::tags(env, &loaded.emojis, texts(view));
    mentions.chain(hashtags).chain(emojis).collect()
}

fn attachment(env: &Env, media: &Media) -> Option<Attachment> {
    let url = media::url(env, media)?.parse().ok()?;
    let original = &media.meta.0["original"];
    let size = |name: &str| original[name].as_u64().and_then(|size| u32::try_from(size).ok());
    let focus = &media.meta.0["focus"];
    let focus = focus["x"].as_f64().zip(focus["y"].as_f64());
    let still = (media.kind != "image").then(|| media::preview_url(env, media)).flatten();
    Some(Attachment {
        media_type: Some(media.content_type.clone()).filter(|name| !name.is_empty()),
        description: media.description.clone(),
        width: size("width"),
        height: size("height"),
        blurhash: media.blurhash.clone(),
        focus: focus.map(|(x, y)| Focus { x: x as f32, y: y as f32 }),
        preview: still.and_then(|still| still.parse().ok()),
        ..Attachment::new(AttachmentKind::Document, url)
    })
}

fn poll(env: &Env, of: &statuses::Poll) -> Poll {
    let expired = of.expired(env.clock.now());
    let hidden = of.hide_totals && !expired;
    let count = |votes: i64| if hidden { 0 } else { u64::try_from(votes).unwrap_or(0) };
    let options = of.options.iter().zip(of.tallies.iter().chain(std::iter::repeat(&0)));
    Poll {
        multiple: of.multiple,
        options: options
            .map(|(name, votes)| PollOption { name: name.clone(), votes: count(*votes) })
            .collect(),
        voters_count: Some(count(of.voters_count)),
        ends_at: of.expires_at,
        closed: expired,
    }
}
