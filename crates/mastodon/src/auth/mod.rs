//! Who asks: extractors for endpoints of everybody, of people, and of apps.

mod scope;

use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use weir_base::Id;
use weir_community::oauth::Bearer;

use crate::{Error, Face};
pub use scope::*;

/// What the door found out about the token of a request; in every request's extensions.
#[derive(Clone)]
pub(crate) struct Caller(pub(crate) Result<Option<Arc<Bearer>>, Error>);

/// Anybody: a visitor, an app or a person. A token that is there must be good and have the scope.
#[derive(Debug, Clone)]
pub struct Reader<S> {
    /// The person, if there is one.
    pub id: Option<Id>,
    /// What stands behind the token, if there is one.
    pub bearer: Option<Arc<Bearer>>,
    scope: PhantomData<S>,
}

/// A person, by a token with the scope.
#[derive(Debug, Clone)]
pub struct Person<S> {
    /// Who.
    pub id: Id,
    /// What stands behind the token.
    pub bearer: Arc<Bearer>,
    scope: PhantomData<S>,
}

/// An app, with or without a person, by a token with the scope.
#[derive(Debug, Clone)]
pub struct AppToken<S> {
    /// What stands behind the token.
    pub bearer: Arc<Bearer>,
    scope: PhantomData<S>,
}

fn caller<S: Scope>(parts: &Parts) -> Result<Option<Arc<Bearer>>, Error> {
    let Some(Caller(found)) = parts.extensions.get::<Caller>().cloned() else { return Ok(None) };
    let bearer = found?;
    let allowed = |bearer: &Arc<Bearer>| S::NAME.is_empty() || bearer.scopes.allow(S::NAME);
    if bearer.as_ref().is_some_and(|bearer| !allowed(bearer)) {
        return Err(Error::outside_scopes());
    }
    Ok(bearer)
}

impl<S: Scope> FromRequestParts<Face> for Reader<S> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &Face) -> Result<Self, Error> {
        let bearer = caller::<S>(parts)?;
        let id = bearer.as_ref().and_then(|bearer| bearer.account_id);
        Ok(Self { id, bearer, scope: PhantomData })
    }
}

impl<S: Scope> FromRequestParts<Face> for Person<S> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &Face) -> Result<Self, Error> {
        let bearer = caller::<S>(parts)?.ok_or_else(Error::bad_token)?;
        let id = bearer.account_id.ok_or_else(Error::needs_person)?;
        Ok(Self { id, bearer, scope: PhantomData })
    }
}

impl<S> From<Person<S>> for Reader<S> {
    fn from(person: Person<S>) -> Self {
        Self { id: Some(person.id), bearer: Some(person.bearer), scope: PhantomData }
    }
}

impl<S: Scope> FromRequestParts<Face> for AppToken<S> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &Face) -> Result<Self, Error> {
        let bearer = caller::<S>(parts)?.ok_or_else(Error::bad_token)?;
        Ok(Self { bearer, scope: PhantomData })
    }
}
