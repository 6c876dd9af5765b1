//! `weir federation`

use std::collections::HashSet;

use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_base::Timestamp;
use weir_community::federation::outgoing;
use weir_community::hosts::{self, Host, Severity};
use weir_community::{Env, Error};
use weir_db::{Class, Tx};

use crate::parts::Parts;

mod status;

/// Servers read in one go when all are listed.
const PAGE: usize = 500;

/// What to do about other servers.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FederationCommand {
    /// List the servers this one knows, and those that are blocked.
    #[command(after_help = "Example:\n  weir federation hosts --json")]
    Hosts,
    /// Show what is known of one server.
    #[command(after_help = "Example:\n  weir federation show other.example")]
    Show {
        /// Its domain.
        host: String,
    },
    /// Show how deliveries stand: all, those to one server, or those of one post.
    #[command(after_help = "Examples:\n  weir federation status\n  \
        weir federation status other.example --json\n  \
        weir federation status 115600000000000001\n  \
        weir federation status https://example.social/@alice/115600000000000001")]
    Status {
        /// The server's domain, or the post's id or address; without it all are shown.
        what: Option<String>,
    },
    /// Ask a silent server again at once, and send it what waits.
    #[command(after_help = "Example:\n  weir federation retry other.example")]
    Retry {
        /// Its domain.
        host: String,
    },
    /// Have nothing to do with a server and those on it.
    #[command(after_help = "Example:\n  weir federation block spam.example")]
    Block {
        /// Its domain.
        host: String,
    },
    /// Lift a block.
    #[command(after_help = "Example:\n  weir federation unblock spam.example")]
    Unblock {
        /// Its domain.
        host: String,
    },
}

pub(super) async fn execute(parts: &Parts, command: FederationCommand) -> Result<Value, String> {
    let done = match command {
        FederationCommand::Hosts => list(parts).await,
        FederationCommand::Show { host } => show(parts, host.to_lowercase()).await,
        FederationCommand::Status { what } => status::status(parts, what).await,
        FederationCommand::Retry { host } => status::retry(parts, host.to_lowercase()).await,
        FederationCommand::Block { host } => block(parts, host.to_lowercase()).await,
        FederationCommand::Unblock { host } => unblock(parts, host.to_lowercase()).await,
    };
    done.map_err(|error| match error {
        Error::NotFound(what) => format!("{error}; {}", remedy(what)),
        other => other.to_string(),
    })
}

/// What to do when `what` is not there.
fn remedy(what: &str) -> &'static str {
    match what {
        status::POST | "Status" => "give the id or the address of a post",
        status::DELIVERY => "it went to no other server, or longer ago",
        status::WAITING => "`weir federation status` shows what waits",
        _ => "`weir federation hosts` lists those that are known or blocked",
    }
}

async fn list(parts: &Parts) -> Result<Value, Error> {
    let unit = |tx: &mut Tx, env: &Env| Ok((outgoing::backlogs(tx)?, env.clock.now()));
    let (backlogs, now) = parts.community.read(Class::Interactive, unit).await?;
    let waiting = |host: &str| backlogs.get(host).map_or(0, |backlog| backlog.waiting);
    let mut rows = Vec::new();
    let mut after = String::new();
    loop {
        let start = after.clone();
        let unit = move |tx: &mut Tx, _: &_| hosts::list(tx, &start, PAGE);
        let page = parts.community.read(Class::Interactive, unit).await?;
        rows.extend(page.iter().map(|(host, block)| {
            json!({
                "host": host.domain,
                "software": host.software,
                "block": block,
                "state": host.condition(now).name(),
                "waiting": waiting(&host.domain),
                "delivered_at": shown(host.delivered_at),
                "failing_since": shown(host.failing_since),
                "next_try_at": shown(host.next_try_at),
            })
        }));
        match page.last() {
            Some((last, _)) if page.len() == PAGE => after.clone_from(&last.domain),
            _ => break,
        }
    }
    // A server may be blocked before it ever spoke with this one.
    let blocks = parts.community.read(Class::Interactive, |tx, _| hosts::blocks(tx)).await?;
    let known: HashSet<String> = rows.iter().map(name_of).collect();
    let unknown = blocks.into_iter().filter(|block| !known.contains(&block.domain));
    rows.extend(unknown.map(|block| {
        json!({
            "host": block.domain,
            "software": "",
            "block": block.severity,
            // Nobody knows how deliveries to it would fare.
            "state": null,
            "waiting": waiting(&block.domain),
            "delivered_at": null,
            "failing_since": null,
            "next_try_at": null,
        })
    }));
    rows.sort_by_key(name_of);
    Ok(Value::Array(rows))
}

fn name_of(row: &Value) -> String {
    row["host"].as_str().unwrap_or_default().to_owned()
}

fn shown(time: Option<Timestamp>) -> Option<String> {
    time.map(|time| time.to_string())
}

async fn show(parts: &Parts, domain: String) -> Result<Value, Error> {
    let name = domain.clone();
    let unit = move |tx: &mut Tx, env: &Env| {
        let host = hosts::by_domain(tx, &name)?;
        let block = hosts::severity(tx, &name)?;
        let backlog = outgoing::backlog(tx, &name)?;
        let counts = (hosts::accounts_count(tx, &name)?, backlog.waiting);
        Ok((host, block, counts, env.clock.now()))
    };
    let (host, block, (accounts, waiting), now) =
        parts.community.read(Class::Interactive, unit).await?;
    let Some(host) = host else {
        return match block {
            Some(block) => Ok(json!({ "host": domain, "block": block, "accounts": accounts })),
            None => Err(Error::NotFound("Host")),
        };
    };
    let state = host.condition(now).name();
    let Host { software, signature_form, first_seen_at, delivered_at, .. } = host;
    Ok(json!({
        "host": domain,
        "software": software,
        "signature_form": signature_form,
        "block": block,
        "accounts": accounts,
        "first_seen_at": first_seen_at.to_string(),
        "state": state,
        "waiting": waiting,
        "delivered_at": shown(delivered_at),
        "failed_at": shown(host.failed_at),
        "failing_since": shown(host.failing_since),
        "failures": host.failures,
        "next_try_at": shown(host.next_try_at),
        "failure": host.failure,
    }))
}

async fn block(parts: &Parts, domain: String) -> Result<Value, Error> {
    let answer = json!({ "host": domain, "block": Severity::Suspend.name() });
    let unit = move |tx: &mut Tx, env: &_| hosts::block(tx, env, &domain, Severity::Suspend);
    parts.community.write(Class::Interactive, unit).await?;
    Ok(answer)
}

async fn unblock(parts: &Parts, domain: String) -> Result<Value, Error> {
    let answer = json!({ "host": domain, "block": null });
    let unit = move |tx: &mut Tx, env: &_| hosts::unblock(tx, env, &domain);
    match parts.community.write(Class::Interactive, unit).await? {
        true => Ok(answer),
        false => Err(Error::NotFound("A block of this host")),
    }
}
