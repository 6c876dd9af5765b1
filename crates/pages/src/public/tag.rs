//! `/tags/NAME`, and with `.rss` the feed.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use weir_community::timelines::{self, PublicPage};
use weir_community::{tags, text};
use weir_db::Class;

use crate::Pages;
use crate::fault::Fault;
use crate::form::Fields;
use crate::frame::{Frame, show};
use crate::paging::{self, Neighbours};
use crate::post::Post;
use crate::public::feed;
use crate::visitor::Visitor;

/// The longest name, in characters.
const NAME_CHARACTERS_MAX: usize = 100;

#[derive(Template)]
#[template(path = "public/tag.html")]
struct TagPage {
    frame: Frame,
    name: String,
    posts: Vec<Post>,
    neighbours: Neighbours,
}

/// `GET /tags/NAME`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    Path(name): Path<String>,
    query: Fields,
) -> Result<Response, Fault> {
    if let Some(name) = name.strip_suffix(".rss") {
        return feed::of_tag(&pages, name).await;
    }
    check(&name)?;
    let env = pages.community.env().clone();
    let reader = visitor.me.as_ref().map(|me| me.account.id);
    if reader.is_none() && !env.instance.settings().public_timelines {
        return Err(Fault::forbidden("Only people who are logged in may read this timeline."));
    }
    let range = paging::range(&query);
    let key = text::tag_key(&name);
    let asked = key.clone();
    let (display, views) = pages
        .community
        .read(Class::Interactive, move |tx, env| {
            let Some(tag) = tags::by_name(tx, &asked)? else { return Ok((None, Vec::new())) };
            let page = PublicPage::default();
            let views = timelines::tag(tx, env, reader, (&[tag.id], &[], &[]), page, range)?;
            Ok((Some(tag.display), views))
        })
        .await?;
    let name = display.unwrap_or(name);
    let address = env.site.tag_url(&key);
    let mut frame = pages.frame(&visitor, format!("#{name}"));
    frame.canonical.clone_from(&address);
    frame.feed = format!("{address}.rss");
    frame.description = format!("Posts with #{name}");
    let path = address.strip_prefix(&env.site.base).unwrap_or_default();
    show(&TagPage {
        neighbours: Neighbours::of(path, &range, &views),
        frame,
        name,
        posts: pages.posts(&views).await?,
    })
}

/// Whether `name` can be a hashtag's.
///
/// # Errors
/// A page that says that there is nothing.
pub fn check(name: &str) -> Result<(), Fault> {
    let fits = !name.is_empty()
        && name.chars().count() <= NAME_CHARACTERS_MAX
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '·' | '\u{200C}'));
    if fits { Ok(()) } else { Err(Fault::not_found()) }
}
