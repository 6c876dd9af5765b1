//! What a scenario found: printed, and written to the files that were asked for.
#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use crate::machine::machine;

/// Where what was measured is written.
#[derive(Debug, Clone, Default, Args, Serialize)]
pub struct Files {
    /// Write what was measured as one JSON object.
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub json: Option<PathBuf>,
    /// Write a page with plots that needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    #[serde(skip)]
    pub report: Option<PathBuf>,
}

impl Files {
    /// Prints `results`, one a line, and writes them with `more` (parameters, series) and the
    /// machine to the files; `page` makes the page of the whole object.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn give(
        &self,
        scenario: &str,
        results: &serde_json::Map<String, Value>,
        more: Value,
        page: impl FnOnce(&Value) -> String,
    ) -> Result<()> {
        for (name, value) in results {
            println!("{name:<34} {value}");
        }
        let mut object = json!({
            "scenario": scenario,
            "machine": machine(),
            "versions": { "weir": env!("CARGO_PKG_VERSION") },
            "results": results,
        });
        if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
            object.extend(more);
        }
        if let Some(path) = &self.json {
            write(path, &serde_json::to_string_pretty(&object)?)?;
        }
        if let Some(path) = &self.report {
            write(path, &page(&object))?;
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}
