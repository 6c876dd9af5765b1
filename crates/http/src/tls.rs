//! HTTPS from certificate files that can be read again while serving.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_rustls::TlsAcceptor;

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds nothing of the kind.
    #[error("cannot read a {what} from {}: {reason}; give a PEM file", path.display())]
    File {
        /// What was looked for.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the reader said.
        reason: String,
    },
    /// The key is of a kind that cannot be used, or belongs to another certificate.
    #[error("{} does not fit {}: {reason}", key.display(), cert.display())]
    Mismatch {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// What TLS said.
        reason: rustls::Error,
    },
    /// TLS itself refuses its settings.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

/// A certificate and its key, from files; clones share them.
#[derive(Clone)]
pub struct Tls {
    shared: Arc<Shared>,
    acceptor: TlsAcceptor,
}

struct Shared {
    /// Where it was read, unless it was made here.
    files: Option<(PathBuf, PathBuf)>,
    current: RwLock<Arc<CertifiedKey>>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({:?})", self.files.as_ref().map(|(cert, _)| cert))
    }
}

impl ResolvesServerCert for Shared {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().clone())
    }
}

impl Tls {
    /// Reads the certificate chain `cert` and its private key, both PEM.
    ///
    /// # Errors
    /// [`TlsError`] names the file and what is wrong with it.
    pub fn from_files(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        Self::new(Some((cert.to_owned(), key.to_owned())), read(cert, key)?)
    }

    fn new(files: Option<(PathBuf, PathBuf)>, current: CertifiedKey) -> Result<Self, TlsError> {
        let shared = Arc::new(Shared { files, current: RwLock::new(Arc::new(current)) });
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(shared.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { shared, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// Reads the files again. New connections use what they hold now; on an error, what they held.
    ///
    /// # Errors
    /// As [`from_files`](Self::from_files).
    pub fn reload(&self) -> Result<(), TlsError> {
        let Some((cert, key)) = &self.shared.files else { return Ok(()) };
        let fresh = read(cert, key)?;
        *self.shared.current.write() = Arc::new(fresh);
        Ok(())
    }

    /// A certificate for `names` that is made here and that nobody vouches for: for development.
    ///
    /// # Errors
    /// [`TlsError::Setup`] when a name cannot stand in a certificate.
    pub fn self_made(names: Vec<String>) -> Result<Self, TlsError> {
        let refused = |error: rcgen::Error| rustls::Error::General(error.to_string());
        let made = rcgen::generate_simple_self_signed(names).map_err(refused)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let chain = vec![made.cert.der().clone()];
        let current = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())?;
        Self::new(None, current)
    }

    /// Whoever speaks TLS with this certificate asks here which it is now.
    pub fn certificates(&self) -> Arc<dyn ResolvesServerCert> {
        self.shared.clone()
    }

    /// The certificate and its key as they are now.
    pub fn current(&self) -> Arc<CertifiedKey> {
        self.shared.current.read().clone()
    }

    /// The certificate itself (DER) as it is now.
    pub fn certificate(&self) -> Option<CertificateDer<'static>> {
        self.current().cert.first().cloned()
    }

    pub(crate) fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }
}

fn read(cert: &Path, key: &Path) -> Result<CertifiedKey, TlsError> {
    let unreadable =
        |what, path: &Path, reason: String| TlsError::File { what, path: path.to_owned(), reason };
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable("certificate", cert, error.to_string()))?;
    if chain.is_empty() {
        return Err(unreadable("certificate", cert, "there is none in it".into()));
    }
    let private = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| unreadable("private key", key, error.to_string()))?;
    CertifiedKey::from_der(chain, private, &aws_lc_rs::default_provider())
        .map_err(|reason| TlsError::Mismatch { cert: cert.to_owned(), key: key.to_owned(), reason })
}
