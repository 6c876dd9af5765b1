//! The log, on standard error.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::config::{Loaded, LogFormat};

/// Starts the log. What cannot be understood of the level was refused before.
pub fn start(loaded: &Loaded) {
    let filter = EnvFilter::new(&loaded.config.log.level);
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // A second start in one process (there is none) would keep the first.
    let _ = match loaded.config.log.format {
        LogFormat::Text => lines.with_target(false).with_ansi(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
