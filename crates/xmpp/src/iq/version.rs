//! Which program this is (XEP-0092).

use super::{Answer, Asked};
use crate::wire::{Element, ns};

/// `<query/>`
pub async fn version(_: Asked) -> Answer {
    let name = Element::new("name", ns::VERSION).with_text("Weir");
    let version = Element::new("version", ns::VERSION).with_text(env!("CARGO_PKG_VERSION"));
    Ok(Some(Element::new("query", ns::VERSION).with_child(name).with_child(version)))
}
