//! Mail by a mail server: in plain text, by STARTTLS, and by TLS from the first byte.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_rustls::TlsAcceptor;
use weir_base::Id;
use weir_community::mail::{Mail, MailError, Mailer};

const FROM: &str = "Weir <weir@weir.test>";

#[derive(Clone, Copy, PartialEq)]
enum Secrecy {
    None,
    StartTls,
    Tls,
}

/// What a client said, word for word, and whether it was encrypted.
type Said = (bool, String);

struct MailServer {
    port: u16,
    certificate: Vec<u8>,
    said: UnboundedReceiver<Said>,
}

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Wire for T {}

impl MailServer {
    async fn start(secrecy: Secrecy) -> Self {
        let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(signed.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![signed.cert.der().clone()], key.into())
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (tell, said) = unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, tell) = (acceptor.clone(), tell.clone());
                tokio::spawn(async move {
                    let mut wire: Box<dyn Wire> = Box::new(stream);
                    if secrecy == Secrecy::Tls {
                        let Ok(encrypted) = acceptor.accept(wire).await else { return };
                        wire = Box::new(encrypted);
                    }
                    let _ = talk(wire, secrecy, &acceptor, |said| drop(tell.send(said))).await;
                });
            }
        });
        Self { port, certificate: signed.cert.pem().into_bytes(), said }
    }

    fn mailer(&self, before_host: &str) -> Mailer {
        let url = format!("{before_host}localhost:{}", self.port);
        Mailer::to_server(&url, FROM, std::slice::from_ref(&self.certificate)).unwrap()
    }

    /// What was said until now.
    fn said(&mut self) -> Vec<Said> {
        std::iter::from_fn(|| self.said.try_recv().ok()).collect()
    }
}

async fn talk(
    wire: Box<dyn Wire>,
    secrecy: Secrecy,
    acceptor: &TlsAcceptor,
    mut tell: impl FnMut(Said),
) -> std::io::Result<()> {
    let mut encrypted = secrecy == Secrecy::Tls;
    let mut wire = BufReader::new(wire);
    wire.write_all(b"220 mail.test\r\n").await?;
    let mut in_letter = false;
    loop {
        wire.flush().await?;
        let mut line = String::new();
        if wire.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let line = line.trim_end().to_owned();
        tell((encrypted, line.clone()));
        let answer = match line.split(' ').next().unwrap_or_default() {
            "." if in_letter => {
                in_letter = false;
                "250 taken\r\n"
            }
            _ if in_letter => continue,
            "EHLO" if secrecy == Secrecy::StartTls && !encrypted => {
                "250-mail.test\r\n250 STARTTLS\r\n"
            }
            "EHLO" => "250-mail.test\r\n250-8BITMIME\r\n250 AUTH PLAIN\r\n",
            "STARTTLS" => {
                wire.write_all(b"220 go on\r\n").await?;
                wire.flush().await?;
                wire = BufReader::new(Box::new(acceptor.accept(wire.into_inner()).await?));
                encrypted = true;
                continue;
            }
            "AUTH" if line.ends_with(&BASE64_STANDARD.encode("\0weir\0secret")) => "235 hello\r\n",
            "AUTH" => "535 who?\r\n",
            "RCPT" if line.contains("gone@") => "550 nobody of that name\r\n",
            "DATA" => {
                in_letter = true;
                "354 go on\r\n"
            }
            "QUIT" => "221 bye\r\n",
            _ => "250 fine\r\n",
        };
        wire.write_all(answer.as_bytes()).await?;
    }
}

async fn send(mailer: &Mailer, to: &str) -> Result<(), MailError> {
    let mail = Mail { to: to.into(), subject: "Größe".into(), text: "Read this: ä\n".into() };
    mailer.send(&mail, "7".parse::<Id>().unwrap(), "weir.test:8080").await
}

fn has(said: &[Said], encrypted: bool, start: &str) -> bool {
    said.iter().any(|(was, line)| *was == encrypted && line.starts_with(start))
}

#[tokio::test]
async fn without_a_password_mail_goes_in_plain_text_where_nothing_else_is_offered() {
    let mut server = MailServer::start(Secrecy::None).await;
    send(&server.mailer("smtp://"), "alice@mail.test").await.unwrap();
    let said = server.said();
    assert!(has(&said, false, "MAIL FROM:<weir@weir.test>"), "{said:?}");
    assert!(has(&said, false, "RCPT TO:<alice@mail.test>"), "{said:?}");
    assert!(has(&said, false, "Message-ID: <7@weir.test>"), "{said:?}");
    assert!(has(&said, false, "Subject: =?utf-8?"), "{said:?}");
    assert!(!has(&said, false, "AUTH"), "{said:?}");
}

#[tokio::test]
async fn encryption_that_is_offered_is_used() {
    let mut server = MailServer::start(Secrecy::StartTls).await;
    send(&server.mailer("smtp://"), "alice@mail.test").await.unwrap();
    let said = server.said();
    assert!(has(&said, false, "STARTTLS") && has(&said, true, "RCPT TO:"), "{said:?}");
    assert!(!has(&said, false, "MAIL"), "{said:?}");
}

#[tokio::test]
async fn a_password_is_sent_only_through_tls() {
    let mut server = MailServer::start(Secrecy::StartTls).await;
    send(&server.mailer("smtp://weir:secret@"), "alice@mail.test").await.unwrap();
    let said = server.said();
    assert!(has(&said, true, "AUTH PLAIN") && has(&said, true, "RCPT TO:"), "{said:?}");
    assert!(!has(&said, false, "AUTH"), "{said:?}");

    let mut server = MailServer::start(Secrecy::None).await;
    let refused = send(&server.mailer("smtp://weir:secret@"), "alice@mail.test").await;
    assert!(refused.is_err());
    let said = server.said();
    assert!(!has(&said, false, "AUTH") && !has(&said, false, "MAIL"), "{said:?}");
}

#[tokio::test]
async fn smtps_is_encrypted_from_the_first_byte() {
    let mut server = MailServer::start(Secrecy::Tls).await;
    send(&server.mailer("smtps://weir:secret@"), "alice@mail.test").await.unwrap();
    let said = server.said();
    assert!(has(&said, true, "AUTH PLAIN") && has(&said, true, "RCPT TO:"), "{said:?}");
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_gets_no_mail() {
    let mut server = MailServer::start(Secrecy::StartTls).await;
    let url = format!("smtp://weir:secret@localhost:{}", server.port);
    let refused = send(&Mailer::to_server(&url, FROM, &[]).unwrap(), "alice@mail.test").await;
    assert!(refused.is_err_and(|error| !error.is_permanent()));
    assert!(!server.said().iter().any(|(encrypted, _)| *encrypted));
}

#[tokio::test]
async fn an_unknown_receiver_is_given_up_and_a_wrong_password_is_not() {
    let server = MailServer::start(Secrecy::Tls).await;
    let gone = send(&server.mailer("smtps://weir:secret@"), "gone@mail.test").await.unwrap_err();
    assert!(gone.is_permanent() && gone.to_string().contains("550"), "{gone}");
    // Whoever runs the server mends that, and the mails go out.
    let shut = send(&server.mailer("smtps://weir:old@"), "alice@mail.test").await.unwrap_err();
    assert!(!shut.is_permanent() && shut.to_string().contains("535"), "{shut}");
}
