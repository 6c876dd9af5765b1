//! What HTTP faces share: the server itself with its limits, TLS and shutdown, and who the client
//! is.

mod front;
mod gate;
mod network;
mod serve;
mod stream;
mod tls;

pub use front::{RequestId, with_route_names};
pub use network::{ClientIp, Network, ParseNetworkError};
pub use serve::{Limits, Serving, serve};
pub use stream::Stream;
pub use tls::{Tls, TlsError};
