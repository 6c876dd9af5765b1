//! Who waits to hear of one's nodes (XEP-0060 §8.7): a command by which owners of nodes of the
//! service have themselves asked again.

use weir_community::chat::nodes as noun;

use super::{Call, approve, bad};
use crate::iq::Answer;
use crate::wire::form::{Field, Form};
use crate::wire::{Condition, Element, Jid, StanzaError, ns};

/// The name of the command.
pub(super) const NODE: &str = "http://jabber.org/protocol/pubsub#get-pending";
/// Those that are asked about at a time; further ones once these are answered.
const ASKED_MAX: usize = 100;

/// `disco#items` of the service's commands.
pub(super) fn list(call: &Call) -> Element {
    let item = Element::new("item", ns::DISCO_ITEMS)
        .with_attr("jid", call.host.as_str())
        .with_attr("node", NODE)
        .with_attr("name", "Who waits to hear of my nodes");
    Element::new("query", ns::DISCO_ITEMS).with_attr("node", ns::COMMANDS).with_child(item)
}

/// `<command/>`: the nodes to choose from, then the requests that wait for one of them.
pub(super) async fn command(call: &Call, payload: &Element) -> Answer {
    if !call.set || payload.attr("node") != Some(NODE) {
        let text = "there is no such command: ask for the list of them";
        return Err(StanzaError::new(Condition::ItemNotFound).text(text));
    }
    let session = match payload.attr("sessionid") {
        Some(session) if session.len() <= 64 => session.to_owned(),
        _ => call.xmpp.token(8),
    };
    let answer = |status: &str| {
        Element::new("command", ns::COMMANDS)
            .with_attr("node", NODE)
            .with_attr("sessionid", session.as_str())
            .with_attr("status", status)
    };
    let form = Form::inside(payload);
    if payload.attr("action") == Some("cancel")
        || form.as_ref().is_some_and(|form| form.kind == "cancel")
    {
        return Ok(Some(answer("canceled")));
    }
    let Some(form) = form.filter(Form::is_submitted) else {
        let nodes =
            call.read(|tx, _, call| Ok(noun::pending_of(tx, call.from.bare_str())?)).await?;
        let field = Field { kind: "list-single", var: "pubsub#node".into(), ..Field::default() };
        let field = field.of(nodes.iter().map(String::as_str));
        let actions = Element::new("actions", ns::COMMANDS)
            .with_attr("execute", "complete")
            .with_child(Element::new("complete", ns::COMMANDS));
        let form = Form::to_fill_in(ns::PUBSUB_AUTHORIZE)
            .titled("Who waits to hear of my nodes", "Choose a node: you are asked about each.")
            .with(field);
        return Ok(Some(answer("executing").with_child(actions).with_child(form.element())));
    };
    let name = form.value("pubsub#node").ok_or_else(|| bad("say which node"))?.to_owned();
    let asked = name.clone();
    let all = call
        .read(move |tx, env, call| {
            let node = call.owned(tx, env, &asked)?;
            Ok(noun::subscribers(tx, &node)?)
        })
        .await?;
    let owner = [call.from.as_str().to_owned()];
    let waiting = all.iter().filter(|one| one.state == "pending").take(ASKED_MAX);
    for jid in waiting.filter_map(|one| Jid::parse(&one.jid).ok()) {
        approve::ask(&call.xmpp, &call.host, &name, &owner, &jid);
    }
    Ok(Some(answer("completed")))
}
