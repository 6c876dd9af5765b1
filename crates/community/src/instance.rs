//! What staff changes while the server runs: title, description, registrations, limits, rules.

use std::sync::Arc;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_db::{Json, Tx, params};

use crate::{Env, Error};

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
        if let Some(Json(settings)) = row {
            *self.settings.write() = Arc::new(settings);
        }
        Ok(())
    }
}

/// Puts `settings` in the place of the present ones.
///
/// # Errors
/// The database's.
pub fn set(tx: &mut Tx, env: &std::sync::Arc<Env>, settings: Settings) -> Result<(), Error> {
    tx.execute(
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
    tx.execute(
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
