//! What staff changes while the server runs: title, description, registrations, limits, rules.

use std::sync::Arc;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_db::{Json, Tx, params};

use crate::{Env, Error, hosts};

/// The longest rule, in characters.
const RULE_CHARACTERS_MAX: usize = 1_000;

/// The settings of the instance; all have a default.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
#[serde(default)]
pub struct Settings {
    /// The name of the community.
    pub title: String,
    /// One or two sentences, plain text.
    pub short_description: String,
    /// The about page, in HTML.
    pub extended_description: String,
    /// The privacy policy, in HTML.
    pub privacy_policy: String,
    /// The terms of service, in HTML; none when empty.
    pub terms_of_service: String,
    /// A mail address for people to write to.
    pub contact_email: String,
    /// The local account to show as contact.
    pub contact_account: Option<Id>,
    /// `open`, `approval`, `invite` or `closed`; none: as configured.
    pub registrations: Option<Registrations>,
    /// Languages of the community, as BCP 47 codes.
    pub languages: Vec<String>,
    /// Characters a post may have.
    pub status_characters_max: usize,
    /// Attachments a post may have.
    pub media_attachments_max: usize,
    /// Options a poll may have.
    pub poll_options_max: usize,
    /// Characters an option may have.
    pub poll_option_characters_max: usize,
    /// Bytes an image may have.
    pub image_bytes_max: usize,
    /// Bytes a video or sound may have.
    pub video_bytes_max: usize,
    /// Posts a person may pin.
    pub pinned_statuses_max: usize,
    /// Whether visitors may read the local and federated timelines.
    pub public_timelines: bool,
    /// When staff last changed something; none: never.
    pub changed_at: Option<Timestamp>,
}

/// Who may make an account.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Registrations {
    /// Everybody.
    Open,
    /// Everybody, once staff has looked.
    Approval,
    /// Who has an invitation.
    Invite,
    /// Nobody.
    Closed,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            title: "Weir".into(),
            short_description: "A community on Weir.".into(),
            extended_description: String::new(),
            privacy_policy: String::new(),
            terms_of_service: String::new(),
            contact_email: String::new(),
            contact_account: None,
            registrations: None,
            languages: vec!["en".into()],
            status_characters_max: 500,
            media_attachments_max: 4,
            poll_options_max: 4,
            poll_option_characters_max: 50,
            image_bytes_max: 16 * weir_base::MIB,
            video_bytes_max: 99 * weir_base::MIB,
            pinned_statuses_max: 5,
            public_timelines: true,
            changed_at: None,
        }
    }
}

/// The settings in memory.
#[derive(Default)]
pub struct Instance {
    settings: RwLock<Arc<Settings>>,
}

impl Instance {
    /// The settings as they are now.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.read().clone()
    }

    pub(crate) fn load(&self, tx: &mut Tx) -> Result<(), Error> {
        let row: Option<Json<Settings>> =
            tx.value("SELECT content FROM settings WHERE name = 'instance'", &[])?;
        let mut held = self.settings.write();
        // While they are read anew somebody may change them.
        if let Some(Json(settings)) = row.filter(|row| row.0.changed_at >= held.changed_at) {
            *held = Arc::new(settings);
        }
        Ok(())
    }
}

/// Puts `settings` in the place of the present ones.
///
/// # Errors
/// The database's.
pub fn set(tx: &mut Tx, env: &std::sync::Arc<Env>, settings: Settings) -> Result<(), Error> {
    let settings = Settings { changed_at: Some(env.clock.now()), ..settings };
    tx.run(
        "INSERT INTO settings (name, content) VALUES ('instance', ?1)
         ON CONFLICT (name) DO UPDATE SET content = excluded.content",
        params![Json(&settings)],
    )?;
    let env = env.clone();
    tx.after_commit(move || *env.instance.settings.write() = Arc::new(settings));
    Ok(())
}

weir_db::record! {
    /// A rule of the community.
    #[derive(Debug, Clone)]
    pub struct Rule {
        /// Its id.
        pub id: Id,
        /// The rule.
        pub content: String,
        /// A longer word about it.
        pub hint: String,
    }
}

/// The rules in their order.
///
/// # Errors
/// The database's.
pub fn rules(tx: &mut Tx) -> Result<Vec<Rule>, Error> {
    Ok(tx.records("SELECT {} FROM rules ORDER BY position, id", &[])?)
}

/// Adds a rule at the end.
///
/// # Errors
/// [`Error::Invalid`] when it says nothing or too much.
pub fn add_rule(tx: &mut Tx, env: &Env, content: &str, hint: &str) -> Result<(), Error> {
    let content = content.trim();
    if content.is_empty() {
        return Err(Error::invalid("rule", "ERR_BLANK", "can't be blank"));
    }
    if content.chars().count() > RULE_CHARACTERS_MAX || hint.chars().count() > RULE_CHARACTERS_MAX {
        let message = format!("is too long (maximum is {RULE_CHARACTERS_MAX} characters)");
        return Err(Error::invalid("rule", "ERR_TOO_LONG", message));
    }
    tx.run(
        "INSERT INTO rules (id, position, content, hint)
         SELECT ?1, coalesce(max(position), 0) + 1, ?2, ?3 FROM rules",
        params![env.ids.next(), content, hint.trim()],
    )?;
    Ok(())
}

/// Removes a rule.
///
/// # Errors
/// [`Error::NotFound`].
pub fn remove_rule(tx: &mut Tx, id: Id) -> Result<(), Error> {
    match tx.execute("DELETE FROM rules WHERE id = ?1", params![id])? {
        0 => Err(Error::NotFound("Rule")),
        _ => Ok(()),
    }
}

/// What an admin wrote as safe HTML: plain text becomes paragraphs, HTML is cleaned.
pub fn page_text(written: &str) -> String {
    let written = written.trim();
    if written.is_empty() {
        String::new()
    } else if written.contains('<') {
        ammonia::clean(written)
    } else {
        let nobody = std::collections::HashMap::new();
        crate::text::render(written, &nobody, |tag| format!("/tags/{tag}"))
    }
}

/// How large the community is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// People who can log in here.
    pub users: i64,
    /// Of those, who posted or logged in within 30 days.
    pub active_month: i64,
    /// Their posts.
    pub statuses: i64,
    /// Other servers known.
    pub domains: i64,
}

/// Counts the community.
///
/// # Errors
/// The database's.
pub fn counts(tx: &mut Tx, env: &Env) -> Result<Counts, Error> {
    let month = env.clock.now().plus_ms(-30 * DAY_MS);
    Ok(tx.query_one(
        "SELECT count(*), CAST(coalesce(SUM(a.statuses_count), 0) AS BIGINT),
           CAST(coalesce(SUM(CASE WHEN coalesce(a.last_status_at, 0) >= ?1
             OR coalesce(u.last_sign_in_at, 0) >= ?1 THEN 1 ELSE 0 END), 0) AS BIGINT),
           (SELECT count(*) FROM hosts)
         FROM users u JOIN accounts a ON a.id = u.account_id",
        params![month],
        |row| {
            Ok(Counts {
                users: row.get(0)?,
                statuses: row.get(1)?,
                active_month: row.get(2)?,
                domains: row.get(3)?,
            })
        },
    )?)
}

/// A day in ms.
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// What happened in a week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Week {
    /// When it began: midnight before a Monday, UTC.
    pub begin: Timestamp,
    /// Public posts written here.
    pub statuses: i64,
    /// People who logged in last in this week.
    pub logins: i64,
    /// People who joined.
    pub registrations: i64,
}

/// The last 12 weeks, the present one first.
///
/// # Errors
/// The database's.
pub fn activity(tx: &mut Tx, env: &Env) -> Result<Vec<Week>, Error> {
    const WEEK_MS: i64 = 7 * DAY_MS;
    // 1970 began on a Thursday.
    let monday = 4 * DAY_MS;
    let this = (env.clock.now().as_ms() - monday).div_euclid(WEEK_MS);
    let weeks = (0..12).map(|ago| {
        let begin = Timestamp::from_ms(monday + (this - ago) * WEEK_MS);
        let end = begin.plus_ms(WEEK_MS);
        Ok(tx.query_one(
            "SELECT (SELECT count(*) FROM statuses WHERE visibility = 0 AND boost_of_id IS NULL
                 AND local = 1 AND id >= ?1 AND id < ?2),
               (SELECT count(*) FROM users WHERE last_sign_in_at >= ?3 AND last_sign_in_at < ?4),
               (SELECT count(*) FROM users WHERE created_at >= ?3 AND created_at < ?4)",
            params![Id::first_at(begin), Id::first_at(end), begin, end],
            |row| {
                let (statuses, logins, registrations) = (row.get(0)?, row.get(1)?, row.get(2)?);
                Ok(Week { begin, statuses, logins, registrations })
            },
        )?)
    });
    weeks.collect()
}

/// The servers known here, in order of their names; those that begin with `prefix`.
///
/// # Errors
/// The database's.
pub fn peers(tx: &mut Tx, prefix: &str, limit: usize) -> Result<Vec<String>, Error> {
    let prefix = hosts::name(prefix.trim());
    Ok(tx.column(
        "SELECT domain FROM hosts WHERE domain >= ?1 AND domain < ?2 ORDER BY domain LIMIT ?3",
        params![prefix, format!("{prefix}\u{10FFFF}"), limit],
    )?)
}

weir_db::record! {
    /// A server that staff limits or shuts out, as everybody may know it.
    #[derive(Debug, Clone)]
    pub struct DomainBlock {
        /// Which.
        pub domain: String,
        /// `silence` or `suspend`.
        pub severity: String,
        /// What staff says to everybody about it.
        pub public_comment: String,
        /// Whether its name is not to be shown in full.
        pub obfuscate: bool,
    }
}

/// The servers that staff limits or shuts out, in order of their names.
///
/// # Errors
/// The database's.
pub fn domain_blocks(tx: &mut Tx) -> Result<Vec<DomainBlock>, Error> {
    Ok(tx.records(
        "SELECT {} FROM domain_blocks WHERE severity <> 'noop' ORDER BY domain LIMIT 10000",
        &[],
    )?)
}
