//! `GET /api/v2/search` and its older form `GET /api/v1/search`: people, posts and hashtags.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::federation::Found;
use weir_community::search::{self, PeopleSearch, Query as Words};
use weir_community::timelines::Range;
use weir_community::{Env, Error as CommunityError, accounts, federation, statuses};
use weir_db::Tx;
use weir_http::Query;

use crate::auth::{Person, ReadSearch, Reader};
use crate::entities::{self, Account, Status, Tag};
use crate::{Error, Face, Paging, oembed};

/// How long a person waits for another server.
const PATIENCE: Duration = Duration::from_secs(8);

/// What is looked for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    q: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    resolve: bool,
    following: bool,
    account_id: Option<Id>,
}

/// What was found.
#[derive(Debug, Default, Serialize)]
pub struct Results {
    accounts: Vec<Account>,
    statuses: Vec<Status>,
    hashtags: Vec<Tag>,
}

/// What was found, in the older form: hashtags are names.
#[derive(Debug, Serialize)]
pub struct ResultsV1 {
    accounts: Vec<Account>,
    statuses: Vec<Status>,
    hashtags: Vec<String>,
}

/// `GET /api/v1/search`: for people only.
pub async fn get_v1(
    face: State<Face>,
    person: Person<ReadSearch>,
    wanted: Query<Wanted>,
    paging: Paging,
) -> Result<Json<ResultsV1>, Error> {
    let Json(Results { accounts, statuses, hashtags }) =
        get(face, person.into(), wanted, paging).await?;
    let hashtags = hashtags.into_iter().map(|tag| tag.name).collect();
    Ok(Json(ResultsV1 { accounts, statuses, hashtags }))
}

/// Looks for what `q` says. An address leads to what lies there; with `resolve` it is fetched.
/// Visitors find people and hashtags, the first page only.
pub async fn get(
    State(face): State<Face>,
    reader: Reader<ReadSearch>,
    Query(wanted): Query<Wanted>,
    paging: Paging,
) -> Result<Json<Results>, Error> {
    let (reader, text) = (reader.id, wanted.q.trim().to_owned());
    let visitor = reader.is_none();
    if visitor && (wanted.resolve || paging.offset() > 0) {
        let why = "Search queries that resolve or page need an authenticated user";
        return Err(Error::new(http::StatusCode::UNAUTHORIZED, why));
    }
    if text.is_empty() {
        return Ok(Json(Results::default()));
    }
    let is_address = text.starts_with("https://") || text.starts_with("http://");
    let found = match is_address {
        true => there(&face, &text, wanted.resolve).await?,
        false if wanted.resolve => {
            federation::meet(&face.community, &*face.resolver, &text).await?;
            None
        }
        false => None,
    };
    let range = Range { limit: paging.limit(20, 40), ..paging.range(20, 40) };
    let offset = paging.offset();
    let results = face.read(move |tx, env| match (is_address, found) {
        (true, Some(found)) => at(tx, env, reader, found, &wanted),
        (true, None) => Ok(Results::default()),
        (false, _) => by_words(tx, env, reader, &text, &wanted, range, offset),
    });
    Ok(Json(results.await?))
}

impl Wanted {
    fn asks_for(&self, kind: &str) -> bool {
        self.kind.as_deref().is_none_or(|wanted| wanted.is_empty() || wanted == kind)
    }
}

/// What lies at an address, if that is known or can be fetched in time.
async fn there(face: &Face, address: &str, fetch: bool) -> Result<Option<Found>, Error> {
    let named = address.to_owned();
    let known = face.read(move |tx, env| {
        if let Some(id) = oembed::post_at(env, &named) {
            return Ok(Some(Found::Status(id)));
        }
        if let Some(name) = own_page(env, &named) {
            let found = accounts::by_address(tx, name, "")?;
            return Ok(found.map(|account| Found::Account(account.id)));
        }
        let by = |column: &str, table: &str| {
            format!("SELECT id FROM {table} WHERE {column} = ?1 ORDER BY id LIMIT 1")
        };
        let value = weir_db::params![named];
        if let Some(id) = tx.value::<Id>(&by("uri", "statuses"), value)? {
            return Ok(Some(Found::Status(id)));
        }
        Ok(tx.value::<Id>(&by("uri", "accounts"), value)?.map(Found::Account))
    });
    if let Some(known) = known.await? {
        return Ok(Some(known));
    }
    if !fetch {
        return Ok(None);
    }
    let found = tokio::time::timeout(PATIENCE, face.resolver.address(address)).await;
    Ok(found.ok().and_then(Result::ok))
}

/// Whose page of ours lies at `url`: `…/@alice`.
fn own_page<'a>(env: &Env, url: &'a str) -> Option<&'a str> {
    let name = url.strip_prefix(&env.site.base)?.strip_prefix("/@")?;
    (!name.is_empty() && !name.contains(['/', '?', '#', '@'])).then_some(name)
}

/// What was found at an address, if the reader may see it.
fn at(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    found: Found,
    wanted: &Wanted,
) -> Result<Results, CommunityError> {
    let mut results = Results::default();
    match found {
        Found::Account(id) if wanted.asks_for("accounts") => {
            let account = accounts::by_id(tx, id)?;
            if account.is_available() {
                results.accounts = vec![entities::account(tx, env, &account)?];
            }
        }
        Found::Status(id) if wanted.asks_for("statuses") => {
            let views = statuses::load(tx, env, reader, &[id])?;
            results.statuses = entities::statuses(tx, env, reader, &views)?;
        }
        _ => {}
    }
    Ok(results)
}

fn by_words(
    tx: &mut Tx,
    env: &Env,
    reader: Option<Id>,
    text: &str,
    wanted: &Wanted,
    range: Range,
    offset: usize,
) -> Result<Results, CommunityError> {
    let mut results = Results::default();
    if wanted.asks_for("accounts") && !text.starts_with('#') {
        let following = wanted.following && reader.is_some();
        let search = PeopleSearch { query: text.to_owned(), following, limit: range.limit, offset };
        let found = search::people(tx, env, reader, &search)?;
        results.accounts = entities::accounts(tx, env, &found)?;
    }
    if wanted.asks_for("hashtags") && !text.starts_with('@') {
        let tags = search::tags(tx, text, range.limit, offset)?;
        results.hashtags = entities::tags(tx, env, reader, &tags)?;
    }
    if let Some(me) = reader.filter(|_| wanted.asks_for("statuses")) {
        let words = Words::parse(text);
        let of = wanted.account_id;
        let views = search::statuses(tx, env, me, &words, of, range, offset)?;
        results.statuses = entities::statuses(tx, env, reader, &views)?;
    }
    Ok(results)
}
