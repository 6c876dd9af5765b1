//! The sole right of a process to a part of a SQLite database.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::Error;

/// What this process has: a file that it locked is not locked again.
static HELD: Mutex<Vec<(PathBuf, Weak<File>)>> = Mutex::new(Vec::new());

/// A process's sole right to a part of a database, until the last of them is dropped or the process
/// ends, however it ends.
#[derive(Debug)]
pub struct Owned {
    /// The lock goes with the file.
    _file: Option<Arc<File>>,
}

impl Owned {
    /// Where nobody needs to be kept away.
    pub(crate) fn by_all() -> Self {
        Self { _file: None }
    }

    /// Locks the file beside `database` that stands for `part`. The database's own file is locked
    /// by SQLite, in a way that another lock on it would break.
    pub(crate) fn take(database: &Path, part: &str) -> Result<Self, Error> {
        // One file has one lock, whatever names lead to it.
        let database = database.canonicalize().unwrap_or_else(|_| database.to_owned());
        let mut path = database.clone().into_os_string();
        path.push(format!("-{part}"));
        let path = PathBuf::from(path);
        let mut held = HELD.lock();
        held.retain(|(_, file)| file.strong_count() > 0);
        let mine = held.iter().find(|(held, _)| *held == path);
        if let Some(file) = mine.and_then(|(_, file)| file.upgrade()) {
            return Ok(Self { _file: Some(file) });
        }
        let file = Arc::new(lock(&path, &database, part)?);
        held.push((path, Arc::downgrade(&file)));
        Ok(Self { _file: Some(file) })
    }
}

/// Opens and locks `path`, and writes there whose it is.
fn lock(path: &Path, database: &Path, part: &str) -> Result<File, Error> {
    let fail = |error: std::io::Error| Error::Open {
        path: path.display().to_string(),
        reason: error.to_string(),
    };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let mut file = options.open(path).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => {
            file.set_len(0).map_err(fail)?;
            write!(file, "{}", std::process::id()).map_err(fail)?;
            Ok(file)
        }
        Err(TryLockError::Error(error)) => Err(fail(error)),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // It may be about to write its number: then it is not told.
            let read = file.rewind().and_then(|()| file.read_to_string(&mut holder));
            let holder = match (read, holder.trim().parse::<u32>()) {
                (Ok(_), Ok(number)) => format!("process {number}"),
                _ => "another process".into(),
            };
            Err(Error::Owned { path: database.display().to_string(), part: part.into(), holder })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_told_which_file_whose_and_what_to_do_and_what_was_given_up_is_free() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("weir.db");
        let path = directory.path().join("weir.db-jobs");
        let first = lock(&path, &database, "jobs").unwrap();
        let told = lock(&path, &database, "jobs").unwrap_err().to_string();
        assert!(told.contains(&database.display().to_string()), "{told}");
        assert!(told.contains(&format!("process {}", std::process::id())), "{told}");
        assert!(told.contains("stop that one"), "{told}");
        drop(first);
        lock(&path, &database, "jobs").unwrap();
    }

    #[test]
    fn a_file_has_one_lock_whatever_names_lead_to_it_and_until_the_last_gives_it_up() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("weir.db");
        std::fs::write(&database, "").unwrap();
        let link = directory.path().join("link.db");
        std::os::unix::fs::symlink(&database, &link).unwrap();
        let (first, second) = (Owned::take(&database, "jobs"), Owned::take(&link, "jobs"));
        let path = directory.path().canonicalize().unwrap().join("weir.db-jobs");
        drop(first.unwrap());
        assert!(lock(&path, &database, "jobs").is_err());
        drop(second.unwrap());
        lock(&path, &database, "jobs").unwrap();
    }
}
