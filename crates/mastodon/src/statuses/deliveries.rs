//! `GET /api/weir/v1/statuses/:id/deliveries`: Weir's own, for the author and staff.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use weir_community::federation::outgoing::{self, HostArrival};

use crate::auth::{Person, ReadStatuses};
use crate::{At, Error, Face};

/// What became of a post on other servers.
#[derive(Debug, Serialize)]
pub struct Deliveries {
    sent_at: String,
    /// Inboxes it was sent to, each with every edit; and how these stand.
    inboxes: usize,
    delivered: usize,
    waiting: usize,
    failed: usize,
    /// Hosts that have it and are too many to be named.
    unnamed_hosts: usize,
    hosts: Vec<Delivery>,
}

/// What became of it on one server.
#[derive(Debug, Serialize)]
struct Delivery {
    host: String,
    /// `failed`, `waiting`, `spared` or `delivered`.
    state: &'static str,
    /// Inboxes that wait, or failed.
    inboxes: usize,
    since: Option<String>,
    next_try_at: Option<String>,
    reason: Option<String>,
}

/// What became of one's post, host by host.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadStatuses>,
    At(id): At,
) -> Result<Json<Deliveries>, Error> {
    let by = person.id;
    let arrivals = face.read(move |tx, env| outgoing::arrivals_for(tx, env, by, id)).await?;
    Ok(Json(Deliveries {
        sent_at: arrivals.sent_at.to_string(),
        inboxes: arrivals.inboxes,
        delivered: arrivals.delivered,
        waiting: arrivals.waiting,
        failed: arrivals.failed,
        unnamed_hosts: arrivals.unnamed_hosts,
        hosts: arrivals.hosts.into_iter().map(delivery).collect(),
    }))
}

fn delivery(host: HostArrival) -> Delivery {
    Delivery {
        state: host.arrival.name(),
        inboxes: host.inboxes,
        since: host.since.map(|at| at.to_string()),
        next_try_at: host.next_try_at.map(|at| at.to_string()),
        reason: Some(host.reason).filter(|reason| !reason.is_empty()),
        host: host.host,
    }
}
