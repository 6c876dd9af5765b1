//! Logging in: which mechanisms are offered, and the steps of one exchange.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use weir_base::Id;
use weir_community::accounts;
use weir_community::users::{self, Standing};

use super::transport::Security;
use crate::face::Xmpp;

/// Who has logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    /// The account.
    pub account: Id,
    /// Its name, as it stands in addresses.
    pub username: String,
}

/// Why a log-in failed: a condition of RFC 6120 section 6.5, and words for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The condition.
    pub condition: &'static str,
    /// What to do.
    pub text: &'static str,
}

/// What comes next in an exchange.
#[derive(Debug)]
pub enum Step {
    /// The client is to answer this.
    Challenge(Vec<u8>),
    /// It is who it says.
    Done {
        /// Who.
        who: Authenticated,
        /// What is said with the success.
        extra: Vec<u8>,
    },
    /// It is not.
    Failed(Failure),
}

/// An exchange under way.
pub struct Exchange(());

/// The mechanisms offered on a connection so protected, best first.
pub fn mechanisms(xmpp: &Xmpp, security: &Security) -> Vec<&'static str> {
    match security.is_encrypted || xmpp.is_dev() {
        true => vec!["PLAIN"],
        false => Vec::new(),
    }
}

/// The bytes of a message as it stands in XML: base64, `=` for none.
///
/// # Errors
/// What is no base64.
pub fn decode(text: &str) -> Result<Vec<u8>, Failure> {
    if text == "=" {
        return Ok(Vec::new());
    }
    let wrong = Failure { condition: "incorrect-encoding", text: "Send base64 without spaces." };
    BASE64_STANDARD.decode(text.trim()).map_err(|_| wrong)
}

/// The other way.
pub fn encode(bytes: &[u8]) -> String {
    if bytes.is_empty() { "=".into() } else { BASE64_STANDARD.encode(bytes) }
}

const WRONG: Failure =
    Failure { condition: "not-authorized", text: "The name or the password is wrong." };

impl Exchange {
    /// Begins with what the client said first.
    pub async fn start(
        xmpp: &Xmpp,
        security: &Security,
        mechanism: &str,
        initial: Option<Vec<u8>>,
    ) -> (Self, Step) {
        if !mechanisms(xmpp, security).contains(&mechanism) {
            let text = "Use one of the mechanisms that are offered.";
            return (Self(()), Step::Failed(Failure { condition: "invalid-mechanism", text }));
        }
        match initial {
            Some(message) => (Self(()), plain(xmpp, &message).await),
            None => (Self(()), Step::Challenge(Vec::new())),
        }
    }

    /// Goes on with what the client answered.
    pub async fn respond(&mut self, xmpp: &Xmpp, message: Vec<u8>) -> Step {
        plain(xmpp, &message).await
    }
}

/// RFC 4616.
async fn plain(xmpp: &Xmpp, message: &[u8]) -> Step {
    let text = std::str::from_utf8(message).unwrap_or_default();
    let mut parts = text.split('\0');
    let (Some(as_whom), Some(name), Some(password), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        let text = "Send NUL, the name, NUL, the password.";
        return Step::Failed(Failure { condition: "malformed-request", text });
    };
    let name = name.to_lowercase();
    let own = [name.clone(), format!("{name}@{}", xmpp.domain())];
    if !as_whom.is_empty() && !own.contains(&as_whom.to_lowercase()) {
        let text = "One can log in only as oneself.";
        return Step::Failed(Failure { condition: "invalid-authzid", text });
    }
    let wanted = name.clone();
    let known = xmpp.read(move |tx, _| {
        let Some(account) = accounts::by_address(tx, &wanted, "")? else { return Ok(None) };
        let Ok(user) = users::by_account(tx, account.id) else { return Ok(None) };
        let fine = user.standing(&account) == Standing::Fine && account.is_available();
        Ok(fine.then_some((account.id, user.password_hash)))
    });
    let known = match known.await {
        Ok(known) => known,
        Err(_) => {
            let text = "There is a temporary problem: try again.";
            return Step::Failed(Failure { condition: "temporary-auth-failure", text });
        }
    };
    let hash = known.as_ref().map_or("", |(_, hash)| hash.as_str());
    let fits = matches!(users::verify_password(hash, password).await, Ok(true));
    match known {
        Some((account, _)) if fits => {
            let who = Authenticated { account, username: name };
            Step::Done { who, extra: Vec::new() }
        }
        _ => Step::Failed(WRONG),
    }
}
