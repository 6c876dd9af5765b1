//! What lies sealed in the database: it opens only with a key that lies outside of it.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{digest, hmac};
use weir_base::Random;

use crate::Error;

/// The file in the data directory.
const FILE: &str = "credentials.key";
/// The form of what is sealed: this byte, the key's mark, the nonce, what is sealed, its tag.
const FORM: u8 = 1;
/// The mark tells which key something was sealed with, in bytes.
const MARK_BYTES: usize = 4;

/// Seals and opens with the key in the data directory, which is made at its first use.
pub struct Vault {
    path: PathBuf,
    random: Random,
    key: OnceLock<Key>,
}

struct Key {
    seal: LessSafeKey,
    mac: hmac::Key,
    mark: [u8; MARK_BYTES],
}

impl Vault {
    /// The vault whose key lies in the folder `data`.
    pub(crate) fn new(data: &Path, random: Random) -> Self {
        Self { path: data.join(FILE), random, key: OnceLock::new() }
    }

    /// Reads the key where there is one already, for without it log-ins would end with this run.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it cannot be used.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.kept() {
            Ok(Some(raw)) => {
                self.key.get_or_init(|| Key::new(&raw));
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => {
                let path = self.path.display();
                let remedy = match error.kind() {
                    std::io::ErrorKind::PermissionDenied => "; give it to the user who runs this",
                    _ => "",
                };
                Err(Error::Conflict(format!("cannot use the key {path}: {error}{remedy}")))
            }
        }
    }

    /// Seals `plain`.
    pub fn seal(&self, plain: &[u8]) -> Vec<u8> {
        let key = self.key();
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce);
        let mut sealed = Vec::with_capacity(1 + MARK_BYTES + NONCE_LEN + plain.len() + 16);
        sealed.push(FORM);
        sealed.extend_from_slice(&key.mark);
        sealed.extend_from_slice(&nonce);
        let mut text = plain.to_vec();
        let aad = Aad::from(sealed.clone());
        let nonce = Nonce::assume_unique_for_key(nonce);
        if key.seal.seal_in_place_append_tag(nonce, aad, &mut text).is_err() {
            // Only beyond 64 GiB; what is not kept is asked for again.
            return Vec::new();
        }
        sealed.extend_from_slice(&text);
        sealed
    }

    /// What was sealed; nothing where it was sealed with another key, or was changed since.
    pub fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let key = self.key();
        let (head, text) = sealed.split_at_checked(1 + MARK_BYTES + NONCE_LEN)?;
        if head[0] != FORM || head[1..=MARK_BYTES] != key.mark {
            return None;
        }
        let nonce = Nonce::try_assume_unique_for_key(&head[1 + MARK_BYTES..]).ok()?;
        let mut text = text.to_vec();
        let plain = key.seal.open_in_place(nonce, Aad::from(head), &mut text).ok()?;
        Some(plain.to_vec())
    }

    /// Whether `sealed` is of another key than this vault's: another node's, or a lost one.
    pub fn is_foreign(&self, sealed: &[u8]) -> bool {
        sealed.get(1..=MARK_BYTES).is_some_and(|mark| mark != self.key().mark)
    }

    /// The same 32 bytes for the same `text`, which nobody without the key can tell from others.
    pub fn digest(&self, text: &[u8]) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(hmac::sign(&self.key().mac, text).as_ref());
        bytes
    }

    fn key(&self) -> &Key {
        self.key.get_or_init(|| {
            let raw = self.read().unwrap_or_else(|error| {
                let path = self.path.display();
                tracing::error!(%error, %path, "the key of chat log-ins is not kept: log-ins by \
                    SCRAM and by tokens end with this run");
                self.fresh()
            });
            Key::new(&raw)
        })
    }

    fn fresh(&self) -> [u8; 32] {
        let mut raw = [0; 32];
        self.random.fill(&mut raw);
        raw
    }

    /// The key on the disk, if there is one.
    fn kept(&self) -> std::io::Result<Option<[u8; 32]>> {
        let wrong = "it does not hold 32 bytes; restore it from a backup, or remove it";
        match std::fs::read(&self.path) {
            Ok(bytes) => bytes.try_into().map(Some).map_err(|_| std::io::Error::other(wrong)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the key, or makes it; it is on the disk before anything is sealed with it.
    fn read(&self) -> std::io::Result<[u8; 32]> {
        if let Some(raw) = self.kept()? {
            return Ok(raw);
        }
        let raw = self.fresh();
        let folder = self.path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let beside = self.path.with_extension("new");
        let mut options = std::fs::File::options();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(&raw)?;
        file.sync_all()?;
        std::fs::rename(&beside, &self.path)?;
        std::fs::File::open(folder)?.sync_all()?;
        Ok(raw)
    }
}

impl Key {
    fn new(raw: &[u8; 32]) -> Self {
        let derive = |what: &[u8]| {
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, raw), what).as_ref().to_vec()
        };
        // An AES-256 key is 32 bytes, which a SHA-256 always is.
        let sealing = UnboundKey::new(&AES_256_GCM, &derive(b"seal")).expect("a key of 32 bytes");
        let mut mark = [0; MARK_BYTES];
        let name = digest::digest(&digest::SHA256, &derive(b"mark"));
        mark.copy_from_slice(&name.as_ref()[..MARK_BYTES]);
        Self {
            seal: LessSafeKey::new(sealing),
            mac: hmac::Key::new(hmac::HMAC_SHA256, &derive(b"digest")),
            mark,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vault(folder: &tempfile::TempDir, seed: u64) -> Vault {
        Vault::new(folder.path(), Random::seeded(seed))
    }

    #[test]
    fn what_is_sealed_opens_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let sealed = vault(&folder, 1).seal(b"a key");
        assert_eq!(vault(&folder, 2).open(&sealed).as_deref(), Some(&b"a key"[..]));
        assert!(!sealed.windows(5).any(|window| window == b"a key"));
    }

    #[test]
    fn nothing_opens_with_another_key_or_after_a_change() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (one, other) = (vault(&here, 1), vault(&there, 2));
        let mut sealed = one.seal(b"a key");
        assert_eq!((other.open(&sealed), other.is_foreign(&sealed)), (None, true));
        let last = sealed.len() - 1;
        sealed[last] ^= 1;
        assert_eq!((one.open(&sealed), one.is_foreign(&sealed)), (None, false));
        assert_eq!((one.open(&[]), one.open(&[1; 12])), (None, None));
    }

    #[test]
    fn a_key_that_cannot_be_used_is_told_before_it_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        assert!(vault(&folder, 1).check().is_ok());
        assert!(!folder.path().join(FILE).exists());
        let sealed = vault(&folder, 1).seal(b"a key");
        let known = vault(&folder, 2);
        assert!(known.check().is_ok());
        std::fs::write(folder.path().join(FILE), "short").unwrap();
        assert_eq!(known.open(&sealed).as_deref(), Some(&b"a key"[..]));
        let refused = vault(&folder, 3).check().unwrap_err().to_string();
        assert!(refused.contains(FILE) && refused.contains("32 bytes"), "{refused}");
    }

    #[test]
    fn only_the_owner_may_read_the_key() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        vault(&folder, 1).seal(b"");
        let meta = std::fs::metadata(folder.path().join(FILE)).unwrap();
        assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    }
}
