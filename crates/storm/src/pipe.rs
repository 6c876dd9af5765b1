//! What bytes go through to a server under test: plain, or with TLS.

use std::sync::Arc;

use anyhow::Result;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};

/// What bytes go through.
pub trait Pipe: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Pipe for T {}

/// How to begin TLS: with `anybody`, or only with whom this machine trusts. Each connection costs
/// what the first one of a person costs.
///
/// # Errors
/// When the system has no way to encrypt.
pub fn trusting(anybody: bool) -> Result<Arc<ClientConfig>> {
    static CONFIGS: [std::sync::OnceLock<Arc<ClientConfig>>; 2] =
        [const { std::sync::OnceLock::new() }; 2];
    let held = &CONFIGS[usize::from(anybody)];
    if let Some(config) = held.get() {
        return Ok(config.clone());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = match anybody {
        true => {
            let verifier = Arc::new(Anybody(algorithms.supported_schemes()));
            config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
        false => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            config.with_root_certificates(roots).with_no_client_auth()
        }
    };
    config.resumption = rustls::client::Resumption::disabled();
    Ok(held.get_or_init(|| Arc::new(config)).clone())
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
