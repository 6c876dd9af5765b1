//! The directory in which all state lies, and the lock that lets one process at a time in.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
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
    /// It is no directory.
    #[error("the data directory {} is a file; name a directory with --data", .0.display())]
    File(PathBuf),
    /// It is another user's, who could not use what this one leaves there.
    #[error(
        "the data directory {} belongs to {owner}, who could not read what you leave there; do it \
         as {owner}: sudo -u {owner} weir …",
        path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: String,
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
        if path.is_file() {
            return Err(DataDirError::File(path.to_owned()));
        }
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

    /// As [`open`](Self::open), where what is made there belongs to the user of the server.
    ///
    /// # Errors
    /// [`DataDirError::Foreign`] when this process is another user's; else as `open`.
    pub fn open_own(path: &Path) -> Result<Self, DataDirError> {
        refuse_foreign(path, rustix::process::geteuid().as_raw())?;
        Self::open(path)
    }

    /// The directory, as an absolute path, where another process uses it. Makes nothing.
    pub fn in_use(path: &Path) -> Option<PathBuf> {
        let path = fs::canonicalize(path).ok()?;
        let lock = File::options().write(true).open(path.join("lock")).ok()?;
        matches!(lock.try_lock(), Err(TryLockError::WouldBlock)).then_some(path)
    }

    /// The directory, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Refuses `path` where `user` is not the server's. That one made the lock; before its first start
/// it may be anybody to whom the directory was given, whoever owns it, but hardly root.
fn refuse_foreign(path: &Path, user: u32) -> Result<(), DataDirError> {
    let is_root = user == 0;
    let made = fs::metadata(path.join("lock"));
    let about = if is_root { made.or_else(|_| fs::metadata(path)) } else { made };
    match about {
        Ok(about) if about.uid() != user => {
            Err(DataDirError::Foreign { path: path.to_owned(), owner: name(about.uid()) })
        }
        // What is not there yet will be this user's.
        _ => Ok(()),
    }
}

/// The name of `user`, or what sudo takes for one.
fn name(user: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let named = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(user)).then(|| name.to_owned())
    });
    named.unwrap_or_else(|| format!("'#{user}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_another_user_is_left_alone_and_its_owner_named() {
        let dir = tempfile::tempdir().unwrap();
        let own = fs::metadata(dir.path()).unwrap().uid();
        assert!(refuse_foreign(dir.path(), own + 1).is_ok(), "a volume that was given to it");
        drop(DataDir::open(dir.path()).unwrap());
        assert!(refuse_foreign(dir.path(), own).is_ok());
        assert!(refuse_foreign(&dir.path().join("none"), own + 1).is_ok());
        let refused = refuse_foreign(dir.path(), own + 1).unwrap_err().to_string();
        assert!(refused.contains(&format!("sudo -u {} weir", name(own))), "{refused}");
        assert_eq!((name(0).as_str(), name(u32::MAX).as_str()), ("root", "'#4294967295'"));
    }

    #[test]
    fn a_file_is_no_data_directory() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("afile");
        fs::write(&file, "").unwrap();
        let refused = DataDir::open(&file).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("afile is a file"), "{refused}");
    }

    #[test]
    fn looking_whether_it_is_used_makes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(DataDir::in_use(dir.path()), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let open = DataDir::open(dir.path()).unwrap();
        assert_eq!(DataDir::in_use(dir.path()).as_deref(), Some(open.path()));
    }
}
