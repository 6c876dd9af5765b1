//! What use cases lean on besides the transaction.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use weir_base::{Clock, Id, IdGenerator, Random};
use weir_db::Db;
use weir_jobs::Jobs;

use crate::chat::carrier::Carrier;
use crate::chat::writing::Writing;
use crate::federation::{Arriving, Opened, Patience, Wishes};
use crate::hosts::Decisions;
use crate::instance::Instance;
use crate::media::Files;
use crate::oauth::LogIns;
use crate::streams::Streams;
use crate::timelines::Feeds;
use crate::users::Vault;

/// What a community is opened with.
pub struct Setup {
    /// The database.
    pub db: Db,
    /// The job engine on the same database.
    pub jobs: Jobs,
    /// The clock.
    pub clock: Clock,
    /// The random source.
    pub random: Random,
    /// Where the community is.
    pub site: Site,
    /// The folder of the file store, and of keys kept outside the database.
    pub data: PathBuf,
}

/// The names under which the community is reached.
#[derive(Debug, Clone)]
pub struct Site {
    /// What stands after the `@`: `example.social`.
    pub domain: String,
    /// Scheme and authority of the web address, without a slash at the end.
    pub base: String,
}

/// The clock, ids, engines and memory that every use case may need.
pub struct Env {
    /// The clock.
    pub clock: Clock,
    /// The random source.
    pub random: Random,
    /// Makes ids.
    pub ids: IdGenerator,
    /// Durable background work.
    pub jobs: Jobs,
    /// Where the community is.
    pub site: Site,
    /// Newest ids of those whom people here follow, and who follows whom.
    pub feeds: Feeds,
    /// What is told to those who are here.
    pub streams: Streams,
    /// When remembered tokens are to be asked for again.
    pub log_ins: LogIns,
    /// Uploaded files, and what works on them.
    pub media: Files,
    /// Title, rules, limits: what staff changes while the server runs.
    pub instance: Instance,
    /// Threads of other servers that were opened lately.
    pub threads_opened: Opened,
    /// Servers of which something is to be fetched, unless it comes by itself.
    pub patience: Arc<Patience>,
    /// Posts among the messages that wait.
    pub arriving: Arriving,
    /// What other servers had this one fetch of third parties.
    pub wishes: Arc<Wishes>,
    /// How often staff has changed with which servers this one speaks.
    pub host_decisions: Decisions,
    /// The folder of the file store, and of keys kept outside the database.
    pub data: PathBuf,
    /// Seals what only this server may read of the database.
    pub vault: Vault,
    /// The face of chat, where this process has it.
    pub chat: OnceLock<Carrier>,
    /// Messages on their way to the archive.
    pub chat_writing: Writing,
    /// Whether mails reach people, where this process sends them.
    pub(crate) mail_reaches_people: OnceLock<bool>,
}

impl Env {
    pub(crate) fn new(setup: Setup) -> Self {
        Self {
            ids: IdGenerator::new(setup.clock.clone(), setup.random.clone()),
            media: Files::new(&setup.data, setup.random.clone()),
            streams: Streams::new(setup.clock.clone(), setup.random.clone()),
            vault: Vault::new(&setup.data, setup.random.clone()),
            chat: OnceLock::new(),
            chat_writing: Writing::default(),
            mail_reaches_people: OnceLock::new(),
            clock: setup.clock,
            random: setup.random,
            jobs: setup.jobs,
            site: setup.site,
            feeds: Feeds::default(),
            log_ins: LogIns::default(),
            instance: Instance::default(),
            threads_opened: Opened::default(),
            patience: Arc::default(),
            arriving: Arriving::default(),
            wishes: Arc::default(),
            host_decisions: Decisions::default(),
            data: setup.data,
        }
    }
}

impl Site {
    /// Host and port of the web address: what people type into apps and browsers.
    pub fn authority(&self) -> &str {
        self.base.split_once("://").map_or(&self.base, |(_, authority)| authority)
    }

    /// The id of a local actor on the network.
    pub fn actor_uri(&self, account: Id) -> String {
        format!("{}/ap/users/{account}", self.base)
    }

    /// The id of a local actor's key.
    pub fn key_id(&self, account: Id) -> String {
        format!("{}/ap/users/{account}#main-key", self.base)
    }

    /// The id of a local status on the network.
    pub fn status_uri(&self, account: Id, status: Id) -> String {
        format!("{}/ap/users/{account}/statuses/{status}", self.base)
    }

    /// The page of a local account.
    pub fn profile_url(&self, username: &str) -> String {
        format!("{}/@{username}", self.base)
    }

    /// The page of a local status.
    pub fn status_url(&self, username: &str, status: Id) -> String {
        format!("{}/@{username}/{status}", self.base)
    }

    /// The page of a hashtag.
    pub fn tag_url(&self, name: &str) -> String {
        let name = percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC);
        format!("{}/tags/{name}", self.base)
    }

    /// The address of a stored file; a path from the root gets our address in front, and what is a
    /// whole address already stays as it is.
    pub fn file_url(&self, file: &str) -> String {
        if file.starts_with("https://") || file.starts_with("http://") {
            file.to_owned()
        } else if file.starts_with('/') {
            format!("{}{file}", self.base)
        } else {
            format!("{}/media/{file}", self.base)
        }
    }

    /// `name@domain` with this domain for local people.
    pub fn address(&self, username: &str, domain: &str) -> String {
        let domain = if domain.is_empty() { &self.domain } else { domain };
        format!("{username}@{domain}")
    }

    /// The id in a local actor's or status's uri: (account, status).
    pub fn parse_local(&self, uri: &str) -> Option<(Id, Option<Id>)> {
        let path = uri.strip_prefix(&self.base)?.strip_prefix("/ap/users/")?;
        let mut parts = path.split('/');
        let account = parts.next()?.parse().ok()?;
        match (parts.next(), parts.next(), parts.next()) {
            (None, ..) => Some((account, None)),
            (Some("statuses"), Some(status), None) => Some((account, Some(status.parse().ok()?))),
            _ => None,
        }
    }

    /// Whether `uri` lies on this server.
    pub fn is_local(&self, uri: &str) -> bool {
        uri.strip_prefix(&self.base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}
