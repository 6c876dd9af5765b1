//! A server to be measured: started, waited for, looked at, stopped.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// How long a start may take.
const START_MAX: Duration = Duration::from_secs(120);

/// A running server.
pub(crate) struct Server {
    child: Child,
    /// `http://127.0.0.1:PORT`.
    pub(crate) base: String,
    /// From the start of the process to the first answer of `/health`.
    pub(crate) start_ms: f64,
}

impl Server {
    /// Starts `weir serve --dev` on `data` and waits until it serves.
    pub(crate) async fn start(weir: &Path, data: &Path, database: &str, port: u16) -> Result<Self> {
        let address = format!("127.0.0.1:{port}");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(data.join("log"))?;
        let began = Instant::now();
        let child = Command::new(weir)
            .args(["serve", "--dev", "--domain", &address, "--listen", &address, "--data"])
            .arg(data)
            .env("WEIR_DATABASE_URL", database)
            .env("WEIR_METRICS_LISTEN", "127.0.0.1:0")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", weir.display()))?;
        let base = format!("http://{address}");
        let mut server = Self { child, base, start_ms: 0.0 };
        let client = reqwest::Client::new();
        while began.elapsed() < START_MAX {
            let answer = client.get(format!("{}/health", server.base)).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                server.start_ms = began.elapsed().as_secs_f64() * 1_000.0;
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait()? {
                bail!("the server ended with {status}; see {}", data.join("log").display());
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        bail!("the server did not serve within {} s", START_MAX.as_secs())
    }

    /// Resident memory now, in MiB.
    pub(crate) fn resident_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let line = status.unwrap_or_default();
        let kib = line.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: f64 =
            kib.and_then(|kib| kib.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0.0);
        kib / 1_024.0
    }

    /// Processor time used so far by all its threads.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        let stat = stat.unwrap_or_default();
        // Behind the name, which is in brackets and may hold anything: fields 3 and following.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: u64 =
            fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        // The kernel counts in hundredths of a second for programs on every architecture.
        Duration::from_millis(ticks * 10)
    }

    /// Stops it as people do, and waits.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After a failure in between; a stopped one is gone already.
        let _ = self.child.kill();
    }
}
