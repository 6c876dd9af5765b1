//! `/@name/ID`: a post among what it answers and what answers it.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use weir_base::Id;
use weir_community::statuses::{self, View};
use weir_community::{Env, Error, accounts, media};
use weir_db::{Class, params};

use crate::Pages;
use crate::fault::Fault;
use crate::frame::{Frame, show};
use crate::post::{Post, draw_in};
use crate::visitor::Visitor;

#[derive(Template)]
#[template(path = "public/status.html")]
struct StatusPage {
    frame: Frame,
    above: Vec<Post>,
    post: Post,
    below: Vec<Post>,
}

/// `GET /@name/ID`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    Path((name, id)): Path<(String, String)>,
) -> Result<Response, Fault> {
    let id: Id = id.parse().map_err(|_| Fault::not_found())?;
    let reader = visitor.me.as_ref().map(|me| me.account.id);
    let (view, thread) = pages
        .community
        .read(Class::Interactive, move |tx, env| {
            let view = match statuses::load_one(tx, env, reader, id) {
                Ok(view) => view,
                Err(Error::NotFound(_)) => return Err(missing(tx, env, &name, id)?),
                Err(error) => return Err(error),
            };
            let thread = statuses::thread(tx, env, reader, id)?;
            Ok((view, thread))
        })
        .await?;
    let env = pages.community.env().clone();
    let shown = view.boost.as_deref().unwrap_or(&view);
    let mut post = Post::new(&env, shown);
    pages.paint(post.paintables()).await?;
    let here = format!("/@{}/{id}", shown.account.username);
    if post.url != here {
        return Ok(Redirect::to(&post.url).into_response());
    }
    let mut below = pages.posts(&thread.descendants).await?;
    draw_in(shown.status.id, &thread.descendants, &mut below);
    post.boosted_by = None;
    show(&StatusPage {
        frame: frame(&pages, &visitor, &env, shown, &post),
        above: pages.posts(&thread.ancestors).await?,
        post,
        below,
    })
}

/// Why there is nothing: it was deleted, or was never there for this reader.
fn missing(tx: &mut weir_db::Tx, env: &Env, name: &str, id: Id) -> Result<Error, Error> {
    let author = accounts::by_address(tx, name, "")?;
    let Some(author) = author else { return Ok(Error::NotFound("Status")) };
    let uri = env.site.status_uri(author.id, id);
    let sql = "SELECT 1 FROM tombstones WHERE uri = ?1";
    let buried: Option<i64> = tx.value(sql, params![uri])?;
    let gone = buried.is_some() || author.deleted_at.is_some();
    Ok(if gone { Error::Gone("Status") } else { Error::NotFound("Status") })
}

fn frame(pages: &Pages, visitor: &Visitor, env: &Env, view: &View, post: &Post) -> Frame {
    let title = format!("{} (@{})", post.author.name, post.author.address);
    let mut frame = pages.frame(visitor, title.clone());
    let account = &view.account;
    frame.noindex =
        !account.discoverable || account.silenced_at.is_some() || !view.status.visibility.is_open();
    frame.canonical = env.site.status_url(&account.username, view.status.id);
    frame.description = post.summary();
    frame.feed = format!("{}.rss", env.site.profile_url(&account.username));
    frame.previews = vec![
        ("og:type", "article".into()),
        ("og:title", title),
        ("og:description", frame.description.clone()),
        ("og:url", frame.canonical.clone()),
        ("og:site_name", frame.community.clone()),
        ("article:published_time", post.created.machine.clone()),
    ];
    let hidden = post.sensitive || !post.warning.is_empty();
    let pictures = post.media.iter().filter(|media| media.kind == "image" && !hidden);
    let mut card = "summary";
    for picture in pictures {
        card = "summary_large_image";
        frame.previews.push(("og:image", picture.url.clone()));
        if !picture.description.is_empty() {
            frame.previews.push(("og:image:alt", picture.description.clone()));
        }
    }
    if let Some(avatar) = media::avatar_url(env, account).filter(|_| card == "summary") {
        frame.previews.push(("og:image", avatar));
    }
    frame.previews.push(("twitter:card", card.into()));
    frame
}
