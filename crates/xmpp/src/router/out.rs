//! What waits to be written to a session.

use std::sync::Arc;

use weir_base::Id;

use super::session::Session;

/// A stanza on its way out. Bytes are shared by all who get them.
#[derive(Clone)]
pub enum Out {
    /// A whole stanza.
    Bytes(Arc<[u8]>),
    /// A message that is kept under this id: should the session end before the client has
    /// acknowledged it, it waits for the account again.
    Message(Arc<[u8]>, Kept),
    /// A message that waited for the account, and does until its client has it.
    Waited(Arc<[u8]>, Id),
    /// The presence of a session of here: written between the two addresses stands nothing of its
    /// own, so what follows them is shared.
    Presence(Arc<Session>, Arc<[u8]>),
    /// A stanza that many get, each at its own full address: what stands before ` to='…'` and
    /// behind it is shared.
    Spliced(Arc<Spliced>),
    /// Of the moment (a chat state): may be left out.
    Passing(Arc<[u8]>),
}

/// A message that is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Its id there.
    pub id: Id,
    /// It is for one resource; others have no more than a copy of it.
    pub is_for_one: bool,
    /// Others that want copies get one.
    pub is_copied: bool,
}

/// A stanza without its receiver.
pub struct Spliced {
    /// `<message from='…' …`, without a blank at the end.
    pub head: Box<[u8]>,
    /// What stands behind the receiver's address: `>…</message>`.
    pub tail: Box<[u8]>,
    /// Of the moment (a chat state): may be left out.
    pub is_passing: bool,
}

impl Out {
    /// What it takes in memory and on the wire, about, in bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes)
            | Self::Message(bytes, _)
            | Self::Waited(bytes, _)
            | Self::Passing(bytes) => bytes.len(),
            Self::Presence(_, tail) => tail.len() + 96,
            Self::Spliced(stanza) => stanza.head.len() + stanza.tail.len() + 64,
        }
    }

    /// Whether it may be left out.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Passing(_) => true,
            Self::Spliced(stanza) => stanza.is_passing,
            _ => false,
        }
    }

    /// The message that waits until the client has this.
    pub(crate) fn waited(&self) -> Option<Id> {
        match self {
            Self::Waited(_, id) => Some(*id),
            _ => None,
        }
    }

    /// Hands its bytes to `write`, for the session `to`.
    pub(crate) fn write(&self, to: &Session, write: impl FnOnce(&[&[u8]])) {
        match self {
            Self::Bytes(bytes)
            | Self::Message(bytes, _)
            | Self::Waited(bytes, _)
            | Self::Passing(bytes) => {
                write(&[bytes]);
            }
            Self::Presence(from, tail) => write(&[
                b"<presence from='",
                from.peer.jid().as_bytes(),
                b"/",
                from.escaped_resource().as_bytes(),
                b"' to='",
                to.bare().as_bytes(),
                b"'",
                tail,
            ]),
            Self::Spliced(stanza) => write(&[
                &stanza.head,
                b" to='",
                to.bare().as_bytes(),
                b"/",
                to.escaped_resource().as_bytes(),
                b"'",
                &stanza.tail,
            ]),
        }
    }
}
