//! `/settings/invites`

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use weir_base::Id;
use weir_community::instance::Registrations;
use weir_community::users::{self, NewInvite};
use weir_db::Class;

use super::{again, done, frame};
use crate::Pages;
use crate::fault::Fault;
use crate::form::{Fields, Form};
use crate::frame::{Frame, show_form};
use crate::problems::Problems;
use crate::time;
use crate::visitor::Visitor;

const PATH: &str = "/settings/invites";

struct Invitation {
    id: Id,
    link: String,
    uses: String,
    ends: String,
    is_open: bool,
}

#[derive(Template)]
#[template(path = "settings/invites.html")]
struct InvitesPage {
    frame: Frame,
    section: &'static str,
    invitations: Vec<Invitation>,
    closed: bool,
    wrong: Problems,
}

/// `GET /settings/invites`
pub async fn page(
    State(pages): State<Pages>,
    visitor: Visitor,
    query: Fields,
) -> Result<Response, Fault> {
    form(&pages, &visitor, &query, Problems::default()).await
}

async fn form(
    pages: &Pages,
    visitor: &Visitor,
    query: &Fields,
    wrong: Problems,
) -> Result<Response, Fault> {
    let account = visitor.person()?.account.id;
    let found = pages
        .community
        .read(Class::Interactive, move |tx, _| users::invites_of(tx, account))
        .await?;
    let env = pages.community.env();
    let now = env.clock.now();
    let invitation = |invite: users::Invite| Invitation {
        id: invite.id,
        link: format!("{}/invite/{}", env.site.base, invite.code),
        uses: match invite.uses_max {
            Some(most) => format!("{} of {most}", invite.uses),
            None => invite.uses.to_string(),
        },
        ends: invite.expires_at.map_or_else(|| "never".to_owned(), time::date),
        is_open: invite.is_open(now),
    };
    let page = InvitesPage {
        frame: frame(pages, visitor, "Invitations", query),
        section: "invites",
        invitations: found.into_iter().map(invitation).collect(),
        closed: pages.options.door.registrations(env) == Registrations::Closed,
        wrong,
    };
    show_form(pages, visitor, &page)
}

/// `POST /settings/invites`
pub async fn submit(
    State(pages): State<Pages>,
    Form { visitor, fields }: Form,
) -> Result<Response, Fault> {
    let account = visitor.person()?.account.id;
    if let Some(id) = fields.optional("revoke") {
        let id: Id = id.parse().map_err(|_| Fault::not_found())?;
        pages
            .community
            .write(Class::Interactive, move |tx, _| users::revoke_invite(tx, account, id))
            .await?;
        return Ok(done(PATH, "gone"));
    }
    let new = NewInvite {
        uses_max: fields.get("uses").parse().ok(),
        expires_in_s: fields
            .get("days")
            .parse::<i64>()
            .ok()
            .map(|days| days.saturating_mul(86_400)),
        autofollow: fields.ticked("autofollow"),
    };
    let made = pages
        .community
        .write(Class::Interactive, move |tx, env| users::create_invite(tx, env, account, &new))
        .await;
    match made {
        Ok(_) => Ok(done(PATH, "made")),
        Err(error) => {
            let wrong = Problems::from_error(error)?;
            again(form(&pages, &visitor, &Fields::default(), wrong).await)
        }
    }
}
