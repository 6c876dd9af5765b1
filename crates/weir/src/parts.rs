//! The parts of Weir, put together: what both a running server and a single command need.

use std::path::Path;

use weir_db::{Db, Options};

use crate::config::{Config, setting_without_password};

/// Why the parts cannot be put together.
#[derive(Debug, thiserror::Error)]
pub enum PartsError {
    /// The database cannot be opened or brought up to date.
    #[error("cannot open the database {url}: {source}; check `url` under [database]")]
    Database {
        /// Its address, without the password.
        url: String,
        /// What the database said.
        source: weir_db::Error,
    },
}

/// The parts that commands work on.
pub struct Parts {
    /// The community's rows.
    pub db: Db,
}

impl Parts {
    /// Opens the database and brings its tables up to date.
    ///
    /// # Errors
    /// [`PartsError`] says which part and why.
    pub fn open(config: &Config, data: &Path) -> Result<Self, PartsError> {
        let url = config.database.url.expose();
        let failed = |source| PartsError::Database { url: setting_without_password(url), source };
        let mut options = Options::default();
        if config.database.max_connections > 0 {
            options.connections_max = config.database.max_connections as usize;
        }
        let db = Db::open(url, data, &options).map_err(failed)?;
        Ok(Self { db })
    }
}
