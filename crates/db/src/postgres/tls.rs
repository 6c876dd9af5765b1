//! TLS to PostgreSQL: what the URL wishes (`sslmode`, `sslrootcert`, with libpq's meanings), and
//! the stream.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

const MODES: &str = "disable, prefer, require, verify-ca or verify-full";

/// What is asked of the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Nothing: whoever can put himself between could read along.
    Nothing,
    /// That somebody trusted has signed it.
    Chain,
    /// That, and that it names the server.
    Name,
}

/// What a URL says of TLS.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wish {
    mode: Option<String>,
    roots: Option<String>,
}

/// Reads `url`, and makes what TLS to its server needs; none where it is not to be used.
///
/// # Errors
/// What is wrong with the URL or the file it names.
pub(super) fn read(url: &str) -> Result<(tokio_postgres::Config, Option<Tls>), String> {
    let (rest, wish) = split(url);
    let mut config: tokio_postgres::Config =
        rest.parse().map_err(|error: tokio_postgres::Error| super::reason(&error))?;
    let is_near = config.get_hosts().iter().all(is_near);
    let mode = wish.mode.as_deref().unwrap_or(if is_near { "disable" } else { "prefer" });
    let (mode, check) = match (mode, &wish.roots) {
        ("disable", _) => (SslMode::Disable, None),
        ("prefer" | "allow", _) => (SslMode::Prefer, Some(Check::Nothing)),
        ("require", None) => (SslMode::Require, Some(Check::Nothing)),
        ("require" | "verify-ca", _) => (SslMode::Require, Some(Check::Chain)),
        ("verify-full", _) => (SslMode::Require, Some(Check::Name)),
        (other, _) => return Err(format!("sslmode={other} in the URL: give {MODES}")),
    };
    config.ssl_mode(mode);
    let tls = check.map(|check| Tls::new(check, wish.roots.as_deref())).transpose()?;
    Ok((config, tls))
}

/// Whether nobody can stand between here and `host`.
fn is_near(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost"
                || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
    }
}

/// Takes out of `url` what the driver does not know.
fn split(url: &str) -> (String, Wish) {
    let mut wish = Wish::default();
    // A password may hold a question mark.
    let start = url.find('@').unwrap_or(0);
    let Some(at) = url[start..].find('?').map(|at| start + at) else {
        return (url.to_owned(), wish);
    };
    let mut others = Vec::new();
    for pair in url[at + 1..].split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = || Some(percent_decode_str(value).decode_utf8_lossy().into_owned());
        match name {
            "sslmode" => wish.mode = value(),
            "sslrootcert" => wish.roots = value().filter(|path| path != "system"),
            _ => others.push(pair),
        }
    }
    let mark = if others.is_empty() { "" } else { "?" };
    (format!("{}{mark}{}", &url[..at], others.join("&")), wish)
}

/// Makes encrypted streams; clones share it.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

impl Tls {
    fn new(check: Check, roots: Option<&str>) -> Result<Self, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let trusted = match (check, roots) {
            (Check::Nothing, _) => Vec::new(),
            (_, Some(path)) => from_file(Path::new(path))?,
            (_, None) => rustls_native_certs::load_native_certs().certs,
        };
        let mut anchors = RootCertStore::empty();
        anchors.add_parsable_certificates(trusted.iter().cloned());
        let trusted = if roots.is_some() { trusted } else { Vec::new() };
        let judge = Judge { check, anchors, trusted, provider: provider.clone() };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(judge))
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }
}

fn from_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed = |reason: String| {
        format!("cannot read certificates from sslrootcert={}: {reason}", path.display())
    };
    let found = CertificateDer::pem_file_iter(path).map_err(|error| failed(error.to_string()))?;
    let found: Vec<_> =
        found.collect::<Result<_, _>>().map_err(|error| failed(error.to_string()))?;
    if found.is_empty() { Err(failed("it holds none; give a PEM file".into())) } else { Ok(found) }
}

/// Judges the server's certificate.
#[derive(Debug)]
struct Judge {
    check: Check,
    anchors: RootCertStore,
    /// Those of the named file: a server that shows one of them itself needs no other signature,
    /// as with a certificate that signed itself.
    trusted: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.check == Check::Nothing {
            return Ok(ServerCertVerified::assertion());
        }
        let parsed = ParsedCertificate::try_from(shown)?;
        if !self.trusted.iter().any(|trusted| trusted == shown) {
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(
                &parsed,
                &self.anchors,
                between,
                now,
                algorithms,
            )?;
        }
        if self.check == Check::Name {
            verify_server_name(&parsed, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Handshake> {
        let name = ServerName::try_from(domain.to_owned()).map_err(io::Error::other)?;
        Ok(Handshake { connector: self.0.clone(), name })
    }
}

/// A handshake to come.
pub(super) struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { self.connector.connect(self.name, stream).await.map(Encrypted) })
    }
}

/// A stream through TLS.
pub(super) struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_does_not_know_is_taken_out_of_the_url() {
        let (rest, wish) = split(
            "postgres://weir:a?b@db.example/weir?sslmode=verify-full&application_name=weir\
             &sslrootcert=%2Fetc%2Fweir%2Fca.pem",
        );
        assert_eq!(rest, "postgres://weir:a?b@db.example/weir?application_name=weir");
        assert_eq!(wish.mode.as_deref(), Some("verify-full"));
        assert_eq!(wish.roots.as_deref(), Some("/etc/weir/ca.pem"));
        let (rest, wish) = split("postgres://db.example/weir?sslmode=require&sslrootcert=system");
        assert_eq!((rest.as_str(), wish.roots), ("postgres://db.example/weir", None));
    }

    #[test]
    fn only_a_server_on_this_machine_is_spoken_to_in_plain_text_without_being_told() {
        let mode = |url: &str| read(url).map(|(config, _)| config.get_ssl_mode());
        assert_eq!(mode("postgres://db.example/weir"), Ok(SslMode::Prefer));
        assert_eq!(mode("postgres://127.0.0.1/weir"), Ok(SslMode::Disable));
        assert_eq!(mode("postgres://%2Frun%2Fpostgresql/weir"), Ok(SslMode::Disable));
        assert_eq!(mode("postgres://127.0.0.1/weir?sslmode=require"), Ok(SslMode::Require));
    }

    #[test]
    fn a_wrong_mode_and_a_file_that_is_not_there_are_named() {
        let error = |url: &str| read(url).err().unwrap_or_default();
        assert!(error("postgres://db.example/weir?sslmode=yes").contains("verify-full"));
        let missing = "postgres://db.example/weir?sslmode=verify-ca&sslrootcert=/none.pem";
        assert!(error(missing).contains("sslrootcert=/none.pem"));
    }
}
