//! `/admin/people` and `/admin/people/ID`

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use weir_base::Id;
use weir_community::accounts::{self, Account};
use weir_community::users::{self, User};
use weir_community::{Env, Error, moderation};
use weir_db::{Class, Tx};

use super::{frame, staff};
use crate::Pages;
use crate::face::Face;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show_form};
use crate::time;
use crate::visitor::Visitor;

/// People on a page.
const PEOPLE: usize = 50;

#[derive(Template)]
#[template(path = "admin/people.html")]
struct PeoplePage {
    frame: Frame,
    section: &'static str,
    people: Vec<(Face, Id, String)>,
    asked: String,
    nobody: bool,
    /// Whether there may be more whom the question fits.
    more: bool,
    next: String,
}

/// `GET /admin/people`
pub async fn list(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    staff(&visitor)?;
    let after: Id = query.get("after").parse().unwrap_or(Id::ZERO);
    let asked = query.get("name").trim().to_owned();
    let wanted = asked.clone();
    let people = pages
        .community
        .read(Class::Interactive, move |tx, env| {
            if !wanted.is_empty() {
                let found = found(tx, env, &wanted)?.into_iter();
                let pair = |account: Account| {
                    let user = user_of(tx, &account)?;
                    Ok((account, user))
                };
                return found.map(pair).collect();
            }
            let users = users::list(tx, after, PEOPLE)?;
            let pair = |user: User| Ok((accounts::by_id(tx, user.account_id)?, Some(user)));
            users.into_iter().map(pair).collect::<Result<Vec<_>, Error>>()
        })
        .await?;
    let env = pages.community.env();
    let full = people.len() == PEOPLE;
    let is_list = asked.is_empty();
    let last = people.last().filter(|_| full && is_list).map(|(account, _)| account.id);
    let line = |(account, user): &(Account, Option<User>)| {
        (Face::new(env, account), account.id, state_in_words(account, user.as_ref()))
    };
    let page = PeoplePage {
        frame: frame(&pages, &visitor, "People", &query),
        section: "people",
        nobody: people.is_empty(),
        more: full && !is_list,
        people: people.iter().map(line).collect(),
        asked,
        next: last.map(|id| format!("/admin/people?after={id}")).unwrap_or_default(),
    };
    show_form(&pages, &visitor, &page)
}

/// Those whose name begins so, or whose address, for posts or for mail, it is.
fn found(tx: &mut Tx, env: &Env, text: &str) -> Result<Vec<Account>, Error> {
    let name = text.strip_prefix('@').unwrap_or(text);
    if !name.contains('@') {
        return accounts::by_beginning(tx, name, PEOPLE);
    }
    let by_address = match accounts::parse_address(env, text) {
        Some((name, domain)) => accounts::by_address(tx, &name, &domain)?,
        None => None,
    };
    let by_mail = match users::by_login(tx, text)? {
        Some(user) => Some(accounts::by_id(tx, user.account_id)?),
        None => None,
    };
    let mut found: Vec<Account> = by_address.into_iter().chain(by_mail).collect();
    found.dedup_by_key(|account| account.id);
    Ok(found)
}

/// The part of `account` that logs in here, if it has one.
fn user_of(tx: &mut Tx, account: &Account) -> Result<Option<User>, Error> {
    match users::by_account(tx, account.id) {
        Ok(user) => Ok(Some(user)),
        Err(Error::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Why `by` may do nothing about the account `id`; empty when they may.
pub(super) fn barred(tx: &mut Tx, by: Id, id: Id) -> Result<&'static str, Error> {
    match moderation::check_rank(tx, by, id) {
        Ok(()) => Ok(""),
        Err(Error::Forbidden(_)) if by == id => Ok("This is you: staff cannot act on themselves."),
        Err(Error::Forbidden(_)) => Ok("Staff can act only on people below their own rank."),
        Err(Error::Gone(_)) => Ok("This account is deleted."),
        Err(error) => Err(error),
    }
}

fn state_in_words(account: &Account, user: Option<&User>) -> String {
    let mut words = Vec::new();
    if let Some(user) = user {
        words.extend((user.role != "user").then(|| user.role.clone()));
        words.extend(user.confirmed_at.is_none().then(|| "unconfirmed".to_owned()));
        words.extend((!user.approved).then(|| "waits".to_owned()));
        words.extend(user.disabled.then(|| "shut out".to_owned()));
    }
    let states = [
        (account.suspended_at.is_some(), "suspended"),
        (account.silenced_at.is_some(), "limited"),
        (account.sensitized_at.is_some(), "media sensitive"),
        (account.deleted_at.is_some(), "deleted"),
    ];
    words.extend(states.into_iter().filter(|(on, _)| *on).map(|(_, word)| word.to_owned()));
    words.join(", ")
}

#[derive(Template)]
#[template(path = "admin/person.html")]
struct PersonPage {
    frame: Frame,
    section: &'static str,
    face: Face,
    account: Account,
    user: Option<User>,
    state: String,
    joined: String,
    /// Why who looks may do nothing here; empty when they may.
    barred: &'static str,
}

/// `GET /admin/people/ID`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    Path(id): Path<String>,
    query: Fields,
) -> Result<Response, Fault> {
    let by = staff(&visitor)?;
    let id: Id = id.parse().map_err(|_| Fault::not_found())?;
    let (account, user, barred) = pages
        .community
        .read(Class::Interactive, move |tx, _| {
            let account = accounts::by_id(tx, id)?;
            let user = user_of(tx, &account)?;
            Ok((account, user, barred(tx, by, id)?))
        })
        .await?;
    let page = PersonPage {
        frame: frame(&pages, &visitor, format!("@{}", account.acct()), &query),
        section: "people",
        face: Face::new(pages.community.env(), &account),
        state: state_in_words(&account, user.as_ref()),
        joined: time::date(account.created_at),
        account,
        user,
        barred,
    };
    show_form(&pages, &visitor, &page)
}

/// `POST /admin/people/ID`
pub async fn act(
    State(pages): State<Pages>,
    Path(id): Path<String>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let by = staff(&visitor)?;
    let id: Id = id.parse().map_err(|_| Fault::not_found())?;
    let action = fields.get("action").to_owned();
    pages
        .community
        .write(Class::Interactive, move |tx, env| match action.as_str() {
            "suspend" => moderation::suspend(tx, env, by, id),
            "unsuspend" => moderation::unsuspend(tx, env, by, id),
            "silence" => moderation::silence(tx, env, by, id, true),
            "unsilence" => moderation::silence(tx, env, by, id, false),
            "sensitize" => moderation::sensitize(tx, env, by, id, true),
            "unsensitize" => moderation::sensitize(tx, env, by, id, false),
            "disable" => moderation::set_disabled(tx, env, by, id, true),
            "enable" => moderation::set_disabled(tx, env, by, id, false),
            _ => Err(Error::NotFound("Action")),
        })
        .await?;
    Ok(Redirect::to(&format!("/admin/people/{id}?done=1")).into_response())
}
