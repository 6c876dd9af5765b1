//! Bytes to stanzas and back: pure, without I/O, and fuzzed.

pub mod element;
pub mod error;
pub mod form;
pub mod frame;
pub mod jid;
pub mod ns;
pub mod page;
pub mod parse;
pub mod stanza;
pub mod write;

pub use element::{Element, Node};
pub use error::{Condition, StanzaError, StreamCondition, StreamError};
pub use frame::{Frame, Framer};
pub use jid::{Jid, JidError};
pub use parse::{Scope, XmlError};
pub use stanza::{Kind, Stanza};
