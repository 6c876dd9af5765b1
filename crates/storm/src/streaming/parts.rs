//! What is measured, part by part.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::task::JoinHandle;

use super::crowd::{Bystander, Crowd, Stalled};
use super::publish::Publisher;
use super::report::{Look, Measured};
use super::{Part, Storm};
use crate::machine;

/// How often it is looked how far everything is.
const LOOK_EACH: Duration = Duration::from_millis(100);
/// How long is waited before memory is read, so that what is given back has been.
const SETTLE: Duration = Duration::from_secs(5);
/// How many times as many bytes a message to those who never read has.
const SLOW_TIMES: u64 = 10;

/// The longest post that servers of Mastodon's kind take unless told otherwise.
const POST_BYTES_MAX: u64 = 500;

/// The server before something happened.
struct Before {
    at: Instant,
    came: u64,
    processor_s: f64,
    rss_bytes: u64,
}

impl Storm {
    pub(super) async fn run(&mut self) -> Result<Measured> {
        let mut measured = Measured::default();
        let mut crowd = Crowd::new();
        let looking = self.look(&crowd);
        self.connect(&mut crowd, &mut measured).await?;
        let mut bystander = match &self.bystanders {
            Some(door) => Bystander::arrive(door).await.ok(),
            None => None,
        };
        tokio::time::sleep(Duration::from_secs(1)).await;
        measured.bystander("idle", bystander.as_mut().map(Bystander::take_times));
        for part in [Part::Paced, Part::Flood, Part::Slow, Part::Reconnect] {
            if !self.options.parts.contains(&part) || !self.publisher.can(part) {
                continue;
            }
            let name = match part {
                Part::Paced => {
                    self.say("messages at a pace");
                    let bytes = self.publisher.bytes_at_most(self.options.bytes);
                    self.paced("fanout", bytes, &mut measured).await?;
                    "paced"
                }
                Part::Flood => {
                    self.say("messages as fast as they go");
                    self.flood(&mut measured).await?;
                    "flood"
                }
                Part::Slow => {
                    self.say("some never read");
                    self.slow(&mut measured).await?;
                    "slow"
                }
                Part::Reconnect => {
                    self.say("all are cut and come back");
                    self.reconnect(&mut crowd, &mut measured).await?;
                    "reconnect"
                }
            };
            measured.bystander(name, bystander.as_mut().map(Bystander::take_times));
        }
        crowd.cut().await;
        looking.abort();
        measured.looks = std::mem::take(&mut *self.looks.lock());
        Ok(measured)
    }

    async fn connect(&self, crowd: &mut Crowd, measured: &mut Measured) -> Result<()> {
        let clients = self.options.clients as usize;
        // The first connections have things made that are made once.
        let mut some = Crowd::new();
        some.arrive(&self.door, &self.count, clients.min(100), 8).await;
        some.cut().await;
        tokio::time::sleep(SETTLE / 2).await;
        let before = self.before();
        self.say(&format!("{clients} connect"));
        let arrival =
            crowd.arrive(&self.door, &self.count, clients, self.options.at_once as usize).await;
        let failed = arrival.times.failed();
        if failed * 10 > self.options.clients {
            let why = arrival.first_error.unwrap_or_default();
            bail!("{failed} of {clients} connections fail: {why}");
        }
        measured.number("connect_per_s", arrival.times.per_s());
        measured.times("connect", &arrival.times);
        measured.number("connect_failed", failed as f64);
        let processor_us = (self.processor_s() - before.processor_s) * 1e6;
        measured.number("connect_processor_us", processor_us / clients as f64);
        tokio::time::sleep(SETTLE).await;
        let rss_bytes = self.rss_bytes();
        measured.number("rss_bytes", rss_bytes as f64);
        let each = rss_bytes.saturating_sub(before.rss_bytes) as f64 / clients as f64;
        measured.number("rss_per_connection_bytes", each);
        measured.connections = crowd.open.load(Relaxed) as u64;
        Ok(())
    }

    async fn paced(&mut self, name: &str, bytes: u64, measured: &mut Measured) -> Result<()> {
        let before = self.before();
        let numbers = self.next..self.next + self.posts;
        self.next = numbers.end;
        let mut each = tokio::time::interval(Duration::from_secs_f64(1.0 / self.options.rate));
        let mut under_way = tokio::task::JoinSet::new();
        for number in numbers.clone() {
            let due: Instant = each.tick().await.into();
            let (publisher, count) = (self.publisher.clone(), self.count.clone());
            let text = count.text(number, bytes as usize);
            under_way.spawn(async move { publisher.publish(&count, number, due, text).await });
        }
        while let Some(published) = under_way.join_next().await {
            published??;
        }
        let missing = self.wait_for(numbers, measured.connections).await;
        let times = self.count.take_times();
        measured.times(name, &times);
        measured.number(&format!("{name}_missing"), missing as f64);
        let came = self.count.came() - before.came;
        let processor_us = (self.processor_s() - before.processor_s) * 1e6;
        let us = processor_us / (came.max(1) as f64);
        measured.number(&format!("{name}_delivery_processor_us"), us);
        Ok(())
    }

    async fn flood(&mut self, measured: &mut Measured) -> Result<()> {
        let before = self.before();
        let numbers = self.next..self.next + self.options.flood as usize;
        self.next = numbers.end;
        let next = Arc::new(std::sync::atomic::AtomicUsize::new(numbers.start));
        let mut publishers = tokio::task::JoinSet::new();
        let bytes = self.publisher.bytes_at_most(self.options.bytes) as usize;
        for _ in 0..self.options.publishers {
            let (publisher, count) = (self.publisher.clone(), self.count.clone());
            let (next, end, bytes) = (next.clone(), numbers.end, bytes);
            publishers.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= end {
                        return anyhow::Ok(());
                    }
                    let text = count.text(number, bytes);
                    publisher.publish(&count, number, Instant::now(), text).await?;
                }
            });
        }
        while let Some(published) = publishers.join_next().await {
            published??;
        }
        let published_s = before.at.elapsed().as_secs_f64();
        let missing = self.wait_for(numbers, measured.connections).await;
        let (last, came) = (self.last_look_that_rose(), self.count.came() - before.came);
        let took_s = last.saturating_duration_since(before.at).as_secs_f64().max(0.001);
        measured.number("deliveries_per_s", came as f64 / took_s);
        measured.number("flood_published_per_s", self.options.flood as f64 / published_s);
        measured.number("flood_missing", missing as f64);
        measured.times("flood", &self.count.take_times());
        let processor_us = (self.processor_s() - before.processor_s) * 1e6;
        measured.number("flood_delivery_processor_us", processor_us / came.max(1) as f64);
        let highest = self.highest_since(before.at).max(self.rss_bytes());
        let growth = highest.saturating_sub(before.rss_bytes);
        measured.number("flood_rss_growth_bytes", growth as f64);
        Ok(())
    }

    async fn slow(&mut self, measured: &mut Measured) -> Result<()> {
        let before = self.before();
        let mut stalled = Vec::new();
        for own in 0..self.options.stalled as usize {
            stalled.push(Stalled::arrive(&self.door, own).await?);
        }
        let bytes = self.publisher.bytes_at_most(self.options.bytes * SLOW_TIMES);
        self.paced("slow", bytes, measured).await?;
        let growth = self.highest_since(before.at).saturating_sub(before.rss_bytes);
        measured.number("slow_rss_growth_bytes", growth as f64);
        let mut cut = 0;
        for one in stalled {
            cut += u64::from(one.was_cut().await);
        }
        measured.number("slow_cut", cut as f64);
        Ok(())
    }

    async fn reconnect(&mut self, crowd: &mut Crowd, measured: &mut Measured) -> Result<()> {
        let clients = self.options.clients as usize;
        let before = self.before();
        crowd.cut().await;
        let arrival = crowd.arrive(&self.door, &self.count, clients, clients).await;
        measured.number("reconnect_all_ms", arrival.times.elapsed_ms());
        measured.number("reconnect_failed", arrival.times.failed() as f64);
        measured.times("reconnect", &arrival.times);
        let processor_us = (self.processor_s() - before.processor_s) * 1e6;
        measured.number("reconnect_processor_us", processor_us / clients as f64);
        // That all listen again is shown by one message more.
        let number = self.next;
        self.next += 1;
        let bytes = self.publisher.bytes_at_most(self.options.bytes);
        let text = self.count.text(number, bytes as usize);
        let now = Instant::now();
        if self.publisher.can(Part::Paced) {
            self.publisher.publish(&self.count, number, now, text).await?;
            let missing = self.wait_for(number..number + 1, measured.connections).await;
            measured.number("reconnect_missing", missing as f64);
        }
        Ok(())
    }

    /// Waits until all of these messages came to `each` listeners, or none does any more; how many
    /// are missing.
    async fn wait_for(&self, numbers: std::ops::Range<usize>, each: u64) -> u64 {
        let (mut came, mut since) = (self.count.came(), Instant::now());
        loop {
            let each = self.publisher.each(each);
            let missing = self.count.missing(numbers.clone(), each);
            if missing == 0 || since.elapsed() > Duration::from_secs(self.options.patience) {
                // What the looks see last is that nothing comes any more.
                tokio::time::sleep(LOOK_EACH * 2).await;
                return missing;
            }
            tokio::time::sleep(LOOK_EACH / 10).await;
            if self.count.came() > came {
                (came, since) = (self.count.came(), Instant::now());
            }
        }
    }

    fn before(&self) -> Before {
        Before {
            at: Instant::now(),
            came: self.count.came(),
            processor_s: self.processor_s(),
            rss_bytes: self.rss_bytes(),
        }
    }

    fn rss_bytes(&self) -> u64 {
        self.server.map_or(0, machine::resident_bytes_of)
    }

    fn processor_s(&self) -> f64 {
        self.server.map_or(0.0, machine::processor_s_of)
    }

    fn look(&self, crowd: &Crowd) -> JoinHandle<()> {
        let (looks, count, open) = (self.looks.clone(), self.count.clone(), crowd.open.clone());
        let (server, began) = (self.server, Instant::now());
        tokio::spawn(async move {
            let mut each = tokio::time::interval(LOOK_EACH);
            loop {
                each.tick().await;
                let look = Look {
                    at: Instant::now(),
                    at_s: began.elapsed().as_secs_f64(),
                    open: open.load(Relaxed),
                    came: count.came(),
                    rss_bytes: server.map_or(0, machine::resident_bytes_of),
                };
                looks.lock().push(look);
            }
        })
    }

    /// The first look that saw all that came.
    fn last_look_that_rose(&self) -> Instant {
        let (looks, came) = (self.looks.lock(), self.count.came());
        looks.iter().find(|look| look.came == came).map_or_else(Instant::now, |look| look.at)
    }

    fn highest_since(&self, since: Instant) -> u64 {
        let looks = self.looks.lock();
        let later = looks.iter().filter(|look| look.at >= since);
        later.map(|look| look.rss_bytes).max().unwrap_or(0)
    }

    #[allow(clippy::print_stderr)]
    fn say(&self, what: &str) {
        eprintln!("{what}: {} came so far", self.count.came());
    }
}

impl Publisher {
    /// Whether what is told reaches others, as most parts need.
    fn can(&self, part: Part) -> bool {
        match self {
            Self::Nobody => part == Part::Reconnect,
            Self::Echo(_) => matches!(part, Part::Paced | Part::Flood | Part::Reconnect),
            Self::Mastodon { .. } | Self::Http { .. } => true,
        }
    }

    /// As much of `bytes` as a message may have there.
    fn bytes_at_most(&self, bytes: u64) -> u64 {
        match self {
            Self::Mastodon { .. } => bytes.min(POST_BYTES_MAX),
            Self::Http { .. } | Self::Echo(_) | Self::Nobody => bytes,
        }
    }

    /// To how many of `listeners` a message goes.
    fn each(&self, listeners: u64) -> u64 {
        if matches!(self, Self::Echo(_)) { 1 } else { listeners }
    }
}
