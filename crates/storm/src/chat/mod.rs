//! `weir storm chat` and `weir storm presence`: many people of an XMPP server who log in, are
//! there, and talk.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `wire` | XML streams, as little of them as a client needs |
//! | `link` | a connection, plain or with TLS |
//! | `scram` | SCRAM from the client's side |
//! | `fast` | tokens of earlier log-ins |
//! | `log_in` | registering and logging in |
//! | `crowd` | those who are online, and what comes to them |
//! | `parts` | what is measured, part by part |
//! | `others` | further processes |
//! | `report` | what was measured |

mod crowd;
mod fast;
mod link;
mod log_in;
mod others;
mod parts;
mod report;
pub mod scram;
mod wire;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use parking_lot::Mutex;
use serde::Serialize;
use url::Url;

use self::crowd::{Online, Scene};
use self::log_in::{Credential, Door};
use self::others::Others;
use self::report::{Look, Measured};
use self::scram::Hash;
use crate::findings::Files;
use crate::machine;

/// What both scenarios need.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Options {
    /// The server under test: `xmpp://127.0.0.1:5222`.
    #[arg(long, value_name = "URL")]
    pub target: String,
    /// The domain it serves; by default the host in --target.
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// People online.
    #[arg(long, default_value_t = 500)]
    #[arg(value_parser = clap::value_parser!(u64).range(2..=18_000))]
    pub clients: u64,
    /// Processes: where one has too few descriptors, each further one brings as many people again,
    /// who come before those that are measured, and stay.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub processes: u64,
    /// Contacts that each of them has, subscribed both ways: their neighbours in a ring.
    #[arg(long, default_value_t = 18, value_parser = clap::value_parser!(u64).range(0..=200))]
    pub contacts: u64,
    /// Log-ins a second, timed from the moment each is due; 0 for as fast as they go.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=100_000))]
    pub rate: u64,
    /// Log-ins under way at once, where no rate is given.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub at_once: u64,
    /// How people prove who they are; keys of SCRAM are derived, and tokens of FAST got by the
    /// password and used once, before the clock starts.
    #[arg(long, value_enum, default_value_t = Mechanism::ScramSha1)]
    pub mechanism: Mechanism,
    /// Encrypt (STARTTLS); certificates are not looked at.
    #[arg(long)]
    pub tls: bool,
    /// The password of all of them.
    #[arg(long, default_value = "water under the bridge")]
    #[serde(skip)]
    pub password: String,
    /// What their names begin with; a number follows. Who is not there registers in band.
    #[arg(long, default_value = "storm")]
    pub names: String,
    /// They are registered and have their contacts.
    #[arg(long)]
    pub arranged: bool,
    /// For how long each part is measured, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// Where what was measured is written.
    #[command(flatten)]
    #[serde(flatten)]
    pub files: Files,
}

/// What `weir storm chat` does.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Chat {
    #[command(flatten)]
    #[serde(flatten)]
    common: Options,
    /// What to measure besides logging in.
    #[arg(long, value_enum, value_delimiter = ',')]
    #[arg(default_values_t = [Part::Messages, Part::Trips, Part::Room, Part::Reconnect])]
    parts: Vec<Part>,
    /// Pairs who talk as fast as it goes.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=9_000))]
    chats: u64,
    /// Messages under way in each of them.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    in_flight: u64,
    /// Round trips a second, each of two messages.
    #[arg(long, default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    trips: u64,
    /// People in the room.
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u64).range(2..=18_000))]
    occupants: u64,
    /// The service of rooms; by default `conference.` and the domain.
    #[arg(long, value_name = "NAME")]
    rooms: Option<String>,
    /// How long the text of a message is, in bytes.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    bytes: u64,
    /// Ask that messages are not kept in archives (XEP-0334).
    #[arg(long)]
    no_store: bool,
}

/// What `weir storm presence` does.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Presence {
    #[command(flatten)]
    #[serde(flatten)]
    common: Options,
    /// People a second who say anew how they are; each of their contacts hears it.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    changes: u64,
}

/// A part of the scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Pairs talk as fast as it goes.
    Messages,
    /// A message and its answer, at --trips a second.
    Trips,
    /// A message to a room of --occupants.
    Room,
    /// All but ten are cut and come back at once.
    Reconnect,
}

/// A mechanism of SASL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// PLAIN
    Plain,
    /// SCRAM-SHA-1
    #[value(name = "scram-sha-1")]
    ScramSha1,
    /// SCRAM-SHA-256
    #[value(name = "scram-sha-256")]
    ScramSha256,
    /// A token of an earlier log-in (XEP-0484), proven by HT-SHA-256-NONE
    Fast,
}

impl Mechanism {
    /// The hash and the name of a mechanism with a challenge.
    fn scram(self) -> Option<(Hash, &'static str)> {
        match self {
            Self::Plain | Self::Fast => None,
            Self::ScramSha1 => Some((Hash::Sha1, "SCRAM-SHA-1")),
            Self::ScramSha256 => Some((Hash::Sha256, "SCRAM-SHA-256")),
        }
    }
}

/// Runs `weir storm chat`, says on standard error how it goes, and prints and writes what it
/// measured.
///
/// # Errors
/// When the server cannot be used, or a file cannot be written.
pub async fn run(chat: Chat) -> Result<()> {
    let hint = if chat.no_store { "<no-store xmlns='urn:xmpp:hints'/>" } else { "" };
    let scene = Scene::new(chat.bytes as usize, hint);
    let mut storm = Storm::new(&chat.common, scene).await?;
    if storm.gather().await? {
        return Ok(());
    }
    for part in &chat.parts {
        match part {
            Part::Messages => storm.messages(chat.chats as usize, chat.in_flight).await?,
            Part::Trips => storm.trips(chat.trips).await?,
            Part::Room => {
                let domain = &storm.door.domain;
                let service = chat.rooms.clone().unwrap_or(format!("conference.{domain}"));
                storm.room(&service, chat.occupants as usize).await?;
            }
            Part::Reconnect => storm.reconnect().await?,
        }
    }
    let measured = storm.end().await;
    report::give("chat", &chat.common.files, serde_json::to_value(&chat)?, &measured)
}

/// Runs `weir storm presence`, as [`run`] does the other.
///
/// # Errors
/// When the server cannot be used, or a file cannot be written.
pub async fn run_presence(presence: Presence) -> Result<()> {
    let mut storm = Storm::new(&presence.common, Scene::new(1, "")).await?;
    if storm.gather().await? {
        return Ok(());
    }
    storm.changes(presence.changes).await?;
    let measured = storm.end().await;
    report::give("presence", &presence.common.files, serde_json::to_value(&presence)?, &measured)
}

struct Storm {
    options: Options,
    door: Arc<Door>,
    /// The process of the server, where it is on this machine.
    server: Option<u32>,
    scene: Arc<Scene>,
    credentials: Arc<Vec<Credential>>,
    online: Vec<Online>,
    measured: Measured,
    looks: Arc<Mutex<Vec<Look>>>,
    others: Others,
}

impl Storm {
    async fn new(options: &Options, scene: Scene) -> Result<Self> {
        let target = Url::parse(&options.target).context("--target is no address")?;
        if target.scheme() != "xmpp" {
            bail!("--target has to be xmpp://HOST:PORT");
        }
        let host = target.host_str().context("--target names no host")?;
        let port = target.port().unwrap_or(5222);
        let address = tokio::net::lookup_host((host, port)).await?.next();
        let address = address.with_context(|| format!("{host} has no address"))?;
        let door = Door {
            address,
            domain: options.domain.clone().unwrap_or_else(|| host.to_owned()),
            mechanism: options.mechanism,
            tls: options.tls,
            password: options.password.clone(),
        };
        let server = if address.ip().is_loopback() { machine::listener(port) } else { None };
        let (scene, looks) = (Arc::new(scene), Arc::default());
        tokio::spawn(report::look(scene.clone(), server, Arc::clone(&looks)));
        Ok(Self {
            options: options.clone(),
            door: Arc::new(door),
            server,
            scene,
            credentials: Arc::default(),
            online: Vec::new(),
            measured: Measured::default(),
            looks,
            others: Others::default(),
        })
    }

    /// Everybody is arranged and logs in: first the people of further processes, where there are
    /// some. True in one of those, when it is to end.
    async fn gather(&mut self) -> Result<bool> {
        self.arrange().await?;
        let (rss, is_first) = (self.rss_bytes(), others::number() == 0);
        if is_first && self.options.processes > 1 {
            eprintln!("{} further processes begin", self.options.processes - 1);
            self.others = Others::start(self.options.processes - 1).await?;
        }
        self.log_in(rss).await?;
        if !is_first {
            others::stay().await?;
        }
        Ok(!is_first)
    }

    fn name(&self, at: usize) -> String {
        match others::number() {
            0 => format!("{}{at}", self.options.names),
            process => format!("{}{process}_{at}", self.options.names),
        }
    }

    fn clients(&self) -> usize {
        self.options.clients as usize
    }

    /// Processor time of the server so far, in µs.
    fn used_us(&self) -> f64 {
        self.server.map_or(0.0, machine::processor_s_of) * 1e6
    }

    fn rss_bytes(&self) -> u64 {
        self.server.map_or(0, machine::resident_bytes_of)
    }

    async fn end(mut self) -> Measured {
        for one in std::mem::take(&mut self.online) {
            let _ = one.person.say("</stream:stream>").await;
        }
        drop(std::mem::take(&mut self.others));
        self.measured.looks = std::mem::take(&mut *self.looks.lock());
        self.measured.number("stanzas_refused", self.scene.refused.load(Ordering::Relaxed) as f64);
        self.measured
    }
}
