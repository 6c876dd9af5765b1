//! The ways a mail can go.

use std::path::PathBuf;

use lettre::message::Mailbox;
use lettre::{
    AsyncFileTransport, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor,
    transport::smtp,
};
use weir_base::Id;

use super::Mail;

/// Hands mails over. Clones share the connections.
#[derive(Clone)]
pub struct Mailer {
    from: Mailbox,
    way: Way,
}

#[derive(Clone)]
enum Way {
    Log,
    Smtp(Box<AsyncSmtpTransport<Tokio1Executor>>),
    Files(AsyncFileTransport<Tokio1Executor>),
}

/// Why a mail cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum MailError {
    /// The configured server's address.
    #[error("the mail server's address cannot be used: {0}; write smtp://USER:PASSWORD@HOST:PORT")]
    Url(smtp::Error),
    /// An address that mail does not take.
    #[error("{0:?} cannot be used as a mail address: {1}")]
    Address(String, lettre::address::AddressError),
    /// The mail itself.
    #[error("the mail cannot be written: {0}")]
    Content(#[from] lettre::error::Error),
    /// The mail server.
    #[error("the mail server says: {0}")]
    Smtp(#[from] smtp::Error),
    /// The folder.
    #[error("the mail cannot be stored: {0}")]
    File(#[from] lettre::transport::file::Error),
}

impl MailError {
    /// Whether it is in vain to try again.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Address(..) | Self::Content(_) => true,
            Self::Smtp(error) => error.is_permanent(),
            Self::Url(_) | Self::File(_) => false,
        }
    }
}

impl Mailer {
    /// Writes mails to the log: for servers without mail.
    ///
    /// # Errors
    /// [`MailError::Address`] when `from` is not an address.
    pub fn to_log(from: &str) -> Result<Self, MailError> {
        Ok(Self { from: mailbox(from)?, way: Way::Log })
    }

    /// Writes each mail to a file in `folder`: for tests.
    ///
    /// # Errors
    /// As [`to_log`](Self::to_log).
    pub fn to_files(folder: PathBuf, from: &str) -> Result<Self, MailError> {
        Ok(Self { from: mailbox(from)?, way: Way::Files(AsyncFileTransport::new(folder)) })
    }

    /// Sends by the server at `url`: `smtps://` is encrypted from the first byte; `smtp://` turns
    /// encryption on where the server offers it, and insists on it before a password is sent.
    ///
    /// # Errors
    /// [`MailError::Url`], or as [`to_log`](Self::to_log).
    pub fn to_server(url: &str, from: &str) -> Result<Self, MailError> {
        let chosen = url.contains("tls=") || url.starts_with("smtps:");
        let more = if url.contains('?') { '&' } else { '?' };
        let url = match (chosen, url.contains('@')) {
            (true, _) => url.to_owned(),
            (false, true) => format!("{url}{more}tls=required"),
            (false, false) => format!("{url}{more}tls=opportunistic"),
        };
        let smtp = AsyncSmtpTransport::<Tokio1Executor>::from_url(&url).map_err(MailError::Url)?;
        Ok(Self { from: mailbox(from)?, way: Way::Smtp(Box::new(smtp.build())) })
    }

    /// Whether mails reach people.
    pub fn reaches_people(&self) -> bool {
        !matches!(self.way, Way::Log)
    }

    /// Hands `mail` over; `id` and `domain` make its message id.
    ///
    /// # Errors
    /// [`MailError`].
    pub async fn send(&self, mail: &Mail, id: Id, domain: &str) -> Result<(), MailError> {
        let host = domain.split(':').next().unwrap_or_default();
        let message = Message::builder()
            .from(self.from.clone())
            .to(mailbox(&mail.to)?)
            .subject(mail.subject.as_str())
            .message_id(Some(format!("<{id}@{host}>")))
            .header(lettre::message::header::ContentType::TEXT_PLAIN)
            .body(mail.text.clone())?;
        match &self.way {
            Way::Log => {
                tracing::info!(to = mail.to, subject = mail.subject, "mail: {}", mail.text);
            }
            Way::Smtp(smtp) => {
                smtp.send(message).await?;
            }
            Way::Files(files) => {
                files.send(message).await?;
            }
        }
        Ok(())
    }
}

fn mailbox(address: &str) -> Result<Mailbox, MailError> {
    address.parse().map_err(|error| MailError::Address(address.to_owned(), error))
}
