//! What was measured: printed as it comes, then written as JSON, as an SVG and as a page.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use weir_storm::load::Latencies;

/// What GoToSocial 0.20 on SQLite showed on a machine of this kind: from, to.
const ELSEWHERE: [(&str, f64, f64); 5] = [
    ("start-up, filled database", 1_100.0, 1_900.0),
    ("resident memory, idle", 76.0, 131.0),
    ("home timeline, 1,000 followed, p50", 2.4, 2.4),
    ("status post, p50", 5.0, 5.0),
    ("inbound visible", 184.0, 225.0),
];

/// One figure.
#[derive(Debug, Clone)]
struct Figure {
    name: String,
    unit: &'static str,
    value: f64,
}

/// The figures of one database, in the order they were measured.
pub(crate) struct Column {
    name: &'static str,
    figures: Vec<Figure>,
}

impl Column {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, figures: Vec::new() }
    }

    /// Adds a figure and prints it.
    pub(crate) fn add(&mut self, name: &str, unit: &'static str, value: f64) {
        println!("  {name:<46} {value:>10.1} {unit}");
        self.figures.push(Figure { name: name.to_owned(), unit, value });
    }

    /// Adds the median and the 99th percentile.
    pub(crate) fn add_times(&mut self, name: &str, latencies: &Latencies) {
        for percent in [50.0, 99.0] {
            self.add(&format!("{name}, p{percent}"), "ms", latencies.percentile_ms(percent));
        }
    }

    /// Adds what one of the requests of `latencies` cost the server.
    pub(crate) fn add_cost(&mut self, name: &str, latencies: &Latencies, cpu: Duration) {
        let each_us = cpu.as_secs_f64() * 1e6 / latencies.count().max(1) as f64;
        self.add(&format!("{name}, processor time"), "µs", each_us);
    }
}

/// Writes `community.json`, `community.svg` and `community.html` into `folder`.
pub(crate) fn write(folder: &Path, columns: &[Column]) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let results: serde_json::Map<String, serde_json::Value> = columns
        .iter()
        .map(|column| {
            let figures = column.figures.iter().map(|figure| {
                let key = format!("{} ({})", figure.name, figure.unit);
                (key, serde_json::json!(figure.value))
            });
            (column.name.to_owned(), serde_json::Value::Object(figures.collect()))
        })
        .collect();
    let json = serde_json::json!({ "scenario": "community", "results": results });
    std::fs::write(folder.join("community.json"), serde_json::to_string_pretty(&json)?)?;
    let plot = plot(columns);
    std::fs::write(folder.join("community.svg"), &plot)?;
    std::fs::write(folder.join("community.html"), page(&plot))?;
    println!("\nwritten: {}", folder.join("community.html").display());
    Ok(())
}

/// A bar for each figure and database, and what was measured elsewhere; the longest bar of a
/// figure fills the line.
fn plot(columns: &[Column]) -> String {
    let (mut body, mut y) = (String::new(), 0_u32);
    let first = columns.first().map_or(&[][..], |column| &column.figures);
    for (at, figure) in first.iter().enumerate() {
        let here = columns.iter().filter_map(|column| Some((column, column.figures.get(at)?)));
        let mut bars: Vec<(&str, f64, f64, &str)> =
            here.map(|(column, one)| (column.name, one.value, one.value, "here")).collect();
        let elsewhere = ELSEWHERE.iter().find(|(name, ..)| *name == figure.name);
        bars.extend(elsewhere.map(|(_, from, to)| ("GoToSocial", *from, *to, "elsewhere")));
        let most = bars.iter().map(|bar| bar.2).fold(f64::MIN_POSITIVE, f64::max);
        y += 30;
        let _ = write!(body, "<text class=\"name\" x=\"0\" y=\"{y}\">{}</text>", figure.name);
        y += 8;
        for (name, from, to, class) in bars {
            let width = to / most * 360.0;
            let value = if from < to { format!("{from} to {to}") } else { format!("{to:.1}") };
            let _ = write!(
                body,
                "<text x=\"0\" y=\"{}\">{name}</text><rect class=\"{class}\" x=\"110\" y=\"{y}\" \
                 width=\"{width:.1}\" height=\"15\" rx=\"3\"/><text x=\"{:.1}\" y=\"{}\">{value} \
                 {}</text>",
                y + 12,
                118.0 + width,
                y + 12,
                figure.unit
            );
            y += 21;
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 {}\"><style>text{{font:13px \
         system-ui,sans-serif;fill:#333}}.name{{font-weight:600}}.here{{fill:#2a7de1}}\
         .elsewhere{{fill:#b9bec6}}@media (prefers-color-scheme:dark){{text{{fill:#ddd}}}}\
         </style>{body}</svg>",
        y + 10
    )
}

fn page(plot: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Weir: a community</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>:root{{color-scheme:light \
         dark;font:16px system-ui}}body{{max-width:46rem;margin:2rem auto;padding:0 1rem}}\
         svg{{width:100%}}</style><h1>Weir: a community on one machine</h1><p>Grey: measured \
         elsewhere on a machine of this kind.</p>{plot}</html>"
    )
}
