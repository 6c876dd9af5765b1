//! Addresses that servers know people and posts by, for the people who follow them in a browser.

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use weir_base::Id;
use weir_community::accounts;
use weir_db::Class;

use crate::Pages;
use crate::fault::Fault;

/// `GET /users/NAME`
pub async fn user(Path(name): Path<String>) -> Response {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(fits) {
        return Fault::not_found().into_response();
    }
    Redirect::to(&format!("/@{name}")).into_response()
}

/// `GET /ap/users/ID`
pub async fn actor(State(pages): State<Pages>, Path(id): Path<String>) -> Result<Response, Fault> {
    let name = username(&pages, &id).await?;
    Ok(Redirect::to(&format!("/@{name}")).into_response())
}

/// `GET /ap/users/ID/statuses/STATUS`
pub async fn object(
    State(pages): State<Pages>,
    Path((id, status)): Path<(String, String)>,
) -> Result<Response, Fault> {
    let status: Id = status.parse().map_err(|_| Fault::not_found())?;
    let name = username(&pages, &id).await?;
    Ok(Redirect::to(&format!("/@{name}/{status}")).into_response())
}

async fn username(pages: &Pages, id: &str) -> Result<String, Fault> {
    let id: Id = id.parse().map_err(|_| Fault::not_found())?;
    let account =
        pages.community.read(Class::Interactive, move |tx, _| accounts::by_id(tx, id)).await?;
    if account.is_local() { Ok(account.username) } else { Err(Fault::not_found()) }
}
