//! `weir storm inbox`: what comes in after an outage, and what those inside notice of it.
//!
//! A fake fediverse on loopback (`fediverse`) is followed by people of the server under test, and
//! then says everything at once that it had to say in three hours: a realistic mix, some of it
//! broken, forged, repeated or out of order. It is all signed before the clock starts.
//!
//! With `--minutes` it goes on at a rate instead, signed a few seconds ahead, and somebody of the
//! server writes to many others meanwhile (`--outward`): a soak, to see whether anything grows.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `arrange` | what stands before: people, their posts, whom they follow |
//! | `mix` | who says what, by chance |
//! | `plan` | each activity, and what it leads to |
//! | `sign`, `send` | requests ready for the wire, and sending them |
//! | `outward` | what goes out meanwhile |
//! | `watch` | accepted, visible and memory over time |
//! | `course`, `gauges` | how far a server is that keeps up, and what it tells of its database |
//! | `fresh`, `guests` | a post every second, and people who use the server meanwhile |
//! | `truth` | what is to be seen, given what was accepted |
//! | `check` | at the end: everything accepted has its effect, and nothing else |
//! | `report`, `over_time` | what was measured, and how it changed in a soak |

mod arrange;
mod check;
mod course;
mod fresh;
mod gauges;
mod guests;
mod mix;
mod outward;
mod over_time;
mod plan;
mod report;
mod send;
mod sign;
mod truth;
mod watch;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use url::Url;
use weir_base::Clock;

use self::arrange::Arranged;
use self::check::Check;
use self::gauges::Gauges;
use self::mix::Wanted;
use self::outward::{Herald, Outgoing, Outward};
use self::plan::Plan;
use self::report::{Measured, Settled};
use self::send::{Flood, Progress, Sent};
use self::sign::Signing;
use self::truth::Truth;
use self::watch::{Watch, Watched};
use crate::api::Api;
use crate::fediverse::{Behaviour, Courier, Fediverse, Found, Named, Servers, Signatures};
use crate::findings::Files;
use crate::machine;

/// Addresses that are nobody's host: forgeries come from them.
const MORE_ADDRESSES: usize = 8;

/// Activities at most: what each leads to is held in memory.
const COUNT_MAX: u64 = 10_000_000;
/// How often in a row the look at everything may fail.
const CHECKS_FAILED_MAX: u32 = 2;
/// A soak lasts a week at most, in minutes.
const MINUTES_MAX: f64 = 7.0 * 24.0 * 60.0;

/// What to do.
#[derive(Debug, Clone, Args, Serialize)]
pub struct Options {
    /// The server under test: `http://127.0.0.1:8080`.
    #[arg(long, value_name = "URL")]
    pub target: String,
    /// Activities sent.
    #[arg(long, default_value_t = 20_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    pub activities: u64,
    /// Actors that people on the server follow.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(2..=100_000))]
    pub actors: u64,
    /// Hosts they live on.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub hosts: u64,
    /// People on the server; accounts are made for them, as a server for development lets
    /// everybody join.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub people: u64,
    /// Tokens of people on the server, one a line, instead of accounts made for this.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub tokens: Option<PathBuf>,
    /// How many actors each of them follows; the first follows all.
    #[arg(long, default_value_t = 100)]
    pub follows: u64,
    /// What each of them wrote before, for others to like and boost.
    #[arg(long, default_value_t = 3)]
    pub posts: u64,
    /// How many of a hundred activities are of actors that the server never heard of.
    #[arg(long, default_value_t = 2.0, value_name = "PERCENT")]
    pub unknown: f64,
    /// How long every remote host takes to answer during the flood, in ms.
    #[arg(long, default_value_t = 0)]
    pub latency_ms: u64,
    /// Connections that send at once.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub clients: u64,
    /// Activities sent a second; 0: as fast as they are answered.
    #[arg(long, default_value_t = 0)]
    pub rate: u64,
    /// Go on for so long at --rate, signed a few seconds ahead, instead of sending --activities.
    #[arg(long, value_name = "MINUTES", requires = "rate", conflicts_with = "activities")]
    pub minutes: Option<f64>,
    /// Deliveries a second that go out meanwhile: posts of somebody who is followed on each host.
    #[arg(long, default_value_t = 0, value_name = "DELIVERIES")]
    pub outward: u64,
    /// Where the server tells its numbers in Prometheus' form (http://127.0.0.1:9464/metrics): how
    /// long its database takes is looked up there.
    #[arg(long, value_name = "URL")]
    pub metrics: Option<String>,
    /// Requests a second by people who use the server meanwhile; 0: nobody does.
    #[arg(long, default_value_t = 50.0)]
    pub guests: f64,
    /// How long they are measured before the flood, in seconds.
    #[arg(long, default_value_t = 5)]
    pub seconds: u64,
    /// Leave out the post written every second.
    #[arg(long)]
    pub no_fresh: bool,
    /// For how long what has no effect yet is waited for, in seconds, once nothing more happens.
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub patience: u64,
    /// End once all is visible, without the look at everything: for rates that are measured again.
    #[arg(long)]
    pub no_check: bool,
    /// How the hosts of the fake fediverse are named.
    #[command(flatten)]
    #[serde(flatten)]
    pub named: Named,
    /// What chance begins with.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where what was measured is written.
    #[command(flatten)]
    #[serde(flatten)]
    pub files: Files,
}

impl Options {
    /// How many activities are sent in all.
    fn count(&self) -> u64 {
        match self.minutes {
            Some(minutes) => ((minutes * 60.0 * self.rate as f64) as u64).max(1),
            None => self.activities,
        }
    }
}

/// How long something took that was due at a time.
#[derive(Debug, Clone, Copy, Serialize)]
struct Sample {
    at_s: f64,
    ms: f64,
    fine: bool,
}

impl Sample {
    fn new(began: Instant, due: Instant, done: Instant, fine: bool) -> Self {
        let at_s = due.saturating_duration_since(began).as_secs_f64();
        Self { at_s, ms: (done - due).as_secs_f64() * 1e3, fine }
    }
}

/// Runs the scenario, says on standard error how it goes, and prints and writes what it measured.
///
/// # Errors
/// When the server cannot be used, or a file cannot be written; and, once that is done, when
/// something good was not accepted, is missing, was not signed rightly, or could not be checked.
#[allow(clippy::print_stdout)]
pub async fn run(options: Options) -> Result<()> {
    let is_possible = |minutes: f64| minutes > 0.0 && minutes <= MINUTES_MAX && options.rate > 0;
    if !options.minutes.is_none_or(is_possible) {
        bail!(
            "--minutes and --rate have to be more than nothing, and --minutes {MINUTES_MAX} at most"
        );
    }
    if options.count() > COUNT_MAX {
        bail!("that would be {} activities, and {COUNT_MAX} are the most", options.count());
    }
    let actors = arrange::actors(&options);
    let names = options.named.names(actors.hosts)?;
    if options.named.table {
        print!("{}", names.table(actors.hosts));
        return Ok(());
    }
    let (count, hosts) = (actors.all, actors.hosts);
    let make = move || Fediverse::on(names, count, hosts);
    let fediverse = Arc::new(tokio::task::spawn_blocking(make).await??);
    let storm = Storm::new(options, fediverse)?;
    let (measured, unchecked) = storm.run(actors).await?;
    report::give(&storm.options, &measured)?;
    let mut faults = measured.faults();
    faults.extend(unchecked.map(|error| format!("what it did could not be checked: {error:#}")));
    if !faults.is_empty() {
        bail!("{}", faults.join("; "));
    }
    Ok(())
}

/// What every part needs.
struct Storm {
    options: Options,
    fediverse: Arc<Fediverse>,
    api: Api,
    address: SocketAddr,
}

impl Storm {
    fn new(options: Options, fediverse: Arc<Fediverse>) -> Result<Self> {
        let target = Url::parse(&options.target);
        let target = target.with_context(|| format!("{} is no address", options.target))?;
        if target.scheme() != "http" {
            bail!(
                "{target} is not plain http, which this load is made for: name the server itself"
            );
        }
        let host = target.host_str().unwrap_or_default();
        let port = target.port_or_known_default().unwrap_or(80);
        let mut found = (host.trim_matches(['[', ']']), port).to_socket_addrs()?;
        let address = found.next().with_context(|| format!("{host} has no address"))?;
        let api = Api::new(&options.target)?;
        Ok(Self { options, fediverse, api, address })
    }

    /// The port of the server, if it is on this machine.
    fn local_port(&self) -> Option<u16> {
        self.address.ip().is_loopback().then_some(self.address.port())
    }

    /// What was measured, and why it could not be checked, if so.
    async fn run(&self, actors: arrange::Actors) -> Result<(Measured, Option<anyhow::Error>)> {
        let plan: Arc<std::sync::OnceLock<Arc<Plan>>> = Arc::default();
        let (fediverse, told) = (self.fediverse.clone(), plan.clone());
        let note = move |host: usize, path: &str| {
            let Some(plan) = told.get() else { return Found::Nothing };
            match plan.document(&fediverse, host, path) {
                Some(note) => Found::Document(note),
                None if plan.is_gone(&fediverse, host, path) => Found::Gone,
                None => Found::Nothing,
            }
        };
        let courier = Courier::new()?;
        let servers = Servers::start(self.fediverse.clone(), note, Some(courier.clone())).await?;
        servers.verify();
        let fresh = actors.fresh.clone();
        let arranged = arrange::arrange(self, &servers, actors).await?;
        let herald = outward::arrange(self, &courier, &servers, &arranged.cast.known).await?;
        let inbox = courier.inbox_of(&self.fediverse, &arranged.people[0].uri).await?;
        let idle = self.idle(&arranged).await?;
        let plan = plan.get_or_init(|| Arc::new(self.plan(&arranged)));
        let flood = Arc::new(self.sign(&arranged, plan, &inbox)?);
        let arranged = Arc::new(arranged);
        if self.options.latency_ms > 0 {
            let slow = Behaviour::Slow(Duration::from_millis(self.options.latency_ms));
            (0..self.options.hosts as usize).for_each(|host| servers.set(host, slow));
        }
        let mut measured = self.flood(&arranged, plan, flood, inbox, fresh, herald).await?;
        measured.idle = idle;
        measured.fetches = servers.fetches();
        measured.signatures = servers.signatures();
        measured.answers = report::answers(plan, &measured.sent.statuses);
        if self.options.no_check {
            return Ok((measured, None));
        }
        let settled = self.settle(&arranged, plan, &measured).await;
        let (settled, unchecked) = match settled {
            Ok(settled) => (Some(settled), None),
            Err(error) => (None, Some(error)),
        };
        measured.settled = settled;
        Ok((measured, unchecked))
    }

    /// What is sent.
    fn plan(&self, arranged: &Arranged) -> Plan {
        let Options { unknown, rate, seed, minutes, .. } = self.options;
        let (count, now) = (self.options.count() as usize, Clock::system().now());
        let wanted = match minutes {
            Some(_) => Wanted::steady(count, unknown, now, rate, seed),
            None => Wanted::flood(count, unknown, now, seed),
        };
        mix::plan(&self.fediverse, &arranged.cast, wanted)
    }

    fn sign(&self, arranged: &Arranged, plan: &Arc<Plan>, inbox: &Url) -> Result<Flood> {
        let began = Instant::now();
        let signing = Signing {
            fediverse: self.fediverse.clone(),
            people: arranged.cast.people.clone(),
            plan: plan.clone(),
            inbox: inbox.clone(),
            at: Clock::system().now(),
            rate: self.options.minutes.map(|_| self.options.rate),
        };
        let requests = match self.options.minutes {
            Some(_) => signing.ahead(),
            None => signing.all()?,
        };
        let (count, bytes) = requests.size();
        let seconds = began.elapsed().as_secs_f64();
        eprintln!("{count} activities signed in {seconds:.1} s, {} MB", bytes / 1_000_000);
        let hosts = self.fediverse.hosts() + MORE_ADDRESSES;
        let address = |host| self.fediverse.names().address(host).map(|address| address.ip());
        let addresses: Option<Vec<IpAddr>> = (0..hosts).map(address).collect();
        Ok(Flood {
            requests,
            sources: plan.items.iter().map(|item| item.source).collect(),
            awaited: plan.items.iter().map(|item| item.deed.is_awaited()).collect(),
            target: self.address,
            addresses: addresses.filter(|_| self.address.ip().is_loopback()),
            connections: self.options.clients as usize,
            rate: self.options.rate,
            patience: Duration::from_secs(self.options.patience),
        })
    }

    /// Starts the people who use the server meanwhile.
    fn guests(
        &self,
        arranged: &Arranged,
        began: Instant,
        stop: &CancellationToken,
    ) -> Vec<(&'static str, tokio::task::JoinHandle<Vec<Sample>>)> {
        if self.options.guests <= 0.0 {
            return Vec::new();
        }
        // Who follows everybody is not like people are, unless there is nobody else.
        let people = &arranged.people[usize::from(arranged.people.len() > 1)..];
        let tokens: Vec<String> = people.iter().map(|person| person.token.clone()).collect();
        let tokens = Arc::new(tokens);
        let start = |(errand, name, share): (guests::Errand, &'static str, u64)| {
            let per_s = self.options.guests * share as f64 / 10.0;
            let (api, tokens, stop) = (self.api.clone(), tokens.clone(), stop.clone());
            (name, tokio::spawn(guests::run(api, tokens, errand, per_s, began, stop)))
        };
        guests::ERRANDS.into_iter().map(start).collect()
    }

    /// What people feel when nothing else happens.
    async fn idle(&self, arranged: &Arranged) -> Result<Vec<(&'static str, Vec<Sample>)>> {
        let stop = CancellationToken::new();
        let guests = self.guests(arranged, Instant::now(), &stop);
        if !guests.is_empty() {
            tokio::time::sleep(Duration::from_secs(self.options.seconds)).await;
        }
        stop.cancel();
        ended(guests).await
    }

    async fn flood(
        &self,
        arranged: &Arc<Arranged>,
        plan: &Plan,
        flood: Arc<Flood>,
        inbox: Url,
        fresh: Vec<usize>,
        herald: Option<Herald>,
    ) -> Result<Measured> {
        let truth = Truth::of(plan, |_| true);
        let counts = truth.counts(plan);
        let known = arranged.cast.known.iter().zip(&arranged.account_ids);
        let progress = Arc::new(Progress::default());
        let stop = CancellationToken::new();
        let patience = Duration::from_secs(self.options.patience);
        let lasts_s = self.options.minutes.map_or(0.0, |minutes| minutes * 60.0);
        let is_steady = lasts_s > 0.0;
        let outgoing = Arc::new(Outgoing::default());
        let watch = Watch {
            api: self.api.clone(),
            token: arranged.people[0].token.clone(),
            accounts: known
                .map(|(actor, id)| (id.clone(), counts.get(actor).copied().unwrap_or(0)))
                .collect(),
            awaited: plan.awaited(),
            course: if is_steady { course::of(plan, &arranged.cast.known) } else { Vec::new() },
            lasts: Duration::from_secs_f64(lasts_s),
            progress: progress.clone(),
            outgoing: outgoing.clone(),
            gauges: self.options.metrics.as_deref().map(Gauges::new).transpose()?,
            port: self.local_port(),
            patience,
        };
        watch.check_empty().await?;
        let pid = self.local_port().and_then(machine::listener);
        let processor_s = || pid.map_or(0.0, machine::processor_s_of);
        let rss_before_bytes = pid.map_or(0, machine::resident_bytes_of);
        pid.into_iter().for_each(machine::forget_peak_of);
        let (before_s, own_before_s) = (processor_s(), machine::processor_s());
        let began = Instant::now();
        let guests = self.guests(arranged, began, &stop);
        let probe = fresh::Probe {
            api: self.api.clone(),
            fediverse: self.fediverse.clone(),
            flood: flood.clone(),
            inbox,
            authors: fresh,
            reader: arranged.people[0].token.clone(),
        };
        let probing =
            (!self.options.no_fresh).then(|| tokio::spawn(fresh::run(probe, began, stop.clone())));
        let delivering = herald.map(|herald| {
            tokio::spawn(herald.run(outgoing.clone(), began, stop.clone(), patience))
        });
        let watching = tokio::spawn(watch::run(watch, began));
        let sent: Sent = send::send(flood.clone(), progress.clone()).await;
        let watched: Watched = watching.await?;
        // Nobody knows it of a server that was started again meanwhile.
        let used_s = (processor_s() - before_s).max(0.0);
        let own_s = machine::processor_s() - own_before_s;
        stop.cancel();
        // After the flood nobody has anything to notice.
        let over_at = watched.visible_at.unwrap_or(watched.changed_at);
        let over_s = over_at.saturating_duration_since(began).as_secs_f64();
        let mut guests = ended(guests).await?;
        for (_, samples) in &mut guests {
            samples.retain(|sample| sample.at_s <= over_s);
        }
        let fresh = match probing {
            Some(probing) => probing.await?,
            None => Vec::new(),
        };
        let outward = match delivering {
            Some(delivering) => delivering.await?,
            None => Outward::default(),
        };
        let visible_s = watched.visible_at.map(|at| (at - began).as_secs_f64());
        let left = |(awaited, status): (&bool, &u16)| *awaited && !send::is_taken(*status);
        let not_accepted = flood.awaited.iter().zip(&sent.statuses).filter(|one| left(*one));
        let not_accepted = not_accepted.count() as u64;
        Ok(Measured {
            sent,
            looks: watched.looks,
            visible_s,
            known: plan.effective_of(&arranged.cast.known),
            guests,
            idle: Vec::new(),
            fresh,
            outward,
            delivered: outgoing.came.load(std::sync::atomic::Ordering::Relaxed),
            undelivered: outgoing.missing(),
            signatures: Signatures::default(),
            signed_late: flood.requests.late(),
            not_accepted,
            settled: None,
            rss_before_bytes,
            used_s,
            own_s,
            fetches: 0,
            turned_away: progress.turned_away.load(std::sync::atomic::Ordering::Relaxed),
            unanswered: progress.unanswered.load(std::sync::atomic::Ordering::Relaxed),
            answers: Vec::new(),
            began,
        })
    }

    /// Checks until nothing is missed, or no less is for as long as there is patience.
    async fn settle(
        &self,
        arranged: &Arranged,
        plan: &Plan,
        measured: &Measured,
    ) -> Result<Settled> {
        let accepted = |place: usize| send::is_taken(measured.sent.statuses[place]);
        let truth = Truth::of(plan, accepted);
        let (api, fediverse) = (&self.api, &*self.fediverse);
        let check = Check { api, fediverse, arranged, plan, truth: &truth };
        let mut better = Instant::now();
        let (mut least, mut failed) = (u64::MAX, 0);
        loop {
            let misses = match check.run().await {
                Ok(misses) => misses,
                // One of thousands of requests: that says little.
                Err(error) if failed < CHECKS_FAILED_MAX => {
                    failed += 1;
                    eprintln!("checked again: {error:#}");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            failed = 0;
            let total = misses.total();
            if total < least {
                (least, better) = (total, Instant::now());
            }
            eprintln!("checked: {total} missed");
            let waited = better.elapsed().as_secs() >= self.options.patience;
            if total == 0 || waited {
                return Ok(Settled { misses, after_s: measured.began.elapsed().as_secs_f64() });
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

async fn ended(
    guests: Vec<(&'static str, tokio::task::JoinHandle<Vec<Sample>>)>,
) -> Result<Vec<(&'static str, Vec<Sample>)>> {
    let mut all = Vec::new();
    for (name, guest) in guests {
        all.push((name, guest.await?));
    }
    Ok(all)
}
