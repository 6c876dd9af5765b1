//! Weir's own DDP server: what its publications and methods lean on.

pub(crate) mod docs;
pub(crate) mod live;
mod log_ins;
pub(crate) mod places;
pub(crate) mod shelf;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use weir_base::Id;
use weir_community::federation::SharedResolver;
use weir_community::{Community, Env, Error as CommunityError, Problem};
use weir_db::{Class, Tx};
use weir_http::{Asker, Limiter, Rule, Throttle, Tokens};

use crate::document::Documents;
use crate::observer::Trouble;
use crate::wire::Failure;
use log_ins::LogIns;
use places::Room;
pub(crate) use shelf::Shelf;

/// Everything: 300 in 5 minutes, as the Mastodon API has it.
const ALL: Rule = Rule { name: "ddp", most: 300, window_s: 300 };
/// Deleting posts and taking boosts back: 30 in 30 minutes.
pub(crate) const DELETIONS: Rule = Rule { name: "ddp_delete", most: 30, window_s: 1_800 };

/// What the face is made with.
#[derive(Clone)]
pub struct Setup {
    /// The community.
    pub community: Community,
    /// Learns of what lies on other servers.
    pub resolver: SharedResolver,
    /// For tests and development: no rate limits.
    pub dev: bool,
    /// When it is cancelled, sessions are told to come again.
    pub shutdown: CancellationToken,
}

/// What publications and methods lean on; clones share it.
#[derive(Clone)]
pub struct Face(Arc<Inner>);

/// The parts of a [`Face`].
pub struct Inner {
    /// The community.
    pub community: Community,
    /// Learns of what lies on other servers.
    pub resolver: SharedResolver,
    /// Whether this is for tests and development.
    pub dev: bool,
    /// Looks tokens up.
    pub tokens: Tokens,
    pub(crate) limiter: Limiter,
    /// Tries of passwords by the name that is said: 10 at once, then one a minute. Not with `dev`.
    pub(crate) log_ins_by_name: Throttle,
    pub(crate) documents: Documents,
    pub(crate) shelf: Shelf,
    pub(crate) log_ins: LogIns,
    pub(crate) room: Room,
}

/// Has what was never counted yet be seen as nothing, rather than not at all.
fn show_from_zero() {
    for gauge in ["weir_ddp_places", "weir_ddp_nouns_watched", "weir_ddp_pipes"] {
        metrics::gauge!(gauge).increment(0.0);
    }
    for counter in [
        "weir_ddp_places_refused_total",
        "weir_ddp_posts_placed_total",
        "weir_ddp_marks_read_total",
        "weir_ddp_documents_read_again_total",
        "weir_ddp_log_ins_checked_total",
    ] {
        metrics::counter!(counter).increment(0);
    }
}

impl Deref for Face {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Face {
    pub(crate) fn new(setup: &Setup, documents: &Documents) -> Self {
        show_from_zero();
        let community = setup.community.clone();
        let clock = community.env().clock.clone();
        let shelf = Shelf::start(&community, documents, setup.shutdown.clone());
        Self(Arc::new(Inner {
            tokens: Tokens::new("ddp", community.clone()),
            limiter: Limiter::new("ddp", clock.clone()),
            log_ins_by_name: Throttle::new("ddp_log_ins_by_name", clock, !setup.dev, 10, 60_000),
            documents: documents.clone(),
            shelf,
            log_ins: LogIns::start(&community, setup.shutdown.clone()),
            room: Room::default(),
            resolver: setup.resolver.clone(),
            dev: setup.dev,
            community,
        }))
    }

    /// What use cases lean on besides the transaction.
    pub fn env(&self) -> &Env {
        self.community.env()
    }

    /// Runs `unit` on one consistent snapshot, for somebody who waits.
    ///
    /// # Errors
    /// What the unit returns, or the database's own.
    pub async fn read<T, F>(&self, unit: F) -> Result<T, Failure>
    where
        F: FnMut(&mut Tx, &Env) -> Result<T, CommunityError> + Send + 'static,
        T: Send + 'static,
    {
        self.community.read(Class::Interactive, unit).await.map_err(failure)
    }

    /// Runs `unit` in a transaction, for somebody who waits. It may run again.
    ///
    /// # Errors
    /// What the unit returns, or the database's own.
    pub async fn write<T, F>(&self, unit: F) -> Result<T, Failure>
    where
        F: FnMut(&mut Tx, &Env) -> Result<T, CommunityError> + Send + 'static,
        T: Send + 'static,
    {
        self.community.write(Class::Interactive, unit).await.map_err(failure)
    }

    /// Counts a call of `by` under the rules of the API.
    ///
    /// # Errors
    /// 429.
    pub(crate) fn count(&self, by: Id, narrower: Option<Rule>) -> Result<(), Failure> {
        if self.dev {
            return Ok(());
        }
        for rule in std::iter::once(ALL).chain(narrower) {
            let allowance = self.limiter.count(rule, Asker::Account(by));
            if !allowance.granted {
                let wait_ms = allowance.reset_at.since_ms(self.env().clock.now()).max(0);
                return Err(too_many(wait_ms));
            }
        }
        Ok(())
    }
}

/// Too often; again in so many ms.
pub(crate) fn too_many(wait_ms: i64) -> Failure {
    Failure::too_many_requests(Duration::from_millis(wait_ms.max(0) as u64))
}

/// The one place where a fault gets its code.
pub(crate) fn failure(error: CommunityError) -> Failure {
    match error {
        CommunityError::NotFound(what) => Failure::new(404, format!("{what} not found")),
        CommunityError::Gone(what) => Failure::new(410, format!("{what} is gone")),
        CommunityError::Forbidden(why) => Failure::new(403, why),
        CommunityError::Unauthorized(why) => Failure::new(403, why),
        CommunityError::Conflict(why) => Failure::new(409, why),
        CommunityError::TooMany { retry_after_s } => too_many(retry_after_s as i64 * 1_000),
        CommunityError::Upstream(why) => {
            tracing::debug!(why, "another server did not answer");
            Failure::new(503, "Remote data could not be fetched")
        }
        CommunityError::Invalid(invalid) => {
            let problem = |one: &Problem| {
                let (name, kind, message) = (one.field, one.code, &one.message);
                serde_json::json!({ "name": name, "type": kind, "message": message })
            };
            let details = invalid.problems.iter().map(problem).collect();
            Failure::new("validation-error", invalid.to_string()).with_details(details)
        }
        CommunityError::Db(error) if error.is_passing() => {
            tracing::warn!(%error, "a DDP request could not be served");
            Failure::new(503, "There was a temporary problem; please try again")
        }
        CommunityError::Db(error) => {
            tracing::error!(%error, "a DDP request failed; this is a defect in Weir");
            Failure::internal()
        }
    }
}

/// What a query does about a fault: what the database has to do with it passes.
pub(crate) fn trouble(error: CommunityError) -> Trouble {
    match &error {
        CommunityError::Db(_) | CommunityError::Upstream(_) => Trouble::Passing(failure(error)),
        _ => Trouble::Over(failure(error)),
    }
}
