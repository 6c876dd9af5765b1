//! `weir housekeeping`

use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_base::Timestamp;
use weir_community::housekeeping::{self, CHORES, Chore, Figures, Size};
use weir_community::{Env, Error};
use weir_db::{Class, Tx};

use super::Told;
use crate::parts::Parts;

/// What to do about things that are removed in time.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HousekeepingCommand {
    /// Show what is removed in time, what the last runs did, and how large the database is.
    #[command(after_help = "Example:\n  weir housekeeping status --json")]
    Status,
    /// Remove now what may go: of one kind, or of all.
    #[command(after_help = "Examples:\n  weir housekeeping run\n  weir housekeeping run posts")]
    Run {
        /// The kind, as `weir housekeeping status` names it.
        chore: Option<String>,
    },
}

pub(super) async fn execute(
    parts: &Parts,
    command: HousekeepingCommand,
    told: Told,
) -> Result<Value, String> {
    match command {
        HousekeepingCommand::Status => status(parts).await.map_err(|error| error.to_string()),
        HousekeepingCommand::Run { chore } => {
            let chosen = chosen(chore.as_deref())?;
            run(parts, &chosen, told).await.map_err(|error| error.to_string())
        }
    }
}

fn chosen(name: Option<&str>) -> Result<Vec<&'static Chore>, String> {
    let chosen: Vec<&Chore> =
        CHORES.iter().filter(|chore| name.is_none_or(|name| chore.name == name)).collect();
    match name {
        Some(name) if chosen.is_empty() => {
            Err(format!("nothing is called {name}; `weir housekeeping status` lists what there is"))
        }
        _ => Ok(chosen),
    }
}

async fn status(parts: &Parts) -> Result<Value, Error> {
    let read = |tx: &mut Tx, _: &Env| {
        let rows = CHORES.iter().map(|chore| housekeeping::figures(tx, chore));
        let rows: Vec<Figures> = rows.collect::<Result<_, Error>>()?;
        Ok((rows, housekeeping::size(tx)?))
    };
    let (rows, size) = parts.community.read(Class::Interactive, read).await?;
    let rows: Vec<Value> = rows.iter().zip(CHORES).map(|(row, chore)| shown(row, chore)).collect();
    let Size { bytes, free_bytes } = size;
    Ok(json!({
        "database_bytes": bytes,
        "free_bytes": free_bytes,
        "remote_days": parts.keep.remote_days,
        "chat_days": parts.keep.chat_days,
        "notification_days": parts.keep.notification_days,
        "chores": rows,
    }))
}

fn shown(row: &Figures, chore: &Chore) -> Value {
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
    json!({
        "chore": row.name,
        "state": if row.is_running() { "running" } else { "waiting" },
        "began_at": time(row.began_at),
        "ended_at": time(row.ended_at),
        "looked_at": row.looked_at,
        "removed": row.removed,
        "bytes": row.bytes,
        "removed_ever": row.removed_ever,
        "bytes_ever": row.bytes_ever,
        "removes": chore.removes,
    })
}

async fn run(parts: &Parts, chosen: &[&'static Chore], told: Told) -> Result<Value, Error> {
    let mut rows = Vec::with_capacity(chosen.len());
    for &chore in chosen {
        let ask = move |tx: &mut Tx, _: &Env| housekeeping::ask_for(tx, chore);
        parts.community.write(Class::Interactive, ask).await?;
        let hear = |row: Figures| {
            let Figures { name, looked_at, removed, .. } = row;
            told.send_replace(json!({ "chore": name, "looked_at": looked_at, "removed": removed }));
        };
        housekeeping::run(&parts.community, chore, parts.keep, hear).await?;
        let read = move |tx: &mut Tx, _: &Env| housekeeping::figures(tx, chore);
        let row = parts.community.read(Class::Interactive, read).await?;
        let Figures { name, looked_at, removed, bytes, .. } = row;
        rows.push(json!({
            "chore": name, "looked_at": looked_at, "removed": removed, "bytes": bytes
        }));
    }
    Ok(Value::Array(rows))
}
