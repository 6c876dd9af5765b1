//! `POST /api/v1/reports`: telling staff about somebody.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use weir_base::Id;
use weir_community::reports::{self, NewReport};
use weir_http::Form;

use crate::auth::{Person, WriteReports};
use crate::entities::{self, Report};
use crate::{Error, Face};

/// What is reported.
#[derive(Debug, Clone, Deserialize)]
pub struct Wish {
    account_id: Id,
    #[serde(default)]
    status_ids: Vec<Id>,
    #[serde(default)]
    rule_ids: Vec<Id>,
    #[serde(default)]
    comment: Option<String>,
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
    forward: Option<bool>,
}

/// Makes a report.
pub async fn post(
    State(face): State<Face>,
    person: Person<WriteReports>,
    Form(wish): Form<Wish>,
) -> Result<Json<Report>, Error> {
    let by = person.id;
    let new = NewReport {
        target_id: wish.account_id,
        status_ids: wish.status_ids,
        rule_ids: wish.rule_ids,
        comment: wish.comment.unwrap_or_default(),
        category: wish.category.unwrap_or_default(),
        forward: wish.forward.unwrap_or(false),
    };
    let done = face.write(move |tx, env| {
        let made = reports::create(tx, env, by, &new, "")?;
        Ok(entities::reports(tx, env, &[made])?.pop())
    });
    done.await?.map(Json).ok_or_else(Error::not_found)
}
