//! `weir storm logins`: many clients of a DDP server log in at once and subscribe, while others,
//! who are there already, measure how long their pings and methods take.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `door` | where the server is reached |
//! | `client` | one client: connecting, logging in, subscribing, coming back |
//! | `arrivals` | the threads on which they arrive |
//! | `bystanders` | those who are there already, on a thread of their own |
//! | `report` | what was measured |

mod arrivals;
mod bystanders;
mod client;
mod door;
mod report;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use futures_util::future::join_all;
use serde::Serialize;
use serde_json::{Value, json};
use url::Url;

use self::arrivals::Arrivals;
use self::bystanders::Bystanders;
use self::client::{Client, Login};
use self::door::Door;
use self::report::{Burst, Measured, Resumed};
use crate::api::Api;
use crate::findings::Files;
use crate::machine;

/// How long a burst may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// Sockets opened at once where they only have to be there.
const OPENING: usize = 64;
/// How long bystanders measure before anything happens.
const QUIET: Duration = Duration::from_secs(2);

/// What to do.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Options {
    /// The server under test: `ws://127.0.0.1:8090`, `wss://…`, `http://…` or `https://…`; DDP is
    /// spoken at `/websocket`.
    #[arg(long, value_name = "URL")]
    pub target: String,
    /// How many log in at once: one burst for each number.
    #[arg(long, value_delimiter = ',', default_value = "1,4,20,50,100")]
    pub clients: Vec<usize>,
    /// Take any certificate.
    #[arg(long)]
    pub insecure: bool,
    /// How long bursts of each number are repeated, in s, in place of --rounds.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: Option<u64>,
    /// How often each burst is repeated.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub rounds: u64,
    /// Subscriptions of each client: `NAME` or `NAME=JSON` with the parameters as an array; Weir's
    /// own unless said.
    #[arg(long = "sub", value_name = "NAME[=JSON]")]
    pub subs: Vec<String>,
    /// Subscribe to `pub1` to `pub19`, as the example server has them.
    #[arg(long)]
    pub example: bool,
    /// Log in with these tokens in turns, or as people made for this on a server for development.
    /// Bystanders have the first, those who arrive the others.
    #[arg(long)]
    #[serde(skip)]
    pub token: Vec<String>,
    /// Do not log in.
    #[arg(long)]
    pub anonymous: bool,
    /// People to log in as, where they are made for this; each writes --documents posts.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub people: u64,
    /// Posts that each of these people writes before it begins.
    #[arg(long, default_value_t = 40)]
    pub documents: u64,
    /// Who is there already and measures.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub bystanders: u64,
    /// How often each of them pings and calls, in ms.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub every_ms: u64,
    /// How far those who arrive give way to the server and to those who measure, where all are on
    /// one machine: the niceness of their threads.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(i32).range(0..=19))]
    pub nice: i32,
    /// A method that bystanders call, with its parameters as an array; none where it is empty.
    /// Unless said, one that Weir and the example server have, which only answers.
    #[arg(long, default_value = "echo=[1]", value_name = "NAME=JSON")]
    pub method: String,
    /// Afterwards so many connect, subscribe, are cut and come back all at once.
    #[arg(long, default_value_t = 0)]
    pub resume: usize,
    /// What chance begins with: the masks of the clients' messages.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where what was measured is written.
    #[command(flatten)]
    #[serde(flatten)]
    pub files: Files,
}

/// Runs the scenario, says on standard error how it goes, and prints and writes what it measured.
///
/// # Errors
/// When the server cannot be used, or a file cannot be written.
pub async fn run(options: Options) -> Result<()> {
    let target: Url = options.target.parse().context("--target is no address")?;
    let door = Door::to(&target, options.insecure, options.seed).await?;
    let storm = Storm {
        logins: logins(&options, &target).await?,
        subs: Arc::new(subs(&options)?),
        pid: machine::listener(door.port()),
        door,
        arrivals: Arrivals::new(options.nice)?,
        options,
    };
    let measured = storm.run().await?;
    report::give(&storm.options, &measured)
}

/// What each client subscribes to: names and parameters.
fn subs(options: &Options) -> Result<Vec<(String, Value)>> {
    if options.example {
        return Ok((1..=19).map(|at| (format!("pub{at}"), json!([]))).collect());
    }
    if options.subs.is_empty() {
        let limit = json!([{ "limit": 100 }]);
        let named = [
            ("timelines.home", limit.clone()),
            ("timelines.public", limit.clone()),
            ("notifications", limit.clone()),
            ("conversations", json!([])),
            ("lists", json!([])),
            ("tags.followed", json!([])),
            ("markers", json!([])),
        ];
        return Ok(named.map(|(name, params)| (name.to_owned(), params)).into());
    }
    let each = options.subs.iter().map(|sub| named(sub));
    each.collect()
}

/// `NAME` or `NAME=JSON`.
fn named(text: &str) -> Result<(String, Value)> {
    let (name, params) = text.split_once('=').unwrap_or((text, "[]"));
    let params: Value = serde_json::from_str(params)
        .with_context(|| format!("the parameters of {name} are no JSON"))?;
    if !params.is_array() {
        bail!("the parameters of {name} are no array");
    }
    Ok((name.to_owned(), params))
}

/// As whom clients log in, in turns.
async fn logins(options: &Options, target: &Url) -> Result<Vec<Login>> {
    if options.anonymous || options.example {
        return Ok(vec![Login::Nobody]);
    }
    if !options.token.is_empty() {
        return Ok(options.token.iter().cloned().map(Login::Token).collect());
    }
    let mut base = target.clone();
    let _ = base.set_scheme(if target.scheme().ends_with('s') { "https" } else { "http" });
    let api = Api::trusting(base.as_str(), options.insecure)?;
    let names: Vec<String> = (0..options.people).map(|at| format!("arrival{at}")).collect();
    eprintln!("making {} people with {} posts each", options.people, options.documents);
    let people = api.people(&names, "give --token").await?;
    for one in &people {
        for other in &people {
            let path = format!("/api/v1/accounts/{}/follow", other.id);
            if one.id != other.id {
                api.post(&one.token, &path, &json!({})).await?;
            }
        }
    }
    let posts = people.iter().map(|one| async {
        for number in 0..options.documents {
            let text = format!("{} {number}: {}", one.name, "water under the bridge ".repeat(12));
            api.post(&one.token, "/api/v1/statuses", &json!({ "status": text })).await?;
        }
        anyhow::Ok(())
    });
    join_all(posts).await.into_iter().collect::<Result<Vec<()>>>()?;
    Ok(people.into_iter().map(|one| Login::Token(one.token)).collect())
}

struct Storm {
    options: Options,
    door: Door,
    subs: Arc<Vec<(String, Value)>>,
    logins: Vec<Login>,
    arrivals: Arrivals,
    pid: Option<u32>,
}

impl Storm {
    async fn run(&self) -> Result<Measured> {
        let method = match self.options.method.as_str() {
            "" => None,
            text => Some(named(text)?),
        };
        let calls = method.is_some() && self.options.bystanders > 1;
        let bystanders = Bystanders::start(
            self.door.clone(),
            self.options.bystanders as usize,
            Duration::from_millis(self.options.every_ms),
            self.logins[..1].to_vec(),
            self.subs.clone(),
            method,
        )?;
        let from = Instant::now();
        tokio::time::sleep(QUIET).await;
        let before = bystanders.between(from, Instant::now());
        if before.0.count() == 0 {
            bail!("no bystander's ping was answered: does the server speak DDP at /websocket?");
        }
        if calls && before.1.count() == 0 {
            let method = &self.options.method;
            bail!("no bystander's call was answered: does the server have the --method {method}?");
        }
        let mut bursts = Vec::new();
        for &count in &self.options.clients {
            let begun = Instant::now();
            let goes_on = |round: u64| match self.options.seconds {
                Some(seconds) => round == 0 || begun.elapsed() < Duration::from_secs(seconds),
                None => round < self.options.rounds,
            };
            for round in (0..).take_while(|round| goes_on(*round)) {
                let burst = self.burst(count, &bystanders).await?;
                eprintln!(
                    "{count} at once, round {}: all ready after {:.1} ms, pings p99 {:.2} ms",
                    round + 1,
                    burst.ready_ms.iter().copied().fold(0.0, f64::max),
                    burst.pings.percentile_ms(99.0),
                );
                bursts.push(burst);
            }
        }
        let resumed = match self.options.resume {
            0 => None,
            count => Some(self.resume(count).await?),
        };
        Ok(Measured { before, bursts, resumed, failed: bystanders.failed() })
    }

    /// Who arrives: not as whom the bystanders are, so that nothing of theirs is known yet.
    fn login(&self, at: usize) -> &Login {
        let arriving = &self.logins[usize::from(self.logins.len() > 1)..];
        &arriving[at % arriving.len()]
    }

    /// `count` clients log in at once, until the last has everything.
    async fn burst(&self, count: usize, bystanders: &Bystanders) -> Result<Burst> {
        let rss_before = self.pid.map_or(0, machine::resident_bytes_of);
        let used_before = self.pid.map_or(0.0, machine::processor_s_of);
        let from = Instant::now();
        let arrivals = (0..count).map(|at| {
            let (door, subs) = (self.door.clone(), self.subs.clone());
            let login = self.login(at).clone();
            self.arrivals.spawn(async move {
                let mut client = Client::open(&door).await?;
                client.arrive(&login, &subs).await?;
                let ready = from.elapsed();
                anyhow::Ok((client, ready))
            })
        });
        let arrived = tokio::time::timeout(PATIENCE, join_all(arrivals)).await;
        let arrived = arrived.context("a burst took too long")?;
        let until = Instant::now();
        let mut clients = Vec::new();
        let mut ready_ms = Vec::new();
        for one in arrived {
            let (client, ready) = one??;
            clients.push(client);
            ready_ms.push(ready.as_secs_f64() * 1e3);
        }
        // What belongs to the burst has to come to its end before it is counted.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let used_s = self.pid.map_or(0.0, machine::processor_s_of) - used_before;
        let rss = self.pid.map_or(0, machine::resident_bytes_of);
        let (pings, calls) = bystanders.between(from, until);
        let burst = Burst {
            clients: count,
            ready_ms,
            documents: clients.iter().map(|client| client.documents).max().unwrap_or(0),
            bytes: clients.iter().map(|client| client.bytes).max().unwrap_or(0),
            used_s,
            rss_bytes: rss.saturating_sub(rss_before),
            pings,
            calls,
        };
        for mut client in clients {
            client.leave().await;
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        Ok(burst)
    }

    /// `count` sessions with all they subscribe to are cut and come back at once.
    async fn resume(&self, count: usize) -> Result<Resumed> {
        let rss_before = self.pid.map_or(0, machine::resident_bytes_of);
        let mut clients = Vec::with_capacity(count);
        while clients.len() < count {
            let some = (0..OPENING.min(count - clients.len())).map(|at| {
                let (door, subs) = (self.door.clone(), self.subs.clone());
                let login = self.login(at).clone();
                self.arrivals.spawn(async move {
                    let mut client = Client::open(&door).await?;
                    client.arrive(&login, &subs).await?;
                    anyhow::Ok(client)
                })
            });
            for one in join_all(some).await {
                clients.push(one??);
            }
        }
        let rss_bytes = self.pid.map_or(0, machine::resident_bytes_of).saturating_sub(rss_before);
        eprintln!("{count} sessions stand; cutting them");
        let sessions: Vec<_> = clients.into_iter().map(Client::cut).collect();
        let used_before = self.pid.map_or(0.0, machine::processor_s_of);
        let from = Instant::now();
        let back = sessions.into_iter().map(|session| {
            let door = self.door.clone();
            self.arrivals.spawn(async move { Client::come_back(&door, &session).await })
        });
        let back = tokio::time::timeout(PATIENCE, join_all(back)).await;
        let all_ms = from.elapsed().as_secs_f64() * 1e3;
        let (mut resumed, mut again, mut kept) = (0, 0, Vec::new());
        for one in back.context("not all came back")? {
            let (client, same) = one??;
            resumed += usize::from(same);
            kept.push(client);
        }
        for client in &mut kept {
            again += client.settle().await?;
        }
        let used_s = self.pid.map_or(0.0, machine::processor_s_of) - used_before;
        Ok(Resumed { count, resumed, all_ms, documents_again: again, rss_bytes, used_s })
    }
}
