//! What was measured: printed, as JSON, and as a page with plots.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::check::{KINDS, Misses};
use super::outward::Outward;
use super::plan::{Deed, Plan};
use super::send::Sent;
use super::watch::Look;
use super::{Options, Sample, over_time};
use crate::fediverse::Signatures;
use crate::load::Latencies;
use crate::plot::{self, Line};

/// All that was measured.
pub(super) struct Measured {
    pub(super) began: Instant,
    pub(super) sent: Sent,
    pub(super) looks: Vec<Look>,
    /// From the first activity sent until all were visible, if they ever were.
    pub(super) visible_s: Option<f64>,
    /// How many activities of known actors are to have an effect.
    pub(super) known: u64,
    pub(super) guests: Vec<(&'static str, Vec<Sample>)>,
    pub(super) idle: Vec<(&'static str, Vec<Sample>)>,
    pub(super) fresh: Vec<Sample>,
    /// Posts that went to every host.
    pub(super) outward: Outward,
    /// Deliveries that came of them, and those that did not.
    pub(super) delivered: u64,
    pub(super) undelivered: u64,
    /// What was looked at of all that was delivered.
    pub(super) signatures: Signatures,
    /// Activities that this tool had not signed when they were due.
    pub(super) signed_late: u64,
    /// Activities that are to have an effect, or repeat one that is, and were not accepted.
    pub(super) not_accepted: u64,
    /// None where not everything was looked at.
    pub(super) settled: Option<Settled>,
    pub(super) rss_before_bytes: u64,
    /// Processor time of the server, and of this process.
    pub(super) used_s: f64,
    pub(super) own_s: f64,
    /// Documents that were asked for, before and during the flood.
    pub(super) fetches: u64,
    pub(super) turned_away: u64,
    pub(super) unanswered: u64,
    /// What was answered to what: `create 202` and how often.
    pub(super) answers: Vec<(String, u64)>,
}

/// What was found when everything was looked at.
pub(super) struct Settled {
    pub(super) misses: Misses,
    /// From the first activity sent until the last look ended.
    pub(super) after_s: f64,
}

/// A request that failed counts as if it had been waited for so long, in ms, however soon it was
/// refused: who refuses is not fast.
const FAILED_MS: f64 = 30_000.0;

fn counted_ms(sample: &Sample) -> f64 {
    if sample.fine { sample.ms } else { sample.ms.max(FAILED_MS) }
}

pub(super) fn latencies(samples: &[Sample]) -> Latencies {
    let mut latencies = Latencies::default();
    for sample in samples {
        latencies.record(Duration::from_secs_f64(counted_ms(sample) / 1e3), sample.fine);
    }
    latencies
}

/// What was answered to which kind of activity, and how often.
pub(super) fn answers(plan: &Plan, statuses: &[u16]) -> Vec<(String, u64)> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (item, status) in plan.items.iter().zip(statuses) {
        let kind = match item.deed {
            Deed::Create(_) => "create",
            Deed::Update(_) => "update",
            Deed::Delete(_) => "delete",
            Deed::Boost(_) => "announce",
            Deed::Like(_) => "like",
            Deed::Follow(_) => "follow",
            Deed::UndoBoost(_) | Deed::UndoLike(_) | Deed::UndoFollow(_) => "undo",
            Deed::Forged(_) => "forged",
            Deed::Usurped(_) => "usurped",
            Deed::Broken => "broken",
            Deed::Oversized(_) => "oversized",
            Deed::Repeated(_) => "repeated",
            Deed::Unverifiable(_) => "unverifiable",
        };
        *counts.entry(format!("{kind} {status}")).or_default() += 1;
    }
    counts.into_iter().collect()
}

pub(super) fn rounded(value: f64) -> Value {
    json!((value * 100.0).round() / 100.0)
}

impl Measured {
    fn results(&self) -> Map<String, Value> {
        let mut results = Map::new();
        let mut put = |name: &str, value: Value| results.insert(name.to_owned(), value);
        let accepted = self.sent.latencies.count();
        let seconds = self.sent.took.as_secs_f64().max(1e-9);
        put("accepted", json!(accepted));
        put("accepted_per_s", json!((accepted as f64 / seconds).round()));
        for (label, percent) in [("p50", 50.0), ("p99", 99.0), ("max", 100.0)] {
            let ms = self.sent.latencies.percentile_ms(percent);
            put(&format!("accept_{label}_ms"), rounded(ms));
        }
        put("visible_s", self.visible_s.map_or(Value::Null, rounded));
        let per_s = self.visible_s.map(|seconds| (self.known as f64 / seconds).round());
        put("visible_per_s", json!(per_s));
        let mut worst: f64 = 0.0;
        let timed = [("", &self.guests), ("idle_", &self.idle)];
        for (when, guests) in timed {
            for (name, samples) in guests {
                let times = latencies(samples);
                for (label, percent) in [("p50", 50.0), ("p99", 99.0), ("max", 100.0)] {
                    put(&format!("{when}{name}_{label}_ms"), rounded(times.percentile_ms(percent)));
                }
                put(&format!("{when}{name}_count"), json!(times.count()));
                put(&format!("{when}{name}_failed"), json!(times.failed()));
                if when.is_empty() && *name != "post" {
                    worst = worst.max(times.percentile_ms(99.0));
                }
            }
        }
        if !self.guests.is_empty() {
            put("interactive_p99_ms", rounded(worst));
        }
        let fresh = latencies(&self.fresh);
        for (label, percent) in [("p50", 50.0), ("p99", 99.0), ("max", 100.0)] {
            if fresh.count() > 0 {
                put(&format!("fresh_{label}_ms"), rounded(fresh.percentile_ms(percent)));
            }
        }
        put("fresh_count", json!(fresh.count()));
        put("fresh_never_seen", json!(fresh.failed()));
        let most = self.looks.iter().map(|look| look.peak_bytes.max(look.rss_bytes)).max();
        let most = most.unwrap_or(0);
        put("rss_before_bytes", json!(self.rss_before_bytes));
        put("rss_max_bytes", json!(most));
        let each = 1e6 / accepted.max(1) as f64;
        put("server_processor_us", rounded(self.used_s * each));
        put("load_processor_us", rounded(self.own_s * each));
        put("not_accepted", json!(self.not_accepted));
        put("turned_away", json!(self.turned_away));
        put("unanswered", json!(self.unanswered));
        put("documents_fetched", json!(self.fetches));
        put("signatures_verified", json!(self.signatures.verified));
        put("signatures_wrong", json!(self.signatures.wrong));
        put("signatures_unknown", json!(self.signatures.unknown));
        if let Some(Settled { misses, after_s }) = &self.settled {
            put("settled_s", rounded(*after_s));
            for kind in KINDS {
                put(kind, json!(misses.count(kind)));
            }
            put("missing", json!(misses.total()));
        }
        results
    }
}

impl Measured {
    /// What the server did not do that it should have; nothing where all is well.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.not_accepted > 0 {
            faults.push(format!("{} activities were not accepted", self.not_accepted));
        }
        if self.undelivered > 0 {
            faults.push(format!("{} deliveries never came", self.undelivered));
        }
        if self.signatures.wrong > 0 {
            faults.push(format!("{} deliveries were not signed rightly", self.signatures.wrong));
        }
        if self.outward.failed > 0 {
            faults.push(format!("{} posts that go out failed", self.outward.failed));
        }
        match &self.settled {
            Some(Settled { misses, .. }) if misses.total() > 0 => {
                faults.push(format!("{} things are missing or wrong", misses.total()));
            }
            None if self.visible_s.is_none() => faults.push("not all became visible".to_owned()),
            _ => {}
        }
        faults
    }
}

/// Prints what was measured, and writes the files that were asked for.
pub(super) fn give(options: &Options, measured: &Measured) -> Result<()> {
    let mut results = measured.results();
    let is_soak = options.minutes.is_some();
    if is_soak {
        results.extend(over_time::results(measured));
    }
    let guests = match is_soak {
        true => over_time::guests(measured),
        false => json!(measured.guests.iter().cloned().collect::<BTreeMap<_, _>>()),
    };
    for (kind, (_, examples)) in measured.settled.iter().flat_map(|settled| &settled.misses.0) {
        eprintln!("{kind}: for example {}", examples.join(", "));
    }
    let answers: Map<String, Value> =
        measured.answers.iter().map(|(name, count)| (name.clone(), json!(count))).collect();
    eprintln!("answers: {}", Value::from(answers.clone()));
    let more = json!({
        "parameters": options,
        "answers": answers,
        "series": {
            "looks": measured.looks,
            "fresh": measured.fresh,
            "guests": guests,
        },
    });
    let plots = if is_soak { over_time::plots(measured) } else { plots(measured) };
    options.files.give("inbox", &results, more, |object| page(&plots, object))
}

/// The greatest of each quarter of a second: a plot of means would hide what hurts.
fn worst(samples: &[Sample]) -> Vec<(f64, f64)> {
    let mut buckets: BTreeMap<u64, f64> = BTreeMap::new();
    for sample in samples {
        let bucket = buckets.entry((sample.at_s * 4.0) as u64).or_default();
        *bucket = bucket.max(counted_ms(sample));
    }
    buckets.into_iter().map(|(at, ms)| (at as f64 / 4.0, ms)).collect()
}

/// The plots of a run.
fn plots(measured: &Measured) -> String {
    let points = |of: fn(&Look) -> f64| -> Vec<(f64, f64)> {
        measured.looks.iter().map(|look| (look.at_s, of(look))).collect()
    };
    let accepted = Line { name: "accepted", points: points(|look| look.accepted as f64) };
    let visible = Line { name: "visible", points: points(|look| look.visible) };
    let backlog = Line { name: "backlog", points: points(Look::behind) };
    let mut plots = plot::lines("The flood", "s", "activities", &[accepted, visible, backlog]);
    if !measured.fresh.is_empty() {
        let points = measured.fresh.iter().map(|sample| (sample.at_s, sample.ms)).collect();
        let seen = Line { name: "seen after", points };
        plots.push_str(&plot::lines("Posts written meanwhile", "s", "ms", &[seen]));
    }
    let guests: Vec<Line<'_>> = (measured.guests.iter())
        .map(|(name, samples)| Line { name, points: worst(samples) })
        .collect();
    if !guests.is_empty() {
        let title = "People meanwhile, slowest each 0.25 s";
        plots.push_str(&plot::lines(title, "s", "ms", &guests));
    }
    let memory =
        Line { name: "resident", points: points(|look| look.rss_bytes as f64 / 1_048_576.0) };
    plots + &plot::lines("Memory of the server", "s", "MiB", &[memory])
}

fn page(plots: &str, object: &Value) -> String {
    let table = |values: &Value| {
        let rows = values.as_object().into_iter().flatten().map(|(name, value)| {
            let (name, value) = (plot::escaped(name), plot::escaped(&value.to_string()));
            format!("<tr><th>{name}<td>{value}")
        });
        format!("<table>{}</table>", rows.collect::<String>())
    };
    let tables = ["results", "answers", "parameters", "machine"]
        .map(|name| format!("<h2>{name}</h2>{}", table(&object[name])));
    plot::page("weir storm inbox", &format!("{plots}{}", tables.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_refuses_at_once_is_not_fast() {
        let sample = |ms: f64, fine: bool| Sample { at_s: 0.0, ms, fine };
        let times = latencies(&[sample(5.0, true), sample(1.0, false), sample(60_000.0, false)]);
        assert_eq!((times.count(), times.failed()), (3, 2));
        assert!(times.percentile_ms(50.0) > 29_000.0 && times.percentile_ms(100.0) > 59_000.0);
        assert!(times.percentile_ms(10.0) < 6.0);
    }
}
