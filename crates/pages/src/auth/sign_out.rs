//! `/auth/sign_out`

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use weir_community::users;
use weir_db::Class;

use crate::Pages;
use crate::fault::Fault;
use crate::form::Form;
use crate::frame::add_cookie;
use crate::visitor::no_session_cookie;

/// `POST /auth/sign_out`
pub async fn submit(
    State(pages): State<Pages>,
    Form { visitor, .. }: Form,
) -> Result<Response, Fault> {
    if let Some(me) = &visitor.me {
        let (account, session) = (me.account.id, me.session.id);
        pages
            .community
            .write(Class::Interactive, move |tx, env| users::end_session(tx, env, account, session))
            .await?;
    }
    let mut response = Redirect::to("/").into_response();
    add_cookie(&mut response, &no_session_cookie(&pages));
    Ok(response)
}
