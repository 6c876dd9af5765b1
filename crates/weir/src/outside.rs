//! What reaches outside: the guarded way out, and the name under which push services know us.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_base::Clock;
use weir_fetch::{Fetch, Options, StartError};
use weir_mastodon::push::{Vapid, VapidError};

use crate::config::Checked;

/// Why the way out cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// The further authority cannot be read.
    #[error("cannot read {path}: {source}; check --extra-ca")]
    ExtraCa {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The client.
    #[error(transparent)]
    Fetch(#[from] StartError),
    /// The key for push services.
    #[error(transparent)]
    Vapid(#[from] VapidError),
}

/// The further authority to trust, in PEM.
///
/// # Errors
/// [`OutsideError::ExtraCa`].
pub fn read_extra_ca(path: &Path) -> Result<Vec<u8>, OutsideError> {
    std::fs::read(path).map_err(|source| OutsideError::ExtraCa { path: path.to_owned(), source })
}

/// What reaches outside; clones share it.
#[derive(Clone)]
pub struct Outside {
    /// The only way out.
    pub fetch: Fetch,
    /// The key for push services.
    pub vapid: Arc<Vapid>,
    /// Certificates, in PEM, that are trusted besides those everybody trusts.
    pub extra_ca: Vec<Vec<u8>>,
}

impl Outside {
    /// Opens the way out; `base` is this server's web address.
    ///
    /// # Errors
    /// [`OutsideError`] says what is wrong and where.
    pub fn open(
        checked: &Checked,
        data: &Path,
        base: &str,
        extra_ca: Option<&Path>,
    ) -> Result<Self, OutsideError> {
        let extra_ca = match extra_ca {
            Some(path) => vec![read_extra_ca(path)?],
            None => Vec::new(),
        };
        let named = checked.config.federation.resolve.iter();
        let resolve: HashMap<String, SocketAddr> =
            named.map(|(name, ip)| (name.clone(), SocketAddr::from((*ip, 0)))).collect();
        let fetch = Fetch::new(Options {
            allow_private: checked.modes.dev,
            allow_http: checked.modes.dev,
            resolve,
            extra_ca: extra_ca.clone(),
            user_agent: format!("Weir/{} (+{base}/)", env!("CARGO_PKG_VERSION")),
            clock: Clock::system(),
            ..Options::default()
        })?;
        let vapid = Arc::new(Vapid::open(data, base.to_owned())?);
        Ok(Self { fetch, vapid, extra_ca })
    }
}
