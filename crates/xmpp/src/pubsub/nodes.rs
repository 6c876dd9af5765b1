//! Making nodes, changing how they behave, and ending them.

use weir_community::chat::nodes::{self as noun, Config};

use super::notify;
use super::{Call, bad, node_name, options};
use crate::iq::Answer;
use crate::wire::form::Form;
use crate::wire::{Condition, Element, StanzaError, ns};

/// `<create/>`, perhaps with `<configure/>`.
pub(super) async fn create(call: &Call, payload: &Element, verb: &Element) -> Answer {
    if !(call.is_own() || call.is_service() && is_of_here(call)) {
        let text = "nodes are made by people of here";
        return Err(StanzaError::new(Condition::Forbidden).text(text));
    }
    let given = verb.attr("node").filter(|name| !name.is_empty()).map(str::to_owned);
    let is_instant = given.is_none();
    let name = given.unwrap_or_else(|| call.xmpp.token(12));
    let wish = payload.child("configure", ns::PUBSUB).and_then(Form::inside);
    let made = name.clone();
    call.write(move |tx, env, call| {
        let owner = call.owner(tx, env)?;
        let config = match call.is_service() {
            true => Config::of_service(),
            false => options::initial(&name),
        };
        let config = match &wish {
            Some(wish) => options::changed(&config, wish)?,
            None => config,
        };
        noun::create(tx, env, owner, &name, &config, call.from.bare_str())?;
        Ok(())
    })
    .await?;
    let answer = || {
        let create = Element::new("create", ns::PUBSUB).with_attr("node", made);
        Element::new("pubsub", ns::PUBSUB).with_child(create)
    };
    Ok(is_instant.then(answer))
}

/// Whether who asks has an account here.
pub(super) fn is_of_here(call: &Call) -> bool {
    call.from.local().is_some() && call.from.domain() == call.xmpp.domain()
}

/// `<default/>`
pub(super) async fn default(call: &Call) -> Answer {
    let config = if call.is_service() { Config::of_service() } else { Config::default() };
    let form = options::form(&config).element();
    let default = Element::new("default", ns::PUBSUB_OWNER).with_child(form);
    Ok(Some(Element::new("pubsub", ns::PUBSUB_OWNER).with_child(default)))
}

/// `<configure/>`
pub(super) async fn configure(call: &Call, verb: &Element) -> Answer {
    let name = node_name(verb)?;
    if !call.set {
        let asked = name.clone();
        let node = call.read(move |tx, env, call| call.owned(tx, env, &asked)).await?;
        let configure = Element::new("configure", ns::PUBSUB_OWNER)
            .with_attr("node", name)
            .with_child(options::form(&node.config).element());
        return Ok(Some(Element::new("pubsub", ns::PUBSUB_OWNER).with_child(configure)));
    }
    let Some(form) = Form::inside(verb) else { return Err(bad("fill the form in")) };
    if form.kind == "cancel" {
        return Ok(None);
    }
    let event = call
        .write(move |tx, env, call| {
            let mut node = call.owned(tx, env, &name)?;
            let config = options::changed(&node.config, &form)?;
            noun::configure(tx, &mut node, config)?;
            if !node.config.tells_config {
                return Ok(None);
            }
            let told = Element::new("configuration", ns::PUBSUB_EVENT).with_attr("node", &*name);
            Ok(Some(notify::event(tx, env, &call.host, &node, told)?))
        })
        .await?;
    if let Some(event) = event {
        notify::send(&call.xmpp, event);
    }
    Ok(None)
}

/// `<delete/>`
pub(super) async fn delete(call: &Call, verb: &Element) -> Answer {
    let name = node_name(verb)?;
    let event = call
        .write(move |tx, env, call| {
            let node = call.owned(tx, env, &name)?;
            let told = Element::new("delete", ns::PUBSUB_EVENT).with_attr("node", &*name);
            let event = match node.config.tells_delete {
                true => Some(notify::event(tx, env, &call.host, &node, told)?),
                false => None,
            };
            noun::delete(tx, &node)?;
            Ok(event)
        })
        .await?;
    if let Some(event) = event {
        notify::send(&call.xmpp, event);
    }
    Ok(None)
}

/// `<purge/>`
pub(super) async fn purge(call: &Call, verb: &Element) -> Answer {
    let name = node_name(verb)?;
    let event = call
        .write(move |tx, env, call| {
            let node = call.owned(tx, env, &name)?;
            noun::purge(tx, &node)?;
            let told = Element::new("purge", ns::PUBSUB_EVENT).with_attr("node", &*name);
            Ok(notify::event(tx, env, &call.host, &node, told)?)
        })
        .await?;
    notify::send(&call.xmpp, event);
    Ok(None)
}
