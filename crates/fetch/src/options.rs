//! The policy and its limits.

use std::collections::HashMap;
use std::net::SocketAddr;

use weir_base::{Clock, MIB};

/// The policy and the limits of a [`Fetch`](crate::Fetch). The default is for production.
#[derive(Clone)]
pub struct Options {
    /// Whether private addresses and any port may be fetched: development only.
    pub allow_private: bool,
    /// Whether plain `http` may be fetched: development only.
    pub allow_http: bool,
    /// Names and the addresses that stand for them instead of the DNS. The operator's word: such
    /// an address may be private. Port 0 means the URL's.
    pub resolve: HashMap<String, SocketAddr>,
    /// More certificate authorities to trust, each a PEM text (of one or more certificates).
    pub extra_ca: Vec<Vec<u8>>,
    /// How long a connection may take to come about, in milliseconds.
    pub connect_timeout_ms: u64,
    /// How long a request may take in all, with waiting, redirects and body, in milliseconds.
    pub deadline_ms: u64,
    /// How large a body may be when unpacked, in bytes, where the request gives no limit.
    pub body_bytes_max: usize,
    /// How many redirects are followed.
    pub redirects_max: usize,
    /// How many requests to one host run at once.
    pub connections_per_host: usize,
    /// How many requests to one host may wait for their turn.
    pub waiting_per_host_max: usize,
    /// How many requests run at once in all.
    pub in_flight_max: usize,
    /// How many hosts are remembered.
    pub hosts_max: usize,
    /// How this server names itself to others.
    pub user_agent: String,
    /// What the breakers go by.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allow_private: false,
            allow_http: false,
            resolve: HashMap::new(),
            extra_ca: Vec::new(),
            connect_timeout_ms: 5_000,
            deadline_ms: 15_000,
            body_bytes_max: MIB,
            redirects_max: 5,
            connections_per_host: 6,
            waiting_per_host_max: 200,
            in_flight_max: 1_024,
            hosts_max: 20_000,
            user_agent: concat!("weir/", env!("CARGO_PKG_VERSION")).to_owned(),
            clock: Clock::system(),
        }
    }
}
