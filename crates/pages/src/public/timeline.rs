//! `/public/local`: what people here post to everybody.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use weir_community::timelines::{self, PublicPage};
use weir_db::Class;

use crate::Pages;
use crate::fault::Fault;
use crate::form::Fields;
use crate::frame::{Frame, show};
use crate::paging::{self, Neighbours};
use crate::post::Post;
use crate::visitor::Visitor;

#[derive(Template)]
#[template(path = "public/timeline.html")]
struct TimelinePage {
    frame: Frame,
    posts: Vec<Post>,
    neighbours: Neighbours,
}

/// `GET /public/local`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    let env = pages.community.env().clone();
    let reader = visitor.me.as_ref().map(|me| me.account.id);
    if reader.is_none() && !env.instance.settings().public_timelines {
        return Err(Fault::forbidden("Only people who are logged in may read this timeline."));
    }
    let range = paging::range(&query);
    let views = pages
        .community
        .read(Class::Interactive, move |tx, env| {
            let page = PublicPage { local: true, ..PublicPage::default() };
            timelines::public(tx, env, reader, page, range)
        })
        .await?;
    show(&TimelinePage {
        frame: pages.frame(&visitor, "New here"),
        posts: pages.posts(&views).await?,
        neighbours: Neighbours::of("/public/local", &range, &views),
    })
}
