//! Mail to the people here: a job that writes the letter and hands it over.
//!
//! The job's row holds no secret: links are made when the letter is written. A repeat after a
//! crash makes a new link and sends again, with the same message id.

mod letters;
mod mailer;

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_db::{Class, Tx};
use weir_jobs::{Claimed, Failure, Job, Queue, Registry, Retry};

use crate::{Community, Env, Error};

pub use mailer::{MailError, Mailer};

/// What is to be written to whom.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq, Eq)]
#[serde(tag = "letter", rename_all = "snake_case")]
pub enum Letter {
    /// Confirm your address: to the new address, if the person changes it.
    Confirm {
        /// Who.
        account: Id,
    },
    /// Choose a new password.
    Reset {
        /// Who.
        account: Id,
    },
    /// Staff let you in.
    Approved {
        /// Who.
        account: Id,
    },
    /// Staff did not let you in; the account is gone already.
    Rejected {
        /// The address.
        email: String,
        /// The name that was asked for.
        username: String,
    },
    /// Your password was changed.
    PasswordChanged {
        /// Who.
        account: Id,
    },
    /// Your address was changed: to the old one.
    EmailChanged {
        /// Who.
        account: Id,
        /// The old address.
        before: String,
    },
    /// Somebody waits to be let in: to staff.
    SignUpWaits {
        /// The member of staff.
        staff: Id,
        /// Who waits.
        account: Id,
    },
    /// Staff did something to your account.
    Moderated {
        /// Who.
        account: Id,
        /// What was done, as a sentence.
        what: String,
    },
}

/// A mail that is ready to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// To whom.
    pub to: String,
    /// What it is about.
    pub subject: String,
    /// The text.
    pub text: String,
}

/// The job that sends a letter.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SendMail {
    /// Which.
    #[serde(flatten)]
    pub letter: Letter,
}

impl Job for SendMail {
    const KIND: &'static str = "send_mail";
    const QUEUE: Queue = Queue::new("mail", Class::Outbound).running_max(4);
    const RETRY: Retry = Retry::DEFAULT.attempts(12);
}

/// Asks for `letter` to be sent, in the caller's transaction.
///
/// # Errors
/// The database's.
pub fn send(tx: &mut Tx, env: &Env, letter: Letter) -> Result<(), Error> {
    env.jobs.enqueue(tx, &SendMail { letter })?;
    Ok(())
}

/// Whether mails reach people; taken for granted in a process that leaves them to others.
pub fn reaches_people(env: &Env) -> bool {
    env.mail_reaches_people.get().copied().unwrap_or(true)
}

/// Handles [`SendMail`] by `mailer`.
pub fn register(registry: &mut Registry, community: &Community, mailer: &Mailer) {
    // A second registry on the same community is one of a test.
    let _ = community.env().mail_reaches_people.set(mailer.reaches_people());
    let (community, mailer) = (community.clone(), mailer.clone());
    registry.task(move |claim: Claimed<SendMail>| {
        let (community, mailer) = (community.clone(), mailer.clone());
        async move { write_and_send(&community, &mailer, claim.id, claim.job.letter).await }
    });
}

async fn write_and_send(
    community: &Community,
    mailer: &Mailer,
    id: Id,
    letter: Letter,
) -> Result<(), Failure> {
    let written = community
        .write(Class::Outbound, move |tx, env| letters::write(tx, env, &letter))
        .await
        .map_err(Failure::retry)?;
    // The person may be gone by now, or have nothing left to confirm.
    let Some(mail) = written else { return Ok(()) };
    match mailer.send(&mail, id, &community.env().site.domain).await {
        Ok(()) => {
            metrics::counter!("weir_community_mails_total", "outcome" => "sent").increment(1);
            Ok(())
        }
        Err(error) => {
            metrics::counter!("weir_community_mails_total", "outcome" => "failed").increment(1);
            Err(if error.is_permanent() {
                Failure::Dead(error.to_string())
            } else {
                Failure::retry(error)
            })
        }
    }
}
