//! What stands around every page.

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use http::{HeaderValue, header};

use crate::Pages;
use crate::assets::CSS_PATH;
use crate::fault::Fault;
use crate::visitor::Visitor;

/// The parts of a page that the base template shows.
pub struct Frame {
    /// The page's own title.
    pub title: String,
    /// The name of the community.
    pub community: String,
    /// The address of the style sheet.
    pub css: &'static str,
    /// The username of the person, when logged in.
    pub me: Option<String>,
    /// Whether the person moderates.
    pub staff: bool,
    /// The token for forms.
    pub form_token: String,
    /// Whether search engines are to leave it alone.
    pub noindex: bool,
    /// The one address of this page.
    pub canonical: String,
    /// One or two sentences on the page.
    pub description: String,
    /// What previews show: property and content.
    pub previews: Vec<(&'static str, String)>,
    /// The address of the page's feed.
    pub feed: String,
    /// What was just done, to be confirmed on top of the page.
    pub notice: String,
}

impl Pages {
    /// The frame of a page called `title`.
    pub(crate) fn frame(&self, visitor: &Visitor, title: impl Into<String>) -> Frame {
        Frame {
            title: title.into(),
            community: self.community.env().instance.settings().title.clone(),
            css: &CSS_PATH,
            me: visitor.me.as_ref().map(|me| me.account.username.clone()),
            staff: visitor.me.as_ref().is_some_and(|me| me.is_staff()),
            form_token: visitor.form_token(),
            noindex: true,
            canonical: String::new(),
            description: String::new(),
            previews: Vec::new(),
            feed: String::new(),
            notice: String::new(),
        }
    }
}

/// A page.
///
/// # Errors
/// A fault of ours when the template fails.
pub fn show(template: &impl Template) -> Result<Response, Fault> {
    let html = template.render().map_err(|error| Fault::ours(&error))?;
    Ok(Html(html).into_response())
}

/// A page with a form for people without a session.
///
/// # Errors
/// As [`show`].
pub fn show_form(
    pages: &Pages,
    visitor: &Visitor,
    template: &impl Template,
) -> Result<Response, Fault> {
    let mut response = show(template)?;
    if let Some(cookie) = visitor.form_cookie(pages) {
        add_cookie(&mut response, &cookie);
    }
    Ok(response)
}

/// Adds a `Set-Cookie` to an answer.
pub fn add_cookie(response: &mut Response, cookie: &str) {
    if let Ok(value) = HeaderValue::try_from(cookie) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

#[derive(Template)]
#[template(path = "fault.html")]
struct FaultPage<'a> {
    frame: Frame,
    fault: &'a Fault,
}

/// The page of a fault.
pub fn show_fault(pages: &Pages, visitor: &Visitor, fault: &Fault) -> Response {
    let page = FaultPage { frame: pages.frame(visitor, fault.title), fault };
    let html = page.render().unwrap_or_else(|_| fault.title.to_owned());
    (fault.status, Html(html)).into_response()
}

/// `90` as `2 minutes`: the next whole unit.
pub fn duration_in_words(seconds: u64) -> String {
    let (count, unit) = match seconds {
        0..=90 => (seconds.max(1), "second"),
        91..=5_400 => (seconds.div_ceil(60), "minute"),
        5_401..=129_600 => (seconds.div_ceil(3_600), "hour"),
        _ => (seconds.div_ceil(86_400), "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}
