//! `/`: what this place is, who is here, and what is new.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use weir_community::accounts::{self, DirectoryPage};
use weir_community::chat::address;
use weir_community::instance::Registrations;
use weir_community::timelines::{self, PublicPage};
use weir_db::Class;

use crate::Pages;
use crate::face::Face;
use crate::fault::Fault;
use crate::form::Fields;
use crate::frame::{Frame, show};
use crate::paging::{self, Neighbours};
use crate::post::Post;
use crate::visitor::Visitor;

/// People shown on the front page.
const PEOPLE: usize = 8;

#[derive(Template)]
#[template(path = "public/front.html")]
struct FrontPage {
    frame: Frame,
    description: String,
    domain: String,
    /// What apps are told: host and port of this server.
    server: String,
    /// The person's address of chat; empty where there is none.
    chat_address: String,
    registrations: Registrations,
    people: Vec<Face>,
    posts: Vec<Post>,
    neighbours: Neighbours,
    is_home: bool,
}

/// `GET /`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    let env = pages.community.env().clone();
    let settings = env.instance.settings();
    let reader = visitor.me.as_ref().map(|me| me.account.id);
    let range = paging::range(&query);
    let open = settings.public_timelines;
    let (mut views, people) = pages
        .community
        .read(Class::Interactive, move |tx, env| {
            let page = PublicPage { local: true, ..PublicPage::default() };
            let views = match reader {
                None if open => timelines::public(tx, env, None, page, range)?,
                _ => Vec::new(),
            };
            let page = DirectoryPage { local: true, limit: PEOPLE, ..DirectoryPage::default() };
            Ok((views, accounts::directory(tx, page)?))
        })
        .await?;
    if let Some(reader) = reader {
        views = timelines::home(&pages.community, reader, range, |_, _, views| Ok(views)).await?;
    }
    let chat_address = match &visitor.me {
        Some(me) if env.chat.get().is_some() => address::of(&env, &me.account.username),
        _ => String::new(),
    };
    let mut frame = pages.frame(&visitor, "");
    frame.noindex = false;
    frame.canonical = format!("{}/", env.site.base);
    frame.description = settings.short_description.clone();
    frame.previews = vec![
        ("og:title", settings.title.clone()),
        ("og:description", settings.short_description.clone()),
        ("og:type", "website".into()),
        ("og:url", frame.canonical.clone()),
    ];
    show(&FrontPage {
        frame,
        description: settings.short_description.clone(),
        domain: env.site.domain.clone(),
        server: env.site.authority().to_owned(),
        chat_address,
        registrations: pages.options.door.registrations(&env),
        people: pages.faces(&people).await?,
        posts: pages.posts(&views).await?,
        neighbours: Neighbours::of("/", &range, &views),
        is_home: reader.is_some(),
    })
}
