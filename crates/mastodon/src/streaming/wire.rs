//! Events in the forms they are sent in: WebSocket messages and server-sent events.

use bytes::Bytes;
use weir_live::Cursor;
use weir_live::socket::SharedFrame;
use weir_live::sse;

/// How one connection is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// By WebSocket messages.
    Socket {
        /// Whether the client takes compressed ones.
        deflating: bool,
        /// Whether it asked for ids, from which it can resume.
        ids: bool,
    },
    /// By server-sent events; these always have ids.
    Sse,
}

impl Wire {
    pub(super) fn has_ids(self) -> bool {
        !matches!(self, Self::Socket { ids: false, .. })
    }
}

/// What a message says besides its payload.
pub(super) struct Head<'h> {
    /// The stream's name, and its hashtag or list.
    pub(super) label: &'h [String],
    /// The event's name.
    pub(super) event: &'static str,
    /// Where the stream stands after it.
    pub(super) id: Option<Cursor>,
}

/// A message of the WebSocket; the payload is text inside of a JSON text, escaped already.
pub(super) fn message(head: &Head<'_>, escaped: Option<&str>) -> SharedFrame {
    let label = serde_json::to_string(head.label).unwrap_or_default();
    let start = format!("{{\"stream\":{label},\"event\":\"{}\"", head.event);
    let id = head.id.map_or(String::new(), |id| format!(",\"id\":\"{id}\""));
    match escaped {
        Some(payload) => {
            SharedFrame::text_of(&[&start, ",\"payload\":\"", payload, "\"", &id, "}"])
        }
        None => SharedFrame::text_of(&[&start, &id, "}"]),
    }
}

/// A server-sent event.
pub(super) fn sse(head: &Head<'_>, payload: Option<&str>) -> Bytes {
    let id = head.id.map(|id| id.to_string());
    // A browser drops events without data.
    sse::event(Some(head.event), id.as_deref(), payload.unwrap_or("undefined"))
}
