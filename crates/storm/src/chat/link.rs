//! A connection to the server under test, plain or with TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, bail};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::io::{ReadHalf, WriteHalf};
use tokio::net::TcpStream;

use super::wire::Cutter;

/// What bytes go through.
pub(super) trait Pipe: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Pipe for T {}

/// The half that is written to.
pub(super) type Writer = WriteHalf<Box<dyn Pipe>>;

/// The half that is read from, and what came of an element that is not whole.
pub(super) struct Reader {
    half: ReadHalf<Box<dyn Pipe>>,
    cutter: Cutter,
}

/// Both halves.
pub(super) struct Link {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
}

impl Reader {
    /// Waits until there is another element, and hands it to `look`; false when the stream ended.
    pub(super) async fn next<T>(&mut self, mut look: impl FnMut(&str) -> T) -> Result<Option<T>> {
        loop {
            if let Some(element) = self.cutter.next()? {
                return Ok(Some(look(element)));
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// Every element that is there without waiting.
    pub(super) fn each_there(&mut self, mut look: impl FnMut(&str)) -> Result<()> {
        while let Some(element) = self.cutter.next()? {
            look(element);
        }
        Ok(())
    }

    /// Waits for bytes; false when there are no more.
    pub(super) async fn more(&mut self) -> Result<bool> {
        let buffer = self.cutter.buffer();
        buffer.reserve(4_096);
        Ok(self.half.read_buf(buffer).await? > 0)
    }
}

impl Link {
    pub(super) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self::over(Box::new(stream)))
    }

    fn over(pipe: Box<dyn Pipe>) -> Self {
        let (half, writer) = tokio::io::split(pipe);
        Self { reader: Reader { half, cutter: Cutter::default() }, writer }
    }

    pub(super) async fn say(&mut self, text: &str) -> Result<()> {
        self.writer.write_all(text.as_bytes()).await?;
        Ok(self.writer.flush().await?)
    }

    /// The next element, as text of its own.
    pub(super) async fn hear(&mut self) -> Result<String> {
        match self.reader.next(str::to_owned).await? {
            Some(element) if element.starts_with("<stream:error") => bail!("{element}"),
            Some(element) => Ok(element),
            None => bail!("the server closed the connection"),
        }
    }

    /// What follows is encrypted; certificates are not looked at.
    pub(super) async fn start_tls(self, domain: &str) -> Result<Self> {
        let pipe = self.reader.half.unsplit(self.writer);
        let name = ServerName::try_from(domain.to_owned())?;
        let stream = tokio_rustls::TlsConnector::from(trusting()?).connect(name, pipe).await?;
        Ok(Self::over(Box::new(stream)))
    }
}

fn trusting() -> Result<Arc<rustls::ClientConfig>> {
    static CONFIG: std::sync::OnceLock<Arc<rustls::ClientConfig>> = std::sync::OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(algorithms.supported_schemes())))
        .with_no_client_auth();
    // Each log-in costs what the first one of a person costs.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(CONFIG.get_or_init(|| Arc::new(config)).clone())
}

/// Takes any certificate: a load tool measures, and sends nothing secret.
#[derive(Debug)]
struct Anybody(Vec<SignatureScheme>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.clone()
    }
}
