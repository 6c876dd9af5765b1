//! The bounds of this face.

use std::time::Duration;

/// The longest element before somebody has logged in, in bytes.
pub const STRANGER_BYTES_MAX: u32 = 16 * 1024;
/// The longest stanza of somebody who has logged in, in bytes.
pub const STANZA_BYTES_MAX: u32 = 256 * 1024;
/// How long a client may take from its first byte until its session begins.
pub const NEGOTIATION: Duration = Duration::from_secs(60);
/// How often one connection may try to log in.
pub const LOG_INS_MAX: u32 = 5;
/// How much one connection may ask about joining before somebody logs in.
pub const JOINING_MAX: u32 = 20;
/// Resources of one account at once, those that wait to be resumed among them.
pub const RESOURCES_MAX: usize = 32;
/// The longest resource taken, in bytes.
pub const RESOURCE_BYTES_MAX: usize = 256;
/// What waits for one session, in bytes; one more and it ends.
pub const OUTBOX_BYTES_MAX: usize = 1024 * 1024;
/// What waits for one session; one more and it ends.
pub const OUTBOX_STANZAS_MAX: usize = 5_000;
/// Messages of one session that are being made durable at once; then it is not read.
pub const IN_FLIGHT_MAX: u16 = 128;
/// What came by no session, but from other servers, components and rooms, and one lane has not made
/// durable yet, in bytes; then more of it is not read.
pub const LANE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Messages that are made durable together.
pub const BATCH_MESSAGES_MAX: usize = 256;
/// How long the peer may take to accept what is written.
pub const WRITE_DEADLINE: Duration = Duration::from_secs(30);
/// How long the parting of a connection may take.
pub const CLOSE_DEADLINE: Duration = Duration::from_secs(2);
/// Sent stanzas that a client has not acknowledged; more wait until it has, for a minute or two.
/// Then the connection ends, and the session may be resumed.
pub const UNACKED_MAX: usize = 1_000;
/// The same in bytes; the last one may be longer.
pub const UNACKED_BYTES_MAX: usize = 1024 * 1024;
/// Sent stanzas after which an acknowledgement is asked for.
pub const ACK_EACH: u32 = 5;
/// How long a broken session waits to be resumed.
pub const RESUME: Duration = Duration::from_secs(300);
/// Addresses to which one session shows itself directly.
pub const DIRECTED_MAX: usize = 1_000;
/// Presences that wait for a client which said that nobody looks.
pub const HELD_MAX: usize = 2_000;
/// Written at once, in bytes.
pub const WRITE_BYTES: usize = 64 * 1024;
