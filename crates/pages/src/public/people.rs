//! `/directory`, `/@name/followers`, `/@name/following`: lists of people.

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use weir_base::Id;
use weir_community::accounts::{self, Account, DirectoryPage};
use weir_community::{relationships, text};
use weir_db::Class;

use crate::Pages;
use crate::face::Face;
use crate::fault::Fault;
use crate::form::Fields;
use crate::frame::{Frame, show};
use crate::post::shortened;
use crate::public::profile::shown;
use crate::visitor::Visitor;

/// People on a page.
const PEOPLE: usize = 40;

#[derive(Template)]
#[template(path = "public/people.html")]
struct PeoplePage {
    frame: Frame,
    title: String,
    /// Each with the beginning of what they say of themselves.
    people: Vec<(Face, String)>,
    /// Shown when nobody is.
    nobody: &'static str,
    older: String,
}

/// `GET /directory`
pub async fn directory(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    let offset: usize = query.get("offset").parse().unwrap_or(0).min(100_000);
    let people = pages
        .community
        .read(Class::Interactive, move |tx, _| {
            let page = DirectoryPage { local: true, newest: false, offset, limit: PEOPLE };
            accounts::directory(tx, page)
        })
        .await?;
    let older = if people.len() < PEOPLE {
        String::new()
    } else {
        format!("/directory?offset={}", offset + PEOPLE)
    };
    let nobody = "Nobody here wants to be found yet.";
    list(&pages, &visitor, "People here".into(), &people, nobody, older).await
}

/// `GET /@name/followers`
pub async fn followers(
    State(pages): State<Pages>,
    visitor: Visitor,
    Path(name): Path<String>,
    query: Fields,
) -> Result<Response, Fault> {
    around(&pages, &visitor, &name, &query, true).await
}

/// `GET /@name/following`
pub async fn following(
    State(pages): State<Pages>,
    visitor: Visitor,
    Path(name): Path<String>,
    query: Fields,
) -> Result<Response, Fault> {
    around(&pages, &visitor, &name, &query, false).await
}

async fn around(
    pages: &Pages,
    visitor: &Visitor,
    name: &str,
    query: &Fields,
    followers: bool,
) -> Result<Response, Fault> {
    let account = shown(pages, name).await?;
    let of = account.id;
    let is_me = visitor.me.as_ref().is_some_and(|me| me.account.id == of);
    let title = if followers {
        format!("Who follows @{}", account.username)
    } else {
        format!("Whom @{} follows", account.username)
    };
    if !account.is_local() || (account.hide_collections && !is_me) {
        let nobody = "This person does not show this list.";
        return list(pages, visitor, title, &[], nobody, String::new()).await;
    }
    let before: Id = query.get("before").parse().unwrap_or(Id::MAX);
    let (people, last) = pages
        .community
        .read(Class::Interactive, move |tx, _| {
            let pairs = if followers {
                relationships::follower_ids(tx, of, before, PEOPLE)?
            } else {
                relationships::following_ids(tx, of, before, PEOPLE)?
            };
            let ids: Vec<Id> = pairs.iter().map(|pair| pair.1).collect();
            let mut people = accounts::by_ids(tx, &ids)?;
            people.sort_by_key(|person| ids.iter().position(|id| *id == person.id));
            people.retain(Account::is_available);
            let last = pairs.last().filter(|_| pairs.len() == PEOPLE).map(|pair| pair.0);
            Ok((people, last))
        })
        .await?;
    let path = if followers { "followers" } else { "following" };
    let older =
        last.map(|last| format!("/@{}/{path}?before={last}", account.username)).unwrap_or_default();
    list(pages, visitor, title, &people, "Nobody yet.", older).await
}

async fn list(
    pages: &Pages,
    visitor: &Visitor,
    title: String,
    people: &[Account],
    nobody: &'static str,
    older: String,
) -> Result<Response, Fault> {
    let notes = people.iter().map(|account| shortened(&text::plain(&account.note), 160));
    let people = pages.faces(people).await?.into_iter().zip(notes).collect();
    show(&PeoplePage { frame: pages.frame(visitor, title.clone()), title, people, nobody, older })
}
