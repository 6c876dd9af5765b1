//! `weir storm deliver`: a post to followers on many servers, some of them slow, failing or dead.
//!
//! Actors of a fake fediverse on loopback (`fediverse`) follow one person of the server under test.
//! Then some of their hosts change, and the person writes a post, and another one meanwhile.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `arrange` | who follows, and which hosts answer how |
//! | `count` | what came where, and when |
//! | `report` | what was measured |

mod arrange;
mod count;
mod report;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use tokio::sync::mpsc;
use url::Url;

use self::arrange::Kind;
use self::count::Count;
use self::report::{Look, Measured};
use crate::api::{Api, Person};
use crate::fediverse::{Arrival, Courier, Fediverse, Found, Named, Servers, Signatures};
use crate::findings::Files;
use crate::machine;

/// How often it is looked how far everything is.
const LOOK_EACH: Duration = Duration::from_millis(100);
/// For how long it is listened once all is there: what comes twice comes after what comes once.
const LISTEN_ON: Duration = Duration::from_secs(5);
/// What the posts say, by which their deliveries are known.
const WORDS: [&str; 2] = ["the first of two", "the second, meanwhile"];

/// What to do.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Options {
    /// The server under test: `http://127.0.0.1:8080`.
    #[arg(long, value_name = "URL")]
    pub target: String,
    /// Actors that follow the one who writes.
    #[arg(long, default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub followers: u64,
    /// Hosts they live on.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub hosts: u64,
    /// How many of these are dead: every other one refuses connections, the others take them and
    /// never answer.
    #[arg(long, default_value_t = 5)]
    pub dead: u64,
    /// How many take --slow-ms to answer.
    #[arg(long, default_value_t = 5)]
    pub slow: u64,
    /// How long these take, in ms.
    #[arg(long, default_value_t = 10_000)]
    pub slow_ms: u64,
    /// How many answer with an error (503).
    #[arg(long, default_value_t = 0)]
    pub failing: u64,
    /// Actors have no shared inboxes: every follower is delivered to.
    #[arg(long)]
    pub personal: bool,
    /// When the second post is written, in ms after the first.
    #[arg(long, default_value_t = 300)]
    pub second_after_ms: u64,
    /// Follows that are sent at once before it begins.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub clients: u64,
    /// For how long nothing may happen before what is missing is given up, in seconds; --slow-ms
    /// longer for what is missing at slow hosts.
    #[arg(long, default_value_t = 20, value_name = "SECONDS")]
    pub patience: u64,
    /// End after so many seconds also while deliveries go on: what is missing then is told.
    #[arg(long)]
    pub seconds: Option<u64>,
    /// The token of the one who writes, instead of an account made for this.
    #[arg(long)]
    #[serde(skip)]
    pub token: Option<String>,
    /// How the hosts of the fake fediverse are named.
    #[command(flatten)]
    #[serde(flatten)]
    pub named: Named,
    /// Where what was measured is written.
    #[command(flatten)]
    #[serde(flatten)]
    pub files: Files,
}

/// Runs the scenario, says on standard error how it goes, and prints and writes what it measured.
///
/// # Errors
/// When the server cannot be used, a file cannot be written, a delivery to a host that answers
/// at once never came, or one was not signed rightly.
#[allow(clippy::print_stdout)]
pub async fn run(options: Options) -> Result<()> {
    if options.dead + options.slow + options.failing >= options.hosts {
        bail!("no host is left that answers: take fewer with --dead, --slow and --failing");
    }
    let (followers, hosts) = (options.followers as usize, options.hosts as usize);
    let names = options.named.names(hosts)?;
    if options.named.table {
        print!("{}", names.table(hosts));
        return Ok(());
    }
    let make = move || Fediverse::on(names, followers, hosts);
    let fediverse = tokio::task::spawn_blocking(make).await??;
    let fediverse = if options.personal { fediverse.without_shared_inboxes() } else { fediverse };
    let storm = Storm {
        api: Api::new(&options.target)?,
        kinds: arrange::kinds(&options),
        fediverse: Arc::new(fediverse),
        options,
    };
    let measured = storm.run().await?;
    report::give(&storm.options, &measured)?;
    let [first, second] = [0, 1].map(|number| measured.count.missing(number));
    if first + second > 0 {
        bail!(
            "deliveries to hosts that answer at once never came: {first} of the first post, \
             {second} of the second"
        );
    }
    if measured.signatures.wrong > 0 {
        bail!("{} deliveries were not signed rightly", measured.signatures.wrong);
    }
    Ok(())
}

/// What every part needs.
struct Storm {
    options: Options,
    fediverse: Arc<Fediverse>,
    api: Api,
    /// Which host answers how.
    kinds: Vec<Kind>,
}

impl Storm {
    async fn run(&self) -> Result<Measured> {
        let courier = Courier::new()?;
        let nothing = |_: usize, _: &str| Found::Nothing;
        let servers =
            Servers::start(self.fediverse.clone(), nothing, Some(courier.clone())).await?;
        servers.verify();
        let person = match &self.options.token {
            Some(token) => self.api.person(token).await?,
            None => {
                let instead = "give --token with the token of one who writes";
                let mut people = self.api.people(&["herald".to_owned()], instead).await?;
                people.pop().context("nobody can write on this server")?
            }
        };
        let arranged_s = arrange::follow(self, &courier, &servers, &person).await?;
        arrange::behave(&servers, &self.kinds, self.options.slow_ms);
        // Connections that were open to hosts which are dead now end meanwhile.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut measured = self.measure(&servers, &person).await?;
        measured.arranged_s = arranged_s;
        measured.signatures = servers.signatures();
        Ok(measured)
    }

    /// Inboxes on each host that a post should come to.
    fn inboxes(&self) -> Vec<u64> {
        let mut inboxes = vec![0; self.fediverse.hosts()];
        for actor in 0..self.fediverse.actors() {
            let host = &mut inboxes[self.fediverse.host_of(actor)];
            *host = if self.options.personal { *host + 1 } else { 1 };
        }
        inboxes
    }

    async fn measure(&self, servers: &Servers, person: &Person) -> Result<Measured> {
        let mut heard = servers.listen();
        let pid = self.local_port().and_then(machine::listener);
        let processor_s = || pid.map_or(0.0, machine::processor_s_of);
        let (used_s, own_s) = (processor_s(), machine::processor_s());
        let mut count = Count::new(WORDS, self.inboxes(), &self.kinds);
        let (first_ms, second_ms) = (0, self.options.second_after_ms);
        let began = Instant::now();
        let writing = [first_ms, second_ms].into_iter().zip(WORDS).map(|(at_ms, words)| {
            let (api, token) = (self.api.clone(), person.token.clone());
            let due = began + Duration::from_millis(at_ms);
            tokio::spawn(async move {
                tokio::time::sleep_until(due.into()).await;
                let body = json!({ "status": format!("A post, {words}.") });
                let written = api.post(&token, "/api/v1/statuses", &body).await;
                written.map(|_| (due.elapsed().as_secs_f64() * 1e3, due))
            })
        });
        let writing: Vec<_> = writing.collect();
        let patience = Duration::from_secs(self.options.patience);
        let most = self.options.seconds.map_or(Duration::MAX, Duration::from_secs);
        let mut looks = Vec::new();
        let mut last_change = Instant::now();
        let mut ticks = tokio::time::interval(LOOK_EACH);
        loop {
            tokio::select! {
                arrival = heard.recv() => {
                    let Some(arrival) = arrival else { break };
                    if count.add(&arrival) {
                        last_change = Instant::now();
                    }
                }
                _ = ticks.tick() => {
                    looks.push(Look {
                        at_s: began.elapsed().as_secs_f64(),
                        came: count.came(),
                        rss_bytes: pid.map_or(0, machine::resident_bytes_of),
                    });
                    progress(&looks, &count);
                    let is_over = count.is_complete() && looks.len() > 5;
                    if is_over || last_change.elapsed() > patience || began.elapsed() > most {
                        break;
                    }
                }
            }
        }
        let used_s = processor_s() - used_s;
        let own_s = machine::processor_s() - own_s;
        self.hear_on(&mut heard, &mut count, most.saturating_sub(began.elapsed())).await;
        let mut written = Vec::new();
        for writing in writing {
            written.push(writing.await??);
        }
        let signatures = Signatures::default();
        Ok(Measured { count, written, looks, used_s, own_s, signatures, arranged_s: 0.0 })
    }

    /// Hears what is not timed, for `most` at most: what comes to slow hosts, and what comes twice.
    async fn hear_on(
        &self,
        heard: &mut mpsc::UnboundedReceiver<Arrival>,
        count: &mut Count,
        most: Duration,
    ) {
        let patience = Duration::from_secs(self.options.patience);
        let slow = patience.saturating_add(Duration::from_millis(self.options.slow_ms));
        let (began, mut last_change) = (Instant::now(), Instant::now());
        loop {
            let wait = if count.is_slow_complete() { LISTEN_ON } else { slow.max(LISTEN_ON) };
            let left = wait.saturating_sub(last_change.elapsed());
            let left = left.min(most.saturating_sub(began.elapsed()));
            let arrival = tokio::time::timeout(left, heard.recv()).await;
            let Ok(Some(arrival)) = arrival else { return };
            if count.add(&arrival) {
                last_change = Instant::now();
            }
        }
    }

    /// The port of the server, if it is on this machine.
    fn local_port(&self) -> Option<u16> {
        let url = Url::parse(&self.options.target).ok()?;
        let host = url.host_str()?.to_owned();
        let is_here = host == "localhost" || host.starts_with("127.");
        url.port_or_known_default().filter(|_| is_here)
    }
}

/// Says how far it is, once a second.
fn progress(looks: &[Look], count: &Count) {
    if looks.len().is_multiple_of(10)
        && let Some(look) = looks.last()
    {
        eprintln!(
            "{:.1} s: {} of {} deliveries to hosts that answer",
            look.at_s,
            look.came,
            count.expected()
        );
    }
}
