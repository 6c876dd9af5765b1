//! The names under which the community is reached. A data directory keeps those it was first
//! served with, for rows hold addresses made of them.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_community::Site;

use crate::config::Config;
use crate::data_dir::DataDir;

/// The file's name in the data directory.
const NAME: &str = "site.json";

/// Why the names cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The data belongs to other names.
    #[error(
        "the data directory {} belongs to {was}, not to {is}; serve it as that, or name another \
         with --data (if nobody knows accounts from there yet, removing its site.json is safe)",
        data.display()
    )]
    Other {
        /// The directory.
        data: PathBuf,
        /// The address it was first served with.
        was: String,
        /// The address now.
        is: String,
    },
    /// Nobody said what stands after the @.
    #[error(
        "nothing was served from the data directory {} yet: start `weir serve` with it once, name \
         another with --data, or set `domain` in the file or as WEIR_DOMAIN",
        .0.display()
    )]
    Unknown(PathBuf),
    /// The file cannot be read or written.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

#[derive(Serialize, Deserialize, PartialEq)]
struct Kept {
    domain: String,
    url: String,
}

/// Holds `site` against what the data directory was first served with, and keeps it there.
///
/// # Errors
/// [`SiteError::Other`] when they differ.
pub fn claim(data: &DataDir, site: Site) -> Result<Site, SiteError> {
    let kept = Kept { domain: site.domain.clone(), url: site.base.clone() };
    match read(data)? {
        Some(known) if known == kept => Ok(site),
        Some(known) => {
            let describe = |kept: &Kept| format!("{} at {}", kept.domain, kept.url);
            let (was, is) = (describe(&known), describe(&kept));
            Err(SiteError::Other { data: data.path().to_owned(), was, is })
        }
        None => {
            let path = data.path().join(NAME);
            let text = serde_json::to_vec(&kept).map_err(io::Error::from);
            text.and_then(|text| std::fs::write(&path, text))
                .map_err(|source| SiteError::File { path, source })?;
            Ok(site)
        }
    }
}

/// The names for a command without a server: those kept, or else the configured ones.
///
/// # Errors
/// [`SiteError::Unknown`] when there are neither.
pub fn recall(data: &DataDir, config: &Config) -> Result<Site, SiteError> {
    match read(data)? {
        Some(known) if config.domain.is_empty() || config.domain == known.domain => {
            Ok(Site { domain: known.domain, base: known.url })
        }
        None if config.domain.is_empty() => Err(SiteError::Unknown(data.path().to_owned())),
        _ => {
            let domain = config.domain.clone();
            let base = match config.http.public_url.as_str() {
                "" => format!("https://{domain}"),
                url => url.trim_end_matches('/').to_owned(),
            };
            claim(data, Site { domain, base })
        }
    }
}

fn read(data: &DataDir) -> Result<Option<Kept>, SiteError> {
    let path = data.path().join(NAME);
    match std::fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        text => text
            .and_then(|text| serde_json::from_slice(&text).map_err(io::Error::from))
            .map(Some)
            .map_err(|source| SiteError::File { path, source }),
    }
}
