//! Letting in who asks for a guarded node (XEP-0060 §8.6): owners of nodes of the service are asked
//! by a form, those of an account's see who waits in the list; whoever asked is told what was said.

use weir_community::Env;
use weir_community::chat::nodes::{self as noun, Affiliation, Node};
use weir_db::Tx;

use super::{Call, Fault, bad};
use crate::face::Xmpp;
use crate::wire::form::{Field, Form};
use crate::wire::{Condition, Element, Jid, Kind, Stanza, StanzaError, ns};

/// Owners that are asked.
const OWNERS_MAX: usize = 20;

/// Who is to be asked whether `jid` may hear of `node`, when that has not been asked yet.
pub(super) fn owners(tx: &mut Tx, node: &Node, jid: &str) -> Result<Vec<String>, Fault> {
    if node.owner != noun::SERVICE || noun::subscribers(tx, node)?.iter().any(|one| one.jid == jid)
    {
        return Ok(Vec::new());
    }
    let all = noun::affiliations(tx, node.id)?.into_iter();
    let owners = all.filter(|(_, one)| *one == Affiliation::Owner).map(|(owner, _)| owner);
    Ok(owners.take(OWNERS_MAX).collect())
}

/// Asks the `owners` of the node whether `jid` may hear of it.
pub(super) fn ask(xmpp: &Xmpp, host: &Jid, node: &str, owners: &[String], jid: &Jid) {
    let form = Form::to_fill_in(ns::PUBSUB_AUTHORIZE)
        .titled("Somebody wants to hear of a node", "Choose whether they may, and submit the form.")
        .with(Field::new("text-single", "pubsub#node", "Node", node))
        .with(Field::new("jid-single", "pubsub#subscriber_jid", "Who asks", jid.as_str()))
        .with(Field::flag("pubsub#allow", "May they hear of it?", false));
    let text = format!("{jid} wants to hear of {node}");
    let body = Element::new("body", ns::CLIENT).with_text(text);
    for owner in owners.iter().filter_map(|owner| Jid::parse(owner).ok()) {
        let mut message = Stanza::new(Kind::Message).from(host.clone()).to(owner);
        message.element.set_attr("id", xmpp.token(8));
        message.element = message.element.with_child(body.clone()).with_child(form.element());
        xmpp.send(message);
    }
}

/// Tells `jid` what its subscription is now (XEP-0060 §8.8.4).
pub(super) fn tell(xmpp: &Xmpp, host: &Jid, node: &str, jid: &Jid, state: &str) {
    let subscription = Element::new("subscription", ns::PUBSUB_EVENT)
        .with_attr("node", node)
        .with_attr("jid", jid.as_str())
        .with_attr("subscription", state);
    let event = Element::new("event", ns::PUBSUB_EVENT).with_child(subscription);
    let mut message = Stanza::new(Kind::Message).from(host.clone()).to(jid.clone());
    message.element = message.element.with_child(event);
    xmpp.send(message);
}

/// An owner has filled the form in.
pub(super) async fn answered(call: &Call, message: &Element) -> Result<(), StanzaError> {
    let form = Form::inside(message).filter(|form| form.form_type() == Some(ns::PUBSUB_AUTHORIZE));
    let form = form.ok_or_else(|| bad("the service is asked by queries"))?;
    if !form.is_submitted() {
        return Ok(());
    }
    let name = form.value("pubsub#node").unwrap_or_default().to_owned();
    let jid = form.value("pubsub#subscriber_jid").and_then(|jid| Jid::parse(jid).ok());
    let jid = jid.ok_or_else(|| bad("the form says who asked"))?;
    let allow = form.flag("pubsub#allow").ok_or_else(|| bad("write 1 or 0 into pubsub#allow"))?;
    let (node, asked) = (name.clone(), jid.clone());
    let unit =
        move |tx: &mut Tx, env: &Env, call: &Call| decide(tx, env, call, (&node, &asked), allow);
    call.write(unit).await?;
    let state = if allow { "subscribed" } else { "none" };
    tell(&call.xmpp, &call.host, &name, &jid, state);
    Ok(())
}

fn decide(
    tx: &mut Tx,
    env: &Env,
    call: &Call,
    (name, jid): (&str, &Jid),
    allow: bool,
) -> Result<(), Fault> {
    let node = call.owned(tx, env, name)?;
    let waits = |one: &noun::Subscription| one.jid == jid.as_str() && one.state == "pending";
    if !noun::subscribers(tx, &node)?.iter().any(waits) {
        let text = "nobody of this address waits";
        return Err(StanzaError::new(Condition::ItemNotFound).text(text).into());
    }
    match allow {
        true => noun::subscribe(tx, &node, jid.as_str(), false)?,
        false => noun::unsubscribe(tx, &node, jid.as_str()).map(|_| ())?,
    }
    Ok(())
}
