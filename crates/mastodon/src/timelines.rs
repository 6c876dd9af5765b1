//! `GET /api/v1/timelines/…`

use axum::extract::{Path, State};
use axum::response::Response;
use serde::Deserialize;
use weir_base::Id;
use weir_community::timelines::{self, PublicPage};
use weir_community::{Error as CommunityError, tags};
use weir_db::Tx;
use weir_http::Query;

use crate::auth::{Person, ReadLists, ReadStatuses, Reader};
use crate::{At, Error, Face, Page, Paging};

/// Hashtags one request may name in each of its lists.
const TAGS_MAX: usize = 4;

/// `GET /api/v1/timelines/home`: posts of those one follows.
pub async fn home(
    State(face): State<Face>,
    person: Person<ReadStatuses>,
    paging: Paging,
) -> Result<Response, Error> {
    let id = person.id;
    let page = timelines::home(&face.community, id, paging.statuses(), move |tx, env, views| {
        Ok(Page::of_statuses(tx, env, Some(id), &views)?.without_hidden("home"))
    });
    Ok(paging.answer(&face, page.await?))
}

/// `GET /api/v1/timelines/list/:list_id`: posts of those in a list.
pub async fn list(
    State(face): State<Face>,
    person: Person<ReadLists>,
    At(list): At,
    paging: Paging,
) -> Result<Response, Error> {
    let id = person.id;
    let range = paging.statuses();
    let page = timelines::list(&face.community, id, list, range, move |tx, env, views| {
        Ok(Page::of_statuses(tx, env, Some(id), &views)?.without_hidden("home"))
    });
    Ok(paging.answer(&face, page.await?))
}

/// Which public posts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    local: bool,
    remote: bool,
    only_media: bool,
    any: Vec<String>,
    all: Vec<String>,
    none: Vec<String>,
    url: String,
}

impl Wanted {
    fn page(&self) -> PublicPage {
        PublicPage { local: self.local, remote: self.remote, only_media: self.only_media }
    }
}

/// Visitors read public timelines only where staff lets them.
fn check_visitor(face: &Face, reader: &Reader<ReadStatuses>) -> Result<(), Error> {
    if reader.id.is_none() && !face.env().instance.settings().public_timelines {
        return Err(Error::needs_person());
    }
    Ok(())
}

/// `GET /api/v1/timelines/public`: posts of everybody.
pub async fn public(
    State(face): State<Face>,
    reader: Reader<ReadStatuses>,
    Query(wanted): Query<Wanted>,
    paging: Paging,
) -> Result<Response, Error> {
    check_visitor(&face, &reader)?;
    let (reader, range) = (reader.id, paging.statuses());
    let page = face.read(move |tx, env| {
        let views = timelines::public(tx, env, reader, wanted.page(), range)?;
        Ok(Page::of_statuses(tx, env, reader, &views)?.without_hidden("public"))
    });
    Ok(paging.answer(&face, page.await?))
}

/// The ids of the hashtags of these names that are known.
fn known(tx: &mut Tx, names: &[String]) -> Result<Vec<Option<Id>>, CommunityError> {
    let named = names.iter().take(TAGS_MAX).map(|name| name.trim().trim_start_matches('#'));
    named.map(|name| Ok(tags::by_name(tx, name)?.map(|tag| tag.id))).collect()
}

/// `GET /api/v1/timelines/tag/:hashtag`: public posts with a hashtag, or others besides it.
pub async fn tag(
    State(face): State<Face>,
    reader: Reader<ReadStatuses>,
    Path(name): Path<String>,
    Query(wanted): Query<Wanted>,
    paging: Paging,
) -> Result<Response, Error> {
    check_visitor(&face, &reader)?;
    let (reader, range) = (reader.id, paging.statuses());
    let page = face.read(move |tx, env| {
        let first = known(tx, std::slice::from_ref(&name))?;
        let any: Vec<Id> = first.into_iter().chain(known(tx, &wanted.any)?).flatten().collect();
        let all = known(tx, &wanted.all)?;
        let none: Vec<Id> = known(tx, &wanted.none)?.into_iter().flatten().collect();
        // A hashtag that nobody used is on no post.
        let all: Option<Vec<Id>> = all.into_iter().collect();
        let views = match all {
            Some(all) if !any.is_empty() => {
                timelines::tag(tx, env, reader, (&any, &all, &none), wanted.page(), range)?
            }
            _ => Vec::new(),
        };
        Ok(Page::of_statuses(tx, env, reader, &views)?.without_hidden("public"))
    });
    Ok(paging.answer(&face, page.await?))
}

/// `GET /api/v1/timelines/link`: public posts that link to a page.
pub async fn link(
    State(face): State<Face>,
    reader: Reader<ReadStatuses>,
    Query(wanted): Query<Wanted>,
    paging: Paging,
) -> Result<Response, Error> {
    check_visitor(&face, &reader)?;
    let (reader, range) = (reader.id, paging.statuses());
    let page = face.read(move |tx, env| {
        let views = timelines::link(tx, env, reader, &wanted.url, range)?;
        Ok(Page::of_statuses(tx, env, reader, &views)?.without_hidden("public"))
    });
    Ok(paging.answer(&face, page.await?))
}

/// `GET /api/v1/timelines/direct`: direct messages; the older form of conversations.
pub async fn direct(
    State(face): State<Face>,
    person: Person<ReadStatuses>,
    paging: Paging,
) -> Result<Response, Error> {
    let (by, range) = (person.id, paging.statuses());
    let page = face.read(move |tx, env| {
        let views = timelines::direct(tx, env, by, range)?;
        Page::of_statuses(tx, env, Some(by), &views)
    });
    Ok(paging.answer(&face, page.await?))
}
