//! `/authorize_interaction`: where a person from here comes back from another server's page with
//! the address of somebody to follow, or of a post.

use askama::Template;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Redirect, Response};
use weir_base::Id;
use weir_community::accounts;
use weir_community::federation::Found;
use weir_community::relationships::{self, FollowWish};
use weir_community::statuses;
use weir_db::Class;

use crate::Pages;
use crate::auth::sign_in;
use crate::face::Face;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show_form};
use crate::post::Post;
use crate::visitor::Visitor;

#[derive(Template)]
#[template(path = "public/interaction.html")]
struct InteractionPage {
    frame: Frame,
    person: Option<Face>,
    post: Option<Post>,
    /// What was done with it already.
    done: Vec<&'static str>,
    id: Id,
}

/// `GET /authorize_interaction?uri=`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    OriginalUri(uri): OriginalUri,
    query: Fields,
) -> Result<Response, Fault> {
    let Some(me) = visitor.me.as_ref().map(|me| me.account.id) else {
        let back = uri.path_and_query().map(|path| path.as_str()).unwrap_or("/");
        return sign_in::show(&pages, &visitor, back).await;
    };
    let found = find(&pages, me, query.get("uri").trim()).await?;
    show_found(&pages, &visitor, me, found).await
}

async fn show_found(
    pages: &Pages,
    visitor: &Visitor,
    me: Id,
    found: Found,
) -> Result<Response, Fault> {
    let env = pages.community.env().clone();
    let page = pages
        .community
        .read(Class::Interactive, move |tx, env| match found {
            Found::Account(id) => {
                let account = accounts::by_id(tx, id)?;
                let bond = relationships::relationships(tx, me, &[id], env.clock.now())?.pop();
                Ok((Some(account), None, bond))
            }
            Found::Status(id) => Ok((None, Some(statuses::load_one(tx, env, Some(me), id)?), None)),
        })
        .await?;
    let (person, view, bond) = page;
    let mut done = Vec::new();
    if let Some(bond) = bond {
        done.extend(bond.following.then_some("You follow this person."));
        done.extend(bond.requested.then_some("You have asked to follow this person."));
    }
    if let Some(state) = view.as_ref().and_then(|view| view.reader) {
        done.extend(state.favourited.then_some("You have favourited this post."));
        done.extend(state.boosted.then_some("You have boosted this post."));
    }
    let (id, title) = match found {
        Found::Account(id) => (id, "Follow"),
        Found::Status(id) => (id, "A post from elsewhere"),
    };
    let page = InteractionPage {
        frame: pages.frame(visitor, title),
        person: person.map(|account| Face::new(&env, &account)),
        post: view.map(|view| Post::new(&env, &view)),
        done,
        id,
    };
    show_form(pages, visitor, &page)
}

/// What the address leads to: known here, or fetched by the resolver.
async fn find(pages: &Pages, me: Id, address: &str) -> Result<Found, Fault> {
    let unknown = || {
        Fault::new(
            http::StatusCode::NOT_FOUND,
            "Nothing was found there",
            "The address leads to no person and no post that this server can reach. Check it and \
             try again.",
        )
    };
    if address.is_empty() || address.len() > 2_048 {
        return Err(unknown());
    }
    let asked = address.to_owned();
    let known = pages
        .community
        .read(Class::Interactive, move |tx, env| {
            if let Some((account, status)) = env.site.parse_local(&asked) {
                return Ok(Some(status.map_or(Found::Account(account), Found::Status)));
            }
            if let Some(account) = accounts::by_uri(tx, &asked)? {
                return Ok(Some(Found::Account(account.id)));
            }
            if let Some(status) = statuses::by_uri(tx, &asked)? {
                return Ok(Some(Found::Status(status.id)));
            }
            let path = asked.strip_prefix(&env.site.base).and_then(|rest| rest.strip_prefix("/@"));
            match accounts::lookup(tx, env, path.unwrap_or(&asked)) {
                Ok(account) => Ok(Some(Found::Account(account.id))),
                Err(weir_community::Error::NotFound(_)) => Ok(None),
                Err(error) => Err(error),
            }
        })
        .await?;
    if let Some(found) = known {
        return Ok(found);
    }
    pages.lookups.take(&me.to_string()).map_err(Fault::too_many)?;
    let resolver = &pages.resolver;
    let env = pages.community.env();
    let found = if address.starts_with("https://") || address.starts_with("http://") {
        resolver.address(address).await
    } else {
        match accounts::parse_address(env, address) {
            Some((name, domain)) if !domain.is_empty() => {
                resolver.account(&name, &domain).await.map(Found::Account)
            }
            _ => return Err(unknown()),
        }
    };
    found.map_err(|error| match error {
        weir_community::Error::Db(_) => error.into(),
        _ => unknown(),
    })
}

/// `POST /authorize_interaction`
pub async fn submit(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let me = visitor.person()?.account.id;
    let id: Id = fields.get("id").parse().map_err(|_| Fault::not_found())?;
    let action = fields.get("action").to_owned();
    let target = pages
        .community
        .write(Class::Interactive, move |tx, env| {
            match action.as_str() {
                "follow" => {
                    relationships::follow(tx, env, me, id, &FollowWish::default())?;
                    return Ok(accounts::by_id(tx, id)?.uri);
                }
                "favourite" => {
                    statuses::favourite(tx, env, me, id)?;
                }
                "boost" => {
                    statuses::boost(tx, env, me, id, None)?;
                }
                _ => return Err(weir_community::Error::NotFound("Action")),
            }
            Ok(statuses::by_id(tx, id)?.uri)
        })
        .await?;
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("uri", &target);
    Ok(Redirect::to(&format!("/authorize_interaction?{}", query.finish())).into_response())
}
