//! Other servers: what is known of them, and which of them staff wants nothing to do with.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_base::{Id, Timestamp};
use weir_db::{Tx, params, texts};

use crate::{Env, Error, moderation};

weir_db::record! {
    /// Another server.
    #[derive(Debug, Clone)]
    pub struct Host {
        /// Its domain.
        pub domain: String,
        /// What it runs, as it says itself; empty when it was not asked yet.
        pub software: String,
        /// The form of signatures it takes; empty while nothing is known.
        pub signature_form: String,
        /// When something from it came first.
        pub first_seen_at: Timestamp,
        /// When a delivery to it last succeeded.
        pub delivered_at: Option<Timestamp>,
        /// When a delivery to it last failed.
        pub failed_at: Option<Timestamp>,
        /// Since when none has succeeded.
        pub failing_since: Option<Timestamp>,
        /// Why the last one failed.
        pub failure: String,
        /// Failures in a row, while what waits is held back until it answers again.
        pub failures: u32,
        /// When it is asked again, meanwhile.
        pub next_try_at: Option<Timestamp>,
        /// Whether older deliveries wait, which follow step by step.
        pub behind: bool,
    }
}

/// How long a server may be silent before it is taken for dead and deliveries to it are spared,
/// in ms: a week.
const DEAD_AFTER_MS: i64 = 7 * 24 * 60 * 60 * 1_000;

/// How deliveries to a server fare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// It takes what is sent.
    Well,
    /// It takes what is sent, and older deliveries follow step by step.
    CatchingUp,
    /// It does not answer: what is for it waits, and one delivery is tried now and then.
    Failing,
    /// It has not answered for a week: nothing new is kept for it until it is heard of again.
    Dead,
}

impl Condition {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::CatchingUp => "catching_up",
            Self::Failing => "failing",
            Self::Dead => "dead",
        }
    }
}

/// A server that has been failing since then, or longer, is dead.
pub(crate) fn dead_if_failing_since(now: Timestamp) -> Timestamp {
    now.plus_ms(-DEAD_AFTER_MS)
}

impl Host {
    /// How deliveries to it fare.
    pub fn condition(&self, now: Timestamp) -> Condition {
        match self.failing_since {
            Some(since) if since <= dead_if_failing_since(now) => Condition::Dead,
            Some(_) => Condition::Failing,
            None if self.behind => Condition::CatchingUp,
            None => Condition::Well,
        }
    }

    /// When it is asked next, while it does not answer: now, where it failed at a moment that lies
    /// ahead, for then the clock was set back.
    pub fn asked_next(&self, now: Timestamp) -> Timestamp {
        let is_planned = self.failed_at.is_none_or(|at| at <= now);
        self.next_try_at.filter(|_| is_planned).unwrap_or(now)
    }
}

/// How much staff wants to do with a server and the people on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Only what the other fields of the block say.
    None,
    /// Its people are shown to their followers only.
    Silence,
    /// Nothing comes in from there, and nothing goes there.
    Suspend,
}

impl Severity {
    /// The severity of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::None, Self::Silence, Self::Suspend].into_iter().find(|known| known.name() == name)
    }

    /// The name in rows and commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "noop",
            Self::Silence => "silence",
            Self::Suspend => "suspend",
        }
    }
}

/// The servers known, by domain, after `after`, at most `limit`; with the severity of their block.
///
/// # Errors
/// The database's.
pub fn list(tx: &mut Tx, after: &str, limit: usize) -> Result<Vec<(Host, Option<String>)>, Error> {
    let hosts: Vec<Host> = tx.records(
        "SELECT {} FROM hosts WHERE domain > ?1 ORDER BY domain LIMIT ?2",
        params![after, limit as i64],
    )?;
    hosts
        .into_iter()
        .map(|host| {
            let severity = severity(tx, &host.domain)?;
            Ok((host, severity))
        })
        .collect()
}

/// What is known of the server `domain`.
///
/// # Errors
/// The database's.
pub fn by_domain(tx: &mut Tx, domain: &str) -> Result<Option<Host>, Error> {
    Ok(tx.record("SELECT {} FROM hosts WHERE domain = ?1", params![domain])?)
}

/// The severity of the block of exactly `domain`, if staff made one.
///
/// # Errors
/// The database's.
pub fn severity(tx: &mut Tx, domain: &str) -> Result<Option<String>, Error> {
    Ok(tx.value("SELECT severity FROM domain_blocks WHERE domain = ?1", params![domain])?)
}

/// Accounts of `domain` that are known here.
///
/// # Errors
/// The database's.
pub fn accounts_count(tx: &mut Tx, domain: &str) -> Result<i64, Error> {
    let count: Option<i64> = tx.value(
        "SELECT count(*) FROM accounts WHERE domain = ?1 AND domain <> ''",
        params![domain],
    )?;
    Ok(count.unwrap_or(0))
}

/// What staff wants of a server: its own block, or that of the nearest domain above it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Policy {
    /// Nothing comes in from there, and nothing goes there.
    pub suspended: bool,
    /// Its people are shown to their followers only.
    pub silenced: bool,
    /// Its media is neither fetched nor shown.
    pub reject_media: bool,
    /// Its reports are dropped.
    pub reject_reports: bool,
}

/// What staff wants of the server `domain` (which may carry a port).
///
/// # Errors
/// The database's.
pub fn policy(tx: &mut Tx, domain: &str) -> Result<Policy, Error> {
    Ok(policies(tx, &[domain])?.remove(domain).unwrap_or_default())
}

/// What staff wants of each of the servers `domains`, where it wants anything.
///
/// # Errors
/// The database's.
pub fn policies(tx: &mut Tx, domains: &[&str]) -> Result<HashMap<String, Policy>, Error> {
    let names: BTreeSet<&str> = domains.iter().flat_map(|domain| names_above(domain)).collect();
    let blocks: Vec<(String, Policy)> = tx.query(
        "SELECT domain, severity, reject_media, reject_reports FROM domain_blocks
         WHERE domain IN texts(?1)",
        &[weir_db::texts(&names)],
        |row| {
            let severity: String = row.get(1)?;
            let suspended = severity == Severity::Suspend.name();
            let policy = Policy {
                suspended,
                silenced: severity == Severity::Silence.name(),
                reject_media: row.get::<bool>(2)? || suspended,
                reject_reports: row.get::<bool>(3)? || suspended,
            };
            Ok((row.get(0)?, policy))
        },
    )?;
    let mut policies = HashMap::new();
    for domain in domains.iter().filter(|_| !blocks.is_empty()) {
        let names = names_above(domain);
        let above = blocks.iter().filter(|(blocked, _)| names.contains(&blocked.as_str()));
        if let Some((_, policy)) = above.max_by_key(|(blocked, _)| blocked.len()) {
            policies.insert((*domain).to_owned(), *policy);
        }
    }
    Ok(policies)
}

/// Counts the decisions of staff about servers, so that what is remembered of them in memory is
/// forgotten in the moment they change (on other nodes of a cluster: when it is too old).
#[derive(Default)]
pub struct Decisions(Arc<AtomicU64>);

impl Decisions {
    /// How many there were. Ask before reading what they were about: what was read then is good
    /// for as long as this stays the same.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    fn changed(&self, tx: &mut Tx) {
        let count = self.0.clone();
        tx.after_commit(move || {
            count.fetch_add(1, Ordering::AcqRel);
        });
    }
}

/// Whether staff named `domain`, or one above it, in the list of servers that are allowed.
///
/// # Errors
/// The database's.
pub fn is_allowed(tx: &mut Tx, domain: &str) -> Result<bool, Error> {
    let found: Option<i64> = tx.value(
        "SELECT 1 FROM domain_allows WHERE domain IN texts(?1) LIMIT 1",
        &[weir_db::texts(names_above(domain))],
    )?;
    Ok(found.is_some())
}

/// `a.b.example:8080`, `a.b.example`, `b.example`, `example`.
fn names_above(domain: &str) -> Vec<&str> {
    let mut names = vec![domain];
    let host = domain.split(':').next().unwrap_or_default();
    // With a dot at its end a name is still that of the same server.
    let mut rest = host.strip_suffix('.').unwrap_or(host);
    if rest != domain {
        names.push(rest);
    }
    // Eight labels are more than any real name has between it and what may be blocked.
    for _ in 0..8 {
        match rest.split_once('.') {
            Some((_, above)) if !above.is_empty() && !rest.starts_with('[') => {
                names.push(above);
                rest = above;
            }
            _ => break,
        }
    }
    names
}

weir_db::record! {
    /// What staff decided about a server, and those below its domain.
    #[derive(Debug, Clone)]
    pub struct Block {
        /// Its id; its time is when it was made.
        pub id: Id,
        /// The domain.
        pub domain: String,
        /// `noop`, `silence` or `suspend`.
        pub severity: String,
        /// Whether media from there is not taken.
        pub reject_media: bool,
        /// Whether reports from there are dropped.
        pub reject_reports: bool,
        /// Why, for staff.
        pub private_comment: String,
        /// Why, for everybody.
        pub public_comment: String,
    }
}

/// The blocks in alphabetical order.
///
/// # Errors
/// The database's.
pub fn blocks(tx: &mut Tx) -> Result<Vec<Block>, Error> {
    Ok(tx.records("SELECT {} FROM domain_blocks ORDER BY domain LIMIT 10000", &[])?)
}

/// The block that counts for `domain`: its own, or that of the nearest domain above it.
///
/// # Errors
/// The database's.
pub fn covering_block(tx: &mut Tx, domain: &str) -> Result<Option<Block>, Error> {
    Ok(tx.record(
        "SELECT {} FROM domain_blocks WHERE domain IN texts(?1)
         ORDER BY length(domain) DESC LIMIT 1",
        &[texts(names_above(domain))],
    )?)
}

/// Since when the people of `domain` are limited, if they are.
///
/// # Errors
/// The database's.
pub(crate) fn silenced_since(tx: &mut Tx, domain: &str) -> Result<Option<Timestamp>, Error> {
    let block = covering_block(tx, domain)?;
    let silence = block.filter(|block| block.severity == Severity::Silence.name());
    Ok(silence.map(|block| block.id.time()))
}

/// The name of the server `domain` as it is kept and compared everywhere: in lower case, and what
/// is not ASCII by IDNA (UTS #46), as in addresses of the web: `müller.example` and
/// `xn--mller-kva.example` are one server. What cannot be a name is only put in lower case.
pub fn name(domain: &str) -> String {
    let (host, port) = parted(domain);
    let host = idna::domain_to_ascii(host).unwrap_or_else(|_| host.to_lowercase());
    host + port
}

/// The [`name`] of a server as people read it and chat writes it (RFC 7622, section 3.2).
pub fn as_read(name: &str) -> String {
    let (host, port) = parted(name);
    match idna::domain_to_unicode(host) {
        (host, Ok(())) => host + port,
        _ => name.to_owned(),
    }
}

/// A host, and its port with the colon before it.
fn parted(domain: &str) -> (&str, &str) {
    match domain.rfind(':') {
        Some(at) if domain[at + 1..].bytes().all(|b| b.is_ascii_digit()) => domain.split_at(at),
        _ => (domain, ""),
    }
}

/// Whether `name`, as [`name`] gives it, could be one of a server: of 1 to 255 bytes, and of no
/// others than stand in names, addresses and ports.
pub fn is_name(name: &str) -> bool {
    let stands = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    (1..=255).contains(&name.len()) && name.bytes().all(stands)
}

/// What is said of what is none.
pub(crate) const NO_DOMAIN: &str =
    "is not a domain: write its name alone, such as example.social, or example.social:8443";

/// That `domain` is one as [`name`] gives it, and another server's.
fn check_domain(env: &Env, domain: &str) -> Result<(), Error> {
    if !is_name(domain) || name(domain) != domain {
        return Err(Error::invalid("domain", "ERR_INVALID", NO_DOMAIN));
    }
    if domain == env.site.domain {
        return Err(Error::invalid("domain", "ERR_INVALID", "is this server's own"));
    }
    Ok(())
}

/// Blocks `domain`, or changes how severely; what was said besides is forgotten.
///
/// # Errors
/// [`Error::Invalid`] when it is no domain, or this server's own.
pub fn block(tx: &mut Tx, env: &Env, domain: &str, severity: Severity) -> Result<(), Error> {
    check_domain(env, domain)?;
    let lifted = end_block(tx, domain)?;
    tx.run(
        "INSERT INTO domain_blocks (id, domain, severity) VALUES (?1, ?2, ?3)",
        params![env.ids.next(), domain, severity.name()],
    )?;
    env.host_decisions.changed(tx);
    moderation::apply_block(tx, env, domain, lifted)
}

/// Ends the block of `domain`, and gives when it was made.
fn end_block(tx: &mut Tx, domain: &str) -> Result<Option<Timestamp>, Error> {
    let sql = "DELETE FROM domain_blocks WHERE domain = ?1 RETURNING id";
    Ok(tx.value::<Id>(sql, params![domain])?.map(Id::time))
}

/// Lifts the block of `domain`; false when there was none.
///
/// # Errors
/// The database's.
pub fn unblock(tx: &mut Tx, env: &Env, domain: &str) -> Result<bool, Error> {
    let lifted = end_block(tx, domain)?;
    if lifted.is_some() {
        env.host_decisions.changed(tx);
        moderation::apply_block(tx, env, domain, lifted)?;
    }
    Ok(lifted.is_some())
}

/// What a block says besides its severity.
#[derive(Debug, Clone, Default)]
pub struct BlockDetails {
    /// Whether media from there is not taken.
    pub reject_media: bool,
    /// Whether reports from there are dropped.
    pub reject_reports: bool,
    /// Why, for staff.
    pub private_comment: String,
    /// Why, for everybody.
    pub public_comment: String,
}

/// What else the block of `domain` says. To be called with [`block`], in one transaction.
///
/// # Errors
/// The database's.
pub fn describe_block(tx: &mut Tx, domain: &str, details: &BlockDetails) -> Result<(), Error> {
    let BlockDetails { reject_media, reject_reports, private_comment, public_comment } = details;
    tx.run(
        "UPDATE domain_blocks SET private_comment = ?2, public_comment = ?3, reject_media = ?4,
           reject_reports = ?5
         WHERE domain = ?1",
        params![domain, private_comment, public_comment, *reject_media, *reject_reports],
    )?;
    Ok(())
}

/// Lets this server speak with `domain`, and those below it, where it speaks only with servers
/// that are listed; false when it was listed before.
///
/// # Errors
/// [`Error::Invalid`] when it is no domain, or this server's own.
pub fn allow(tx: &mut Tx, env: &Env, domain: &str) -> Result<bool, Error> {
    check_domain(env, domain)?;
    let added = tx.execute(
        "INSERT INTO domain_allows (id, domain) VALUES (?1, ?2) ON CONFLICT (domain) DO NOTHING",
        params![env.ids.next(), domain],
    )?;
    env.host_decisions.changed(tx);
    Ok(added > 0)
}

/// Takes `domain` from the list; false when it was not there.
///
/// # Errors
/// The database's.
pub fn disallow(tx: &mut Tx, env: &Env, domain: &str) -> Result<bool, Error> {
    let removed = tx.execute("DELETE FROM domain_allows WHERE domain = ?1", params![domain])?;
    env.host_decisions.changed(tx);
    Ok(removed > 0)
}

/// The servers that are listed as allowed.
///
/// # Errors
/// The database's.
pub fn allowed(tx: &mut Tx) -> Result<BTreeSet<String>, Error> {
    let listed: Vec<String> = tx.column("SELECT domain FROM domain_allows", &[])?;
    Ok(listed.into_iter().collect())
}

/// Whether `domain`, or one above it, is among those of a list.
pub fn is_listed(list: &BTreeSet<String>, domain: &str) -> bool {
    names_above(domain).into_iter().any(|name| list.contains(name))
}

/// Those of the servers `hosts` that are not well.
///
/// # Errors
/// The database's.
pub fn troubled(tx: &mut Tx, hosts: &BTreeSet<&str>) -> Result<Vec<Host>, Error> {
    Ok(tx.records(
        "SELECT {} FROM hosts WHERE domain IN texts(?1)
           AND (failing_since IS NOT NULL OR behind = 1)",
        &[texts(hosts)],
    )?)
}

/// The server `host` took a delivery that was signed in `form`: whatever was wrong is over.
///
/// # Errors
/// The database's.
pub fn delivered(tx: &mut Tx, host: &str, form: &str, now: Timestamp) -> Result<(), Error> {
    tx.run(
        "INSERT INTO hosts (domain, first_seen_at, delivered_at, signature_form)
         VALUES (?1, ?2, ?2, ?3) ON CONFLICT (domain) DO UPDATE
         SET delivered_at = excluded.delivered_at, signature_form = excluded.signature_form,
           failing_since = NULL, failure = '', failures = 0, next_try_at = NULL",
        params![host, now, form],
    )?;
    Ok(())
}

/// The server `host` did not answer `failures` times in a row, the last time for the reason `why`:
/// what is for it waits until `next_try_at`.
///
/// # Errors
/// The database's.
pub fn is_down(
    tx: &mut Tx,
    host: &str,
    why: &str,
    failures: u32,
    now: Timestamp,
    next_try_at: Timestamp,
) -> Result<(), Error> {
    tx.run(
        "INSERT INTO hosts (domain, first_seen_at, failed_at, failing_since, failure, failures,
           next_try_at, behind)
         VALUES (?1, ?2, ?2, ?2, ?3, ?4, ?5, 1) ON CONFLICT (domain) DO UPDATE
         SET failed_at = excluded.failed_at, failure = excluded.failure,
           failures = excluded.failures, next_try_at = excluded.next_try_at, behind = 1,
           failing_since = coalesce(hosts.failing_since, excluded.failing_since)",
        params![host, now, why, failures, next_try_at],
    )?;
    Ok(())
}

/// Older deliveries wait for the server `host`, which follow step by step.
///
/// # Errors
/// The database's.
pub fn is_behind(tx: &mut Tx, host: &str, now: Timestamp) -> Result<(), Error> {
    tx.run(
        "INSERT INTO hosts (domain, first_seen_at, behind) VALUES (?1, ?2, 1)
         ON CONFLICT (domain) DO UPDATE SET behind = 1",
        params![host, now],
    )?;
    Ok(())
}

/// None wait any more.
///
/// # Errors
/// The database's.
pub fn is_behind_no_more(tx: &mut Tx, host: &str) -> Result<(), Error> {
    tx.run("UPDATE hosts SET behind = 0 WHERE domain = ?1 AND behind = 1", params![host])?;
    Ok(())
}

/// Has the failing server `host` asked again at once, as there is reason to think that it is
/// back; a dead one counts as failing since now. False when it is not failing.
///
/// # Errors
/// The database's.
pub fn ask_again(tx: &mut Tx, host: &str, now: Timestamp) -> Result<bool, Error> {
    let changed = tx.execute(
        "UPDATE hosts SET next_try_at = ?2,
           failing_since = CASE WHEN failing_since <= ?3 THEN ?2 ELSE failing_since END
         WHERE domain = ?1 AND failing_since IS NOT NULL",
        params![host, now, dead_if_failing_since(now)],
    )?;
    Ok(changed > 0)
}

#[cfg(test)]
mod tests {
    use weir_base::Timestamp;

    use super::{Host, as_read, name, names_above};

    #[test]
    fn a_server_that_failed_before_the_clock_was_set_back_is_asked_at_once() {
        let now = Timestamp::from_ms(1_700_000_000_000);
        let failed = |at: Timestamp| Host {
            domain: "b.example".into(),
            software: String::new(),
            signature_form: String::new(),
            first_seen_at: now,
            delivered_at: None,
            failed_at: Some(at),
            failing_since: Some(at),
            failure: "503".into(),
            failures: 3,
            next_try_at: Some(at.plus_ms(15_000)),
            behind: true,
        };
        assert_eq!(failed(now).asked_next(now), now.plus_ms(15_000));
        assert_eq!(failed(now.plus_ms(3_600_000)).asked_next(now), now);
    }

    #[test]
    fn what_is_decided_of_a_server_counts_for_all_its_names_and_those_below() {
        for written in ["b.example", "b.example:8080", "a.b.example", "b.example.", "b.example.:80"]
        {
            assert!(names_above(written).contains(&"b.example"), "{written}");
        }
        assert!(!names_above("ab.example").contains(&"b.example"));
    }

    #[test]
    fn a_server_has_one_name_however_it_is_written() {
        for (written, kept) in [
            ("Example.Social", "example.social"),
            ("M\u{DC}ller.example", "xn--mller-kva.example"),
            ("xn--mller-kva.example", "xn--mller-kva.example"),
            ("\u{4F8B}\u{3002}example", "xn--fsq.example"),
            ("m\u{FC}ller.test:8080", "xn--mller-kva.test:8080"),
            ("x.\u{440}\u{444}:8080", "x.xn--p1ai:8080"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::1]:8080", "[::1]:8080"),
            ("", ""),
        ] {
            assert_eq!(name(written), kept);
        }
        assert_eq!(as_read("xn--mller-kva.example"), "m\u{FC}ller.example");
        assert_eq!(as_read("x.xn--p1ai:8080"), "x.\u{440}\u{444}:8080");
        assert_eq!(as_read("xn--a.example"), "xn--a.example", "what is none stays");
    }
}
