//! Logging in: SASL's steps with what is known of people here.
//!
//! A name that nobody has costs as much as one that somebody has, and looks the same, up to the
//! last message. Who was wrong too often has to wait; who was right is not counted, so that a
//! thousand people behind one address can come back at once.

pub(crate) mod again;
mod exchange;
mod known;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use weir_base::{Id, Timestamp};
use weir_community::oauth::{Bearer, Hold};
use weir_community::users::{self, ChatToken, ChatUser, ClientId, PasswordMark};
use weir_community::{Community, Error};
use weir_db::Class;
use weir_http::{Network, Throttle, Tokens};

pub use exchange::{Exchange, Step};

use crate::sasl::{Failure, Mechanism};

/// People whose keys are remembered at once.
const KNOWN_MAX: u64 = 10_000;
/// For how long; what changes here takes effect at once.
const KNOWN: Duration = Duration::from_secs(60);
/// Plain passwords that were right, remembered by a digest.
const RIGHT_MAX: u64 = 20_000;
/// For how long.
const RIGHT: Duration = Duration::from_secs(300);
/// A token of an earlier log-in is replaced when it is older than this, in ms: a day.
const TOKEN_AGE_MS_MAX: i64 = 24 * 60 * 60 * 1_000;

/// What all log-ins share.
pub struct LogIns {
    community: Community,
    domain: Box<str>,
    tokens: Tokens,
    known: Cache<String, Arc<ChatUser>>,
    right: Cache<[u8; 32], ()>,
    by_source: Throttle,
    by_name: Throttle,
    by_name_and_source: Throttle,
}

/// Somebody who has logged in.
#[derive(Debug, Clone)]
pub struct Authenticated {
    /// The account.
    pub account: Id,
    /// Its name: the part of the address before the `@`.
    pub username: String,
    /// What they may do about accounts.
    pub power: Power,
    /// By which token of an earlier log-in, if by one.
    pub token: Option<UsedToken>,
    /// By which password, or a token that goes with it; none by an app's token.
    pub(crate) password: Option<PasswordMark>,
    /// How often log-ins had lost their power before this one was looked at.
    pub(crate) generation: u64,
    /// By an app's token: it is known to be in use, for when it may have lost its power unheard.
    pub(crate) hold: Option<Arc<Hold>>,
}

/// What somebody who chats may do about accounts, by what they logged in with; each has what stands
/// before it too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Power {
    /// Nothing: by an app's token.
    #[default]
    Chat,
    /// What their role lets them do to others: by an app's token that is good for `admin:write`, or
    /// by a token of an earlier log-in by password.
    Role,
    /// Change their own password and delete their own account: by the password.
    Own,
}

impl Power {
    /// What an app's token gives.
    fn of(bearer: &Bearer) -> Self {
        if bearer.scopes.allow("admin:write") { Self::Role } else { Self::Chat }
    }
}

/// A token that somebody logged in by.
#[derive(Debug, Clone)]
pub struct UsedToken {
    /// Of which app.
    pub client: ClientId,
    /// The mechanism it is good for.
    pub mechanism: String,
    /// Whether another one is to take its place.
    pub is_due: bool,
    is_new: bool,
}

impl LogIns {
    /// Log-ins of people of `community`, whose addresses end with `domain`. Wrong tries are
    /// counted unless it is for development.
    pub fn new(community: Community, tokens: Tokens, domain: &str, is_development: bool) -> Self {
        let throttle = |name, burst, every_ms| {
            Throttle::new(name, community.env().clock.clone(), !is_development, burst, every_ms)
        };
        Self {
            by_source: throttle("chat_log_ins_by_source", 30, 10_000),
            by_name: throttle("chat_log_ins_by_name", 100, 10_000),
            by_name_and_source: throttle("chat_log_ins_by_name_and_source", 10, 60_000),
            community,
            domain: domain.into(),
            tokens,
            known: Cache::builder().max_capacity(KNOWN_MAX).time_to_live(KNOWN).build(),
            right: Cache::builder().max_capacity(RIGHT_MAX).time_to_live(RIGHT).build(),
        }
    }

    /// Digests of passwords in memory.
    pub(crate) fn passwords_held(&self) -> u64 {
        self.right.run_pending_tasks();
        self.right.entry_count()
    }

    /// Whether whoever logs in as `name` from `source` may try.
    fn may_try(&self, name: &str, source: IpAddr) -> Result<(), Failure> {
        let source = Network::source_of(source).to_string();
        let waits = [
            self.by_source.check(&source),
            self.by_name.check(name),
            self.by_name_and_source.check(&format!("{name} {source}")),
        ];
        let longest = waits.into_iter().filter_map(Result::err).max();
        match longest {
            None => Ok(()),
            Some(wait_s) => Err(Failure::new(
                "temporary-auth-failure",
                format!("There were too many wrong tries. Try again in {wait_s} s."),
            )),
        }
    }

    /// Somebody was wrong.
    fn was_wrong(&self, name: &str, source: IpAddr) {
        let source = Network::source_of(source).to_string();
        // Whoever can't take one more has to wait already.
        let _ = self.by_source.take(&source);
        if !name.is_empty() {
            let _ = self.by_name.take(name);
            let _ = self.by_name_and_source.take(&format!("{name} {source}"));
        }
    }

    /// The name without our domain, as names are compared.
    fn plain_name(&self, name: &str) -> String {
        let name = name.trim().to_lowercase();
        match name.rsplit_once('@') {
            Some((local, domain)) if domain == &*self.domain => local.to_owned(),
            _ => name,
        }
    }

    /// Whether acting as `authzid` is acting as oneself.
    fn is_oneself(&self, authzid: &str, username: &str) -> bool {
        let is_address = authzid.contains('@');
        authzid.is_empty() || (is_address && self.plain_name(authzid) == username.to_lowercase())
    }

    /// What follows a log-in by a token: it takes the place of the one before, or goes, and one is
    /// made where it is asked for or due. What is asked for was checked to be offered.
    ///
    /// # Errors
    /// The database's.
    pub async fn settle_token(
        &self,
        who: &Authenticated,
        client: &ClientId,
        asked: Option<Mechanism>,
        give_up: bool,
    ) -> Result<Option<ChatToken>, Error> {
        let used = who.token.as_ref();
        let due = used.filter(|used| used.is_due && !give_up).map(|used| used.mechanism.clone());
        let wanted = asked.map(|mechanism| mechanism.name().to_owned()).or(due);
        let takes_place = used.is_some_and(|used| used.is_new);
        if wanted.is_none() && !takes_place && !give_up {
            return Ok(None);
        }
        let (account, client) = (who.account, client.clone());
        let oauth_token = who.hold.as_ref().map(|hold| hold.token());
        let settled = self.community.write(Class::Interactive, move |tx, env| {
            if give_up {
                users::forget_chat_token(tx, account, &client)?;
            } else if takes_place {
                users::used_chat_token(tx, account, &client)?;
            }
            match &wanted {
                Some(mechanism) => {
                    users::keep_chat_token(tx, env, account, &client, mechanism, oauth_token)
                        .map(Some)
                }
                None => Ok(None),
            }
        });
        settled.await
    }

    fn now(&self) -> Timestamp {
        self.community.env().clock.now()
    }
}

/// The digest by which an app's own id is kept.
pub fn client_id(id: &str) -> ClientId {
    weir_community::oauth::hash(id)
}

/// A failure of ours, which is nobody's fault outside.
fn unavailable(error: &Error) -> Failure {
    tracing::warn!(%error, "a log-in to chat could not be decided");
    Failure::new("temporary-auth-failure", "The server is busy. Try again in a moment.")
}
