//! The parts of Weir, put together: what both a running server and a single command need.

use std::path::Path;

use weir_base::{Clock, Random};
use weir_community::housekeeping::Keep;
use weir_community::{Community, Setup, Site};
use weir_db::{Db, Options};
use weir_jobs::Jobs;

use crate::config::{Config, setting_without_password};

/// Why the parts cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum PartsError {
    /// The database cannot be opened.
    #[error("cannot open the database {place}: {reason}; check `url` under [database]")]
    Open {
        /// Its file, or its address without the password.
        place: String,
        /// What the database said.
        reason: String,
    },
    /// The database has to be another, or set up otherwise.
    #[error("cannot use the database {place}: {reason}")]
    Unfit {
        /// Its address without the password.
        place: String,
        /// What is wrong, and the remedy.
        reason: String,
    },
    /// The database cannot be used; it says why.
    #[error(transparent)]
    Database(weir_db::Error),
    /// The jobs' tables cannot be read or brought up to date.
    #[error("cannot open the jobs: {0}")]
    Jobs(#[from] weir_jobs::Error),
    /// The community's tables cannot be read or brought up to date.
    #[error("cannot open the community: {0}")]
    Community(#[from] weir_community::Error),
}

/// The parts that commands work on.
pub struct Parts {
    /// The rows.
    pub db: Db,
    /// Background work.
    pub jobs: Jobs,
    /// The nouns and the rules.
    pub community: Community,
    /// How long things are kept.
    pub keep: Keep,
    /// Where passwords that are made up come from.
    pub random: Random,
}

impl Parts {
    /// Opens the database and brings its tables up to date. Blocks the calling thread.
    ///
    /// # Errors
    /// [`PartsError`] says which part and why.
    pub fn open(config: &Config, data: &Path, site: Site) -> Result<Self, PartsError> {
        let url = config.database.url.expose();
        let failed = |error| match error {
            weir_db::Error::Open { path, reason } => {
                let is_file = url.starts_with("sqlite:");
                let place = if is_file { path } else { setting_without_password(url) };
                PartsError::Open { place, reason }
            }
            weir_db::Error::Unfit { reason, .. } => {
                PartsError::Unfit { place: setting_without_password(url), reason }
            }
            other => PartsError::Database(other),
        };
        let mut options = Options::default();
        if config.database.max_connections > 0 {
            options.connections_max = config.database.max_connections as usize;
        }
        let db = Db::open(url, data, &options).map_err(failed)?;
        let (clock, random) = (Clock::system(), Random::system());
        let jobs = Jobs::open(db.clone(), clock.clone(), random.clone())?;
        weir_activitypub::make_jobs_readable(&jobs);
        jobs.set_memory_budget(u64::from(config.memory.budget_mib) << 20);
        let community = Community::open(Setup {
            db: db.clone(),
            jobs: jobs.clone(),
            clock,
            random: random.clone(),
            site,
            data: data.to_owned(),
        })?;
        let retention = &config.retention;
        let keep = Keep {
            remote_days: retention.remote_days,
            chat_days: retention.chat_days,
            notification_days: retention.notification_days,
        };
        Ok(Self { db, jobs, community, keep, random })
    }
}
