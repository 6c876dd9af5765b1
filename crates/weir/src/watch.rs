//! `weir jobs watch`: the queues of a running server, drawn anew as they change.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::command::{Command, JobsCommand};
use crate::config::Loaded;
use crate::{control, output};

/// How many looks are taken where nobody says.
const FOREVER: u64 = u64::MAX;

/// Looks every `every_s` seconds, `count` times: draws on a terminal, prints a line (or with `json`
/// an object) elsewhere. Ends well when whoever reads is gone.
///
/// # Errors
/// One line that says what to do.
pub fn run(loaded: &Loaded, every_s: u64, count: Option<u64>, json: bool) -> Result<(), String> {
    if !control::is_served(loaded) {
        return Err(format!(
            "no server uses {}, so there is nothing to watch; start `weir serve`, or name the \
             directory of the one that runs with --data",
            loaded.config.data.display()
        ));
    }
    let is_terminal = std::io::stdout().is_terminal() && !json;
    let mut before: Option<(Instant, Counts)> = None;
    for look in 0..count.unwrap_or(FOREVER) {
        if look > 0 {
            std::thread::sleep(Duration::from_secs(every_s));
        }
        let asked = JobsCommand::Watch { every: every_s, count };
        let mut value = control::run(loaded, Command::Jobs(asked))?;
        let (now, counts) = (Instant::now(), Counts::of(&value));
        if let Some((at, earlier)) = &before {
            counts.add_rates(earlier, (now - *at).as_secs_f64(), &mut value);
        }
        before = Some((now, counts));
        let text = if json {
            format!("{value}\n")
        } else if is_terminal {
            // Home, the text, and nothing of what stood there.
            format!("\u{1b}[H\u{1b}[J{}", output::text_of(&shown(value)))
        } else {
            format!("{}\n", line(&value))
        };
        let mut out = std::io::stdout();
        if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// What was done so far, by kind.
struct Counts(BTreeMap<String, u64>);

impl Counts {
    fn of(value: &Value) -> Self {
        let kinds = value["kinds"].as_array().into_iter().flatten();
        let one = |kind: &Value| Some((kind["kind"].as_str()?.to_owned(), kind["done"].as_u64()?));
        Self(kinds.filter_map(one).collect())
    }

    /// Adds how many were done a second since `earlier`, in all and by kind.
    fn add_rates(&self, earlier: &Self, seconds: f64, value: &mut Value) {
        let rate = |name: &str| {
            let now = self.0.get(name).copied().unwrap_or(0);
            let before = earlier.0.get(name).copied().unwrap_or(0);
            (now.saturating_sub(before) as f64 / seconds.max(1e-3)).round() as u64
        };
        value["done_per_s"] = json!(self.0.keys().map(|name| rate(name)).sum::<u64>());
        for kind in value["kinds"].as_array_mut().into_iter().flatten() {
            let name = kind["kind"].as_str().unwrap_or_default().to_owned();
            kind["done_per_s"] = json!(rate(&name));
        }
    }
}

/// One line for a file or a pipe.
fn line(value: &Value) -> String {
    let names = ["ready", "running", "scheduled", "retries", "dead", "oldest_age_ms", "done_per_s"];
    let told = names.iter().filter(|name| !value[**name].is_null());
    told.map(|name| format!("{name}={}", value[*name])).collect::<Vec<_>>().join(" ")
}

/// What of it a person wants to see: kinds that did something, queues that hold something.
fn shown(mut value: Value) -> Value {
    let some = |row: &Value, names: &[&str]| names.iter().any(|it| row[*it].as_u64() > Some(0));
    if let Some(kinds) = value["kinds"].as_array_mut() {
        kinds.retain(|kind| some(kind, &["done", "retried", "discarded", "dead"]));
    }
    if let Some(queues) = value["queues"].as_array_mut() {
        queues.retain(|it| some(it, &["ready", "running"]) || it["paused"] == true);
    }
    if let Some(fields) = value.as_object_mut() {
        fields.remove("failing");
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_what_came_since_the_last_look() {
        let look =
            |done: u64| json!({ "ready": 3, "kinds": [{ "kind": "deliver", "done": done }] });
        let (first, mut second) = (look(100), look(350));
        Counts::of(&second).add_rates(&Counts::of(&first), 0.5, &mut second);
        assert_eq!(second["done_per_s"], 500);
        assert_eq!(second["kinds"][0]["done_per_s"], 500);
        assert_eq!(line(&second), "ready=3 done_per_s=500");
    }
}
