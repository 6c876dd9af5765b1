//! What was measured: printed, as JSON, and as a page with plots.

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::Options;
use crate::load::Latencies;
use crate::plot::{self, Line};

/// A burst of log-ins.
pub(super) struct Burst {
    pub(super) clients: usize,
    /// When each had everything, in ms from the beginning.
    pub(super) ready_ms: Vec<f64>,
    /// Documents and bytes that one client got.
    pub(super) documents: usize,
    pub(super) bytes: usize,
    /// Processor time of the server, in s.
    pub(super) used_s: f64,
    /// How much the server's memory grew.
    pub(super) rss_bytes: u64,
    pub(super) pings: Latencies,
    pub(super) calls: Latencies,
}

/// Sessions that came back.
pub(super) struct Resumed {
    pub(super) count: usize,
    pub(super) resumed: usize,
    pub(super) all_ms: f64,
    pub(super) documents_again: usize,
    pub(super) rss_bytes: u64,
    pub(super) used_s: f64,
}

/// All that was measured.
pub(super) struct Measured {
    pub(super) before: (Latencies, Latencies),
    pub(super) bursts: Vec<Burst>,
    pub(super) resumed: Option<Resumed>,
    pub(super) failed: u64,
}

fn rounded(value: f64) -> Value {
    json!((value * 100.0).round() / 100.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// A percentile; null where nothing was measured.
fn part(of: &Latencies, percent: f64) -> Value {
    if of.count() == 0 { Value::Null } else { rounded(of.percentile_ms(percent)) }
}

impl Burst {
    fn last_ms(&self) -> f64 {
        self.ready_ms.iter().copied().fold(0.0, f64::max)
    }

    fn first_ms(&self) -> f64 {
        self.ready_ms.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

impl Measured {
    /// Bursts of one size.
    fn of(&self, clients: usize) -> Vec<&Burst> {
        self.bursts.iter().filter(|burst| burst.clients == clients).collect()
    }

    fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.bursts.iter().map(|burst| burst.clients).collect();
        sizes.dedup();
        sizes
    }

    fn table(&self) -> Vec<Value> {
        let row = |clients: usize| {
            let bursts = self.of(clients);
            let median_of =
                |of: fn(&Burst) -> f64| rounded(median(bursts.iter().map(|one| of(one)).collect()));
            let (mut pings, mut calls) = (Latencies::default(), Latencies::default());
            for burst in &bursts {
                pings.merge(burst.pings.clone());
                calls.merge(burst.calls.clone());
            }
            json!({
                "clients": clients,
                "all_ready_ms": median_of(Burst::last_ms),
                "first_ready_ms": median_of(Burst::first_ms),
                "documents": bursts.iter().map(|burst| burst.documents).max(),
                "bytes": bursts.iter().map(|burst| burst.bytes).max(),
                "server_processor_ms_each":
                    median_of(|burst| burst.used_s * 1e3 / burst.clients as f64),
                "rss_bytes_each": median_of(|burst| burst.rss_bytes as f64 / burst.clients as f64),
                "ping_p50_ms": part(&pings, 50.0),
                "ping_p99_ms": part(&pings, 99.0),
                "ping_max_ms": part(&pings, 100.0),
                "method_p50_ms": part(&calls, 50.0),
                "method_p99_ms": part(&calls, 99.0),
                "method_max_ms": part(&calls, 100.0),
                "pings": pings.count(),
                "calls": calls.count(),
            })
        };
        self.sizes().into_iter().map(row).collect()
    }

    fn results(&self) -> Map<String, Value> {
        let mut results = Map::new();
        let table = self.table();
        let mut add = |name: &str, value: Value| results.insert(name.to_owned(), value);
        add("quiet_ping_p99_ms", part(&self.before.0, 99.0));
        add("quiet_method_p99_ms", part(&self.before.1, 99.0));
        if let Some(largest) = table.iter().max_by_key(|row| row["clients"].as_u64()) {
            add("all_ready_ms", largest["all_ready_ms"].clone());
            add("bystander_ping_p99_ms", largest["ping_p99_ms"].clone());
            add("bystander_ping_max_ms", largest["ping_max_ms"].clone());
            add("bystander_method_p99_ms", largest["method_p99_ms"].clone());
            add("bystander_method_max_ms", largest["method_max_ms"].clone());
        }
        for row in &table {
            let clients = &row["clients"];
            add(&format!("all_ready_ms_of_{clients}"), row["all_ready_ms"].clone());
        }
        if let Some(resumed) = &self.resumed {
            add("resumed", json!(resumed.resumed));
            add("resumed_of", json!(resumed.count));
            add("resume_all_ms", rounded(resumed.all_ms));
            add("resume_documents_again", json!(resumed.documents_again));
            let each = resumed.rss_bytes as f64 / resumed.count.max(1) as f64;
            add("rss_per_session_bytes", rounded(each));
            let us = resumed.used_s * 1e6 / resumed.count.max(1) as f64;
            add("resume_server_processor_us_each", rounded(us));
        }
        add("bystanders_not_answered", json!(self.failed));
        results
    }
}

/// Prints what was measured, and writes the files that were asked for.
pub(super) fn give(options: &Options, measured: &Measured) -> Result<()> {
    let results = measured.results();
    let more = json!({ "parameters": options, "bursts": measured.table() });
    options.files.give("logins", &results, more, |object| page(measured, object))
}

fn page(measured: &Measured, object: &Value) -> String {
    let of_size = |of: fn(&Value) -> f64| {
        let rows = object["bursts"].as_array().into_iter().flatten();
        rows.map(|row| (row["clients"].as_f64().unwrap_or(0.0), of(row))).collect::<Vec<_>>()
    };
    let ready = [
        Line { name: "last", points: of_size(|row| row["all_ready_ms"].as_f64().unwrap_or(0.0)) },
        Line {
            name: "first",
            points: of_size(|row| row["first_ready_ms"].as_f64().unwrap_or(0.0)),
        },
    ];
    let mut plots = plot::lines("Everything there", "clients at once", "ms", &ready);
    let pings = [
        Line {
            name: "ping p99",
            points: of_size(|row| row["ping_p99_ms"].as_f64().unwrap_or(0.0)),
        },
        Line {
            name: "method p99",
            points: of_size(|row| row["method_p99_ms"].as_f64().unwrap_or(0.0)),
        },
        Line {
            name: "ping max",
            points: of_size(|row| row["ping_max_ms"].as_f64().unwrap_or(0.0)),
        },
    ];
    plots += &plot::lines("Bystanders meanwhile", "clients at once", "ms", &pings);
    let largest = measured.sizes().into_iter().max().unwrap_or(0);
    if let Some(burst) = measured.of(largest).first() {
        let mut sorted = burst.ready_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let part = |(at, ms): (usize, &f64)| (*ms, (at + 1) as f64 * 100.0 / sorted.len() as f64);
        let points = sorted.iter().enumerate().map(part).collect();
        let line = Line { name: "ready", points };
        plots +=
            &plot::lines("Clients that have everything, largest burst", "ms", "percent", &[line]);
    }
    let cells = |values: &Value| {
        let rows = values.as_object().into_iter().flatten().map(|(name, value)| {
            let (name, value) = (plot::escaped(name), plot::escaped(&value.to_string()));
            format!("<tr><th>{name}<td>{value}")
        });
        format!("<table>{}</table>", rows.collect::<String>())
    };
    let tables = ["results", "parameters", "machine"]
        .map(|name| format!("<h2>{name}</h2>{}", cells(&object[name])));
    plot::page("weir storm logins", &format!("{plots}{}", tables.concat()))
}
