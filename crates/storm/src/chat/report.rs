//! What was measured: printed, as JSON, and as a page with plots.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::crowd::Scene;
use super::others;
use crate::findings::Files;
use crate::load::Latencies;
use crate::machine;
use crate::plot::{self, Line};

/// How often it is looked how far everything is.
const LOOKED_EACH: Duration = Duration::from_millis(500);

/// How far everything was at a time.
#[derive(Debug, Clone)]
pub(super) struct Look {
    at_s: f64,
    online: u64,
    messages: u64,
    presences: u64,
    rss_bytes: u64,
}

/// Looks again and again.
pub(super) async fn look(scene: Arc<Scene>, server: Option<u32>, looks: Arc<Mutex<Vec<Look>>>) {
    let began = Instant::now();
    let mut each = tokio::time::interval(LOOKED_EACH);
    loop {
        each.tick().await;
        looks.lock().push(Look {
            at_s: began.elapsed().as_secs_f64(),
            online: scene.online.load(Ordering::Relaxed),
            messages: scene.messages.load(Ordering::Relaxed),
            presences: scene.presences.load(Ordering::Relaxed),
            rss_bytes: server.map_or(0, machine::resident_bytes_of),
        });
    }
}

/// All that was measured.
#[derive(Default)]
pub(super) struct Measured {
    results: Map<String, Value>,
    pub(super) looks: Vec<Look>,
}

impl Measured {
    pub(super) fn number(&mut self, key: &str, value: f64) {
        let places = if value.abs() < 1_000.0 { 100.0 } else { 1.0 };
        self.results.insert(key.to_owned(), json!((value * places).round() / places));
        if others::number() == 0 {
            eprintln!("  {key}: {}", self.results[key]);
        }
    }

    pub(super) fn times(&mut self, name: &str, times: &Latencies) {
        for (label, percent) in [("p50", 50.0), ("p99", 99.0), ("max", 100.0)] {
            self.number(&format!("{name}_{label}_ms"), times.percentile_ms(percent));
        }
    }

    fn series(&self) -> Value {
        let of = |value: &dyn Fn(&Look) -> f64| -> Vec<(f64, f64)> {
            self.looks.iter().map(|look| (look.at_s, value(look))).collect()
        };
        let rates = |value: &dyn Fn(&Look) -> u64| -> Vec<(f64, f64)> {
            let rate = |pair: &[Look]| {
                let came = value(&pair[1]).saturating_sub(value(&pair[0])) as f64;
                (pair[1].at_s, came / (pair[1].at_s - pair[0].at_s).max(0.001))
            };
            self.looks.windows(2).map(rate).collect()
        };
        json!({
            "online": of(&|look| look.online as f64),
            "rss_bytes": of(&|look| look.rss_bytes as f64),
            "messages_per_s": rates(&|look| look.messages),
            "presences_per_s": rates(&|look| look.presences),
        })
    }
}

/// Prints what was measured, and writes the files that were asked for.
pub(super) fn give(
    scenario: &str,
    files: &Files,
    parameters: Value,
    measured: &Measured,
) -> Result<()> {
    let more = json!({ "parameters": parameters, "series": measured.series() });
    files.give(scenario, &measured.results, more, page)
}

fn page(object: &Value) -> String {
    let plot = |title: &str, unit: &str, name: &'static str| {
        let points = object["series"][name].as_array().into_iter().flatten();
        let number = |value: &Value| value.as_f64().unwrap_or(0.0);
        let points = points.map(|point| (number(&point[0]), number(&point[1]))).collect();
        plot::lines(title, "s", unit, &[Line { name, points }])
    };
    let results = object["results"].as_object();
    let is_p99 = |key: &&String| key.ends_with("_p99_ms");
    let bars = results.into_iter().flat_map(Map::keys).filter(is_p99).filter_map(|key| {
        let value = results?.get(key)?.as_f64()?;
        Some((key.clone(), value, format!("{value} ms")))
    });
    let rows = results
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("<tr><th>{}</th><td>{value}</td></tr>", plot::escaped(key)));
    let body = [
        plot("People online", "online", "online"),
        plot("Memory of the server", "bytes", "rss_bytes"),
        plot("Messages that came", "a second", "messages_per_s"),
        plot("Presence that came", "a second", "presences_per_s"),
        plot::bars("The slowest of a hundred", &bars.collect::<Vec<_>>()),
        format!("<table>{}</table>", rows.collect::<String>()),
    ];
    let scenario = object["scenario"].as_str().unwrap_or_default();
    plot::page(&format!("weir storm {scenario}"), &body.concat())
}
