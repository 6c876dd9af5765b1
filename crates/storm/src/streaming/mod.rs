//! `weir storm streaming`: many listeners at a streaming server, and what is told to them.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `arrange` | accounts, follows and filters, where the server makes them for us |
//! | `crowd` | those who listen, bystanders and those who never read |
//! | `parts` | what is measured, part by part |
//! | `publish` | what is told, at a pace or as fast as it goes |
//! | `count` | what came where, and when |
//! | `wire`, `events` | WebSocket and server-sent events, as little of them as a listener needs |
//! | `report` | what was measured |

mod arrange;
mod count;
mod crowd;
mod events;
mod parts;
mod publish;
mod report;
mod wire;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use serde::Serialize;
use url::Url;

use self::count::Count;
use self::crowd::Door;
use self::publish::Publisher;
use self::report::Look;
use self::wire::Way;
use crate::findings::Files;
use crate::{machine, pipe};

/// What to do.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Options {
    /// The server under test: `http://127.0.0.1:8080`; `https`, `ws` and `wss` go too.
    #[arg(long, value_name = "URL")]
    pub target: String,
    /// Take any certificate, one that the server signed itself too.
    #[arg(long)]
    pub insecure: bool,
    /// How they listen. Bystanders, who ask whether the server is there, use WebSocket anyway.
    #[arg(long, value_enum, default_value_t = Transport::Websocket)]
    pub transport: Transport,
    /// Connections that listen.
    #[arg(long, default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub clients: u64,
    /// What they listen to: user, public, public:local …
    #[arg(long, default_value = "user")]
    pub stream: String,
    /// Listen without logging in; the stream has to be a public one.
    #[arg(long)]
    pub visitors: bool,
    /// Accounts among which the connections are shared; by default one for every 50.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub accounts: Option<u64>,
    /// Filters that each account has; none of them matches what is told.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=50))]
    pub filters: u64,
    /// A file with a token a line, instead of accounts made for this; the first one writes, and
    /// the others have to follow it.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub tokens: Option<PathBuf>,
    /// Another server than Mastodon's kind: the path where it tells what happens.
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// With --path, where a message is posted that all who listen get.
    #[arg(long, value_name = "PATH")]
    pub publish: Option<String>,
    /// With --path, a server that sends everybody back what they said.
    #[arg(long, conflicts_with = "publish")]
    pub echo: bool,
    /// What to measure besides connecting.
    #[arg(long, value_enum, value_delimiter = ',')]
    #[arg(default_values_t = [Part::Paced, Part::Flood, Part::Slow, Part::Reconnect])]
    pub parts: Vec<Part>,
    /// Messages a second, paced.
    #[arg(long, default_value_t = 5.0)]
    pub rate: f64,
    /// For how long, in seconds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,
    /// Messages as fast as they go.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub flood: u64,
    /// How many of them are under way at once.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub publishers: u64,
    /// How long the text of a message is, in bytes.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(24..=60_000))]
    pub bytes: u64,
    /// Connections that never read, beside the others.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub stalled: u64,
    /// Connections opened at once.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub at_once: u64,
    /// For how long nothing may come before what is missing is given up, in seconds.
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    pub patience: u64,
    /// What chance begins with: the number in the messages.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where what was measured is written.
    #[command(flatten)]
    #[serde(flatten)]
    pub files: Files,
}

/// How listeners are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// WebSocket.
    Websocket,
    /// Server-sent events.
    Sse,
}

/// The server under test.
struct Target {
    /// Its address as apps have it, without the last slash.
    base: String,
    way: Way,
    port: u16,
}

/// A part of the scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Messages at --rate: how long each takes to all who listen.
    Paced,
    /// Messages as fast as they go: how many come a second.
    Flood,
    /// The same pace, with --stalled connections that never read.
    Slow,
    /// All are cut and come back at once.
    Reconnect,
}

/// Runs the scenario, says on standard error how it goes, and prints and writes what it measured.
///
/// # Errors
/// When the server cannot be used, or a file cannot be written.
pub async fn run(options: Options) -> Result<()> {
    if options.path.is_none() && (options.publish.is_some() || options.echo) {
        bail!("--publish and --echo need --path");
    }
    if options.echo && options.transport == Transport::Sse {
        bail!("--echo needs --transport websocket: server-sent events go one way");
    }
    let target = Target::of(&options).await?;
    let is_of_here = target.way.address.ip().is_loopback();
    let server = if is_of_here { machine::listener(target.port) } else { None };
    let arranged = arrange::arrange(&options, &target).await.map_err(|error| {
        match format!("{error:#}").contains("invalid peer certificate") {
            true => error.context("--insecure takes any certificate"),
            false => error,
        }
    })?;
    let posts = (options.rate * options.seconds as f64).ceil().max(1.0) as usize;
    let count = Arc::new(Count::new(options.seed, posts * 2 + options.flood as usize + 8));
    let mut storm = Storm {
        door: arranged.door,
        bystanders: arranged.bystanders,
        publisher: Arc::new(arranged.publisher),
        server,
        count,
        posts,
        looks: Arc::default(),
        next: 0,
        options,
    };
    let measured = storm.run().await?;
    report::give(&storm.options, &measured)
}

struct Storm {
    options: Options,
    door: Door,
    /// Where bystanders ask.
    bystanders: Option<Door>,
    publisher: Arc<Publisher>,
    server: Option<u32>,
    count: Arc<Count>,
    /// Messages at a pace.
    posts: usize,
    looks: Arc<Mutex<Vec<Look>>>,
    /// The number of the next message.
    next: usize,
}

impl Target {
    /// What --target names.
    async fn of(options: &Options) -> Result<Self> {
        let url = Url::parse(&options.target).context("--target is no address")?;
        let (scheme, is_tls) = match url.scheme() {
            "http" | "ws" => ("http", false),
            "https" | "wss" => ("https", true),
            other => bail!("--target has to be http, https, ws or wss, not {other}"),
        };
        let host = url.host_str().context("--target names no host")?;
        let port = url.port_or_known_default().context("--target has no port")?;
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let address = tokio::net::lookup_host((bare, port)).await?.next();
        let address = address.with_context(|| format!("{host} has no address"))?;
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        let tls = match is_tls {
            true => {
                let name = ServerName::try_from(bare.to_owned())?;
                Some((pipe::trusting(options.insecure)?, name))
            }
            false => None,
        };
        let base = format!("{scheme}://{authority}");
        let way = Way { address, host: authority, transport: options.transport, tls };
        Ok(Self { base, way, port })
    }
}
