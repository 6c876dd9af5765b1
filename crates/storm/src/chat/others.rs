//! More people than one process has descriptors for: further processes of the same command line,
//! each with people of its own, who come before and stay until the end.

use std::io::Write as _;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// Tells a further process which one it is, from 1.
const NUMBER: &str = "WEIR_STORM_PROCESS";
/// What a further process says when all of its people are there.
const ALL_IN: &str = "all in";

/// The further processes, whose people leave when this is dropped.
#[derive(Default)]
pub(super) struct Others {
    children: Vec<Child>,
}

/// Which of the further processes this one is; 0 for the first.
pub(super) fn number() -> u64 {
    std::env::var(NUMBER).ok().and_then(|number| number.parse().ok()).unwrap_or(0)
}

impl Others {
    /// Starts so many, and waits until the people of all are there.
    pub(super) async fn start(count: u64) -> Result<Self> {
        let program = std::env::current_exe()?;
        let mut others = Self::default();
        for number in 1..=count {
            let child = Command::new(&program)
                .args(std::env::args_os().skip(1))
                .env(NUMBER, number.to_string())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn();
            others.children.push(child.context("a further process cannot be started")?);
        }
        for (child, number) in others.children.iter_mut().zip(1_u64..) {
            let told = child.stdout.take().context("a further process says nothing")?;
            let first = BufReader::new(told).lines().next_line().await?;
            let is_in = first.as_deref() == Some(ALL_IN);
            ensure!(is_in, "the people of process {number} did not get in: it says why above");
        }
        Ok(others)
    }
}

/// In a further process: says that all are there, and returns when the first process is done.
pub(super) async fn stay() -> Result<()> {
    writeln!(std::io::stdout(), "{ALL_IN}")?;
    // Nothing comes: it is closed when the first process ends, however it does.
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()))
        .await??;
    Ok(())
}
