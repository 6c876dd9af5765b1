//! What was measured: printed, as JSON, and as a page with plots.

use std::time::Instant;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Options;
use super::count::Count;
use crate::fediverse::Signatures;
use crate::plot::{self, Line};

/// How far everything was at a time.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Look {
    pub(super) at_s: f64,
    pub(super) came: u64,
    pub(super) rss_bytes: u64,
}

/// All that was measured.
pub(super) struct Measured {
    pub(super) count: Count,
    /// How long the answer to each post took, in ms, and when it was due.
    pub(super) written: Vec<(f64, Instant)>,
    pub(super) looks: Vec<Look>,
    /// Processor time of the server, and of this load, in s.
    pub(super) used_s: f64,
    pub(super) own_s: f64,
    pub(super) signatures: Signatures,
    pub(super) arranged_s: f64,
}

impl Measured {
    fn results(&self) -> Map<String, Value> {
        let mut results = Map::new();
        for (number, name) in ["", "second_"].into_iter().enumerate() {
            let Some((answer_ms, due)) = self.written.get(number) else { continue };
            let first = self.count.first_ms(number, *due);
            let last = self.count.last_ms(number, *due);
            let missing = self.count.missing(number);
            let hosts = self.count.live_hosts();
            let at = |of: &[f64], percent| at(of, hosts, percent).map_or(Value::Null, rounded);
            // Of posts that are not everywhere there is no time by which they were.
            let by_then = |of: &[f64]| if missing == 0 { at(of, 100) } else { Value::Null };
            let mut add = |key: &str, value: Value| results.insert(format!("{name}{key}"), value);
            add("answer_ms", rounded(*answer_ms));
            add("host_p50_ms", at(&first, 50));
            add("host_p99_ms", at(&first, 99));
            add("first_inbox_of_last_host_ms", by_then(&first));
            add("last_live_host_ms", by_then(&last));
            add("missing", json!(missing));
            add("slow_missing", json!(self.count.slow_missing(number)));
        }
        let due = self.written.first().map(|(_, due)| *due);
        let last_ms = due
            .zip(self.count.last_came())
            .map_or(0.0, |(due, last)| last.saturating_duration_since(due).as_secs_f64() * 1e3);
        let came = self.count.came() as f64;
        results.insert("deliveries_per_s".into(), rounded(came / last_ms.max(1.0) * 1e3));
        results.insert("deliveries".into(), json!(self.count.came()));
        results.insert("repeated".into(), json!(self.count.repeated()));
        results.insert("tries_elsewhere".into(), json!(self.count.elsewhere()));
        let Signatures { verified, wrong, unknown } = self.signatures;
        results.insert("signatures_verified".into(), json!(verified));
        results.insert("signatures_wrong".into(), json!(wrong));
        results.insert("signatures_unknown".into(), json!(unknown));
        let rss = self.looks.iter().map(|look| look.rss_bytes).max().unwrap_or(0);
        results.insert("rss_max_bytes".into(), json!(rss));
        results.insert("server_processor_s".into(), rounded(self.used_s));
        let us = self.used_s * 1e6 / came.max(1.0);
        results.insert("server_processor_us_each".into(), rounded(us));
        results.insert("load_processor_s".into(), rounded(self.own_s));
        results.insert("arranged_s".into(), rounded(self.arranged_s));
        results
    }
}

/// The time that `percent` of all `hosts` stayed below, if so many have it at all.
fn at(sorted_ms: &[f64], hosts: usize, percent: usize) -> Option<f64> {
    let index = (hosts * percent).div_ceil(100).max(1) - 1;
    sorted_ms.get(index).copied()
}

fn rounded(value: f64) -> Value {
    json!((value * 100.0).round() / 100.0)
}

/// Prints what was measured, and writes the files that were asked for.
pub(super) fn give(options: &Options, measured: &Measured) -> Result<()> {
    let results = measured.results();
    let more = json!({ "parameters": options, "series": measured.looks });
    options.files.give("deliver", &results, more, |object| page(measured, object))
}

/// Which part of all `hosts` had a post after how long.
fn spread(sorted_ms: &[f64], hosts: usize) -> Vec<(f64, f64)> {
    let hosts = hosts.max(1) as f64;
    let point = |(number, ms): (usize, &f64)| (*ms, (number + 1) as f64 / hosts * 100.0);
    sorted_ms.iter().enumerate().map(point).collect()
}

fn page(measured: &Measured, object: &Value) -> String {
    let points = |of: fn(&Look) -> f64| {
        measured.looks.iter().map(|look| (look.at_s, of(look))).collect::<Vec<_>>()
    };
    let came = Line { name: "came", points: points(|look| look.came as f64) };
    let mut plots = plot::lines("Deliveries to hosts that answer", "s", "deliveries", &[came]);
    let hosts: Vec<Line<'_>> = (["first post", "second post"].into_iter().enumerate())
        .filter_map(|(number, name)| {
            let (_, due) = measured.written.get(number)?;
            let first_ms = measured.count.first_ms(number, *due);
            Some(Line { name, points: spread(&first_ms, measured.count.live_hosts()) })
        })
        .collect();
    plots += &plot::lines("Hosts that have a post", "ms", "percent", &hosts);
    let memory =
        Line { name: "resident", points: points(|look| look.rss_bytes as f64 / 1_048_576.0) };
    plots += &plot::lines("Memory of the server", "s", "MiB", &[memory]);
    let table = |values: &Value| {
        let rows = values.as_object().into_iter().flatten().map(|(name, value)| {
            let (name, value) = (plot::escaped(name), plot::escaped(&value.to_string()));
            format!("<tr><th>{name}<td>{value}")
        });
        format!("<table>{}</table>", rows.collect::<String>())
    };
    let tables = ["results", "parameters", "machine"]
        .map(|name| format!("<h2>{name}</h2>{}", table(&object[name])));
    plot::page("weir storm deliver", &format!("{plots}{}", tables.concat()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deliver::arrange::Kind;
    use crate::fediverse::Arrival;

    #[test]
    fn hosts_that_do_not_have_it_are_above_every_percentile() {
        let sorted_ms = [1.0, 2.0, 3.0];
        assert_eq!(
            [50, 75, 99].map(|percent| at(&sorted_ms, 3, percent).unwrap()),
            [2.0, 3.0, 3.0]
        );
        assert_eq!(
            [50, 75, 99].map(|percent| at(&sorted_ms, 4, percent)),
            [Some(2.0), Some(3.0), None]
        );
        assert_eq!(at(&[], 0, 50), None);
        assert_eq!(spread(&sorted_ms, 4).last(), Some(&(3.0, 75.0)));
    }

    #[test]
    fn of_a_post_that_is_missing_somewhere_there_is_no_time_by_which_it_was_everywhere() {
        let due = Instant::now();
        let mut count = Count::new(["one"], vec![1, 1], &[Kind::Live, Kind::Live]);
        let came = |host| Arrival {
            host,
            path: "/inbox".to_owned(),
            at: due,
            body: bytes::Bytes::from_static(b"one"),
        };
        let results = |count| {
            let measured = Measured {
                count,
                written: vec![(1.0, due)],
                looks: Vec::new(),
                used_s: 0.0,
                own_s: 0.0,
                signatures: Signatures::default(),
                arranged_s: 0.0,
            };
            let results = measured.results();
            ["missing", "host_p50_ms", "host_p99_ms", "last_live_host_ms"]
                .map(|name| results[name].clone())
        };
        count.add(&came(0));
        let mut whole = Count::new(["one"], vec![1, 1], &[Kind::Live, Kind::Live]);
        assert!(whole.add(&came(0)) && whole.add(&came(1)));
        assert_eq!(results(count), [json!(1), json!(0.0), Value::Null, Value::Null]);
        assert_eq!(results(whole), [json!(0), json!(0.0), json!(0.0), json!(0.0)]);
    }
}
