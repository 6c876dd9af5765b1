//! The file store: names nobody can guess, and files that are on disk before anybody hears of them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use tempfile::{NamedTempFile, TempPath};
use weir_base::{Random, Timestamp};

/// Random bytes in a name.
const NAME_BYTES: usize = 18;
/// The folder of what is not finished, emptied at the start.
const UNFINISHED: &str = "unfinished";
/// The folder of uploads that wait to be worked on. What lies there is never served.
const WAITING: &str = "waiting";
/// The longest name of a stored file, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// The file store under one folder; clones share it.
#[derive(Clone)]
pub struct Store {
    root: PathBuf,
    random: Random,
    sync: fn(&File) -> io::Result<()>,
}

impl Store {
    /// The store under `root`, whose folders are made when they are first needed.
    pub fn new(root: PathBuf, random: Random) -> Self {
        Self { root, random, sync: File::sync_all }
    }

    /// Removes what a crash left unfinished.
    pub(crate) fn sweep(&self) {
        if let Err(error) = fs::remove_dir_all(self.root.join(UNFINISHED))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, folder = %self.root.display(), "unfinished files stay there");
        }
    }

    /// An empty file in the store's own file system, gone when it is dropped: for bodies that come
    /// in, and for what is made from them.
    ///
    /// # Errors
    /// The system's.
    pub fn unfinished(&self) -> io::Result<NamedTempFile> {
        let folder = self.root.join(UNFINISHED);
        fs::create_dir_all(&folder)?;
        tempfile::Builder::new().prefix("").tempfile_in(folder)
    }

    /// Stores `bytes` and gives the new file's name, once file and folder are on disk.
    ///
    /// # Errors
    /// The system's; nothing is stored then.
    pub fn put(&self, bytes: &[u8], extension: &str) -> io::Result<String> {
        let mut file = self.unfinished()?;
        file.write_all(bytes)?;
        self.keep(file.into_temp_path(), extension)
    }

    /// As [`put`](Self::put), taking over a file of [`unfinished`](Self::unfinished).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn keep(&self, file: TempPath, extension: &str) -> io::Result<String> {
        let token = self.token();
        let (one, two) = (&token[..2], &token[2..4]);
        self.place(file, format!("{one}/{two}/{token}.{extension}"))
    }

    /// Keeps an upload durably until it is worked on; what has such a name is never served.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub(crate) fn keep_waiting(&self, file: TempPath, extension: &str) -> io::Result<String> {
        self.place(file, format!("{WAITING}/{}.{extension}", self.token()))
    }

    /// Lower-case letters and digits only, so that file systems without case do no harm.
    fn token(&self) -> String {
        let mut raw = [0; NAME_BYTES];
        self.random.fill(&mut raw);
        raw.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn place(&self, file: TempPath, name: String) -> io::Result<String> {
        let path = self.root.join(&name);
        let folder = path.parent().unwrap_or(&self.root);
        self.make_folder(folder)?;
        (self.sync)(&OpenOptions::new().write(true).open(&file)?)?;
        file.persist(&path).map_err(|error| error.error)?;
        if let Err(error) = File::open(folder).and_then(|folder| (self.sync)(&folder)) {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        let bytes = fs::metadata(&path)?.len();
        metrics::counter!("weir_community_media_stored_bytes_total").increment(bytes);
        Ok(name)
    }

    /// Makes `folder` and those above it, each known to the one above it on disk.
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        if let Some(above) = folder.parent().filter(|above| above.starts_with(&self.root)) {
            self.make_folder(above)?;
        }
        match fs::create_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(folder)?,
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        match folder.parent() {
            Some(above) => (self.sync)(&File::open(above)?),
            None => Ok(()),
        }
    }

    /// Where the file of this name lies, if the name is one of ours that may be served.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        is_public_name(name).then(|| self.root.join(name))
    }

    /// Where a file lies that may be served or still waits.
    pub(crate) fn path_of_any(&self, name: &str) -> Option<PathBuf> {
        let waiting = name
            .strip_prefix(WAITING)
            .and_then(|name| name.strip_prefix('/'))
            .is_some_and(is_file_name);
        (waiting || is_public_name(name)).then(|| self.root.join(name))
    }

    /// Removes a file; one that is not there is no error.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        match self.path_of_any(name).map_or(Ok(()), fs::remove_file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The folders in which files lie, but those that are not finished, in order of their names.
    pub(crate) fn folders(&self) -> io::Result<Vec<String>> {
        let mut folders = vec![String::from(WAITING)];
        let is_shard = |name: &String| name.len() == 2;
        for one in names_in(&self.root)?.into_iter().filter(is_shard) {
            let below = names_in(&self.root.join(&one))?;
            folders.extend(below.into_iter().filter(is_shard).map(|two| format!("{one}/{two}")));
        }
        folders.sort_unstable();
        Ok(folders)
    }

    /// The names of the files in one of [`folders`](Self::folders) that were last written before
    /// `before`, in order.
    pub(crate) fn files_before(&self, folder: &str, before: Timestamp) -> io::Result<Vec<String>> {
        let before = UNIX_EPOCH + Duration::from_millis(before.as_ms().try_into().unwrap_or(0));
        let names = names_in(&self.root.join(folder))?.into_iter();
        let files = names.map(|name| format!("{folder}/{name}")).filter(|name| {
            let written = self.path_of_any(name).and_then(|path| fs::metadata(path).ok());
            written.and_then(|file| file.modified().ok()).is_some_and(|at| at < before)
        });
        let mut files: Vec<String> = files.collect();
        files.sort_unstable();
        Ok(files)
    }

    /// The folder of what is not finished: for bodies that come in elsewhere.
    pub fn unfinished_folder(&self) -> PathBuf {
        self.root.join(UNFINISHED)
    }

    /// The folder of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// What lies in a folder; nothing when it is not there.
fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let name =
        |entry: io::Result<fs::DirEntry>| entry.map(|one| one.file_name().into_string().ok());
    entries.filter_map(|entry| name(entry).transpose()).collect()
}

/// `ab/cd/abcd….ext`, as [`Store::put`] makes them.
fn is_public_name(name: &str) -> bool {
    let mut parts = name.split('/');
    let (one, two, file) = (parts.next(), parts.next(), parts.next());
    let (Some(one), Some(two), Some(file), None) = (one, two, file, parts.next()) else {
        return false;
    };
    let is_shard =
        |shard: &str| shard.len() == 2 && shard.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_shard(one) && is_shard(two) && is_file_name(file)
}

fn is_file_name(name: &str) -> bool {
    let Some((stem, extension)) = name.split_once('.') else { return false };
    let plain = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    name.len() <= NAME_BYTES_MAX && plain(stem) && plain(extension)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    thread_local! {
        static SYNCED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
        static FAILING: RefCell<&'static str> = const { RefCell::new("") };
    }

    fn kind(file: &File) -> &'static str {
        if file.metadata().unwrap().is_dir() { "folder" } else { "file" }
    }

    /// Notes what is synced; fails for the kind that is to fail.
    fn noting(file: &File) -> io::Result<()> {
        let kind = kind(file);
        SYNCED.with_borrow_mut(|synced| synced.push(kind));
        if FAILING.with_borrow(|failing| *failing == kind) {
            return Err(io::Error::other("the disk is broken"));
        }
        file.sync_all()
    }

    fn files(root: &Path) -> usize {
        let below = |entry: fs::DirEntry| {
            if entry.path().is_dir() { files(&entry.path()) } else { 1 }
        };
        fs::read_dir(root).unwrap().map(|entry| below(entry.unwrap())).sum()
    }

    #[test]
    fn a_file_is_synced_before_it_has_its_name_and_its_folder_after() {
        let root = tempfile::tempdir().unwrap();
        let store = Store::new(root.path().to_owned(), Random::seeded(1));
        let first = store.put(b"warm", "png").unwrap();
        fs::create_dir_all(root.path().join("waiting")).unwrap();
        let store = Store { sync: noting, ..store };
        let name = store.keep_waiting(store.unfinished().unwrap().into_temp_path(), "gif").unwrap();
        assert_eq!(SYNCED.take(), ["file", "folder"]);
        assert!(store.path_of_any(&name).unwrap().exists());
        assert_eq!(fs::read(store.path(&first).unwrap()).unwrap(), b"warm");
    }

    #[test]
    fn nothing_is_stored_when_file_or_folder_cannot_be_synced() {
        for failing in ["file", "folder"] {
            let root = tempfile::tempdir().unwrap();
            let store = Store::new(root.path().to_owned(), Random::seeded(1));
            let store = Store { sync: noting, ..store };
            FAILING.set(failing);
            store.put(b"bytes", "png").unwrap_err();
            FAILING.set("");
            assert_eq!(files(root.path()), 0, "after a {failing} could not be synced");
            store.put(b"bytes", "png").unwrap();
            assert_eq!(files(root.path()), 1);
        }
    }

    #[test]
    fn only_names_the_store_makes_lead_to_a_path() {
        let store = Store::new("/data/media".into(), Random::seeded(1));
        assert!(store.path("ab/12/ab12cd.png").is_some());
        for name in [
            "",
            "/",
            "..",
            "ab/12/..",
            "ab/12/../x.png",
            "../../etc/passwd",
            "ab/12/.png",
            "waiting/ab12.mp4",
            "ab/12/a.png/x",
            "ab/12/a%2f.png",
            "ab/12/a.p\0g",
            "ab/1/x.png",
            "ab/12/x",
            "ab\\12\\x.png",
            "ab/12/a.b.png",
        ] {
            assert!(store.path(name).is_none(), "{name:?}");
        }
        assert!(store.path_of_any("waiting/../../x.mp4").is_none());
    }
}
