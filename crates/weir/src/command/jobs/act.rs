//! What the words do.

use std::time::Duration;

use serde_json::{Value, json};
use weir_base::Id;
use weir_jobs::{Action, Error, Jobs, Search, Set, Swept};

use super::describe::{batch, entry, kind, lane, minute, periodic, queue, running, stats};
use super::{Batches, JobSet, JobsCommand, List, Periodic, Which};
use crate::command::Told;

/// How often a queue that is drained is looked at.
const DRAIN_EACH: Duration = Duration::from_millis(200);

pub(in crate::command) async fn execute(
    jobs: &Jobs,
    command: JobsCommand,
    told: Told,
) -> Result<Value, String> {
    let done = match command {
        JobsCommand::Stats => {
            let (all, minutes) = (jobs.stats().await, jobs.history(2).await);
            return Ok(stats(&all.map_err(said)?, &minutes.map_err(said)?));
        }
        JobsCommand::Queues => jobs.stats().await.map(|all| all.queues.iter().map(queue).collect()),
        JobsCommand::Lanes { queue, limit } => {
            exists(jobs, &queue).await?;
            jobs.lanes_everywhere(&queue, limit).await.map(|all| all.iter().map(lane).collect())
        }
        JobsCommand::Running => {
            jobs.running_everywhere().await.map(|all| all.iter().map(running).collect())
        }
        JobsCommand::List(which) => return list(jobs, which, told).await,
        JobsCommand::Show { id } => {
            let found = jobs.show(parse(&id)?).await.map_err(said)?;
            let none = || format!("there is no job {id}; `weir jobs list` shows them");
            return found.as_ref().map(|found| entry(jobs, found)).ok_or_else(none);
        }
        JobsCommand::History { minutes, queue } => {
            let history = jobs.history(minutes).await.map_err(said)?;
            let meant =
                |it: &&weir_jobs::Minute| queue.as_ref().is_none_or(|name| *name == it.queue);
            let rows: Vec<Value> = history.iter().filter(meant).map(minute).collect();
            found_or_exists(jobs, !rows.is_empty(), queue).await?;
            return Ok(Value::Array(rows));
        }
        JobsCommand::Watch { .. } => {
            // Whoever watches asks for these again and again.
            let all = jobs.stats().await.map_err(said)?;
            let mut value = stats(&all, &[]);
            value["kinds"] = all.kinds.iter().map(kind).collect();
            if let Some(fields) = value.as_object_mut() {
                // It tells what comes from look to look; the history is not read for it.
                fields.retain(|name, _| !name.ends_with("_last_two_minutes"));
            }
            Ok(value)
        }
        JobsCommand::Retry(which) => return change(jobs, which, Action::Retry, told).await,
        JobsCommand::Delete(which) => return change(jobs, which, Action::Delete, told).await,
        JobsCommand::Kill(which) => return change(jobs, which, Action::Kill, told).await,
        JobsCommand::Cancel { id } => {
            let found = jobs.cancel_now(parse(&id)?).await.map_err(said)?;
            return found.then_some(Value::Null).ok_or_else(|| missing(&id));
        }
        JobsCommand::Pause { queue } => {
            exists(jobs, &queue).await?;
            jobs.pause(&queue).await.map(|()| Value::Null)
        }
        JobsCommand::Resume { queue } => {
            exists(jobs, &queue).await?;
            jobs.resume(&queue).await.map(|()| Value::Null)
        }
        JobsCommand::Limit { queue, limit } => {
            exists(jobs, &queue).await?;
            let limit = limit.map(|limit| limit as usize);
            jobs.set_limit(&queue, limit).await.map(|()| Value::Null)
        }
        JobsCommand::Quiet => {
            jobs.quiet();
            let text = "no more jobs are taken here until the server is started again";
            Ok(json!({ "quiet": text }))
        }
        JobsCommand::Periodic { command } => return planned(jobs, command).await.map_err(said),
        JobsCommand::Batches { command: Batches::List { limit } } => {
            jobs.batches(limit).await.map(|all| all.iter().map(batch).collect())
        }
        JobsCommand::Batches { command: Batches::Show { id } } => {
            let found = jobs.batch_stats(parse(&id)?).await.map_err(said)?;
            let none = || format!("there is no batch {id}; `weir jobs batches list` shows them");
            return found.as_ref().map(batch).ok_or_else(none);
        }
        JobsCommand::Drain { queue, timeout } => return drain(jobs, &queue, timeout, told).await,
        JobsCommand::Clear { queue } => {
            exists(jobs, &queue).await?;
            let search = Search { queue: Some(queue), ..Search::all(Set::Ready) };
            let swept = jobs.sweep(&search, Action::Delete, move |swept| tell(&told, swept)).await;
            swept.map(|swept| json!({ "deleted": swept.changed }))
        }
        JobsCommand::Move { from, to } => {
            exists(jobs, &from).await?;
            exists(jobs, &to).await?;
            let swept = jobs.move_queue(&from, &to, move |swept| tell(&told, swept)).await;
            swept.map(|swept| json!({ "moved": swept.changed }))
        }
    };
    done.map_err(said)
}

async fn planned(jobs: &Jobs, command: Periodic) -> Result<Value, Error> {
    match command {
        Periodic::List => jobs.periodic().await.map(|all| all.iter().map(periodic).collect()),
        Periodic::Run { name } => {
            jobs.run_periodic(&name).await.map(|made| json!({ "enqueued": made }))
        }
        Periodic::Pause { name } => jobs.pause_periodic(&name).await.map(|()| Value::Null),
        Periodic::Resume { name } => jobs.resume_periodic(&name).await.map(|()| Value::Null),
    }
}

fn said(error: Error) -> String {
    error.to_string()
}

fn parse(id: &str) -> Result<Id, String> {
    id.parse().map_err(|_| format!("\"{id}\" is no id; `weir jobs list` shows them"))
}

fn missing(id: &str) -> String {
    format!("there is no job {id} that could be changed; `weir jobs list` shows them")
}

/// Says how far an action on many jobs is.
fn tell(told: &Told, swept: Swept) {
    let Swept { looked, of, changed } = swept;
    told.send_replace(json!({ "looked": looked, "of": of, "changed": changed }));
}

/// Whether there is a queue `name`; if not, those that there are, the most alike first.
async fn exists(jobs: &Jobs, name: &str) -> Result<(), String> {
    let stats = jobs.stats().await.map_err(said)?;
    let mut names: Vec<&str> = stats.queues.iter().map(|queue| queue.name.as_str()).collect();
    if names.contains(&name) {
        return Ok(());
    }
    names.sort_by_key(|known| strsim::damerau_levenshtein(known, name));
    Err(format!("there is no queue {name}; there are {}", names.join(", ")))
}

/// Where nothing was found in a queue, whether there is one of that name.
async fn found_or_exists(jobs: &Jobs, found: bool, name: Option<String>) -> Result<(), String> {
    match name {
        Some(name) if !found => exists(jobs, &name).await,
        _ => Ok(()),
    }
}

async fn list(jobs: &Jobs, which: List, told: Told) -> Result<Value, String> {
    let mut after = match &which.after {
        None => None,
        Some(id) => {
            let found = jobs.show(parse(id)?).await.map_err(said)?;
            Some(found.ok_or_else(|| missing(id))?)
        }
    };
    let (search, mut rows, mut looked) = (which.search(), Vec::new(), 0);
    while rows.len() < which.limit {
        let look = jobs.look(&search, after).await.map_err(said)?;
        looked += look.looked;
        told.send_replace(json!({ "looked": looked, "found": rows.len() }));
        let some = look.found.iter().take(which.limit - rows.len());
        rows.extend(some.map(|found| entry(jobs, found)));
        after = look.last;
        if after.is_none() {
            break;
        }
    }
    found_or_exists(jobs, !rows.is_empty(), which.queue).await?;
    Ok(Value::Array(rows))
}

async fn change(jobs: &Jobs, which: Which, action: Action, told: Told) -> Result<Value, String> {
    let Some(set) = which.all else {
        let id = which.id.unwrap_or_default();
        let number = parse(&id)?;
        let found = match action {
            Action::Retry => jobs.retry(number).await,
            Action::Delete => jobs.delete(number).await,
            Action::Kill => jobs.kill(number).await,
        };
        if found.map_err(said)? {
            return Ok(Value::Null);
        }
        let left =
            if action == Action::Retry { jobs.show(number).await.map_err(said)? } else { None };
        return Err(match left {
            Some(entry) if entry.set == Set::Dead => format!(
                "job {id} stays dead: another of its unique key, which does the same work, waits \
                 or runs; `weir jobs delete {id}` removes this one"
            ),
            _ => missing(&id),
        });
    };
    let search = which.search(set);
    let swept = match (action, set) {
        (Action::Retry, JobSet::Ready) => Swept::default(),
        _ => jobs.sweep(&search, action, move |swept| tell(&told, swept)).await.map_err(said)?,
    };
    found_or_exists(jobs, swept.changed > 0, which.queue).await?;
    let word = match action {
        Action::Retry => "made_ready",
        Action::Delete => "deleted",
        Action::Kill => "killed",
    };
    Ok(json!({ word: swept.changed }))
}

/// Waits until nothing lies in the queue, and nothing of it runs.
async fn drain(jobs: &Jobs, name: &str, timeout_s: u64, told: Told) -> Result<Value, String> {
    exists(jobs, name).await?;
    let wait = async {
        loop {
            let stats = jobs.stats().await.map_err(said)?;
            let found = stats.queues.iter().find(|queue| queue.name == name);
            let Some(queue) = found.filter(|queue| queue.depth > 0) else {
                return Ok(Value::Null);
            };
            if queue.paused {
                return Err(format!("queue {name} is paused; resume it with `weir jobs resume`"));
            }
            told.send_replace(json!({ "waiting": queue.depth, "running": queue.running }));
            tokio::time::sleep(DRAIN_EACH).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(timeout_s), wait).await;
    waited.unwrap_or_else(|_| {
        Err(format!("queue {name} is not empty after {timeout_s} s; look at `weir jobs stats`"))
    })
}
