//! `weir federation`

use std::collections::{BTreeMap, HashSet};

use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_base::Timestamp;
use weir_community::federation::outgoing;
use weir_community::hosts;
use weir_community::{Env, Error};
use weir_db::{Class, Tx};

use crate::parts::Parts;

mod policy;
mod status;

pub use policy::Terms;

/// Servers read in one go when all are listed.
const PAGE: usize = 500;

/// What to do about other servers.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FederationCommand {
    /// List the servers this one knows, and those that are blocked or allowed.
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
    /// Have nothing to do with a server and those on it, or less; instead of what was said before.
    #[command(after_help = "Examples:\n  weir federation block spam.example\n  \
        weir federation block loud.example --severity silence --reason \"much noise\"\n  \
        weir federation block rude.example --severity noop --reject-media --reject-reports")]
    Block {
        /// Its domain; servers below it count too.
        host: String,
        #[command(flatten)]
        terms: Terms,
    },
    /// Lift a block.
    #[command(after_help = "Example:\n  weir federation unblock spam.example")]
    Unblock {
        /// Its domain.
        host: String,
    },
    /// List a server as allowed, which counts where federation.mode is allowlist.
    #[command(after_help = "Example:\n  weir federation allow friend.example")]
    Allow {
        /// Its domain; servers below it count too.
        host: String,
    },
    /// Take a server from the list of those that are allowed.
    #[command(after_help = "Example:\n  weir federation disallow friend.example")]
    Disallow {
        /// Its domain.
        host: String,
    },
}

pub(super) async fn execute(parts: &Parts, command: FederationCommand) -> Result<Value, String> {
    let done = match command {
        FederationCommand::Hosts => list(parts).await,
        FederationCommand::Show { host } => show(parts, hosts::name(&host)).await,
        FederationCommand::Status { what } => status::status(parts, what).await,
        FederationCommand::Retry { host } => status::retry(parts, hosts::name(&host)).await,
        FederationCommand::Block { host, terms } => {
            policy::block(parts, hosts::name(&host), terms).await
        }
        FederationCommand::Unblock { host } => policy::unblock(parts, hosts::name(&host)).await,
        FederationCommand::Allow { host } => policy::allow(parts, hosts::name(&host)).await,
        FederationCommand::Disallow { host } => policy::disallow(parts, hosts::name(&host)).await,
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
        _ => "`weir federation hosts` lists those that are known, blocked or allowed",
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
    // A server may be blocked, or allowed, before it ever spoke with this one.
    let unit = |tx: &mut Tx, _: &_| Ok((hosts::blocks(tx)?, hosts::allowed(tx)?));
    let (blocks, allowed) = parts.community.read(Class::Interactive, unit).await?;
    let mut listed: BTreeMap<String, Option<String>> =
        allowed.iter().map(|domain| (domain.clone(), None)).collect();
    listed.extend(blocks.into_iter().map(|block| (block.domain, Some(block.severity))));
    let known: HashSet<String> = rows.iter().map(name_of).collect();
    let unknown = listed.into_iter().filter(|(domain, _)| !known.contains(domain));
    rows.extend(unknown.map(|(domain, block)| {
        json!({
            "host": domain,
            "software": "",
            "block": block,
            // Nobody knows how deliveries to it would fare.
            "state": null,
            "waiting": waiting(&domain),
            "delivered_at": null,
            "failing_since": null,
            "next_try_at": null,
        })
    }));
    for row in &mut rows {
        row["allowed"] = hosts::is_listed(&allowed, &name_of(row)).into();
    }
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
        let policy = (hosts::covering_block(tx, &name)?, hosts::is_allowed(tx, &name)?);
        let backlog = outgoing::backlog(tx, &name)?;
        let counts = (hosts::accounts_count(tx, &name)?, backlog.waiting);
        Ok((host, policy, counts, env.clock.now()))
    };
    let (host, (block, allowed), (accounts, waiting), now) =
        parts.community.read(Class::Interactive, unit).await?;
    if host.is_none() && block.is_none() && !allowed {
        return Err(Error::NotFound("Host"));
    }
    let mut shows = json!({
        "host": domain,
        "block": null,
        "allowed": allowed,
        "accounts": accounts,
    });
    if let Some(block) = block {
        shows["block"] = block.severity.into();
        // It may be that of a domain above.
        shows["block_of"] = block.domain.into();
        shows["reject_media"] = block.reject_media.into();
        shows["reject_reports"] = block.reject_reports.into();
        shows["reason"] = block.public_comment.into();
        shows["note"] = block.private_comment.into();
    }
    if let Some(host) = host {
        shows["state"] = host.condition(now).name().into();
        shows["waiting"] = waiting.into();
        shows["software"] = host.software.into();
        shows["signature_form"] = host.signature_form.into();
        shows["first_seen_at"] = host.first_seen_at.to_string().into();
        shows["delivered_at"] = shown(host.delivered_at).into();
        shows["failed_at"] = shown(host.failed_at).into();
        shows["failing_since"] = shown(host.failing_since).into();
        shows["failures"] = host.failures.into();
        shows["next_try_at"] = shown(host.next_try_at).into();
        shows["failure"] = host.failure.into();
    }
    Ok(shows)
}
