//! How it goes, over time: for whoever looks on, and for the plots.

use std::io::{IsTerminal, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::task::JoinHandle;

use crate::machine::{processor_s, resident_bytes};

/// How often it is looked, at first. Of a long part every second look is forgotten.
const EACH: Duration = Duration::from_millis(20);
const SAMPLES_MAX: usize = 2_000;

/// One look.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Sample {
    pub(super) at_ms: f64,
    pub(super) done: u64,
    pub(super) rss_bytes: u64,
}

/// A part of the storm, as it went.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Part {
    pub(super) name: &'static str,
    /// What was done in all.
    pub(super) count: u64,
    pub(super) seconds: f64,
    pub(super) per_s: f64,
    /// Processor time of this process for each, in µs.
    pub(super) processor_us: f64,
    pub(super) samples: Vec<Sample>,
}

/// Looks on while a part runs.
pub(super) struct Watch {
    name: &'static str,
    started: Instant,
    processor_s: f64,
    counted: Arc<dyn Fn() -> u64 + Send + Sync>,
    looking: JoinHandle<()>,
    samples: Arc<std::sync::Mutex<Vec<Sample>>>,
}

impl Watch {
    /// `counted` tells how much is done, of `total` (0: nobody knows).
    pub(super) fn start(
        name: &'static str,
        total: u64,
        counted: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Self {
        let (started, counted) = (Instant::now(), Arc::new(counted));
        let samples = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (kept, count) = (samples.clone(), counted.clone());
        let looking = tokio::spawn(async move {
            let (mut each, mut told) = (EACH, Progress::new(name, total));
            loop {
                let sample = look(started, count());
                told.tell(&sample);
                if let Ok(mut kept) = kept.lock() {
                    kept.push(sample);
                    if kept.len() >= SAMPLES_MAX {
                        let mut at = 0;
                        kept.retain(|_| {
                            at += 1;
                            at % 2 == 1
                        });
                        each *= 2;
                    }
                }
                tokio::time::sleep(each).await;
            }
        });
        Self { name, started, processor_s: processor_s(), counted, looking, samples }
    }

    /// The part is over; `count` were done.
    pub(super) fn stop(self, count: u64) -> Part {
        let seconds = self.started.elapsed().as_secs_f64();
        self.looking.abort();
        let mut samples = self.samples.lock().map(|kept| kept.clone()).unwrap_or_default();
        samples.push(look(self.started, (self.counted)()));
        let per_s = count as f64 / seconds.max(1e-9);
        let processor_us = (processor_s() - self.processor_s) * 1e6 / count.max(1) as f64;
        clear();
        eprintln!(
            "{:<22} {count:>10} in {seconds:>7.2} s  {per_s:>10.0} /s  {processor_us:>6.2} µs each",
            self.name
        );
        Part { name: self.name, count, seconds, per_s, processor_us, samples }
    }
}

impl Part {
    /// The rate in each tenth of what was done, per second.
    pub(super) fn tenths_per_s(&self) -> Vec<f64> {
        let all = self.samples.last().map_or(0, |last| last.done) as f64;
        let first = self.samples.first().map_or(0.0, |first| first.at_ms);
        let ends: Vec<f64> =
            (1..=10).map(|tenth| self.when(all * f64::from(tenth) / 10.0)).collect();
        let begins = std::iter::once(first).chain(ends.iter().copied());
        begins.zip(&ends).map(|(from, to)| all / 10.0 / ((to - from) / 1e3).max(1e-9)).collect()
    }

    /// When `done` were done, in ms.
    fn when(&self, done: f64) -> f64 {
        let mut before = Sample { at_ms: 0.0, done: 0, rss_bytes: 0 };
        for sample in &self.samples {
            if sample.done as f64 >= done {
                let step = (sample.done - before.done) as f64;
                let share = if step > 0.0 { (done - before.done as f64) / step } else { 1.0 };
                return before.at_ms + share * (sample.at_ms - before.at_ms);
            }
            before = *sample;
        }
        before.at_ms
    }

    /// The most memory within the jobs from `from` to `to`, as parts of all.
    pub(super) fn rss_max_bytes(&self, from: f64, to: f64) -> u64 {
        let all = self.samples.last().map_or(0, |last| last.done) as f64;
        let within = |sample: &&Sample| (from * all..=to * all).contains(&(sample.done as f64));
        self.samples.iter().filter(within).map(|sample| sample.rss_bytes).max().unwrap_or(0)
    }
}

fn look(started: Instant, done: u64) -> Sample {
    let at_ms = started.elapsed().as_secs_f64() * 1e3;
    Sample { at_ms, done, rss_bytes: resident_bytes() }
}

/// Says once a second how far it is.
struct Progress {
    name: &'static str,
    total: u64,
    told_at: f64,
    done: u64,
}

impl Progress {
    fn new(name: &'static str, total: u64) -> Self {
        Self { name, total, told_at: 0.0, done: 0 }
    }

    fn tell(&mut self, sample: &Sample) {
        let each_ms = if std::io::stderr().is_terminal() { 200.0 } else { 1_000.0 };
        if sample.at_ms < self.told_at + each_ms {
            return;
        }
        let rate = (sample.done.saturating_sub(self.done)) as f64 * 1e3
            / (sample.at_ms - self.told_at).max(1.0);
        (self.told_at, self.done) = (sample.at_ms, sample.done);
        let mib = sample.rss_bytes / (1 << 20);
        let bar = if self.total > 0 && std::io::stderr().is_terminal() {
            let full = (sample.done * 20 / self.total).min(20) as usize;
            format!("[{}{}] ", "#".repeat(full), " ".repeat(20 - full))
        } else {
            String::new()
        };
        let of = if self.total > 0 { format!(" of {}", self.total) } else { String::new() };
        let line = format!("{:<22} {bar}{}{of}  {rate:.0} /s  {mib} MiB", self.name, sample.done);
        clear();
        if std::io::stderr().is_terminal() {
            eprint!("{line}");
            let _ = std::io::stderr().flush();
        } else {
            eprintln!("{line}");
        }
    }
}

/// Makes room for the next line on a terminal.
fn clear() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\u{1b}[K");
    }
}

/// A count that a watch can look at.
pub(super) fn reading(count: &Arc<AtomicU64>) -> impl Fn() -> u64 + Send + Sync + 'static {
    let count = count.clone();
    move || count.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenths_are_told_from_when_so_much_was_done() {
        let sample = |(at_ms, done)| Sample { at_ms, done, rss_bytes: done * 10 };
        // The second half takes twice the time.
        let samples = [(0.0, 0), (100.0, 50), (200.0, 75), (300.0, 100)].map(sample).to_vec();
        let part = Part {
            name: "drain",
            count: 100,
            seconds: 0.3,
            per_s: 333.0,
            processor_us: 0.0,
            samples,
        };
        let tenths: Vec<i64> = part.tenths_per_s().iter().map(|rate| rate.round() as i64).collect();
        assert_eq!(tenths, [500, 500, 500, 500, 500, 250, 250, 250, 250, 250]);
        assert_eq!((part.rss_max_bytes(0.0, 0.5), part.rss_max_bytes(0.9, 1.0)), (500, 1_000));
    }
}
