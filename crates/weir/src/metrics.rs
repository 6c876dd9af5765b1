//! The numbers of this process, in Prometheus' text form on a listener of their own.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::routing::get;
use http::header;
use metrics::{counter, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use weir_db::Db;

use crate::process;

/// The bounds of the buckets of durations, in seconds.
const SECONDS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0];

/// How often what histograms gathered is folded into their buckets, so that it stays small where
/// nobody asks for it.
const UPKEEP: Duration = Duration::from_secs(5);

/// Starts to count.
///
/// # Errors
/// When something else in the process counts already.
pub fn start() -> Result<PrometheusHandle, String> {
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".into()), SECONDS)
        .map_err(|error| error.to_string())?
        .build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).map_err(|error| error.to_string())?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    gauge!("process_start_time_seconds").set(since.as_secs_f64());
    gauge!("weir_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

/// Folds what was gathered, until the process ends.
pub async fn keep_up(handle: PrometheusHandle) {
    let mut interval = tokio::time::interval(UPKEEP);
    loop {
        interval.tick().await;
        handle.run_upkeep();
    }
}

/// Serves `/metrics`.
pub fn router(handle: PrometheusHandle, db: Db, descriptors_max: u64) -> Router {
    gauge!("process_max_fds").set(descriptors_max as f64);
    let render = async move || {
        gauge!("process_resident_memory_bytes").set(process::resident_bytes() as f64);
        gauge!("process_open_fds").set(process::open_descriptors() as f64);
        counter!("process_cpu_seconds_total").absolute(process::cpu_seconds() as u64);
        let (reads, writes) = db.waiting();
        gauge!("weir_db_units_waiting", "kind" => "read").set(reads as f64);
        gauge!("weir_db_units_waiting", "kind" => "write").set(writes as f64);
        ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], handle.render())
    };
    Router::new().route("/metrics", get(render))
}
