//! Sessions, topics and bounded outboxes for those who are here.
//!
//! A [`Hub`] joins **sessions** (somebody who is connected now) with **topics** (whatever a
//! program names them by). [`Hub::publish`] hands an event to every session of a topic; it never
//! waits for any of them. Each [`Session`] has an outbox, bounded in events and bytes, that takes
//! no memory while it is empty; who reads too slowly learns of it ([`Lost::Overflowed`]) and holds
//! nobody else up. An event is encoded once for each wire format and its bytes are shared
//! ([`Shared::encoded`]).
//!
//! Around the hub stand what long-lived connections need: [`socket`] (WebSocket framing that
//! holds no buffer while idle), [`sse`] (server-sent events), [`admission`] (a bounded number
//! of arrivals are served at once), [`pace`] (they leave room at the processor), [`SingleFlight`]
//! (identical work is done once), [`Presence`] (who is where) and [`bus`] (what nodes tell each
//! other). Nothing here knows what the events mean.
//!
//! Who comes back resumes: a hub keeps what it published lately, and [`Session::resume`] gives what
//! was missed since a [`Cursor`], each event once, or says that it cannot.
//!
//! ```
//! use weir_live::{Hub, Limits, Shared};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let hub: Hub<&str, String> = Hub::new(Limits::default());
//! let mut session = hub.session(7)?;
//! session.subscribe("weather")?;
//! assert_eq!(hub.publish(&"weather", Shared::new("rain".to_owned())), 1);
//! let waiting = session.next().await?;
//! assert_eq!(waiting[0].1.event, "rain");
//! # Ok(())
//! # }
//! ```
//!
//! Metrics are bound to the recorder that is installed when a [`Hub`], an
//! [`Admission`](admission::Admission) or a [`Sockets`](socket::Sockets) is made.

pub mod admission;
mod awaited;
pub mod bus;
mod hub;
mod limits;
mod log;
mod outbox;
pub mod pace;
mod presence;
mod registry;
mod rouse;
mod session;
mod shared;
mod single_flight;
pub mod socket;
pub mod sse;

pub use hub::{Hub, Stats};
pub use limits::{Limits, LogLimits};
pub use log::{BadCursor, Cursor, Gone};
pub use presence::{Moved, Presence, PresenceLimits};
pub use session::{Full, Lost, Next, Resumed, Session, TooMany};
pub use shared::{Class, FORMATS_MAX, Shared};
pub use single_flight::SingleFlight;
