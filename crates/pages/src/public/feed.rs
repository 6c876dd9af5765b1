//! RSS 2.0 feeds of a person's posts and of a hashtag.

use askama::Template;
use axum::response::{IntoResponse, Response};
use http::header;
use weir_community::statuses::View;
use weir_community::timelines::{self, AccountPage, PublicPage, Range};
use weir_community::{Env, media, tags, text};
use weir_db::Class;

use crate::Pages;
use crate::face;
use crate::fault::Fault;
use crate::post::{Attachment, Post};
use crate::public::{profile, tag};

#[derive(Template)]
#[template(path = "public/feed.xml")]
struct Feed {
    title: String,
    description: String,
    /// The page of what the feed is about.
    link: String,
    /// The feed's own address.
    address: String,
    image: String,
    items: Vec<Item>,
}

struct Item {
    link: String,
    author: String,
    date: String,
    /// HTML.
    content: String,
    media: Vec<Attachment>,
    tags: Vec<String>,
}

/// The feed of `/@name.rss`.
///
/// # Errors
/// As the profile's page.
pub async fn of_person(pages: &Pages, name: &str) -> Result<Response, Fault> {
    let account = profile::shown(pages, name).await?;
    if !account.is_local() {
        return Err(Fault::not_found());
    }
    let of = account.id;
    let views = pages
        .community
        .read(Class::Interactive, move |tx, env| {
            let page = AccountPage {
                exclude_replies: true,
                exclude_boosts: true,
                ..AccountPage::default()
            };
            timelines::account(tx, env, None, of, page, Range::default())
        })
        .await?;
    let env = pages.community.env();
    let link = env.site.profile_url(&account.username);
    let address = env.site.address(&account.username, "");
    answer(&Feed {
        title: format!("{} (@{address})", face::name(&account)),
        description: format!("Public posts of @{address}"),
        address: format!("{link}.rss"),
        image: media::avatar_url(env, &account).unwrap_or_default(),
        items: items(env, &views),
        link,
    })
}

/// The feed of `/tags/NAME.rss`.
///
/// # Errors
/// As the hashtag's page.
pub async fn of_tag(pages: &Pages, name: &str) -> Result<Response, Fault> {
    tag::check(name)?;
    let env = pages.community.env();
    if !env.instance.settings().public_timelines {
        return Err(Fault::forbidden("Only people who are logged in may read this timeline."));
    }
    let key = text::tag_key(name);
    let asked = key.clone();
    let views = pages
        .community
        .read(Class::Interactive, move |tx, env| {
            let Some(tag) = tags::by_name(tx, &asked)? else { return Ok(Vec::new()) };
            let page = PublicPage::default();
            timelines::tag(tx, env, None, (&[tag.id], &[], &[]), page, Range::default())
        })
        .await?;
    let link = env.site.tag_url(&key);
    answer(&Feed {
        title: format!("#{name}"),
        description: format!("Public posts with #{name}"),
        address: format!("{link}.rss"),
        image: String::new(),
        items: items(env, &views),
        link,
    })
}

fn items(env: &Env, views: &[View]) -> Vec<Item> {
    let item = |view: &View| {
        let post = Post::new(env, view);
        let local = post.url.starts_with('/');
        let link = if local { format!("{}{}", env.site.base, post.url) } else { post.url.clone() };
        let warning = text::escape(&post.warning);
        let content = if warning.is_empty() {
            post.content
        } else {
            format!("<p><strong>{warning}</strong></p><hr>{}", post.content)
        };
        Item {
            link,
            author: post.author.name,
            date: view.status.created_at.http_date(),
            content,
            media: if post.sensitive { Vec::new() } else { post.media },
            tags: view.tags.iter().map(|tag| tag.display.clone()).collect(),
        }
    };
    views.iter().map(item).collect()
}

fn answer(feed: &Feed) -> Result<Response, Fault> {
    let xml = feed.render().map_err(|error| Fault::ours(&error))?;
    // Signs that XML 1.0 does not allow at all, however they are written (its section 2.2).
    let allowed = |c: char| {
        matches!(c, '\t' | '\n' | '\r') || (c >= ' ' && !matches!(c, '\u{FFFE}' | '\u{FFFF}'))
    };
    let xml: String = xml.chars().filter(|c| allowed(*c)).collect();
    let headers = [
        (header::CONTENT_TYPE, "application/rss+xml; charset=utf-8"),
        (header::CACHE_CONTROL, "public, max-age=60"),
    ];
    Ok((headers, xml).into_response())
}
