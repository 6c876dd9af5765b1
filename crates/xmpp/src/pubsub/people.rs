//! Who hears of a node, and who may do what with it.

use weir_community::Env;
use weir_community::chat::address;
use weir_community::chat::nodes::{self as noun, Access, Affiliation, SendLast, Subscription};
use weir_db::Tx;

use super::{Call, Fault, approve, bad, check_read, node_name, notify, refuse, unsupported};
use crate::iq::Answer;
use crate::wire::{Condition, Element, Jid, StanzaError, ns};

/// The most entries in one change of a list.
const CHANGES_MAX: usize = 500;

/// The address in `verb`, if it is that of who asks.
fn own_jid(call: &Call, verb: &Element) -> Result<Jid, StanzaError> {
    let wrong =
        || refuse(Condition::BadRequest, "invalid-jid", "you may do this for yourself only");
    let jid = verb.attr("jid").and_then(|jid| Jid::parse(jid).ok()).ok_or_else(wrong)?;
    let fits = jid.bare_str() == call.from.bare_str();
    if fits { Ok(jid) } else { Err(wrong()) }
}

/// `<subscribe/>`
pub(super) async fn subscribe(call: &Call, payload: &Element, verb: &Element) -> Answer {
    if payload.children().any(|child| child.is("options", ns::PUBSUB)) {
        return Err(unsupported("subscription-options"));
    }
    let (name, jid) = (node_name(verb)?, own_jid(call, verb)?);
    let asking = jid.clone();
    let (node, state, last, owners) = call
        .write(move |tx, env, call| {
            let (node, who) = call.node(tx, env, &name)?;
            let waits = node.config.access == Access::Authorize
                && !who.subscribed
                && who.affiliation == Affiliation::None;
            if !waits {
                check_read(&node, &who)?;
            }
            let owners = match waits {
                true => approve::owners(tx, &node, asking.as_str())?,
                false => Vec::new(),
            };
            noun::subscribe(tx, &node, asking.as_str(), waits)?;
            let wants_last =
                !waits && node.config.notifies && node.config.send_last != SendLast::Never;
            let last = if wants_last { noun::last(tx, &node)? } else { None };
            Ok((node, if waits { "pending" } else { "subscribed" }, last, owners))
        })
        .await?;
    approve::ask(&call.xmpp, &call.host, &node.name, &owners, &jid);
    if let Some(item) = last {
        notify::send_item(&call.xmpp, &call.host, &jid, &node, &item);
    }
    let subscription = Element::new("subscription", ns::PUBSUB)
        .with_attr("node", node.name)
        .with_attr("jid", jid.as_str())
        .with_attr("subscription", state);
    Ok(Some(Element::new("pubsub", ns::PUBSUB).with_child(subscription)))
}

/// `<unsubscribe/>`
pub(super) async fn unsubscribe(call: &Call, verb: &Element) -> Answer {
    let (name, jid) = (node_name(verb)?, own_jid(call, verb)?);
    call.write(move |tx, env, call| {
        let (node, _) = call.node(tx, env, &name)?;
        if noun::unsubscribe(tx, &node, jid.as_str())? {
            return Ok(());
        }
        let text = "there is no such subscription";
        Err(refuse(Condition::UnexpectedRequest, "not-subscribed", text).into())
    })
    .await?;
    Ok(None)
}

/// `<subscriptions/>`: one's own.
pub(super) async fn own_subscriptions(call: &Call, verb: &Element) -> Answer {
    let node = verb.attr("node").map(str::to_owned);
    let asked = node.clone();
    let found = call
        .read(move |tx, env, call| {
            let owner = call.owner(tx, env)?;
            if let Some(name) = &asked {
                call.node(tx, env, name)?;
            }
            Ok(noun::subscriptions_of(tx, owner, call.from.as_str())?)
        })
        .await?;
    let wanted = found.into_iter().filter(|(name, _)| node.as_ref().is_none_or(|one| one == name));
    let list = wanted.map(|(name, one)| {
        Element::new("subscription", ns::PUBSUB)
            .with_attr("node", name)
            .with_attr("jid", one.jid)
            .with_attr("subscription", one.state)
    });
    let list = Element::new("subscriptions", ns::PUBSUB)
        .with_attr_opt("node", node.clone())
        .with_children(list);
    Ok(Some(Element::new("pubsub", ns::PUBSUB).with_child(list)))
}

/// `<affiliations/>`: one's own.
pub(super) async fn own_affiliations(call: &Call, verb: &Element) -> Answer {
    let node = verb.attr("node").map(str::to_owned);
    let found = call
        .read(|tx, env, call| {
            let owner = call.owner(tx, env)?;
            if call.is_own() {
                let all = noun::list(tx, owner, "", noun::NODES_MAX)?;
                let mine = all.into_iter().map(|node| (node.name, Affiliation::Owner));
                return Ok(mine.collect());
            }
            Ok(noun::affiliations_of(tx, owner, call.from.bare_str())?)
        })
        .await?;
    let wanted = found.into_iter().filter(|(name, _)| node.as_ref().is_none_or(|one| one == name));
    let list = wanted.map(|(name, one)| {
        Element::new("affiliation", ns::PUBSUB)
            .with_attr("node", name)
            .with_attr("affiliation", one.name())
    });
    let list = Element::new("affiliations", ns::PUBSUB).with_children(list);
    Ok(Some(Element::new("pubsub", ns::PUBSUB).with_child(list)))
}

/// The entries of `verb` called `entry`: address, and the value of its attribute of that name.
fn changes(verb: &Element, entry: &str) -> Result<Vec<(Jid, String)>, StanzaError> {
    let entries = verb.children().filter(|child| child.is(entry, ns::PUBSUB_OWNER));
    let read = |entry_of: &Element| {
        let jid = entry_of.attr("jid").and_then(|jid| Jid::parse(jid).ok());
        let value = entry_of.attr(entry);
        let pair = jid.zip(value.map(str::to_owned));
        pair.ok_or_else(|| bad("write an address and what it is to be into each entry"))
    };
    let all: Vec<_> = entries.map(read).collect::<Result<_, _>>()?;
    if all.len() > CHANGES_MAX {
        let text = format!("at most {CHANGES_MAX} changes at a time");
        return Err(StanzaError::new(Condition::PolicyViolation).text(text));
    }
    Ok(all)
}

/// Of those in `changes`, whose subscription is another now, and what it is.
fn differing(
    changes: &[(Jid, String)],
    before: &[Subscription],
    after: &[Subscription],
) -> Vec<(Jid, String)> {
    let state = |all: &[Subscription], jid: &Jid| {
        let found = all.iter().find(|one| one.jid == jid.as_str());
        found.map_or_else(|| "none".to_owned(), |one| one.state.clone())
    };
    let all = changes.iter().map(|(jid, _)| (jid.clone(), state(before, jid), state(after, jid)));
    all.filter(|(_, old, new)| old != new).map(|(jid, _, new)| (jid, new)).collect()
}

/// `<subscriptions/>` of a node, for its owners.
pub(super) async fn subscriptions(call: &Call, verb: &Element) -> Answer {
    let name = node_name(verb)?;
    if call.set {
        let changes = changes(verb, "subscription")?;
        let asked = name.clone();
        let changed = call
            .write(move |tx, env, call| {
                let node = call.owned(tx, env, &asked)?;
                let before = noun::subscribers(tx, &node)?;
                for (jid, state) in &changes {
                    match state.as_str() {
                        "subscribed" => noun::subscribe(tx, &node, jid.as_str(), false)?,
                        "pending" => noun::subscribe(tx, &node, jid.as_str(), true)?,
                        _ => noun::unsubscribe(tx, &node, jid.as_str()).map(|_| ())?,
                    }
                }
                let after = noun::subscribers(tx, &node)?;
                Ok(differing(&changes, &before, &after))
            })
            .await?;
        for (jid, state) in changed {
            approve::tell(&call.xmpp, &call.host, &name, &jid, &state);
        }
        return Ok(None);
    }
    let asked = name.clone();
    let all = call
        .read(move |tx, env, call| {
            let node = call.owned(tx, env, &asked)?;
            Ok(noun::subscribers(tx, &node)?)
        })
        .await?;
    let list = all.into_iter().map(|one| {
        Element::new("subscription", ns::PUBSUB_OWNER)
            .with_attr("jid", one.jid)
            .with_attr("subscription", one.state)
    });
    let list =
        Element::new("subscriptions", ns::PUBSUB_OWNER).with_attr("node", name).with_children(list);
    Ok(Some(Element::new("pubsub", ns::PUBSUB_OWNER).with_child(list)))
}

/// `<affiliations/>` of a node, for its owners.
pub(super) async fn affiliations(call: &Call, verb: &Element) -> Answer {
    let name = node_name(verb)?;
    if call.set {
        let changes = changes(verb, "affiliation")?;
        let read = |(jid, value): (Jid, String)| {
            let affiliation = Affiliation::parse(&value);
            affiliation.map(|found| (jid.bare(), found)).ok_or_else(|| bad("no such affiliation"))
        };
        let changes: Vec<_> = changes.into_iter().map(read).collect::<Result<_, _>>()?;
        call.write(move |tx, env, call| affiliate(tx, env, call, &name, &changes)).await?;
        return Ok(None);
    }
    let asked = name.clone();
    let all = call
        .read(move |tx, env, call| {
            let node = call.owned(tx, env, &asked)?;
            let mut all = noun::affiliations(tx, node.id)?;
            if !call.is_service() {
                all.insert(0, (call.host.as_str().to_owned(), Affiliation::Owner));
            }
            Ok(all)
        })
        .await?;
    let list = all.into_iter().map(|(jid, one)| {
        Element::new("affiliation", ns::PUBSUB_OWNER)
            .with_attr("jid", jid)
            .with_attr("affiliation", one.name())
    });
    let list =
        Element::new("affiliations", ns::PUBSUB_OWNER).with_attr("node", name).with_children(list);
    Ok(Some(Element::new("pubsub", ns::PUBSUB_OWNER).with_child(list)))
}

fn affiliate(
    tx: &mut Tx,
    env: &Env,
    call: &Call,
    name: &str,
    changes: &[(Jid, Affiliation)],
) -> Result<(), Fault> {
    let node = call.owned(tx, env, name)?;
    let stays = |(jid, one): &&(String, Affiliation)| {
        *one == Affiliation::Owner && !changes.iter().any(|(changed, _)| changed.as_str() == jid)
    };
    let owners = noun::affiliations(tx, node.id)?.iter().filter(stays).count();
    let new = changes.iter().filter(|(_, one)| *one == Affiliation::Owner).count();
    if call.is_service() && owners + new == 0 {
        let text = "a node keeps at least one owner";
        return Err(StanzaError::new(Condition::NotAcceptable).text(text).into());
    }
    for (jid, one) in changes {
        let jid = address::bare(jid.as_str());
        noun::affiliate(tx, node.id, jid, *one)?;
        if *one == Affiliation::Outcast {
            for subscriber in noun::subscribers(tx, &node)? {
                if address::bare(&subscriber.jid) == jid {
                    noun::unsubscribe(tx, &node, &subscriber.jid)?;
                }
            }
        }
    }
    Ok(())
}
