//! Forms: their fields, and the proof that they came from one of our own pages.

use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};

use crate::Pages;
use crate::fault::Fault;
use crate::visitor::Visitor;

/// Fields that a form may have.
const FIELDS_MAX: usize = 500;

/// The fields of a form or a query, in their order.
#[derive(Debug, Clone, Default)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads `application/x-www-form-urlencoded`.
    pub fn parse(bytes: &[u8]) -> Self {
        let pairs = url::form_urlencoded::parse(bytes).take(FIELDS_MAX);
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The field `name`; empty when there is none.
    pub fn get(&self, name: &str) -> &str {
        self.optional(name).unwrap_or_default()
    }

    /// The field `name`, if there is one.
    pub fn optional(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|field| field.0 == name).map(|field| field.1.as_str())
    }

    /// Whether the box `name` is ticked.
    pub fn ticked(&self, name: &str) -> bool {
        !matches!(self.get(name), "" | "0" | "false")
    }

    /// Every value of the field `name`.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |field| field.0 == name).map(|field| field.1.as_str())
    }
}

impl FromRequestParts<Pages> for Fields {
    type Rejection = std::convert::Infallible;

    /// The fields of the query.
    async fn from_request_parts(
        parts: &mut http::request::Parts,
        _: &Pages,
    ) -> Result<Self, Self::Rejection> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default().as_bytes()))
    }
}

/// A form that came from one of our own pages, and who sent it.
pub struct Form {
    /// Who.
    pub visitor: Visitor,
    /// What.
    pub fields: Fields,
}

impl FromRequest<Pages> for Form {
    type Rejection = Fault;

    async fn from_request(request: Request, pages: &Pages) -> Result<Self, Fault> {
        check_origin(request.headers(), &pages.community.env().site.base)?;
        let (mut parts, body) = request.into_parts();
        let visitor = Visitor::from_request_parts(&mut parts, pages).await?;
        let bytes = Bytes::from_request(Request::from_parts(parts, body), pages)
            .await
            .map_err(too_large)?;
        let fields = Fields::parse(&bytes);
        check_token(&visitor, fields.get("form_token"))?;
        Ok(Self { visitor, fields })
    }
}

fn too_large(_: axum::extract::rejection::BytesRejection) -> Fault {
    Fault::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "That was too much",
        "What you sent is larger than this server takes. Send something smaller.",
    )
}

/// Whether the form carries the token of this browser.
///
/// # Errors
/// A fault that says how to go on.
pub fn check_token(visitor: &Visitor, token: &str) -> Result<(), Fault> {
    if visitor.owns(token) {
        return Ok(());
    }
    metrics::counter!("weir_pages_forms_refused_total", "reason" => "token").increment(1);
    Err(Fault::forbidden(
        "This form is no longer valid: perhaps you logged in or out in another window, or your \
         browser does not keep cookies. Go back, load the page again, and send the form once more.",
    ))
}

/// Whether the request came from a page of this server, as far as the browser says.
///
/// # Errors
/// A fault when it came from elsewhere.
pub fn check_origin(headers: &HeaderMap, base: &str) -> Result<(), Fault> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let site = text("sec-fetch-site");
    let site_is_ours = site.is_none_or(|site| matches!(site, "same-origin" | "none"));
    let host = text(header::HOST.as_str());
    let origin_is_ours = text(header::ORIGIN.as_str()).is_none_or(|origin| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        origin == base || (authority.is_some() && authority == host)
    });
    if site_is_ours && origin_is_ours {
        return Ok(());
    }
    metrics::counter!("weir_pages_forms_refused_total", "reason" => "origin").increment(1);
    Err(Fault::forbidden("The form was sent from a page of another site."))
}
