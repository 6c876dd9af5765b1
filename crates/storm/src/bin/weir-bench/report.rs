//! What was measured, as a table, as JSON and as a page with bars.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use weir_storm::load::Latencies;

/// One figure.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    name: String,
    unit: &'static str,
    value: f64,
}

/// The figures of one database.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) figures: Vec<Figure>,
}

impl Figure {
    pub(crate) fn new(name: &str, unit: &'static str, value: f64) -> Self {
        Self { name: name.to_owned(), unit, value }
    }

    /// The median and the 99th percentile.
    pub(crate) fn times(name: &str, latencies: &Latencies) -> Vec<Self> {
        [50.0, 99.0]
            .map(|percent| {
                let name = format!("{name}, p{percent:.0}");
                Self { name, unit: "ms", value: latencies.percentile_ms(percent) }
            })
            .to_vec()
    }
}

/// Prints the figures, one a line.
pub(crate) fn print(figures: &[Figure]) {
    for figure in figures {
        println!("  {:<44} {:>12.1} {}", figure.name, figure.value, figure.unit);
    }
}

/// Writes `community.json` and `community.html` into `folder`.
pub(crate) fn write(folder: &Path, columns: &[Column]) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let results: serde_json::Map<String, serde_json::Value> = columns
        .iter()
        .map(|column| {
            let figures = column.figures.iter().map(|figure| {
                let key = format!("{} ({})", figure.name, figure.unit);
                (key, serde_json::json!(figure.value))
            });
            (column.name.clone(), serde_json::Value::Object(figures.collect()))
        })
        .collect();
    let json = serde_json::json!({ "scenario": "community", "results": results });
    std::fs::write(folder.join("community.json"), serde_json::to_string_pretty(&json)?)?;
    std::fs::write(folder.join("community.html"), page(columns))?;
    println!("\nwritten: {}", folder.join("community.html").display());
    Ok(())
}

/// A bar for each figure and database; the longest of a figure fills the line.
fn page(columns: &[Column]) -> String {
    let mut rows = String::new();
    let names: Vec<&Figure> =
        columns.first().map_or(Vec::new(), |column| column.figures.iter().collect());
    for (at, figure) in names.iter().enumerate() {
        let values: Vec<(&str, f64)> = columns
            .iter()
            .filter_map(|column| Some((column.name.as_str(), column.figures.get(at)?.value)))
            .collect();
        let most = values.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
        let _ =
            write!(rows, "<h2>{}</h2><svg viewBox=\"0 0 640 {}\">", figure.name, values.len() * 24);
        for (line, (name, value)) in values.iter().enumerate() {
            let (y, width) = (line * 24, value / most * 380.0);
            let _ = write!(
                rows,
                "<text x=\"0\" y=\"{}\">{name}</text><rect x=\"110\" y=\"{}\" width=\"{width:.1}\" \
                 height=\"16\" rx=\"3\"/><text x=\"{:.1}\" y=\"{}\">{value:.1} {}</text>",
                y + 16,
                y + 3,
                118.0 + width,
                y + 16,
                figure.unit
            );
        }
        rows.push_str("</svg>");
    }
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Weir: a community</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>:root{{color-scheme:light \
         dark;font:16px system-ui}}body{{max-width:46rem;margin:2rem auto;padding:0 1rem}}\
         h2{{font-size:1rem;margin:1.2rem 0 .3rem}}svg{{width:100%}}text{{fill:currentColor;\
         font-size:13px}}rect{{fill:#2a7de1}}</style><h1>Weir: a community on one machine</h1>\
         {rows}</html>"
    )
}
