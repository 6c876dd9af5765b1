//! What was measured: printed, as JSON, and as a page with plots.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::Options;
use super::watch::{Part, Sample};
use crate::load::Latencies;
use crate::plot::{self, Line};

/// How late jobs started, in ms.
#[derive(Debug, Clone)]
pub(super) struct Times {
    count: u64,
    percentiles: Vec<(f64, f64)>,
}

impl Times {
    pub(super) fn of(latencies: &Latencies) -> Self {
        let each = [10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0];
        let percentiles = each.map(|percent| (percent, latencies.percentile_ms(percent)));
        Self { count: latencies.count(), percentiles: percentiles.to_vec() }
    }

    fn at(&self, percent: f64) -> f64 {
        let found = self.percentiles.iter().find(|(at, _)| *at == percent);
        found.map_or(0.0, |(_, ms)| *ms)
    }
}

/// All that was measured.
pub(super) struct Measured {
    backend: &'static str,
    parts: Vec<(&'static str, Part)>,
    numbers: Vec<(&'static str, f64)>,
    times: Vec<(&'static str, Times)>,
    pub(super) lost: u64,
    pub(super) repeated: u64,
}

impl Measured {
    pub(super) fn new(backend: &'static str) -> Self {
        let (parts, numbers, times) = (Vec::new(), Vec::new(), Vec::new());
        Self { backend, parts, numbers, times, lost: 0, repeated: 0 }
    }

    /// A part whose rate is the result `key`.
    pub(super) fn add(&mut self, key: &'static str, part: Part) {
        self.parts.push((key, part));
    }

    pub(super) fn number(&mut self, key: &'static str, value: f64) {
        self.numbers.push((key, value));
    }

    pub(super) fn times(&mut self, name: &'static str, times: Times) {
        self.times.push((name, times));
    }

    fn part(&self, key: &str) -> Option<&Part> {
        self.parts.iter().find(|(name, _)| *name == key).map(|(_, part)| part)
    }

    fn results(&self) -> Map<String, Value> {
        let mut results = Map::new();
        for (key, part) in &self.parts {
            results.insert((*key).to_owned(), json!(part.per_s.round()));
            let us = key.replace("_per_s", "_processor_us");
            results.insert(us, json!((part.processor_us * 100.0).round() / 100.0));
        }
        for (key, value) in &self.numbers {
            results.insert((*key).to_owned(), json!(value.round()));
        }
        for (name, times) in &self.times {
            for (label, percent) in [("p50", 50.0), ("p99", 99.0), ("max", 100.0)] {
                results.insert(format!("{name}_{label}_ms"), json!(times.at(percent)));
            }
            results.insert(format!("{name}_count"), json!(times.count));
        }
        let samples = || self.parts.iter().flat_map(|(_, part)| &part.samples);
        let most = samples().map(|sample| sample.rss_bytes).max().unwrap_or(0);
        results.insert("rss_max_bytes".into(), json!(most));
        if let Some(drain) = self.part("drain_per_s") {
            let tenths = drain.tenths_per_s();
            let first = tenths.first().copied().unwrap_or(0.0).max(1e-9);
            let ratio = tenths.last().copied().unwrap_or(0.0) / first;
            let rounded: Vec<f64> = tenths.iter().map(|rate| rate.round()).collect();
            results.insert("drain_tenths_per_s".into(), json!(rounded));
            results.insert("drain_last_over_first_tenth".into(), json!(rounded_to_3(ratio)));
            let (first, last) = (drain.rss_max_bytes(0.0, 0.1), drain.rss_max_bytes(0.0, 1.0));
            results.insert("rss_first_tenth_bytes".into(), json!(first));
            let ratio = last as f64 / first.max(1) as f64;
            results.insert("rss_max_over_first_tenth".into(), json!(rounded_to_3(ratio)));
        }
        results.insert("lost".into(), json!(self.lost));
        results.insert("repeated".into(), json!(self.repeated));
        results
    }
}

fn rounded_to_3(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// Prints what was measured, and writes the files that were asked for.
pub(super) fn give(options: &Options, measured: &Measured) -> Result<()> {
    let results = measured.results();
    let mut parameters = serde_json::to_value(options)?;
    parameters["backend"] = json!(measured.backend);
    // Nobody's password.
    if let Some(url) = &options.target {
        let mut url = url::Url::parse(url)?;
        if url.password().is_some() {
            let _ = url.set_password(Some("…"));
        }
        parameters["target"] = json!(url.as_str());
    }
    let more = json!({ "parameters": parameters, "series": series(measured) });
    options.files.give("jobs", &results, more, |object| page(measured, object))
}

/// What the plots show.
fn series(measured: &Measured) -> Value {
    let drain = measured.part("drain_per_s").map(|part| &part.samples);
    json!({ "drain": drain })
}

/// Jobs a second between looks that are at least 100 ms apart.
fn rates(samples: &[Sample]) -> Vec<(f64, f64)> {
    let mut rates = Vec::new();
    let Some(mut before) = samples.first() else { return rates };
    for sample in samples {
        let ms = sample.at_ms - before.at_ms;
        if ms >= 100.0 {
            let done = sample.done.saturating_sub(before.done) as f64;
            rates.push((sample.at_ms / 1e3, done / ms * 1e3));
            before = sample;
        }
    }
    rates
}

fn page(measured: &Measured, object: &Value) -> String {
    let mut plots = String::new();
    for (_, part) in measured.parts.iter().filter(|(_, part)| part.samples.len() > 2) {
        let throughput = Line { name: "jobs/s", points: rates(&part.samples) };
        plots.push_str(&plot::lines(part.name, "s", "jobs/s", &[throughput]));
    }
    let mut passed = 0.0;
    let mut memory = Vec::new();
    for (_, part) in &measured.parts {
        let points = part.samples.iter();
        memory
            .extend(points.map(|it| (passed + it.at_ms / 1e3, it.rss_bytes as f64 / 1_048_576.0)));
        passed += part.seconds;
    }
    let memory = Line { name: "resident", points: memory };
    plots.push_str(&plot::lines("Memory over all parts", "s", "MiB", &[memory]));
    let times: Vec<Line<'_>> = (measured.times.iter())
        .map(|(name, times)| Line { name, points: times.percentiles.clone() })
        .collect();
    if !times.is_empty() {
        plots.push_str(&plot::lines("How late jobs start", "percent of jobs", "ms", &times));
    }
    let table = |values: &Value| {
        let rows = values.as_object().into_iter().flatten().map(|(name, value)| {
            let (name, value) = (plot::escaped(name), plot::escaped(&value.to_string()));
            format!("<tr><th>{name}<td>{value}")
        });
        format!("<table>{}</table>", rows.collect::<String>())
    };
    let body = format!(
        "{plots}<h2>Results</h2>{}<h2>Parameters</h2>{}<h2>Machine</h2>{}",
        table(&object["results"]),
        table(&object["parameters"]),
        table(&object["machine"]),
    );
    plot::page(&format!("weir storm jobs, {}", measured.backend), &body)
}
