//! The server's time (XEP-0202).

use super::{Answer, Asked};
use crate::wire::{Element, ns};

/// `<time/>`
pub async fn time(asked: Asked) -> Answer {
    let now = asked.xmpp.env().clock.now();
    let utc = Element::new("utc", ns::TIME).with_text(now.to_string());
    let zone = Element::new("tzo", ns::TIME).with_text("+00:00");
    Ok(Some(Element::new("time", ns::TIME).with_child(zone).with_child(utc)))
}
