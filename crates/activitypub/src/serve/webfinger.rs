//! `GET /.well-known/webfinger` (RFC 7033): from an address to an actor.

use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;
use weir_community::accounts;
use weir_community::accounts::Account;
use weir_community::hosts;

use super::account;
use super::answer::{Kept, Refusal, open, typed};
use crate::ActivityPub;
use crate::wire::Own;

/// Where people confirm what they came from another server to do.
const SUBSCRIBE: &str = "http://ostatus.org/schema/1.0/subscribe";
const PROFILE_PAGE: &str = "http://webfinger.net/rel/profile-page";

/// Whom is asked for.
#[derive(Debug, Deserialize)]
pub struct Asked {
    resource: Option<String>,
}

/// The document.
pub async fn get(
    State(face): State<ActivityPub>,
    Query(asked): Query<Asked>,
) -> Result<Response, Refusal> {
    let resource = asked.resource.filter(|resource| resource.len() <= 2_048);
    let resource = resource.ok_or(Refusal::Invalid("give a resource: acct:name@domain"))?;
    let account = find(&face, &resource).await?;
    let env = face.community().env();
    let is_server = account.as_ref().is_none_or(|account| account.kind == "application");
    let (name, id, page) = match &account {
        Some(account) if !is_server => {
            (account.username.clone(), account.uri.clone(), account.url.clone())
        }
        _ => (
            accounts::instance_actor_name(env),
            face.urls().instance_actor().to_string(),
            face.urls().at("about").to_string(),
        ),
    };
    let document = json!({
        "subject": format!("acct:{name}@{}", env.site.domain),
        "aliases": [page, id],
        "links": [
            { "rel": PROFILE_PAGE, "type": "text/html", "href": page },
            { "rel": "self", "type": "application/activity+json", "href": id },
            {
                "rel": SUBSCRIBE,
                "template": format!("{}/authorize_interaction?uri={{uri}}", env.site.base),
            },
        ],
    });
    Ok(open(typed(Kept::ByAll, "application/jrd+json; charset=utf-8", document.to_string())))
}

/// The account a resource names; none for the server itself.
async fn find(face: &ActivityPub, resource: &str) -> Result<Option<Account>, Refusal> {
    let env = face.community().env();
    if let Some(address) = resource.strip_prefix("acct:") {
        let (name, domain) = address.rsplit_once('@').ok_or(Refusal::NotFound)?;
        let (_, authority) = face.urls().origin();
        if ![env.site.domain.as_str(), authority].contains(&&*hosts::name(domain)) {
            return Err(Refusal::NotFound);
        }
        if name.eq_ignore_ascii_case(&accounts::instance_actor_name(env)) {
            return Ok(None);
        }
        return account::find_named(face, name.trim_start_matches('@')).await.map(Some);
    }
    let uri = resource.parse().map_err(|_| Refusal::NotFound)?;
    match face.urls().own(&uri) {
        Some(Own::Instance) => return Ok(None),
        Some(Own::Actor(id)) => return account::find(face, &id.to_string()).await.map(Some),
        _ => {}
    }
    let path = resource.strip_prefix(&env.site.base).ok_or(Refusal::NotFound)?;
    let name = path.strip_prefix("/@").or_else(|| path.strip_prefix("/users/"));
    account::find_named(face, name.ok_or(Refusal::NotFound)?).await.map(Some)
}
