//! DDP on the wire, pure: bytes to messages and messages to frames. Nothing here waits or keeps
//! state, and everything that comes from outside has a limit.

pub mod ejson;
mod frame;
mod json;
mod message;
mod params;
pub mod sockjs;

pub use ejson::{Ejson, EjsonError};
pub use frame::{Failure, frame, payload_of};
pub(crate) use frame::{
    connected, error, failed, nosub, ping, pong, put_text, ready, result, updated,
};
pub use json::{DEPTH_MAX, JsonError, VALUES_MAX, parse as parse_json};
pub use message::{Connect, Incoming, Offence, PARAMS_MAX, VERSIONS, parse};
pub use params::Params;
