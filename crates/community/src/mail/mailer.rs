//! The ways a mail can go.

use std::path::PathBuf;
use std::time::Duration;

use lettre::message::Mailbox;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::transport::smtp::response::{Category, Code};
use lettre::{
    AsyncFileTransport, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor,
    transport::smtp,
};
use weir_base::Id;

use super::Mail;

/// How long the mail server may take to answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

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
            // A log-in that is refused (53x) is mended in the configuration, not in the mail.
            Self::Smtp(error) => {
                let is_log_in = |code: Code| code.category == Category::Unspecified3;
                error.is_permanent() && !error.status().is_some_and(is_log_in)
            }
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
    /// `?tls=none`, `opportunistic` or `required` at its end says otherwise. `extra_ca` are
    /// certificates, in PEM, that are trusted besides those everybody trusts.
    ///
    /// # Errors
    /// [`MailError::Url`], or as [`to_log`](Self::to_log).
    pub fn to_server(url: &str, from: &str, extra_ca: &[Vec<u8>]) -> Result<Self, MailError> {
        let (bare, query) = url.split_once('?').unwrap_or((url, ""));
        let chosen = query.split('&').find_map(|pair| pair.strip_prefix("tls="));
        let secrecy = match (bare.starts_with("smtps:"), chosen) {
            (true, _) => "wrapper",
            (false, Some(chosen)) => chosen,
            (false, None) if bare.contains('@') => "required",
            (false, None) => "opportunistic",
        };
        let url = match (secrecy, chosen) {
            ("wrapper", _) | (_, Some(_)) => url.to_owned(),
            (secrecy, None) if query.is_empty() => format!("{bare}?tls={secrecy}"),
            (secrecy, None) => format!("{url}&tls={secrecy}"),
        };
        let mut smtp =
            AsyncSmtpTransport::<Tokio1Executor>::from_url(&url).map_err(MailError::Url)?;
        if !extra_ca.is_empty() {
            let tls = trusting(host_of(bare), extra_ca).map_err(MailError::Url)?;
            smtp = smtp.tls(match secrecy {
                "wrapper" => Tls::Wrapper(tls),
                "required" => Tls::Required(tls),
                "opportunistic" => Tls::Opportunistic(tls),
                _ => Tls::None,
            });
        }
        let smtp = smtp.timeout(Some(ANSWER_TIME_MAX)).build();
        Ok(Self { from: mailbox(from)?, way: Way::Smtp(Box::new(smtp)) })
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
                // A warning: whoever logs little still finds the links, which stand nowhere else.
                let Mail { to, subject, text } = mail;
                tracing::warn!(to, subject, "mail that nothing is set up to send: {text}");
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

/// The host of `scheme://USER:PASSWORD@HOST:PORT`.
fn host_of(url: &str) -> String {
    let parsed = url::Url::parse(url).ok();
    parsed.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
}

fn trusting(host: String, extra_ca: &[Vec<u8>]) -> Result<TlsParameters, smtp::Error> {
    let mut tls = TlsParameters::builder(host);
    for pem in extra_ca {
        tls = tls.add_root_certificate(Certificate::from_pem(pem)?);
    }
    tls.build()
}

fn mailbox(address: &str) -> Result<Mailbox, MailError> {
    address.parse().map_err(|error| MailError::Address(address.to_owned(), error))
}
