//! How a node behaves.

use serde::{Deserialize, Serialize};

use super::items::ITEM_BYTES_MAX;

/// The most items of one node.
pub const ITEMS_MAX: u32 = 1_000;

/// How a node behaves. What is not said has the value of a new node of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// What people call it.
    pub title: String,
    /// What it is about.
    pub description: String,
    /// The namespace of its payloads.
    pub kind: String,
    /// Who may subscribe and read.
    pub access: Access,
    /// Whose groups may, with [`Access::Roster`].
    pub groups: Vec<String>,
    /// Who may publish, besides owners and publishers.
    pub publish: Publish,
    /// Whether items stay.
    pub persist: bool,
    /// How many items stay.
    pub items_max: u32,
    /// Whether notifications carry the payload.
    pub payloads: bool,
    /// Whether items are announced when they are retracted.
    pub tells_retracts: bool,
    /// Whether it is announced that the node is deleted.
    pub tells_delete: bool,
    /// Whether it is announced that the node is configured.
    pub tells_config: bool,
    /// When the last item is sent.
    pub send_last: SendLast,
    /// Whether anybody is told of anything.
    pub notifies: bool,
    /// As which messages people are told.
    pub notification: Notification,
    /// The longest payload that is taken, in bytes.
    pub payload_bytes_max: u32,
}

/// Who may subscribe to a node and read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Everybody.
    Open,
    /// Those who see the owner's presence.
    Presence,
    /// Contacts of the owner in certain groups.
    Roster,
    /// Whoever the owner approves.
    Authorize,
    /// Members.
    Whitelist,
}

/// Who may publish to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Publish {
    /// Owners and publishers.
    Publishers,
    /// And those who subscribe.
    Subscribers,
    /// Everybody.
    Open,
}

/// When the last item of a node is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SendLast {
    /// Never.
    Never,
    /// To those who subscribe now.
    OnSub,
    /// And to those who come now.
    OnSubAndPresence,
}

/// As which messages people are told of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Notification {
    /// Ones that wait for nobody.
    Headline,
    /// Ones like any others.
    Normal,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            title: String::new(),
            description: String::new(),
            kind: String::new(),
            access: Access::Presence,
            groups: Vec::new(),
            publish: Publish::Publishers,
            persist: true,
            items_max: 1,
            payloads: true,
            tells_retracts: true,
            tells_delete: true,
            tells_config: false,
            send_last: SendLast::OnSubAndPresence,
            notifies: true,
            notification: Notification::Headline,
            payload_bytes_max: ITEM_BYTES_MAX as u32,
        }
    }
}

impl Config {
    /// As a new node of the service has it.
    pub fn of_service() -> Self {
        Self { access: Access::Open, items_max: 50, send_last: SendLast::OnSub, ..Self::default() }
    }

    /// With numbers and texts within their limits.
    pub fn within_limits(mut self) -> Self {
        self.items_max = self.items_max.min(ITEMS_MAX);
        self.payload_bytes_max = self.payload_bytes_max.min(ITEM_BYTES_MAX as u32);
        self.groups.truncate(64);
        for text in [&mut self.title, &mut self.description, &mut self.kind] {
            let end = text.char_indices().nth(1_000).map_or(text.len(), |(at, _)| at);
            text.truncate(end);
        }
        self
    }
}

impl Access {
    /// All, with the names the protocol has for them.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Open, "open"),
        (Self::Presence, "presence"),
        (Self::Roster, "roster"),
        (Self::Authorize, "authorize"),
        (Self::Whitelist, "whitelist"),
    ];
}

impl Notification {
    /// All, with the names the protocol has for them.
    pub const ALL: [(Self, &'static str); 2] =
        [(Self::Headline, "headline"), (Self::Normal, "normal")];
}

impl Publish {
    /// All, with the names the protocol has for them.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::Publishers, "publishers"),
        (Self::Subscribers, "subscribers"),
        (Self::Open, "open"),
    ];
}

impl SendLast {
    /// All, with the names the protocol has for them.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::Never, "never"),
        (Self::OnSub, "on_sub"),
        (Self::OnSubAndPresence, "on_sub_and_presence"),
    ];
}
