//! The directory in which all state lies, and the lock that lets one process at a time in.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Why the data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// It cannot be made, read or locked.
    #[error(
        "cannot use the data directory {}: {source}; check its owner, or name another with --data",
        path.display()
    )]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process uses it.
    #[error(
        "another weir uses the data directory {}; stop it, or name another with --data",
        .0.display()
    )]
    InUse(PathBuf),
}

/// A data directory that this process alone uses, until it is dropped.
pub struct DataDir {
    path: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Makes the directory where there is none, readable by its owner only, and locks it.
    ///
    /// # Errors
    /// [`DataDirError::InUse`] when another process has it.
    pub fn open(path: &Path) -> Result<Self, DataDirError> {
        let unusable = |source| DataDirError::Unusable { path: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        let path = fs::canonicalize(path).map_err(unusable)?;
        let lock = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join("lock"))
            .map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(DataDirError::InUse(path)),
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }

    /// The directory, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
