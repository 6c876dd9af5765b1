//! How a room behaves.

use serde::{Deserialize, Deserializer, Serialize};

/// The most occupants that a room may be configured for.
pub const OCCUPANTS_MAX: u32 = 50_000;
/// The longest text of a configuration, in characters.
const TEXT_CHARACTERS_MAX: usize = 1_000;
/// The roles of those in a room.
const ROLES: [&str; 3] = ["moderator", "participant", "visitor"];

/// How a room behaves. What is not said has the value of a new room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// What people call it.
    pub title: String,
    /// What it is about.
    pub description: String,
    /// The language spoken there; may be empty.
    pub language: String,
    /// Whether it stands in the list of rooms.
    pub public: bool,
    /// Whether it outlives its last occupant.
    pub persistent: bool,
    /// What one must know to enter; empty: nothing.
    pub password: String,
    /// Whether only members enter.
    pub members_only: bool,
    /// Whether one must be given voice to speak.
    pub moderated: bool,
    /// Who sees the occupants' addresses.
    pub whois: Whois,
    /// How many fit in.
    pub occupants_max: u32,
    /// Whether all who may speak may change the subject.
    pub change_subject: bool,
    /// Whether all who are in it may invite.
    pub invites: bool,
    /// Whether visitors may ask for voice.
    pub voice_requests: bool,
    /// Who may write to occupants in private.
    pub private_messages: Private,
    /// Whether what is said is kept.
    pub archive: bool,
    /// Messages that those who come are sent at most.
    pub history_max: u32,
    /// Roles whose presence is shown to all.
    pub broadcast: Vec<String>,
    /// Roles that may ask for the lists of members, beside admins and owners.
    #[serde(alias = "open_lists", deserialize_with = "roles_or_all")]
    pub lists_for: Vec<String>,
    /// The SHA-1 of the room's picture; empty without one.
    pub picture: String,
    /// What makes occupants' ids those of this room (XEP-0421). Never told.
    pub salt: String,
}

/// Who sees the occupants' addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Whois {
    /// Moderators.
    Moderators,
    /// All occupants.
    Anyone,
}

/// Who may write to occupants in private.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Private {
    /// All occupants.
    Anyone,
    /// Those who may speak.
    Participants,
    /// Moderators.
    Moderators,
    /// Nobody.
    None,
}

impl Private {
    /// All, with the names the protocol has for them.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Anyone, "anyone"),
        (Self::Participants, "participants"),
        (Self::Moderators, "moderators"),
        (Self::None, "none"),
    ];
}

impl Default for Config {
    fn default() -> Self {
        Self {
            title: String::new(),
            description: String::new(),
            language: String::new(),
            public: true,
            persistent: false,
            password: String::new(),
            members_only: false,
            moderated: false,
            whois: Whois::Moderators,
            occupants_max: 1_000,
            change_subject: false,
            invites: true,
            voice_requests: true,
            private_messages: Private::Anyone,
            archive: true,
            history_max: 50,
            broadcast: all_roles(),
            lists_for: Vec::new(),
            picture: String::new(),
            salt: String::new(),
        }
    }
}

impl Config {
    /// With numbers and texts within their limits.
    pub fn within_limits(mut self) -> Self {
        self.occupants_max = self.occupants_max.clamp(1, OCCUPANTS_MAX);
        self.history_max = self.history_max.min(100);
        for text in [&mut self.title, &mut self.description, &mut self.language, &mut self.password]
        {
            let end = text.char_indices().nth(TEXT_CHARACTERS_MAX).map(|(at, _)| at);
            text.truncate(end.unwrap_or(text.len()));
        }
        for roles in [&mut self.broadcast, &mut self.lists_for] {
            roles.retain(|role| ROLES.contains(&&**role));
            roles.sort();
            roles.dedup();
        }
        self
    }
}

fn all_roles() -> Vec<String> {
    ROLES.map(str::to_owned).to_vec()
}

/// Rooms that were configured when this was said of all or of none keep what they had.
fn roles_or_all<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Kept {
        All(bool),
        Roles(Vec<String>),
    }
    Ok(match Kept::deserialize(deserializer)? {
        Kept::All(true) => all_roles(),
        Kept::All(false) => Vec::new(),
        Kept::Roles(roles) => roles,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sees_the_lists_is_read_as_it_was_kept_before() {
        let read = |text: &str| serde_json::from_str::<Config>(text).unwrap().lists_for;
        assert_eq!(read(r#"{"open_lists":true}"#), all_roles());
        assert!(read(r#"{"open_lists":false}"#).is_empty());
        assert!(read("{}").is_empty());
        let config = Config { lists_for: vec!["visitor".into()], ..Config::default() };
        assert_eq!(read(&serde_json::to_string(&config).unwrap()), ["visitor"]);
    }
}
