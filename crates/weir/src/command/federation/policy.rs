//! `weir federation block`, `unblock`, `allow` and `disallow`

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_community::Error;
use weir_community::hosts::{self, BlockDetails};
use weir_db::{Class, Tx};

use crate::parts::Parts;

/// What is not there: a block,
const BLOCK: &str = "A block of this host";
/// an entry in the list of those that are allowed.
const ALLOWED: &str = "This host in the list of those that are allowed";

/// What a block says.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct Terms {
    /// How much is wanted of it.
    #[arg(long, value_enum, default_value = "suspend")]
    severity: Severity,
    /// Take no media from there.
    #[arg(long)]
    reject_media: bool,
    /// Take no reports from there.
    #[arg(long)]
    reject_reports: bool,
    /// Why, for everybody.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    /// Why, for staff.
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    note: String,
}

/// How much is wanted of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Severity {
    /// Only what the other options say.
    Noop,
    /// Its people are shown to their followers only.
    Silence,
    /// Nothing comes in from there, nothing goes there, and follows end.
    Suspend,
}

impl From<Severity> for hosts::Severity {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Noop => Self::None,
            Severity::Silence => Self::Silence,
            Severity::Suspend => Self::Suspend,
        }
    }
}

pub(super) async fn block(parts: &Parts, domain: String, terms: Terms) -> Result<Value, Error> {
    let severity = hosts::Severity::from(terms.severity);
    let answer = json!({
        "host": domain,
        "block": severity.name(),
        "reject_media": terms.reject_media,
        "reject_reports": terms.reject_reports,
    });
    let details = BlockDetails {
        reject_media: terms.reject_media,
        reject_reports: terms.reject_reports,
        private_comment: terms.note,
        public_comment: terms.reason,
    };
    let unit = move |tx: &mut Tx, env: &_| {
        hosts::block(tx, env, &domain, severity)?;
        hosts::describe_block(tx, &domain, &details)
    };
    parts.community.write(Class::Interactive, unit).await?;
    Ok(answer)
}

pub(super) async fn unblock(parts: &Parts, domain: String) -> Result<Value, Error> {
    let answer = json!({ "host": domain, "block": null });
    let unit = move |tx: &mut Tx, env: &_| hosts::unblock(tx, env, &domain);
    match parts.community.write(Class::Interactive, unit).await? {
        true => Ok(answer),
        false => Err(Error::NotFound(BLOCK)),
    }
}

pub(super) async fn allow(parts: &Parts, domain: String) -> Result<Value, Error> {
    let answer = json!({ "host": domain, "allowed": true });
    let unit = move |tx: &mut Tx, env: &_| hosts::allow(tx, env, &domain);
    parts.community.write(Class::Interactive, unit).await?;
    Ok(answer)
}

pub(super) async fn disallow(parts: &Parts, domain: String) -> Result<Value, Error> {
    let answer = json!({ "host": domain, "allowed": false });
    let unit = move |tx: &mut Tx, env: &_| hosts::disallow(tx, env, &domain);
    match parts.community.write(Class::Interactive, unit).await? {
        true => Ok(answer),
        false => Err(Error::NotFound(ALLOWED)),
    }
}
