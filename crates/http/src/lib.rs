//! What HTTP faces share: the server itself with its limits, TLS and shutdown, who the client is
//! and whose token it brings, how requests are read, and how lists are paged.

mod bearer;
mod cors;
mod files;
mod form;
mod front;
mod gate;
mod limit;
mod link;
mod media;
mod network;
mod numbers;
mod serve;
mod stream;
mod take_over;
mod throttle;
mod tls;
mod upgrade;

pub use bearer::{Tokens, token};
pub use cors::cors;
pub use files::file;
pub use form::{Form, FormError, Query, Spool, Upload, Uploads, WithUploads};
pub use front::{RequestId, with_route_names};
pub use limit::{Allowance, Asker, Limiter, Rule};
pub use link::link_header;
pub use media::media;
pub use network::{ClientIp, Network, ParseNetworkError};
pub use serve::{Limits, Serving, serve};
pub use stream::Stream;
pub use take_over::TakeOver;
pub use throttle::Throttle;
pub use tls::{Tls, TlsError};
pub use upgrade::{Connection, upgraded};
