//! `weir federation status` and `weir federation retry`

use serde_json::{Value, json};
use weir_activitypub::retry_host;
use weir_base::{Id, Timestamp};
use weir_community::federation::outgoing::{self, Arrivals, HostArrival, HostBacklog};
use weir_community::hosts::{self, Condition, Host};
use weir_community::{Env, Error, statuses};
use weir_db::{Class, Tx};

use super::shown;
use crate::parts::Parts;

/// What may not be there: the post,
pub(super) const POST: &str = "Post";
/// what became of it,
pub(super) const DELIVERY: &str = "Delivery of this post in the last eight days";
/// what waits for a server.
pub(super) const WAITING: &str = "Delivery that waits for this host";

/// What somebody asks about.
enum Asked {
    All,
    Post(String),
    Host(String),
}

impl Asked {
    fn of(what: Option<String>) -> Self {
        match what {
            None => Self::All,
            Some(what) if what.starts_with("http://") || what.starts_with("https://") => {
                Self::Post(what)
            }
            Some(what) if what.parse::<Id>().is_ok() => Self::Post(what),
            Some(what) => Self::Host(hosts::name(&what)),
        }
    }
}

pub(super) async fn status(parts: &Parts, what: Option<String>) -> Result<Value, Error> {
    let asked = Asked::of(what);
    let unit = move |tx: &mut Tx, env: &Env| match &asked {
        Asked::All => all(tx, env),
        Asked::Post(post) => of_post(tx, env, post),
        Asked::Host(host) => of_host(tx, env, host),
    };
    parts.community.read(Class::Interactive, unit).await
}

fn all(tx: &mut Tx, env: &Env) -> Result<Value, Error> {
    let overview = outgoing::overview(tx, env)?;
    let row = |(host, condition, backlog): &(Host, Condition, HostBacklog)| {
        host_row(host, *condition, *backlog)
    };
    let hosts: Vec<Value> = overview.troubled.iter().map(row).collect();
    Ok(json!({
        "waiting": overview.waiting,
        "oldest": shown(overview.oldest),
        "failed": overview.failed,
        "unnamed_hosts": overview.unnamed_hosts,
        "hosts": hosts,
    }))
}

fn host_row(host: &Host, condition: Condition, backlog: HostBacklog) -> Value {
    json!({
        "host": host.domain,
        "state": condition.name(),
        "waiting": backlog.waiting,
        "oldest": shown(backlog.oldest),
        "failing_since": shown(host.failing_since),
        "failures": host.failures,
        "next_try_at": shown(host.next_try_at),
        "failure": host.failure,
    })
}

fn of_host(tx: &mut Tx, env: &Env, name: &str) -> Result<Value, Error> {
    let backlog = outgoing::backlog(tx, name)?;
    match hosts::by_domain(tx, name)? {
        Some(host) => Ok(host_row(&host, host.condition(env.clock.now()), backlog)),
        // Nothing was ever sent to it, so nobody knows how it fares.
        None if backlog.waiting > 0 || hosts::severity(tx, name)?.is_some() => Ok(json!({
            "host": name,
            "state": null,
            "waiting": backlog.waiting,
            "oldest": shown(backlog.oldest),
        })),
        None => Err(Error::NotFound("Host")),
    }
}

fn of_post(tx: &mut Tx, env: &Env, post: &str) -> Result<Value, Error> {
    let known = statuses::by_uri(tx, post)?.map(|status| status.id);
    // The page of a post ends with its id, as its address does.
    let last = post.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let id = match known.or_else(|| last.parse().ok()) {
        Some(id) => statuses::by_id(tx, id)?.id,
        None => return Err(Error::NotFound(POST)),
    };
    let arrivals = outgoing::arrivals(tx, env, id)?;
    Ok(of_arrivals(id, &arrivals.ok_or(Error::NotFound(DELIVERY))?))
}

fn of_arrivals(status: Id, arrivals: &Arrivals) -> Value {
    let hosts: Vec<Value> = arrivals.hosts.iter().map(arrival_row).collect();
    json!({
        "status": status.to_string(),
        "sent_at": arrivals.sent_at.to_string(),
        "inboxes": arrivals.inboxes,
        "delivered": arrivals.delivered,
        "waiting": arrivals.waiting,
        "failed": arrivals.failed,
        "unnamed_hosts": arrivals.unnamed_hosts,
        "hosts": hosts,
    })
}

fn arrival_row(host: &HostArrival) -> Value {
    json!({
        "host": host.host,
        "state": host.arrival.name(),
        "inboxes": host.inboxes,
        "since": shown(host.since),
        "next_try_at": shown(host.next_try_at),
        "reason": host.reason,
    })
}

pub(super) async fn retry(parts: &Parts, host: String) -> Result<Value, Error> {
    let unit = move |tx: &mut Tx, env: &Env| {
        if !retry_host(tx, env, &host)? {
            return Err(Error::NotFound(WAITING));
        }
        let (waiting, at): (_, Timestamp) =
            (outgoing::backlog(tx, &host)?.waiting, env.clock.now());
        Ok(json!({ "host": host, "waiting": waiting, "asked_at": at.to_string() }))
    };
    parts.community.write(Class::Interactive, unit).await
}
