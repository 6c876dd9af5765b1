//! Commands that apps offer to people without knowing them (XEP-0050): what staff does about the
//! server (XEP-0133), invitations (XEP-0401), and what people choose for chat.
//!
//! Each has one form at most, and nothing is kept between asking for it and sending it: who may do
//! what is looked at each time.

mod accounts;
mod admin;
mod own;
mod rooms;

use std::future::Future;
use std::pin::Pin;

use weir_base::Id;
use weir_community::users::{self, Role};

use crate::face::Xmpp;
use crate::iq::{Answer, Asked};
use crate::log_in::Power;
use crate::wire::form::Form;
use crate::wire::{Condition, Element, Jid, StanzaError, ns};

/// A command.
struct Command {
    node: &'static str,
    name: &'static str,
    /// Who may.
    role: Role,
    run: fn(Step) -> Doing,
}

type Doing = Pin<Box<dyn Future<Output = Result<Shown, StanzaError>> + Send>>;

/// A command on its way.
struct Step {
    xmpp: Xmpp,
    /// Who asks, and by which address.
    by: Id,
    from: Jid,
    /// What was filled in; none where the form is asked for.
    form: Option<Form>,
}

/// What is shown to whoever asked.
enum Shown {
    /// To be filled in.
    Form(Form),
    /// Done: something to tell, perhaps as a form.
    Done(String, Option<Form>),
    /// Done: what is told is more than a form.
    Told(Element),
}

macro_rules! command {
    ($role:ident, $node:expr, $name:literal, $run:path) => {
        Command { node: $node, name: $name, role: Role::$role, run: |step| Box::pin($run(step)) }
    };
}

/// All commands.
const COMMANDS: &[Command] = &[
    command!(User, "urn:weir:chat:mutual-followers", "Mutual followers as contacts", own::mutuals),
    command!(User, "urn:xmpp:invite#invite", "Invite somebody", own::invite),
    command!(
        User,
        "urn:xmpp:invite#create-account",
        "Invite somebody to join",
        own::invite_to_join
    ),
    command!(
        Moderator,
        "urn:weir:chat:community-rooms",
        "Rooms of the community",
        rooms::of_community
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#get-registered-users-num",
        "How many accounts there are",
        admin::accounts
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#get-online-users-num",
        "How many people are here",
        admin::people
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#get-online-users-list",
        "Who is here",
        admin::who
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#announce",
        "Tell all who are here",
        admin::announce
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#end-user-session",
        "End somebody's sessions",
        admin::end_session
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#disable-user",
        "Shut somebody out",
        admin::disable
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#reenable-user",
        "Let somebody in again",
        admin::enable
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#get-disabled-users-num",
        "How many accounts are shut out",
        accounts::count_disabled
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#get-active-users-num",
        "How many people look at an app",
        accounts::count_active
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#get-idle-users-num",
        "How many people look at no app",
        accounts::count_idle
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#get-registered-users-list",
        "Which accounts there are",
        accounts::registered
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#get-disabled-users-list",
        "Who is shut out",
        accounts::disabled
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#get-active-users-list",
        "Who looks at an app",
        accounts::active
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#get-idle-users-list",
        "Who is here and looks at no app",
        accounts::idle
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#get-user-lastlogin",
        "When somebody last logged in on the web",
        accounts::last_log_in
    ),
    command!(
        Moderator,
        "http://jabber.org/protocol/admin#user-stats",
        "How much somebody has and uses",
        accounts::statistics
    ),
    command!(
        Admin,
        "http://jabber.org/protocol/admin#get-user-roster",
        "Somebody's contacts",
        accounts::roster
    ),
    command!(Admin, "http://jabber.org/protocol/admin#add-user", "Add an account", admin::add),
    command!(
        Admin,
        "http://jabber.org/protocol/admin#change-user-password",
        "Set somebody's password",
        admin::set_password
    ),
    command!(
        Admin,
        "http://jabber.org/protocol/admin#delete-user",
        "Delete an account and all of it",
        admin::delete
    ),
];

/// The role of the account that asks.
async fn role(asked: &Asked) -> Result<(Id, Role), StanzaError> {
    let account = asked.own_account()?;
    let user = asked.xmpp.read(move |tx, _| users::by_account(tx, account)).await?;
    Ok((account, Role::parse(&user.role).unwrap_or(Role::User)))
}

/// `<command/>`
pub async fn command(asked: Asked) -> Answer {
    let node = asked.payload.attr("node").unwrap_or_default().to_owned();
    let Some(command) = COMMANDS.iter().find(|command| command.node == node) else {
        let text = "there is no such command: ask for the list of them";
        return Err(StanzaError::new(Condition::ItemNotFound).text(text));
    };
    let (by, role) = role(&asked).await?;
    if role < command.role {
        let text = format!("this takes somebody of staff: a {}", command.role.name());
        return Err(StanzaError::new(Condition::Forbidden).text(text));
    }
    if command.role > Role::User {
        asked.own_account_with(Power::Role)?;
    }
    let session = match asked.payload.attr("sessionid") {
        Some(session) if session.len() <= 64 => session.to_owned(),
        _ => asked.xmpp.token(8),
    };
    let answer = |status: &str| {
        Element::new("command", ns::COMMANDS)
            .with_attr("node", node.as_str())
            .with_attr("sessionid", session.as_str())
            .with_attr("status", status)
    };
    let cancelled = Form::inside(&asked.payload).is_some_and(|form| form.kind == "cancel");
    match asked.payload.attr("action") {
        Some("cancel") => return Ok(Some(answer("canceled"))),
        _ if cancelled => return Ok(Some(answer("canceled"))),
        None | Some("execute" | "complete" | "next") => {}
        Some(_) => {
            let bad = Element::new("bad-action", ns::COMMANDS);
            return Err(StanzaError::new(Condition::BadRequest).specific(bad));
        }
    }
    let form = Form::inside(&asked.payload).filter(Form::is_submitted);
    let step = Step { xmpp: asked.xmpp.clone(), by, from: asked.from.clone(), form };
    Ok(Some(match (command.run)(step).await? {
        Shown::Form(form) => {
            let actions = Element::new("actions", ns::COMMANDS)
                .with_attr("execute", "complete")
                .with_child(Element::new("complete", ns::COMMANDS));
            answer("executing").with_child(actions).with_child(form.element())
        }
        Shown::Told(told) => answer("completed").with_child(told),
        Shown::Done(text, form) => {
            let mut done = answer("completed");
            if !text.is_empty() {
                let note = Element::new("note", ns::COMMANDS).with_attr("type", "info");
                done = done.with_child(note.with_text(text));
            }
            done.with_children(form.map(|form| form.element()))
        }
    }))
}

/// `disco#items` of the commands: those that the one who asks may use.
pub async fn list(asked: &Asked) -> Answer {
    let (_, mut role) = role(asked).await?;
    if asked.own_account_with(Power::Role).is_err() {
        role = Role::User;
    }
    let items = COMMANDS.iter().filter(|command| role >= command.role).map(|command| {
        Element::new("item", ns::DISCO_ITEMS)
            .with_attr("jid", asked.xmpp.domain())
            .with_attr("node", command.node)
            .with_attr("name", command.name)
    });
    let query = Element::new("query", ns::DISCO_ITEMS).with_attr("node", ns::COMMANDS);
    Ok(Some(query.with_children(items)))
}

/// `disco#info` of a command, or of their list.
pub async fn info(asked: &Asked, node: &str) -> Answer {
    let (kind, name) = match COMMANDS.iter().find(|command| command.node == node) {
        Some(command) => ("command-node", command.name),
        None if node == ns::COMMANDS => ("command-list", "Commands"),
        None => {
            let text = format!("there is no node {node}");
            return Err(StanzaError::new(Condition::ItemNotFound).text(text));
        }
    };
    asked.own_account()?;
    let identity = Element::new("identity", ns::DISCO_INFO)
        .with_attr("category", "automation")
        .with_attr("type", kind)
        .with_attr("name", name);
    let features = [ns::COMMANDS, ns::FORM]
        .map(|name| Element::new("feature", ns::DISCO_INFO).with_attr("var", name));
    let query = Element::new("query", ns::DISCO_INFO).with_attr("node", node);
    Ok(Some(query.with_child(identity).with_children(features)))
}
