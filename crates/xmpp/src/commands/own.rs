//! What everybody may.

use weir_community::chat::settings;
use weir_community::streams::Aspect;
use weir_community::users::{self, NewInvite};

use super::{Shown, Step};
use crate::wire::StanzaError;
use crate::wire::form::{Field, Form};
use crate::{register, roster};

const MUTUALS: &str = "urn:weir:chat:mutual-followers";
const INVITE: &str = "urn:xmpp:invite";
/// How long an invitation made by chat holds, in s.
const INVITE_LIFE_S: i64 = 7 * 86_400;

/// Whether those with whom one follows each other stand among one's contacts.
pub(super) async fn mutuals(step: Step) -> Result<Shown, StanzaError> {
    let by = step.by;
    let Some(form) = step.form else {
        let on = step.xmpp.read(move |tx, _| settings::shows_mutuals(tx, by)).await?;
        let title = "Mutual followers as contacts";
        let what = "People who follow you and whom you follow can stand in a group of your contact \
                    list. You see each other's presence where both want that.";
        let field = Field::flag("show", "Show mutual followers", on);
        return Ok(Shown::Form(Form::to_fill_in(MUTUALS).titled(title, what).with(field)));
    };
    let on = form.flag("show").unwrap_or(false);
    step.xmpp.write(move |tx, env| settings::show_mutuals(tx, env, by, on)).await?;
    roster::mutuals::wanted(&step.xmpp, by).await?;
    // Presence goes where both want that, so it may begin or end with each of them.
    step.xmpp.profiles_changed.note(&step.xmpp.router, by, Aspect::Looks);
    let text = if on { "They stand there." } else { "They do not stand there." };
    Ok(Shown::Done(text.to_owned(), None))
}

/// An invitation to be one's contact (XEP-0379), also for somebody who joins for it.
pub(super) async fn invite(step: Step) -> Result<Shown, StanzaError> {
    let own = step.from.bare();
    let joins = if register::is_open(&step.xmpp) { ";ibr=y" } else { "" };
    invited(step, move |code| format!("xmpp:{own}?roster;preauth={code}{joins}")).await
}

/// An invitation to join (XEP-0445).
pub(super) async fn invite_to_join(step: Step) -> Result<Shown, StanzaError> {
    let domain = step.xmpp.domain().to_owned();
    invited(step, move |code| format!("xmpp:{domain}?register;preauth={code}")).await
}

/// An invitation for one person; a new one follows the one who invited.
async fn invited(step: Step, uri: impl Fn(&str) -> String) -> Result<Shown, StanzaError> {
    let new = NewInvite { uses_max: Some(1), expires_in_s: Some(INVITE_LIFE_S), autofollow: true };
    let by = step.by;
    let invite = step.xmpp.write(move |tx, env| users::create_invite(tx, env, by, &new)).await?;
    let (uri, base) = (uri(&invite.code), &step.xmpp.env().site.base);
    let page = format!("{base}/invite/{}", invite.code);
    let until = invite.expires_at.map(|at| at.to_string()).unwrap_or_default();
    let form = Form::result(INVITE)
        .titled("Your invitation", "Give the address to one person; it holds for a week.")
        .with(Field::new("text-single", "uri", "For chat apps", uri))
        .with(Field::new("text-single", "landing-url", "For browsers", page))
        .with(Field::new("text-single", "expire", "Holds until", until));
    Ok(Shown::Done(String::new(), Some(form)))
}
