//! Pictures of other servers on our disk, as many as there is room for, those last looked at.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use moka::policy::EvictionPolicy;
use moka::sync::Cache as Index;
use weir_base::Clock;

use super::sniff::content_type_of;

/// What one entry counts for besides its file's length, in bytes: its place in the index.
const ENTRY_BYTES: u64 = 512;
/// How exactly a file says when it was looked at last.
const NOTED_EVERY: Duration = Duration::from_secs(3_600);

/// An open file and what it is.
#[derive(Debug)]
pub struct Opened {
    /// The file. It stays readable when it is pushed out meanwhile.
    pub file: File,
    /// Its length, in bytes.
    pub bytes: u64,
    /// Its media type.
    pub content_type: &'static str,
    /// What it is called: differs for different contents.
    pub name: String,
}

impl Opened {
    /// Opens the file at `path`, whose name says what it is.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { file, bytes: about.len(), content_type: content_type_of(&name), name })
    }
}

/// The files under one folder, whose lengths together stay within a budget.
pub(crate) struct Cache {
    folder: PathBuf,
    /// By name without its end: the end and the length.
    index: Index<String, (&'static str, u64)>,
    clock: Clock,
}

impl Cache {
    /// The cache in `folder`, with what is there already. Reads the whole folder.
    pub(crate) fn open(folder: PathBuf, bytes_max: u64, clock: Clock) -> Self {
        let evicted = folder.clone();
        let index = Index::builder()
            .max_capacity(bytes_max)
            .weigher(|_: &String, (_, bytes): &(&'static str, u64)| {
                u32::try_from(bytes + ENTRY_BYTES).unwrap_or(u32::MAX)
            })
            .eviction_policy(EvictionPolicy::lru())
            .eviction_listener(move |stem: std::sync::Arc<String>, (extension, _), cause| {
                if cause.was_evicted() {
                    metrics::counter!("weir_community_media_cache_evicted_total").increment(1);
                    remove(&place(&evicted, &stem, extension));
                }
            })
            .build();
        let cache = Self { folder, index, clock };
        if let Err(error) = cache.load() {
            let folder = cache.folder.display();
            tracing::warn!(%error, %folder, "cached media of other servers cannot be read");
        }
        cache.tell_bytes();
        cache
    }

    /// Takes in what lies in the folder, the longest unused first.
    fn load(&self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let mut found: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
        for shard in fs::read_dir(&self.folder)? {
            let shard = shard?.path();
            if !shard.is_dir() {
                continue;
            }
            for file in fs::read_dir(shard)? {
                let path = file?.path();
                let about = fs::metadata(&path)?;
                found.push((about.modified().unwrap_or(SystemTime::UNIX_EPOCH), path, about.len()));
            }
        }
        found.sort();
        for (_, path, bytes) in found {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let known = name.split_once('.').and_then(|(stem, end)| Some((stem, extension(end)?)));
            match known {
                Some((stem, end)) => self.index.insert(stem.to_owned(), (end, bytes)),
                None => remove(&path),
            }
        }
        Ok(())
    }

    /// What is there under `stem`, which counts as a look at it.
    pub(crate) fn get(&self, stem: &str) -> Option<Opened> {
        let (extension, _) = self.index.get(stem)?;
        let opened = Opened::open(&place(&self.folder, stem, extension));
        match &opened {
            Ok(opened) => self.note_look(&opened.file),
            Err(_) => self.index.invalidate(stem),
        }
        opened.ok()
    }

    /// Has `file` say by its time when it was looked at, which is all that is known of it after a
    /// restart; seldom, so that looks do not become writes.
    fn note_look(&self, file: &File) {
        let now_ms = u64::try_from(self.clock.now().as_ms()).unwrap_or(0);
        let now = UNIX_EPOCH + Duration::from_millis(now_ms);
        let noted = file.metadata().and_then(|about| about.modified());
        let since = noted.ok().and_then(|noted| now.duration_since(noted).ok());
        if since.is_some_and(|since| since >= NOTED_EVERY) {
            // Where it cannot be noted, the file only counts as older than it is.
            let _ = file.set_modified(now);
        }
    }

    /// Moves the file at `from` in under `stem`, pushing out what was unused longest, and opens it.
    pub(crate) fn put(
        &self,
        stem: &str,
        from: tempfile::TempPath,
        extension: &'static str,
    ) -> io::Result<Opened> {
        let path = place(&self.folder, stem, extension);
        fs::create_dir_all(path.parent().unwrap_or(&self.folder))?;
        from.persist(&path).map_err(|error| error.error)?;
        // Opened first: the file may be pushed out as soon as it is in.
        let opened = Opened::open(&path)?;
        self.index.insert(stem.to_owned(), (extension, opened.bytes));
        self.tell_bytes();
        Ok(opened)
    }

    fn tell_bytes(&self) {
        metrics::gauge!("weir_community_media_cache_bytes").set(self.bytes() as f64);
    }

    /// What it holds now, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.index.run_pending_tasks();
        self.index.weighted_size()
    }
}

fn extension(end: &str) -> Option<&'static str> {
    super::Form::ALL.into_iter().map(super::Form::extension).find(|known| *known == end)
}

fn place(folder: &Path, stem: &str, extension: &str) -> PathBuf {
    let shard = stem.get(..2).unwrap_or("00");
    folder.join(shard).join(format!("{stem}.{extension}"))
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "a cached file stays");
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;
    use weir_base::Timestamp;

    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;
    const HOUR_MS: u64 = 3_600_000;

    fn clock() -> Clock {
        Clock::manual(Timestamp::from_ms(NOW_MS as i64))
    }

    fn at(ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(ms)
    }

    fn file(folder: &Path, bytes: usize) -> tempfile::TempPath {
        let file = tempfile::NamedTempFile::new_in(folder).unwrap();
        fs::write(file.path(), vec![7; bytes]).unwrap();
        file.into_temp_path()
    }

    fn files(folder: &Path) -> u64 {
        let shards = fs::read_dir(folder).unwrap().map(|shard| shard.unwrap().path());
        let lengths = |shard: PathBuf| {
            let files = fs::read_dir(shard).unwrap().map(|file| file.unwrap());
            files.map(|file| file.metadata().unwrap().len()).sum::<u64>()
        };
        shards.filter(|shard| shard.is_dir()).map(lengths).sum()
    }

    #[test]
    fn the_cache_stays_within_its_budget_and_keeps_what_was_used_last() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("cache");
        let cache = Cache::open(folder.clone(), 50_000, clock());
        for number in 0..20 {
            let opened = cache.put(&format!("{number:02}ab"), file(root.path(), 10_000), "png");
            assert_eq!(opened.unwrap().bytes, 10_000);
            assert!(cache.get("00ab").is_some() || number > 0, "used each time");
            assert!(cache.bytes() <= 50_000);
            assert!(files(&folder) <= 50_000);
        }
        assert!(cache.get("00ab").is_some());
        assert!(cache.get("01ab").is_none());
        assert_eq!(cache.get("19ab").unwrap().content_type, "image/png");
        drop(cache);
        let smaller = Cache::open(folder.clone(), 25_000, clock());
        assert!(smaller.bytes() <= 25_000 && files(&folder) <= 25_000);
        assert!(smaller.get("19ab").is_some(), "known again after a restart");
    }

    #[test]
    fn what_is_too_large_for_the_cache_can_be_read_once() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::open(root.path().join("cache"), 1_000, clock());
        let opened = cache.put("aabb", file(root.path(), 10_000), "jpg").unwrap();
        assert_eq!(opened.bytes, 10_000);
        assert!(cache.get("aabb").is_none());
    }

    #[test]
    fn what_was_looked_at_last_outlives_a_restart_with_less_room() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("cache");
        let cache = Cache::open(folder.clone(), 50_000, clock());
        for (stem, hours_ago) in [("00ab", 30), ("01ab", 20), ("02ab", 10)] {
            let opened = cache.put(stem, file(root.path(), 10_000), "png").unwrap();
            opened.file.set_modified(at(NOW_MS - hours_ago * HOUR_MS)).unwrap();
        }
        assert!(cache.get("00ab").is_some());
        drop(cache);
        let smaller = Cache::open(folder, 25_000, clock());
        let there = ["00ab", "01ab", "02ab"].map(|stem| smaller.get(stem).is_some());
        assert_eq!(there, [true, false, true]);
    }

    #[test]
    fn a_look_is_noted_once_an_hour() {
        let root = tempfile::tempdir().unwrap();
        let clock = clock();
        let cache = Cache::open(root.path().join("cache"), 50_000, clock.clone());
        let opened = cache.put("00ab", file(root.path(), 10), "png").unwrap();
        opened.file.set_modified(at(NOW_MS - HOUR_MS)).unwrap();
        for noted in [NOW_MS, NOW_MS, NOW_MS + HOUR_MS] {
            cache.get("00ab").unwrap();
            assert_eq!(opened.file.metadata().unwrap().modified().unwrap(), at(noted));
            clock.advance(HOUR_MS as i64 / 2);
        }
    }

    #[test]
    fn how_much_is_held_is_told_from_the_start() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("cache");
        let cache = Cache::open(folder.clone(), 50_000, clock());
        cache.put("00ab", file(root.path(), 10_000), "png").unwrap();
        drop(cache);
        let recorder = PrometheusBuilder::new().build_recorder();
        let told = recorder.handle();
        metrics::with_local_recorder(&recorder, || Cache::open(folder, 50_000, clock()));
        let text = told.render();
        let gauge = |line: &str| {
            let value = line.strip_prefix("weir_community_media_cache_bytes ")?;
            value.parse::<f64>().ok()
        };
        assert_eq!(text.lines().find_map(gauge), Some(10_512.0), "{text}");
    }
}
