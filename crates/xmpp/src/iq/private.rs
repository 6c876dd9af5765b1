//! XML that apps keep here for themselves (XEP-0049). Bookmarks (XEP-0048) lie in their node, so
//! that apps that know only these and those that know only XEP-0402 see the same ones.

use weir_community::chat::private;

use super::{Answer, Asked};
use crate::pubsub::bookmarks;
use crate::wire::{Condition, Element, Scope, StanzaError, ns, parse, write};

/// `<query/>`
pub async fn query(asked: Asked) -> Answer {
    let account = asked.own_account()?;
    let mut wanted = asked.payload.children();
    let (Some(paper), None) = (wanted.next(), wanted.next()) else {
        let text = "write one element of a namespace of its own into the query";
        return Err(StanzaError::new(Condition::BadRequest).text(text));
    };
    if paper.ns.is_empty() || paper.ns.starts_with("jabber:") || paper.ns == ns::VCARD {
        let text = "elements of this namespace cannot be kept here";
        return Err(StanzaError::new(Condition::NotAcceptable).text(text));
    }
    let answer = Element::new("query", ns::PRIVATE);
    if paper.is("storage", ns::BOOKMARKS) {
        if asked.set {
            bookmarks::replace_all(&asked.xmpp, account, &asked.from.bare(), paper).await?;
            return Ok(None);
        }
        let all = bookmarks::storage(&asked.xmpp, account).await?;
        return Ok(Some(answer.with_child(all)));
    }
    let name = format!("{} {}", paper.ns, paper.name);
    if asked.set {
        let is_empty = paper.nodes.is_empty() && paper.attrs.is_empty();
        let xml = if is_empty { String::new() } else { write::to_string(paper) };
        asked.xmpp.write(move |tx, _| private::set(tx, account, &name, &xml)).await?;
        return Ok(None);
    }
    let empty = Element::new(paper.name.clone(), paper.ns.clone());
    let kept = asked.xmpp.read(move |tx, _| private::get(tx, account, &name)).await?;
    let kept = kept.and_then(|xml| parse::element_in(&xml, &Scope::empty()).ok());
    Ok(Some(answer.with_child(kept.unwrap_or(empty))))
}
