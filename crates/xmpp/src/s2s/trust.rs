//! TLS between servers. A handshake succeeds with any certificate; whether it proves a domain is
//! looked at afterwards, for a server without a good one may still prove itself by dialback.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use weir_community::hosts;

/// Whom we believe to vouch for a domain.
pub struct Trust {
    judge: Option<Arc<WebPkiServerVerifier>>,
}

impl Trust {
    /// The system's authorities, and those of `extra` (PEM).
    pub fn new(extra: &[Vec<u8>]) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        for pem in extra {
            for certificate in CertificateDer::pem_slice_iter(pem).flatten() {
                // One that can't be used vouches for nobody.
                let _ = roots.add(certificate);
            }
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let judge = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Self { judge: judge.ok() }
    }

    /// Whether this chain proves to be `domain`'s.
    pub(crate) fn proves(&self, chain: Option<&[CertificateDer<'_>]>, domain: &str) -> bool {
        let (Some(judge), Some([own, others @ ..])) = (&self.judge, chain) else { return false };
        let Ok(name) = ServerName::try_from(hosts::name(domain)) else { return false };
        // As the certificate of a server, for that is what it is, whichever side it takes here.
        judge.verify_server_cert(own, others, &name, &[], UnixTime::now()).is_ok()
    }
}

/// Takes any certificate whose owner has its key.
pub(crate) struct Anybody(CryptoProvider);

impl Anybody {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(aws_lc_rs::default_provider()))
    }
}

impl fmt::Debug for Anybody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Anybody")
    }
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Anybody {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ServerCertVerifier::verify_tls12_signature(self, message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ServerCertVerifier::verify_tls13_signature(self, message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ServerCertVerifier::supported_verify_schemes(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_proves_its_domain_if_somebody_trusted_vouches() {
        let made = rcgen::generate_simple_self_signed(vec!["a.test".into()]).unwrap();
        let chain = [made.cert.der().clone()];
        let trust = Trust::new(&[made.cert.pem().into_bytes()]);
        assert!(trust.proves(Some(&chain), "a.test"));
        assert!(!trust.proves(Some(&chain), "b.test"));
        assert!(!trust.proves(None, "a.test"));
        assert!(!Trust::new(&[]).proves(Some(&chain), "a.test"));
    }
}
