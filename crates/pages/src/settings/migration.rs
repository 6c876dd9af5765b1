//! `/settings/migration`: moving to another account, and the aliases by which others move here.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use weir_base::Id;
use weir_community::accounts::{self, Account, Migration};
use weir_community::{Env, Error};
use weir_db::Class;

use super::account::knows_password;
use super::{again, done, frame};
use crate::Pages;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show_form};
use crate::problems::Problems;
use crate::time;
use crate::visitor::Visitor;

const PATH: &str = "/settings/migration";

/// Another account, as it is shown: its address, and its page or (of an alias) its actor id.
struct Other {
    address: String,
    url: String,
}

#[derive(Template)]
#[template(path = "settings/migration.html")]
struct MigrationPage<'a> {
    frame: Frame,
    section: &'static str,
    own_address: String,
    moved_to: Option<Other>,
    next: Option<String>,
    aliases: Vec<Other>,
    given_target: &'a str,
    given_alias: &'a str,
    target_wrong: Problems,
    alias_wrong: Problems,
}

/// What is wrong with each of the two forms, and what was given.
#[derive(Default)]
struct Wrong {
    target: Problems,
    alias: Problems,
}

/// `GET /settings/migration`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    form(&pages, &visitor, &query, Wrong::default()).await
}

fn address(env: &Env, account: &Account) -> String {
    env.site.address(&account.username, &account.domain)
}

async fn form(
    pages: &Pages,
    visitor: &Visitor,
    query: &Fields,
    wrong: Wrong,
) -> Result<Response, Fault> {
    let me = &visitor.person()?.account;
    let (env, id) = (pages.community.env(), me.id);
    let migration: Migration = pages
        .community
        .read(Class::Interactive, move |tx, env| accounts::migration(tx, env, id))
        .await?;
    let alias = |alias: accounts::Alias| Other {
        address: alias.account.map_or_else(|| alias.uri.clone(), |known| address(env, &known)),
        url: alias.uri,
    };
    let moved_to =
        migration.moved_to.map(|target| Other { address: address(env, &target), url: target.url });
    let page = MigrationPage {
        frame: frame(pages, visitor, "Moving", query),
        section: "migration",
        own_address: format!("{}@{}", me.username, env.site.domain),
        moved_to,
        next: migration.next_at.map(time::date),
        aliases: migration.aliases.into_iter().map(alias).collect(),
        given_target: query.get("target"),
        given_alias: query.get("alias"),
        target_wrong: wrong.target,
        alias_wrong: wrong.alias,
    };
    show_form(pages, visitor, &page)
}

/// The account behind `given`, as it is now over there.
async fn find(pages: &Pages, visitor: &Visitor, given: &str) -> Result<Id, Error> {
    let refuse = |message: &str| Error::invalid("address", "ERR_INVALID", message);
    let Some((name, domain)) = accounts::parse_address(pages.community.env(), given) else {
        return Err(refuse("is not an address like alice@example.social"));
    };
    let by = visitor.me.as_ref().map(|me| me.account.id.to_string()).unwrap_or_default();
    if let Err(retry_after_s) = pages.lookups.take(&by) {
        return Err(Error::TooMany { retry_after_s });
    }
    let found = async {
        let id = match domain.is_empty() {
            true => {
                let find = move |tx: &mut weir_db::Tx, _: &Env| {
                    accounts::by_address(tx, &name, "")?.ok_or(Error::NotFound("Account"))
                };
                pages.community.read(Class::Interactive, find).await?.id
            }
            false => pages.resolver.account(&name, &domain).await?,
        };
        pages.resolver.renewed(id).await?;
        Ok(id)
    };
    found.await.map_err(|error| match error {
        Error::NotFound(_) | Error::Gone(_) => refuse("leads to nobody"),
        Error::Upstream(_) => refuse("is on a server that does not answer: try again later"),
        other => other,
    })
}

/// `POST /settings/migration`
pub async fn submit(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let me = visitor.person()?.account.id;
    let community = &pages.community;
    match fields.get("action") {
        "move" => {
            if !knows_password(&pages, visitor.person()?, fields.get("password")).await? {
                let target = Problems::one("password", "is not your password");
                let wrong = Wrong { target, ..Wrong::default() };
                return again(form(&pages, &visitor, &fields, wrong).await);
            }
            let moved = match find(&pages, &visitor, fields.get("target")).await {
                Ok(target) => {
                    let write = move |tx: &mut weir_db::Tx, env: &Env| {
                        accounts::move_out(tx, env, me, target)
                    };
                    community.write(Class::Interactive, write).await
                }
                Err(error) => Err(error),
            };
            match moved {
                Ok(()) => Ok(done(PATH, "moved")),
                Err(error) => {
                    let target = Problems::from_error(error)?;
                    let wrong = Wrong { target, ..Wrong::default() };
                    again(form(&pages, &visitor, &fields, wrong).await)
                }
            }
        }
        "add" => {
            let added = match find(&pages, &visitor, fields.get("alias")).await {
                Ok(other) => {
                    let write = move |tx: &mut weir_db::Tx, env: &Env| {
                        accounts::add_alias(tx, env, me, other)
                    };
                    community.write(Class::Interactive, write).await
                }
                Err(error) => Err(error),
            };
            match added {
                Ok(()) => Ok(done(PATH, "alias")),
                Err(error) => {
                    let alias = Problems::from_error(error)?;
                    let wrong = Wrong { alias, ..Wrong::default() };
                    again(form(&pages, &visitor, &fields, wrong).await)
                }
            }
        }
        "remove" => {
            let uri = fields.get("uri").to_owned();
            community
                .write(Class::Interactive, move |tx, env| accounts::remove_alias(tx, env, me, &uri))
                .await?;
            Ok(done(PATH, "saved"))
        }
        "back" => {
            community
                .write(Class::Interactive, move |tx, env| accounts::move_back(tx, env, me))
                .await?;
            Ok(done(PATH, "back"))
        }
        _ => Err(Fault::not_found()),
    }
}
