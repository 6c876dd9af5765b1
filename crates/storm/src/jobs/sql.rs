//! The engine on a database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random, Timestamp};
use weir_db::{Class, Db, Tx};
use weir_jobs::{Job, Jobs};

use super::Options;
use super::place::Place;
use super::report::{Measured, Times};
use super::watch::{Watch, reading};
use super::work::{Late, Payload, QUEUE, Storm, Tally, Timed, Urgent, now_us, registry};
use crate::command::Shows;
use crate::load::Latencies;

/// Jobs of one transaction in bulk.
const BATCH: u64 = 10_000;
/// The most jobs a second that are enqueued one by one: so far the numbers reach.
const SINGLES_PER_S_MAX: u64 = 2_000_000;
/// Jobs that become due, over a network with latency.
const SLOWLY_SCHEDULED_MAX: u64 = 1_000;
/// How often an urgent job is enqueued while others wait.
const URGENT_EACH: Duration = Duration::from_millis(5);
/// Without any progress for so long, what is missing is lost.
const PATIENCE: Duration = Duration::from_secs(60);

/// An engine, and what is seen of its jobs.
struct Storming<'o> {
    options: &'o Options,
    db: Db,
    jobs: Jobs,
    tally: Arc<Tally>,
    timed: Late,
    urgent: Late,
    /// The numbers of jobs so far.
    numbered: u64,
    /// Jobs of the backlog that were enqueued.
    enqueued: u64,
    measured: Measured,
}

/// Goes through all parts.
pub(super) async fn run(options: &Options, shows: Option<Shows>) -> Result<Measured> {
    let place = Place::open(options).await?;
    let (db, backend) = (place.db.clone(), place.backend);
    let (opened, seed) = (db.clone(), options.seed);
    let open = move || Jobs::open(opened, Clock::system(), Random::seeded(seed));
    let jobs = tokio::task::spawn_blocking(open).await??;
    place.show(&jobs, shows);
    let most = 2 * options.jobs + SINGLES_PER_S_MAX * options.seconds;
    let mut storm = Storming {
        options,
        db,
        jobs,
        tally: Arc::new(Tally::new(most)),
        timed: Late::default(),
        urgent: Late::default(),
        numbered: 0,
        enqueued: 0,
        measured: Measured::new(backend),
    };
    if options.rate == 0 {
        let part = storm.bulk("enqueue in bulk").await?;
        storm.measured.add("enqueue_per_s", part);
        if !options.drain_only {
            storm.singles().await?;
        }
    }
    let stop = CancellationToken::new();
    let handlers = registry(options.shape, &storm.tally, &storm.timed, &storm.urgent);
    let watch = storm.watch_drain("drain");
    let workers = storm.jobs.start(handlers, stop.clone())?;
    if options.rate == 0 {
        storm.drained(watch, "drain_per_s").await?;
        if !options.drain_only {
            storm.due().await?;
            storm.urgent_beside_a_backlog().await?;
        }
    } else {
        drop(watch);
        storm.paced().await?;
    }
    stop.cancel();
    workers.finish(Duration::from_secs(10)).await;
    let Storming { mut measured, tally, enqueued, .. } = storm;
    measured.lost = enqueued.saturating_sub(tally.done());
    measured.repeated = tally.repeated();
    Ok(measured)
}

impl Storming<'_> {
    /// Enqueues as many as asked for, in large transactions.
    async fn bulk(&mut self, name: &'static str) -> Result<super::watch::Part> {
        let total = self.options.jobs;
        let count: Arc<AtomicU64> = Arc::default();
        let watch = Watch::start(name, total, reading(&count));
        let mut before = None;
        for from in (0..total).step_by(BATCH as usize) {
            let many = BATCH.min(total - from);
            let first = self.numbered;
            self.numbered += many;
            let batch: Vec<_> =
                (first..first + many).map(|number| Storm(Payload::new(number))).collect();
            let (db, jobs, count) = (self.db.clone(), self.jobs.clone(), count.clone());
            let mut packed = jobs.pack(&batch)?;
            // One is written while the next is packed.
            let next = tokio::spawn(async move {
                let write = move |tx: &mut Tx| jobs.enqueue_packed(tx, &mut packed);
                db.write::<(), weir_db::Error, _>(Class::Inbound, write).await?;
                count.fetch_add(many, Ordering::Relaxed);
                Ok::<_, weir_db::Error>(())
            });
            if let Some(before) = before.replace(next) {
                before.await??;
            }
        }
        if let Some(last) = before {
            last.await??;
        }
        self.enqueued += total;
        Ok(watch.stop(total))
    }

    /// Enqueues in a transaction each, from many tasks.
    async fn singles(&mut self) -> Result<()> {
        if self.options.seconds == 0 {
            return Ok(());
        }
        let first = self.numbered;
        let most = first + SINGLES_PER_S_MAX * self.options.seconds;
        let (next, count) = (Arc::new(AtomicU64::new(first)), Arc::<AtomicU64>::default());
        let until = Instant::now() + Duration::from_secs(self.options.seconds);
        let watch = Watch::start("enqueue one by one", 0, reading(&count));
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..self.options.clients {
            let (db, jobs) = (self.db.clone(), self.jobs.clone());
            let (next, count) = (next.clone(), count.clone());
            clients.spawn(async move {
                while Instant::now() < until {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= most {
                        break;
                    }
                    let (jobs, job) = (jobs.clone(), Storm(Payload::new(number)));
                    enqueue(&db, jobs, job).await?;
                    count.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<_, weir_db::Error>(())
            });
        }
        while let Some(client) = clients.join_next().await {
            client??;
        }
        let done = count.load(Ordering::Relaxed);
        self.numbered = next.load(Ordering::Relaxed).min(most);
        self.enqueued += done;
        self.measured.add("single_enqueue_per_s", watch.stop(done));
        Ok(())
    }

    fn watch_drain(&self, name: &'static str) -> Watch {
        let (done, before) = (self.tally.done.clone(), self.tally.done());
        let count = move || done.load(Ordering::Relaxed) - before;
        Watch::start(name, self.enqueued - before, count)
    }

    /// Waits until all that was enqueued is done and settled.
    async fn drained(&mut self, watch: Watch, key: &'static str) -> Result<()> {
        let before = self.enqueued;
        let (mut seen, mut since) = (u64::MAX, Instant::now());
        let started = self.tally.done();
        loop {
            let done = self.tally.done();
            if done >= before && self.jobs.queues().iter().all(|queue| queue.depth == 0) {
                break;
            }
            if done != seen {
                (seen, since) = (done, Instant::now());
            } else if since.elapsed() > PATIENCE {
                eprintln!("{} jobs do not come: given up", before.saturating_sub(done));
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let count = self.tally.done() - started;
        self.measured.add(key, watch.stop(count));
        Ok(())
    }

    /// Jobs that become due, so many a second.
    async fn due(&mut self) -> Result<()> {
        let (latency_ms, rate) = (self.options.latency_ms, self.options.due_rate);
        // They are written one by one: over a slow line no more than show how late they are.
        let most = if latency_ms > 0 { SLOWLY_SCHEDULED_MAX } else { u64::MAX };
        let total = self.options.jobs.div_ceil(2).min(most);
        let count: Arc<AtomicU64> = Arc::default();
        let watch = Watch::start("schedule", total, reading(&count));
        // Far slower than they are written: they are due after all are written.
        let first_us = now_us() + 2_000_000 + total * (25 + 3_000 * latency_ms);
        let moment_us = move |number: u64| first_us + number * 1_000_000 / rate;
        for from in (0..total).step_by(BATCH as usize) {
            let (jobs, many) = (self.jobs.clone(), BATCH.min(total - from));
            let write = move |tx: &mut Tx| {
                for number in from..from + many {
                    let moment_us = moment_us(number);
                    let at_ms = i64::try_from(moment_us.div_ceil(1_000)).unwrap_or(i64::MAX);
                    let job = Timed::new(number, at_ms.unsigned_abs() * 1_000);
                    jobs.enqueue_at(tx, Timestamp::from_ms(at_ms), &job)?;
                }
                Ok(())
            };
            self.db.write::<(), weir_db::Error, _>(Class::Inbound, write).await?;
            count.fetch_add(many, Ordering::Relaxed);
        }
        self.measured.add("schedule_per_s", watch.stop(total));
        if now_us() > first_us {
            eprintln!("the schedule took longer to write than planned: the first come late");
        }
        let ahead = Duration::from_micros(first_us.saturating_sub(now_us()));
        tokio::time::sleep(ahead).await;
        let watch = Watch::start("due jobs start", total, reading(&self.timed.count));
        self.all_started(total).await?;
        self.measured.add("due_per_s", watch.stop(total));
        self.measured.times("due", Times::of(&self.timed.take()));
        Ok(())
    }

    async fn all_started(&self, total: u64) -> Result<()> {
        let (mut seen, mut since) = (u64::MAX, Instant::now());
        while self.timed.count() < total {
            let count = self.timed.count();
            if count != seen {
                (seen, since) = (count, Instant::now());
            } else if since.elapsed() > PATIENCE {
                bail!("{} jobs whose time has come do not start", total - count);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// How long an urgent job waits while a backlog is worked off.
    async fn urgent_beside_a_backlog(&mut self) -> Result<()> {
        self.jobs.pause(QUEUE).await?;
        self.bulk("a backlog").await?;
        let stop = CancellationToken::new();
        let (db, jobs, stopped) = (self.db.clone(), self.jobs.clone(), stop.clone());
        let waiting = jobs.clone();
        let enough = self.options.jobs / 20;
        let urgent = tokio::spawn(async move {
            let (mut number, mut each) = (0, tokio::time::interval(URGENT_EACH));
            let backlog = || waiting.queues().iter().map(|queue| queue.depth).sum::<u64>();
            // To the last twentieth: then there is no backlog any more.
            while number == 0 || (!stopped.is_cancelled() && backlog() > enough) {
                each.tick().await;
                number += 1;
                let job = Urgent(Timed::new(number, now_us()));
                enqueue(&db, jobs.clone(), job).await?;
            }
            Ok::<_, weir_db::Error>(number)
        });
        let watch = self.watch_drain("drain beside urgent");
        self.jobs.resume(QUEUE).await?;
        self.drained(watch, "drain_beside_urgent_per_s").await?;
        stop.cancel();
        let (sent, until) = (urgent.await??, Instant::now() + PATIENCE);
        while self.urgent.count() < sent && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.measured.times("urgent", Times::of(&self.urgent.take()));
        Ok(())
    }

    /// Jobs that come evenly while the workers run.
    async fn paced(&mut self) -> Result<()> {
        let (total, rate) = (self.options.jobs, self.options.rate);
        let watch = Watch::start("enqueue at a rate", total, reading(&self.timed.count));
        let (began, step) = (Instant::now(), (rate / 100).max(1));
        for from in (0..total).step_by(usize::try_from(step)?) {
            let due = began + Duration::from_secs_f64(from as f64 / rate as f64);
            tokio::time::sleep_until(due.into()).await;
            let (jobs, many) = (self.jobs.clone(), step.min(total - from));
            let write = move |tx: &mut Tx| {
                let moment_us = now_us();
                let batch: Vec<_> =
                    (from..from + many).map(|number| Timed::new(number, moment_us)).collect();
                jobs.enqueue_many(tx, &batch)
            };
            self.db.write::<(), weir_db::Error, _>(Class::Inbound, write).await?;
        }
        let enqueued_per_s = total as f64 / began.elapsed().as_secs_f64().max(1e-9);
        self.all_started(total).await?;
        self.measured.number("enqueue_per_s", enqueued_per_s);
        self.measured.add("drain_per_s", watch.stop(total));
        let waited: Latencies = self.timed.take();
        self.measured.times("wait", Times::of(&waited));
        Ok(())
    }
}

async fn enqueue<J: Job>(db: &Db, jobs: Jobs, job: J) -> Result<(), weir_db::Error> {
    db.write(Class::Interactive, move |tx: &mut Tx| jobs.enqueue(tx, &job).map(|_| ())).await
}
