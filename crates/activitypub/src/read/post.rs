//! Posts. What is no note or poll is shown as its title, its text and a link to where it is whole.

use weir_base::Timestamp;
use weir_community::statuses::{RemoteMedia, RemoteMention, RemotePoll, RemoteStatus, Visibility};
use weir_community::text;

use super::account::emojis;
use crate::wire::{
    Attachment, AttachmentKind, Own, Poll, Post, PostKind, Tag, TextFormat, Uri, Urls,
};

/// A post of somebody whose followers are addressed as `followers_uri`.
pub(crate) fn post(post: &Post, followers_uri: &str, urls: &Urls) -> RemoteStatus {
    let is_note = matches!(post.kind, PostKind::Note | PostKind::Question);
    let summary = post.summary.clone().unwrap_or_default();
    // The summary of a long text is what it says in short, and hides nothing.
    let hides = is_note || post.sensitive;
    let spoiler = if hides { text::plain(&summary) } else { String::new() };
    RemoteStatus {
        uri: post.id.to_string(),
        url: post.url.as_ref().map(ToString::to_string).unwrap_or_default(),
        published: post.published,
        updated: post.updated,
        visibility: visibility(&post.to, &post.cc, followers_uri),
        content: if is_note { content(post) } else { converted(post) },
        spoiler,
        sensitive: post.sensitive,
        language: post.language.clone(),
        in_reply_to: post.in_reply_to.as_ref().map(ToString::to_string),
        mentions: mentions(post, urls),
        tags: post
            .tags
            .iter()
            .filter_map(|tag| match tag {
                Tag::Hashtag { name, .. } => Some(name.clone()),
                _ => None,
            })
            .collect(),
        emojis: emojis(&post.tags),
        media: media(post),
        poll: post.poll.as_ref().map(poll),
    }
}

/// Who may see something that is addressed so, by somebody whose followers are `followers_uri`.
pub(crate) fn visibility(to: &[Uri], cc: &[Uri], followers_uri: &str) -> Visibility {
    let followers = |uri: &Uri| !followers_uri.is_empty() && *uri == followers_uri;
    if to.iter().any(Uri::is_public) {
        Visibility::Public
    } else if cc.iter().any(Uri::is_public) {
        Visibility::Unlisted
    } else if to.iter().chain(cc).any(followers) {
        Visibility::Private
    } else {
        Visibility::Direct
    }
}

fn content(post: &Post) -> String {
    let content = post.content.clone().unwrap_or_default();
    match post.format {
        TextFormat::Html => content,
        TextFormat::Markdown | TextFormat::Plain => paragraphs(&content),
    }
}

fn paragraphs(plain: &str) -> String {
    let paragraph = |text: &str| format!("<p>{}</p>", text::escape(text).replace('\n', "<br>"));
    plain.replace("\r\n", "\n").split("\n\n").map(paragraph).collect()
}

fn converted(post: &Post) -> String {
    let mut html = String::new();
    if let Some(name) = &post.name {
        html.push_str(&format!("<p><strong>{}</strong></p>", text::escape(name)));
    }
    let when_and_where = [
        post.starts_at.map(|at| at.to_string()),
        post.ends_at.filter(|_| post.kind == PostKind::Event).map(|at| at.to_string()),
        post.place.clone(),
    ];
    let facts: Vec<String> = when_and_where.into_iter().flatten().collect();
    if !facts.is_empty() {
        html.push_str(&format!("<p>{}</p>", text::escape(&facts.join(" – "))));
    }
    html.push_str(&content(post));
    let page = post.url.as_ref().unwrap_or(&post.id);
    let page = text::escape(page.as_str());
    html.push_str(&format!("<p><a href=\"{page}\">{page}</a></p>"));
    html
}

/// Whom it names, and who of this server it is addressed to without being named.
fn mentions(post: &Post, urls: &Urls) -> Vec<RemoteMention> {
    let named = post.tags.iter().filter_map(|tag| match tag {
        Tag::Mention { href, .. } => Some(RemoteMention { uri: href.to_string(), silent: false }),
        _ => None,
    });
    let local = |uri: &&Uri| matches!(urls.own(uri), Some(Own::Actor(_)));
    let addressed = post.to.iter().chain(&post.cc).filter(local);
    let silent = addressed.map(|uri| RemoteMention { uri: uri.to_string(), silent: true });
    named.chain(silent).collect()
}

fn media(post: &Post) -> Vec<RemoteMedia> {
    let attached: Vec<RemoteMedia> = post
        .attachments
        .iter()
        .filter(|attachment| attachment.kind != AttachmentKind::Link)
        .map(medium)
        .collect();
    match &post.picture {
        Some(picture) if attached.is_empty() => vec![RemoteMedia {
            url: picture.url.to_string(),
            content_type: picture.media_type.clone().unwrap_or_else(|| "image/jpeg".into()),
            description: picture.name.clone(),
            blurhash: None,
            size: None,
            focus: None,
        }],
        _ => attached,
    }
}

fn medium(attachment: &Attachment) -> RemoteMedia {
    let content_type = match (&attachment.media_type, attachment.kind) {
        (Some(media_type), _) => media_type.clone(),
        (None, AttachmentKind::Image) => "image/jpeg".into(),
        (None, AttachmentKind::Video) => "video/mp4".into(),
        (None, AttachmentKind::Audio) => "audio/mpeg".into(),
        (None, _) => by_name(attachment.url.as_str()).into(),
    };
    RemoteMedia {
        url: attachment.url.to_string(),
        content_type,
        description: attachment.description.clone(),
        blurhash: attachment.blurhash.clone(),
        size: attachment.width.zip(attachment.height),
        focus: attachment.focus.map(|focus| (f64::from(focus.x), f64::from(focus.y))),
    }
}

/// The media type that the end of a name suggests.
fn by_name(url: &str) -> &'static str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    match path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase().as_str() {
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "mp4" | "m4v" => "video/mp4",
        "webm" => "video/webm",
        "mp3" => "audio/mpeg",
        "ogg" | "oga" => "audio/ogg",
        _ => "",
    }
}

fn poll(poll: &Poll) -> RemotePoll {
    let count = |votes: u64| i64::try_from(votes).unwrap_or(i64::MAX);
    let options: Vec<(String, i64)> =
        poll.options.iter().map(|option| (option.name.clone(), count(option.votes))).collect();
    let votes = options.iter().map(|(_, votes)| *votes).fold(0, i64::saturating_add);
    RemotePoll {
        multiple: poll.multiple,
        // A poll that has ended without a word when has ended long ago.
        expires_at: poll.ends_at.or(poll.closed.then_some(Timestamp::from_ms(1))),
        voters_count: poll.voters_count.map_or(votes, count),
        options,
    }
}
