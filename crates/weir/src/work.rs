//! Who handles which background job. A kind that nobody handles stops the start.

use std::path::Path;

use tokio_util::sync::CancellationToken;
use weir_activitypub::ActivityPub;
use weir_community::mail::{self, MailError, Mailer};
use weir_community::{
    accounts, cards, federation, housekeeping, media, moderation, search, statuses,
};
use weir_jobs::sidekiq::Options;
use weir_jobs::{Jobs, Registry, StartError, Workers};

use crate::alone;
use crate::config::{Config, JobsBackend};
use crate::outside::Outside;
use crate::parts::Parts;

/// The queues of every part, for commands that run without workers.
const QUEUES: &[&str] = &[
    "ask_origin",
    "cards",
    "deliver",
    "deliver_passed_on",
    "deliver_rest",
    "distribute",
    "fetch",
    "files",
    "films",
    "forward",
    "housekeeping",
    "inbound",
    "inbound_late",
    "keys",
    "look_ups",
    "mail",
    "media",
    "polls",
    "prune_payloads",
    "push",
    "redeliver",
    "scheduled",
    "search",
    "tell",
    "unverified",
    "upkeep",
];

/// Lets a command steer and look at the jobs where no server runs. To be called within a tokio
/// runtime.
///
/// # Errors
/// One line that says what to do.
pub fn reach(config: &Config, jobs: &Jobs, data: &Path) -> Result<(), String> {
    jobs.know_queues(QUEUES);
    match config.jobs.backend {
        JobsBackend::Database => Ok(()),
        JobsBackend::Redis => {
            jobs.reach_redis(on_redis(config, data)).map_err(|error| error.to_string())
        }
    }
}

/// Every job of every part, with its handler.
///
/// # Errors
/// [`MailError`] when the configured mail server or sender cannot be used.
pub fn registry(
    config: &Config,
    parts: &Parts,
    outside: &Outside,
    servers: Option<&ActivityPub>,
) -> Result<Registry, MailError> {
    let community = &parts.community;
    let mut registry = Registry::new();
    accounts::register_erasure(&mut registry, community);
    cards::register(&mut registry, community, &outside.fetch);
    media::register(&mut registry, community);
    moderation::register(&mut registry, community);
    search::register(&mut registry, community);
    mail::register(
        &mut registry,
        community,
        &mailer(config, &community.env().site.domain, &outside.extra_ca)?,
    );
    let Outside { fetch, vapid, .. } = outside.clone();
    weir_mastodon::push::register(&mut registry, community.clone(), fetch, vapid);
    statuses::register(&mut registry, community);
    federation::chores::register(&mut registry, community);
    housekeeping::register(&mut registry, community, parts.keep);
    match servers {
        Some(face) => weir_activitypub::register_jobs(&mut registry, face),
        None => alone::register(&mut registry),
    }
    Ok(registry)
}

/// Starts working on jobs where the configuration says.
///
/// # Errors
/// [`StartError`] when the registry does not serve what is there, or Redis's address makes no
/// sense.
pub fn start(
    config: &Config,
    jobs: &Jobs,
    registry: Registry,
    data: &Path,
    shutdown: CancellationToken,
) -> Result<Workers, StartError> {
    match config.jobs.backend {
        JobsBackend::Database => jobs.start(registry, shutdown),
        JobsBackend::Redis => jobs.start_on_redis(registry, on_redis(config, data), shutdown),
    }
}

fn on_redis(config: &Config, data: &Path) -> Options {
    // One process at a time has the data directory: what an earlier one held is its own.
    Options { place: data.display().to_string(), ..Options::new(config.redis.url.expose()) }
}

fn mailer(config: &Config, domain: &str, extra_ca: &[Vec<u8>]) -> Result<Mailer, MailError> {
    let from = match config.mail.from.as_str() {
        "" => sender(domain),
        from => from.to_owned(),
    };
    match config.mail.smtp_url.expose().as_str() {
        "" => Mailer::to_log(&from),
        url => Mailer::to_server(url, &from, extra_ca),
    }
}

/// The sender where none is configured. Mail knows no ports and no bare addresses.
fn sender(domain: &str) -> String {
    let host = domain.rsplit_once(':').map_or(domain, |(host, _)| host);
    let is_name = host.contains(|c: char| c.is_alphabetic()) && !host.starts_with('[');
    format!("Weir <weir@{}>", if is_name { host } else { "localhost" })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weir_community::Site;

    use super::*;
    use crate::config::{self, Flag, Modes};

    #[test]
    fn every_domain_gives_a_sender_that_mail_takes() {
        for (domain, sender_host) in
            [("a.social", "a.social"), ("localhost:80", "localhost"), ("127.0.0.2:80", "localhost")]
        {
            assert_eq!(sender(domain), format!("Weir <weir@{sender_host}>"));
            assert!(mailer(&Config::default(), domain, &[]).is_ok(), "{domain}");
        }
        assert!(mailer(&Config::default(), "[::1]:80", &[]).is_ok());
    }

    /// The kinds of jobs that stand in the source of any part.
    fn kinds_in_source() -> BTreeSet<String> {
        let mut kinds = BTreeSet::new();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut waiting: Vec<_> = ["activitypub", "community", "mastodon", "pages"]
            .map(|name| crates.join(name).join("src"))
            .into();
        while let Some(path) = waiting.pop() {
            if path.is_dir() {
                waiting.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let named = text
                    .lines()
                    .filter_map(|line| line.trim().strip_prefix("const KIND: &'static str = "));
                kinds.extend(named.map(|rest| rest.split('"').nth(1).unwrap().to_owned()));
            }
        }
        kinds
    }

    #[tokio::test]
    async fn every_kind_of_job_has_a_handler_with_federation_and_without() {
        let dir = tempfile::tempdir().unwrap();
        let flags = [Flag { flag: "--domain", key: "domain", value: "a.test".into() }];
        let mut loaded = config::load(None, std::iter::empty(), &flags).unwrap();
        let checked = config::check(&mut loaded, Modes::default()).unwrap();
        let site = Site { domain: "a.test".into(), base: "https://a.test".into() };
        let (config, data) = (checked.config.clone(), dir.path().to_owned());
        let open = move || Parts::open(&config, &data, site).unwrap();
        let parts = tokio::task::spawn_blocking(open).await.unwrap();
        let outside = Outside::open(&checked, dir.path(), "https://a.test", None).unwrap();
        let here = tokio::runtime::Handle::current();
        let face = crate::federation::face(&checked, &parts, &outside, &here).unwrap();
        assert!(face.is_some());
        for servers in [face.as_ref(), None] {
            let registry = registry(&checked.config, &parts, &outside, servers).unwrap();
            let handled: BTreeSet<String> = registry.kinds().map(str::to_owned).collect();
            let missing: Vec<_> = kinds_in_source().difference(&handled).cloned().collect();
            assert!(missing.is_empty(), "nobody handles {missing:?}");
            let queues: BTreeSet<&str> = registry.queues().collect();
            assert_eq!(queues, QUEUES.iter().copied().collect(), "work::QUEUES lists them all");
        }
    }
}
