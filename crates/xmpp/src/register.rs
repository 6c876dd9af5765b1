//! Joining by chat (XEP-0077), under the rules that hold for everybody who joins: open, by
//! approval, by invitation (XEP-0445) or not at all. And changing one's password, and leaving.

use std::net::IpAddr;

use weir_community::users::{self, Door, SignUp, Standing};

use weir_community::instance::Registrations;
use weir_community::{Error, Invalid, Problem, accounts};
use weir_db::Class;

use crate::face::{Xmpp, fault};
use crate::iq::{Answer, Asked};
use crate::log_in::Power;
use crate::wire::form::{Field, Form};
use crate::wire::{Condition, Element, Stanza, StanzaError, StreamCondition, ns};

/// The longest value of a field, in bytes.
const FIELD_BYTES_MAX: usize = 8 * 1_024;

/// What somebody who has not logged in has said of joining.
#[derive(Default)]
pub(crate) struct Visitor {
    /// The code of an invitation that holds.
    invite: String,
}

/// Whether people can join by chat now.
pub(crate) fn is_open(xmpp: &Xmpp) -> bool {
    xmpp.door().registrations(xmpp.env()) != Registrations::Closed
}

/// Whether a stranger's query is about joining.
pub(crate) fn is_about(iq: &Element) -> bool {
    iq.is("iq", ns::CLIENT) && (iq.has("query", ns::REGISTER) || iq.has("preauth", ns::PRE_AUTH))
}

/// Answers a query of somebody who has not logged in.
pub(crate) async fn answer(xmpp: &Xmpp, peer: IpAddr, visitor: &mut Visitor, iq: Stanza) -> Stanza {
    let answered = match iq.element.children().next() {
        Some(asked) if asked.is("preauth", ns::PRE_AUTH) => {
            pre_authorize(xmpp, peer, visitor, asked).await
        }
        Some(asked) if iq.type_() == Some("get") => form_for(xmpp, visitor, asked),
        Some(asked) if iq.type_() == Some("set") => join(xmpp, peer, visitor, asked).await,
        _ => Err(StanzaError::new(Condition::BadRequest)),
    };
    match answered {
        Ok(payload) => iq.result(payload),
        Err(error) => iq.error(&error),
    }
}

/// XEP-0445: an invitation, before anything else is asked.
async fn pre_authorize(
    xmpp: &Xmpp,
    peer: IpAddr,
    visitor: &mut Visitor,
    asked: &Element,
) -> Answer {
    throttle(xmpp, peer)?;
    let code = asked.attr("token").unwrap_or_default().to_owned();
    let wanted = code.clone();
    let found = xmpp.read(move |tx, env| users::open_invite(tx, env, &wanted)).await?;
    if found.is_none() {
        let text = "this invitation does not hold (any more): ask for a new one";
        return Err(StanzaError::new(Condition::ItemNotFound).text(text));
    }
    visitor.invite = code;
    Ok(None)
}

fn throttle(xmpp: &Xmpp, peer: IpAddr) -> Result<(), StanzaError> {
    xmpp.registering.take(&peer.to_string()).map_err(|after_s| {
        let text = format!("too many tries from your network: try again in {after_s} s");
        StanzaError::new(Condition::ResourceConstraint).text(text)
    })
}

/// What has to be told to join.
struct Needs {
    email: bool,
    reason: bool,
    invite: bool,
}

impl Needs {
    fn of(xmpp: &Xmpp, visitor: &Visitor) -> Result<Self, StanzaError> {
        let door = xmpp.door();
        let mode = door.registrations(xmpp.env());
        if mode == Registrations::Closed {
            let text = "nobody can join at present";
            return Err(StanzaError::new(Condition::NotAllowed).text(text));
        }
        Ok(Self {
            // Where addresses are not proven, who plays around need not have one.
            email: door.confirm_email || mode != Registrations::Open,
            reason: mode == Registrations::Approval && visitor.invite.is_empty(),
            invite: mode == Registrations::Invite && visitor.invite.is_empty(),
        })
    }
}

fn form_for(xmpp: &Xmpp, visitor: &Visitor, _: &Element) -> Answer {
    let needs = Needs::of(xmpp, visitor)?;
    let base = &xmpp.env().site.base;
    let instructions = format!(
        "An account here is for posts and chat alike. By joining you agree to the rules at \
         {base}/about."
    );
    let empty = |name: &str| Element::new(name.to_owned(), ns::REGISTER);
    let field = |kind, var, label| Field::new(kind, var, label, "");
    let mut form = Form::to_fill_in(ns::REGISTER)
        .titled(&xmpp.env().instance.settings().title, &instructions)
        .with(field("text-single", "username", "Name: letters, digits and _").required())
        .with(field("text-private", "password", "Password").required());
    let mut query = empty("query")
        .with_child(empty("instructions").with_text(instructions.as_str()))
        .with_child(empty("username"))
        .with_child(empty("password"));
    if needs.email {
        form = form.with(field("text-single", "email", "Mail address").required());
        query = query.with_child(empty("email"));
    }
    if needs.reason {
        let why = "Why you want to join: the staff reads it";
        form = form.with(field("text-multi", "reason", why).required());
        query = query.with_child(empty("misc"));
    }
    if needs.invite {
        form = form.with(field("text-single", "invite", "Code of your invitation").required());
        query = query.with_child(empty("key"));
    }
    Ok(Some(query.with_child(form.element())))
}

/// What stands in a field of the form, or in an element of its own.
fn told(asked: &Element, form: Option<&Form>, var: &str, name: &'static str) -> String {
    let value = match form {
        Some(form) => form.lines(var),
        None => asked.child(name, ns::REGISTER).map(Element::text),
    };
    value.filter(|text| text.len() <= FIELD_BYTES_MAX).unwrap_or_default()
}

async fn join(xmpp: &Xmpp, peer: IpAddr, visitor: &Visitor, asked: &Element) -> Answer {
    let needs = Needs::of(xmpp, visitor)?;
    let form = Form::inside(asked).filter(Form::is_submitted);
    let told = |var: &str, name| told(asked, form.as_ref(), var, name);
    let username = told("username", "username").to_lowercase();
    let mut email = told("email", "email");
    if email.is_empty() && !needs.email {
        // RFC 2606: nobody ever gets mail there.
        email = format!("{username}@no-mail.invalid");
    }
    let invite = match visitor.invite.as_str() {
        "" => told("invite", "key"),
        invite => invite.to_owned(),
    };
    let password = told("password", "password");
    if username.is_empty() || password.is_empty() {
        let text = "a name and a password are needed";
        return Err(StanzaError::new(Condition::NotAcceptable).text(text));
    }
    throttle(xmpp, peer)?;
    let new = SignUp {
        username,
        email,
        password: kept(&password).await?,
        agreement: true,
        reason: told("reason", "misc"),
        invite,
        locale: "en".into(),
        ip: Some(peer),
    };
    let door = xmpp.door();
    let unit = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
        users::sign_up(tx, env, &door, &new).map(|(_, standing)| standing)
    };
    let joined = xmpp.community.write(Class::Interactive, unit).await.map_err(refused)?;
    let then = match joined {
        Standing::Fine => return Ok(None),
        Standing::Unconfirmed => "Follow the link in the mail that is on its way to you.",
        Standing::Pending => "The staff looks at your wish to join; you get a mail.",
        Standing::Disabled => "You cannot log in.",
    };
    let then = Element::new("instructions", ns::REGISTER).with_text(then);
    Ok(Some(Element::new("query", ns::REGISTER).with_child(then)))
}

/// A password as it is kept, or what is wrong with it.
async fn kept(password: &str) -> Result<Result<users::KeptPassword, Problem>, StanzaError> {
    match users::check_password(password) {
        Ok(()) => Ok(Ok(users::hash_password(password).await.map_err(fault)?)),
        Err(Error::Invalid(Invalid { mut problems })) => {
            let other = Problem {
                field: "password",
                code: "ERR_INVALID",
                message: "is not acceptable".into(),
            };
            Ok(Err(problems.pop().unwrap_or(other)))
        }
        Err(error) => Err(fault(error)),
    }
}

/// XEP-0077 section 3.1: a name that somebody has is a conflict, all else not acceptable.
fn refused(error: Error) -> StanzaError {
    let is_taken = |one: &Problem| one.field == "username" && one.code == "ERR_TAKEN";
    match &error {
        Error::Invalid(invalid) if invalid.problems.iter().any(is_taken) => {
            StanzaError::new(Condition::Conflict).text(error.to_string())
        }
        _ => fault(error),
    }
}

/// `<query xmlns='jabber:iq:register'/>` of somebody who has logged in.
pub async fn query(asked: Asked) -> Answer {
    let account = asked.own_account()?;
    let to_others = asked.to.as_ref().is_some_and(|to| to.local().is_some());
    if to_others && !asked.is_own() {
        return Err(StanzaError::new(Condition::Forbidden));
    }
    if !asked.set {
        let name = asked.from.local().unwrap_or_default();
        let query = Element::new("query", ns::REGISTER)
            .with_child(Element::new("registered", ns::REGISTER))
            .with_child(Element::new("username", ns::REGISTER).with_text(name))
            .with_child(Element::new("password", ns::REGISTER));
        return Ok(Some(query));
    }
    // Whoever has an app's token has the app, and not the account.
    asked.own_account_with(Power::Own)?;
    if asked.payload.has("remove", ns::REGISTER) {
        return leave(&asked, account).await;
    }
    let form = Form::inside(&asked.payload).filter(Form::is_submitted);
    let username = told(&asked.payload, form.as_ref(), "username", "username");
    if !username.is_empty() && Some(username.as_str()) != asked.from.local() {
        let text = "names do not change, and passwords only of oneself";
        return Err(StanzaError::new(Condition::NotAllowed).text(text));
    }
    let password = told(&asked.payload, form.as_ref(), "password", "password");
    let password = kept(&password)
        .await?
        .map_err(|problem| fault(Error::Invalid(Invalid { problems: vec![problem] })))?;
    asked
        .xmpp
        .write(move |tx, env| users::change_password(tx, env, account, &password, None))
        .await?;
    Ok(None)
}

/// The whole account goes, with all posts: the web client asks for the password before, and here
/// it was given at the log-in.
async fn leave(asked: &Asked, account: weir_base::Id) -> Answer {
    asked.xmpp.write(move |tx, env| accounts::delete(tx, env, account)).await?;
    asked.xmpp.close_all(asked.from.bare_str(), StreamCondition::NotAuthorized);
    Ok(None)
}

/// For places without a configuration: everybody may join, as in development.
pub fn open_door() -> Door {
    Door { registrations: Registrations::Open, confirm_email: false }
}
