//! The nouns and the rules of a community: what people can do, and who may see it.
//!
//! A folder per noun, with its types, its SQL, its rules and its use cases together. A use case is
//! a plain function over a transaction, `fn(&mut Tx, &Env, …) -> Result<_, Error>`; faces run it
//! through [`Community::read`] and [`Community::write`]. What must follow is a job written in the
//! same transaction; what people should see now goes to [`streams`] after the commit. Nothing here
//! knows JSON-LD, a stanza or an entity of the Mastodon API.

pub mod accounts;
pub mod announcements;
pub mod cards;
pub mod chat;
pub mod conversations;
pub mod emojis;
mod env;
mod error;
pub mod federation;
pub mod filters;
pub mod hosts;
pub mod housekeeping;
pub mod instance;
pub mod lists;
pub mod mail;
pub mod markers;
pub mod media;
pub mod moderation;
pub mod notifications;
pub mod oauth;
pub mod push;
pub mod relationships;
pub mod reports;
mod schema;
pub mod search;
mod slices;
pub mod statuses;
pub mod streams;
pub mod suggestions;
pub mod tags;
pub mod text;
pub mod timelines;
pub mod trends;
pub mod users;

use std::sync::Arc;

use weir_db::{Class, Db, Tx};

pub use env::{Env, Setup, Site};
pub use error::{Error, Invalid, Problem, done_or_retry};

/// A handle on the community; clones share it.
#[derive(Clone)]
pub struct Community {
    db: Db,
    env: Arc<Env>,
}

/// Brings the tables of the community in `db` up to date, as [`Community::open`] does.
///
/// # Errors
/// When the database cannot be migrated.
pub fn migrate(db: &Db) -> Result<(), Error> {
    Ok(db.migrate("community", schema::MIGRATIONS)?)
}

impl Community {
    /// Brings the schema up to date and reads what memory holds (who follows whom, settings).
    ///
    /// # Errors
    /// When the database cannot be migrated or read, or the key beside it not be used.
    pub fn open(setup: Setup) -> Result<Self, Error> {
        let db = setup.db.clone();
        migrate(&db)?;
        let env = Arc::new(Env::new(setup));
        env.vault.check()?;
        let community = Self { db, env };
        community.env.streams.doubt_with(&community.db);
        let env = community.env.clone();
        community.db.read_blocking(Class::Interactive, move |tx| -> Result<(), Error> {
            env.feeds.read_anew(tx, env.feeds.changed())?;
            env.instance.load(tx)
        })?;
        Ok(community)
    }

    /// What use cases lean on besides the transaction.
    pub fn env(&self) -> &Arc<Env> {
        &self.env
    }

    /// The database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Runs `unit` on one consistent snapshot.
    ///
    /// # Errors
    /// What the unit returns, or the database's own.
    pub async fn read<T, F>(&self, class: Class, mut unit: F) -> Result<T, Error>
    where
        F: FnMut(&mut Tx, &Env) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        let env = self.env.clone();
        self.db.read(class, move |tx| unit(tx, &env)).await
    }

    /// As [`read`](Self::read), for the preparation of what is written later, which is shown to
    /// nobody: see [`Db::read_early`].
    ///
    /// # Errors
    /// What the unit returns, or the database's own.
    pub async fn read_early<T, F>(&self, class: Class, mut unit: F) -> Result<T, Error>
    where
        F: FnMut(&mut Tx, &Env) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        let env = self.env.clone();
        self.db.read_early(class, move |tx| unit(tx, &env)).await
    }

    /// Runs `unit` in a transaction and answers once it is on disk. It may run again: no effects
    /// outside.
    ///
    /// # Errors
    /// What the unit returns, or the database's own.
    pub async fn write<T, F>(&self, class: Class, mut unit: F) -> Result<T, Error>
    where
        F: FnMut(&mut Tx, &Env) -> Result<T, Error> + Send + 'static,
        T: Send + 'static,
    {
        let env = self.env.clone();
        self.db.write(class, move |tx| unit(tx, &env)).await
    }
}

#[cfg(test)]
impl Community {
    /// One on an empty database, with a clock that stands still until a test moves it.
    pub(crate) fn still(db: &Db, data: &std::path::Path) -> Self {
        let clock = weir_base::Clock::manual(weir_base::Timestamp::from_ms(1_700_000_000_000));
        let random = weir_base::Random::seeded(7);
        let jobs = weir_jobs::Jobs::open(db.clone(), clock.clone(), random.clone()).unwrap();
        let site = Site { domain: "weir.test".into(), base: "https://weir.test".into() };
        let data = data.to_owned();
        Self::open(Setup { db: db.clone(), jobs, clock, random, site, data }).unwrap()
    }
}
