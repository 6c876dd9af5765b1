//! How a soak went over time: what a second brought, what waited, and whether anything grew.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Sample;
use super::report::{Measured, latencies, rounded};
use super::watch::Look;
use crate::plot::{self, Line};

/// Parts of the time for which latencies are plotted, each by its own percentiles.
const PARTS: f64 = 300.0;
/// How much of the time is compared: it begins and ends with so large a part, and the first one is
/// left out, in which caches fill.
const COMPARED: f64 = 0.1;

/// A figure over time: when, and how much.
type Points = Vec<(f64, f64)>;

/// The median of what `points` say between two parts of `all_s`.
fn median(points: &Points, all_s: f64, from: f64, to: f64) -> Option<f64> {
    let inside = points.iter().filter(|(at, _)| (from * all_s..=to * all_s).contains(at));
    let mut values: Vec<f64> = inside.map(|(_, value)| *value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The median of what `points` say in the last part of `all_s`; what they said last, where that was
/// so short that nobody looked.
fn late(points: &Points, all_s: f64) -> Option<f64> {
    let last = || points.iter().rfind(|(at, _)| *at <= all_s);
    median(points, all_s, 1.0 - COMPARED, 1.0).or_else(|| last().map(|(_, value)| *value))
}

/// The percentile of each part of the time.
fn by_part(samples: &[Sample], all_s: f64, percent: f64) -> Points {
    let each_s = (all_s / PARTS).max(1.0);
    let mut parts: BTreeMap<u64, Vec<Sample>> = BTreeMap::new();
    for sample in samples {
        parts.entry((sample.at_s / each_s) as u64).or_default().push(*sample);
    }
    let point = |(part, samples): (u64, Vec<Sample>)| {
        (part as f64 * each_s, latencies(&samples).percentile_ms(percent))
    };
    parts.into_iter().map(point).collect()
}

/// How fast something that is counted grew between looks.
fn per_s(looks: &[Look], of: fn(&Look) -> f64) -> Points {
    let pairs = looks.windows(2).filter(|pair| pair[1].at_s > pair[0].at_s);
    let rate = |pair: &[Look]| {
        (pair[1].at_s, (of(&pair[1]) - of(&pair[0])) / (pair[1].at_s - pair[0].at_s))
    };
    pairs.map(rate).collect()
}

fn points(looks: &[Look], of: fn(&Look) -> Option<f64>) -> Points {
    looks.iter().filter_map(|look| Some((look.at_s, of(look)?))).collect()
}

/// What is not to grow, by name.
fn flat(measured: &Measured, all_s: f64) -> Vec<(String, Points)> {
    let looks = &measured.looks;
    let mut flat = vec![
        ("rss_bytes".to_owned(), points(looks, |look| Some(look.rss_bytes as f64))),
        ("behind".to_owned(), points(looks, |look| Some(look.behind()))),
        ("undelivered".to_owned(), points(looks, |look| Some(undelivered(look)))),
        ("db_read_ms".to_owned(), points(looks, |look| look.db_read_ms)),
        ("db_write_ms".to_owned(), points(looks, |look| look.db_write_ms)),
    ];
    for (name, samples) in &measured.guests {
        flat.push((format!("{name}_p99_ms"), by_part(samples, all_s, 99.0)));
    }
    flat
}

fn undelivered(look: &Look) -> f64 {
    look.outward.saturating_sub(look.delivered) as f64
}

/// The median of everything that is not to grow, near the beginning and at the end of the time in
/// which was sent.
pub(super) fn results(measured: &Measured) -> Map<String, Value> {
    let all_s = measured.sent.took.as_secs_f64();
    let mut results = Map::new();
    for (name, points) in flat(measured, all_s) {
        let early = median(&points, all_s, COMPARED, 2.0 * COMPARED);
        let late = late(&points, all_s);
        results.insert(format!("{name}_early"), early.map_or(Value::Null, rounded));
        results.insert(format!("{name}_late"), late.map_or(Value::Null, rounded));
    }
    results.insert("delivered".into(), json!(measured.delivered));
    let outward = &measured.outward;
    // It goes on for as long as anything is waited for, not only while activities come in.
    let per_s = measured.delivered as f64 / outward.took.as_secs_f64().max(1e-9);
    results.insert("delivered_per_s".into(), rounded(per_s));
    let times = latencies(&outward.samples);
    for (label, percent) in [("p50", 50.0), ("p99", 99.0), ("max", 100.0)] {
        let ms = (times.count() > 0).then(|| rounded(times.percentile_ms(percent)));
        results.insert(format!("delivered_{label}_ms"), ms.unwrap_or(Value::Null));
    }
    results.insert("undelivered".into(), json!(measured.undelivered));
    results.insert("outward_repeated".into(), json!(outward.repeated));
    results.insert("outward_failed".into(), json!(outward.failed));
    results.insert("signed_late".into(), json!(measured.signed_late));
    results
}

/// The latencies of people by parts of the time.
pub(super) fn guests(measured: &Measured) -> Value {
    let all_s = measured.sent.took.as_secs_f64();
    let of = |(name, samples): &(&'static str, Vec<Sample>)| {
        let percentiles = |percent| json!(by_part(samples, all_s, percent));
        let value = json!({ "p50_ms": percentiles(50.0), "p99_ms": percentiles(99.0) });
        ((*name).to_owned(), value)
    };
    Value::Object(measured.guests.iter().map(of).collect())
}

/// The plots of a soak.
pub(super) fn plots(measured: &Measured) -> String {
    let looks = &measured.looks;
    let all_s = measured.sent.took.as_secs_f64();
    let line = |name, points| Line { name, points };
    let mut plots = plot::lines(
        "In and out",
        "s",
        "a second",
        &[
            line("accepted", per_s(looks, |look| look.accepted as f64)),
            line("visible", per_s(looks, |look| look.visible)),
            line("delivered", per_s(looks, |look| look.delivered as f64)),
        ],
    );
    let behind = line("not visible yet", points(looks, |look| Some(look.behind())));
    let outward = line("not delivered", points(looks, |look| Some(undelivered(look))));
    plots += &plot::lines("What waits", "s", "activities", &[behind, outward]);
    let resident = |look: &Look| Some(look.rss_bytes as f64 / 1_048_576.0);
    let resident = line("resident", points(looks, resident));
    plots += &plot::lines("Memory of the server", "s", "MiB", &[resident]);
    let read = line("read", points(looks, |look| look.db_read_ms));
    let write = line("write", points(looks, |look| look.db_write_ms));
    if !read.points.is_empty() || !write.points.is_empty() {
        plots += &plot::lines("A unit of the database, on average", "s", "ms", &[read, write]);
    }
    for (title, percent) in [("People meanwhile, p50", 50.0), ("People meanwhile, p99", 99.0)] {
        let guests = measured.guests.iter();
        let lines: Vec<Line<'_>> =
            guests.map(|(name, samples)| line(name, by_part(samples, all_s, percent))).collect();
        plots += &plot::lines(title, "s", "ms", &lines);
    }
    let fresh = line("seen, p99", by_part(&measured.fresh, all_s, 99.0));
    let outward = line("on all hosts, p99", by_part(&measured.outward.samples, all_s, 99.0));
    plots + &plot::lines("Posts that came in and went out", "s", "ms", &[fresh, outward])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compared_is_of_its_own_part_of_the_time() {
        let points: Points = (0..100).map(|at| (f64::from(at), f64::from(at))).collect();
        assert_eq!(median(&points, 100.0, 0.1, 0.2), Some(15.0));
        assert_eq!(median(&points, 100.0, 0.9, 1.0), Some(95.0));
        let few = vec![(5.0, 1.0), (80.0, 2.0), (110.0, 3.0)];
        assert_eq!(median(&few, 100.0, 0.1, 0.2), None);
        assert_eq!(late(&few, 100.0), Some(2.0));
        assert_eq!(late(&points, 100.0), Some(95.0));
        assert_eq!(median(&Points::new(), 100.0, 0.9, 1.0), None);
    }

    #[test]
    fn every_part_of_the_time_has_its_own_percentile() {
        let sample = |at_s: f64, ms: f64| Sample { at_s, ms, fine: true };
        let samples = [sample(0.1, 1.0), sample(0.2, 3.0), sample(1.5, 9.0)];
        let found = by_part(&samples, 2.0, 100.0);
        assert_eq!(found.len(), 2);
        assert!((found[0].1 - 3.0).abs() < 0.1 && (found[1].1 - 9.0).abs() < 0.1);
    }
}
