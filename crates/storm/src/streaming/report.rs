//! What was measured: printed, as JSON, and as a page with plots.

use std::time::Instant;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::Options;
use crate::load::Latencies;
use crate::plot::{self, Line};

/// How far everything was at a time.
#[derive(Debug, Clone)]
pub(super) struct Look {
    pub(super) at: Instant,
    pub(super) at_s: f64,
    pub(super) open: usize,
    pub(super) came: u64,
    pub(super) rss_bytes: u64,
}

/// All that was measured.
#[derive(Default)]
pub(super) struct Measured {
    numbers: Vec<(String, f64)>,
    times: Vec<(String, Latencies)>,
    pub(super) looks: Vec<Look>,
    /// Listeners that got in.
    pub(super) connections: u64,
}

impl Measured {
    pub(super) fn number(&mut self, key: &str, value: f64) {
        self.numbers.push((key.to_owned(), value));
    }

    pub(super) fn times(&mut self, name: &str, times: &Latencies) {
        self.times.push((name.to_owned(), times.clone()));
    }

    /// How long answers to one who is here took meanwhile.
    pub(super) fn bystander(&mut self, part: &str, times: Option<Latencies>) {
        if let Some(times) = times {
            self.times.push((format!("{part}_ping"), times));
        }
    }

    fn results(&self) -> Map<String, Value> {
        let mut results = Map::new();
        for (key, value) in &self.numbers {
            results.insert(key.clone(), rounded(*value));
        }
        for (name, times) in &self.times {
            for (label, percent) in [("p50", 50.0), ("p99", 99.0), ("max", 100.0)] {
                results.insert(format!("{name}_{label}_ms"), rounded(times.percentile_ms(percent)));
            }
        }
        results
    }

    fn series(&self) -> Value {
        let of = |value: &dyn Fn(&Look) -> f64| -> Vec<(f64, f64)> {
            self.looks.iter().map(|look| (look.at_s, value(look))).collect()
        };
        let mut rates = Vec::new();
        for pair in self.looks.windows(2) {
            let [before, after] = pair else { continue };
            let came = after.came.saturating_sub(before.came) as f64;
            rates.push((after.at_s, came / (after.at_s - before.at_s).max(0.001)));
        }
        json!({
            "connections": of(&|look| look.open as f64),
            "deliveries_per_s": rates,
            "rss_bytes": of(&|look| look.rss_bytes as f64),
        })
    }
}

fn rounded(value: f64) -> Value {
    let places = if value.abs() < 1_000.0 { 100.0 } else { 1.0 };
    json!((value * places).round() / places)
}

/// Prints what was measured, and writes the files that were asked for.
pub(super) fn give(options: &Options, measured: &Measured) -> Result<()> {
    let results = measured.results();
    let more = json!({ "parameters": options, "series": measured.series() });
    options.files.give("streaming", &results, more, page)
}

fn page(object: &Value) -> String {
    let line = |name: &str| {
        let points = object["series"][name].as_array().into_iter().flatten();
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        points.map(|point| (number(&point[0]), number(&point[1]))).collect::<Vec<_>>()
    };
    let plot = |title: &str, unit: &str, name: &str| {
        plot::lines(title, "s", unit, &[Line { name, points: line(name) }])
    };
    let results = object["results"].as_object();
    let bars = |title: &str, wanted: &[&str]| {
        let found = wanted.iter().filter_map(|key| {
            let value = results?.get(*key)?.as_f64()?;
            Some(((*key).to_owned(), value, format!("{value} ms")))
        });
        plot::bars(title, &found.collect::<Vec<_>>())
    };
    let rows = results
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("<tr><th>{}</th><td>{}</td></tr>", plot::escaped(key), value));
    let delivered = ["fanout", "flood", "slow"]
        .map(|part| ["p50", "p99", "max"].map(|percent| format!("{part}_{percent}_ms")));
    let delivered: Vec<&str> = delivered.iter().flatten().map(String::as_str).collect();
    let pings = [
        "idle_ping_p99_ms",
        "paced_ping_p99_ms",
        "flood_ping_p99_ms",
        "slow_ping_p99_ms",
        "reconnect_ping_p99_ms",
    ];
    let body = [
        plot("Connections", "open", "connections"),
        plot("Deliveries", "a second", "deliveries_per_s"),
        plot("Memory of the server", "bytes", "rss_bytes"),
        bars("How long a message takes", &delivered),
        bars("How long a bystander's ping takes", &pings),
        format!("<table>{}</table>", rows.collect::<String>()),
    ];
    plot::page("weir storm streaming", &body.concat())
}
