//! What SCRAM (RFC 5802, RFC 7677) keeps of a password: keys by which it can be checked, and by
//! which the server proves that it knows them. Sealed at rest, for whoever has them can pretend to
//! be the server, or try passwords against them.

use std::num::NonZeroU32;

use aws_lc_rs::{constant_time, digest, hmac, pbkdf2};

use super::vault::Vault;

/// The salt, in bytes.
const SALT_BYTES: usize = 16;
/// The form of the keys: this byte, the salt, then for each hash the iterations and two keys.
const FORM: u8 = 1;
/// All of it, in bytes.
const KEYS_BYTES: usize = 1 + SALT_BYTES + 3 * 4 + 2 * (20 + 32 + 64);
/// By which hash a password that came plain is checked.
const CHECKED_BY: Hash = Hash::Sha256;

/// The hashes for which keys are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hash {
    /// SHA-1: what every client has.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

impl Hash {
    /// All, weakest first.
    pub const ALL: [Self; 3] = [Self::Sha1, Self::Sha256, Self::Sha512];

    /// The length of its digest, in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    /// How often the password is hashed for new keys. RFC 7677 asks for 4,096 at least; the keys
    /// are sealed besides, and phones have to do as much at each log-in.
    pub fn iterations(self) -> u32 {
        match self {
            Self::Sha1 | Self::Sha256 => 4_096,
            Self::Sha512 => 10_000,
        }
    }

    /// The digest of `bytes`.
    pub fn digest(self, bytes: &[u8]) -> digest::Digest {
        let algorithm = match self {
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        };
        digest::digest(algorithm, bytes)
    }

    /// The HMAC of `bytes` under `key`.
    pub fn hmac(self, key: &[u8], bytes: &[u8]) -> hmac::Tag {
        let algorithm = match self {
            Self::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), bytes)
    }

    /// `Hi` of RFC 5802, 2.2: the salted password.
    pub fn salted(self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha1 => pbkdf2::PBKDF2_HMAC_SHA1,
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        };
        let mut salted = vec![0; self.bytes()];
        let iterations = NonZeroU32::new(iterations).unwrap_or(NonZeroU32::MIN);
        pbkdf2::derive(algorithm, iterations, salt, password.as_bytes(), &mut salted);
        salted
    }

    fn place(self) -> usize {
        let before = Self::ALL.into_iter().filter(|other| *other < self);
        1 + SALT_BYTES + before.map(|hash| 4 + 2 * hash.bytes()).sum::<usize>()
    }
}

/// The keys of one password, for all hashes.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramKeys([u8; KEYS_BYTES]);

/// The keys of one password for one hash.
#[derive(Clone, Copy)]
pub struct ScramKey<'k> {
    /// What the password is salted with.
    pub salt: &'k [u8],
    /// How often it is hashed.
    pub iterations: u32,
    /// `StoredKey`: what the client's key must hash to.
    pub stored: &'k [u8],
    /// `ServerKey`: by which the server proves itself.
    pub server: &'k [u8],
}

impl std::fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl ScramKeys {
    /// The keys of `password`. Takes some milliseconds: not on a serving thread.
    pub fn derive(password: &str, salt: [u8; SALT_BYTES]) -> Self {
        let password = prepared(password);
        let mut bytes = [0; KEYS_BYTES];
        bytes[0] = FORM;
        bytes[1..=SALT_BYTES].copy_from_slice(&salt);
        for hash in Hash::ALL {
            let (at, length, iterations) = (hash.place(), hash.bytes(), hash.iterations());
            let salted = hash.salted(&password, &salt, iterations);
            let client = hash.hmac(&salted, b"Client Key");
            let server = hash.hmac(&salted, b"Server Key");
            bytes[at..at + 4].copy_from_slice(&iterations.to_be_bytes());
            let keys = &mut bytes[at + 4..at + 4 + 2 * length];
            keys[..length].copy_from_slice(hash.digest(client.as_ref()).as_ref());
            keys[length..].copy_from_slice(server.as_ref());
        }
        Self(bytes)
    }

    /// Keys of a name that nobody has, which look as those of a name that somebody has: always the
    /// same salt for the same name, and no password that fits.
    pub fn decoy(vault: &Vault, name: &str) -> Self {
        let mut bytes = [0; KEYS_BYTES];
        for (number, piece) in bytes.chunks_mut(32).enumerate() {
            let text = format!("decoy {number} {name}");
            piece.copy_from_slice(&vault.digest(text.as_bytes())[..piece.len()]);
        }
        bytes[0] = FORM;
        for hash in Hash::ALL {
            let at = hash.place();
            bytes[at..at + 4].copy_from_slice(&hash.iterations().to_be_bytes());
        }
        Self(bytes)
    }

    /// The keys for `hash`.
    pub fn key(&self, hash: Hash) -> ScramKey<'_> {
        let (at, length) = (hash.place(), hash.bytes());
        let iterations = &self.0[at..at + 4];
        let iterations = iterations.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        let (stored, server) = self.0[at + 4..at + 4 + 2 * length].split_at(length);
        ScramKey { salt: &self.0[1..=SALT_BYTES], iterations, stored, server }
    }

    /// Whether `password` is the one behind these keys: one derivation, about a millisecond. Not
    /// on a serving thread.
    pub fn fits(&self, password: &str) -> bool {
        let key = self.key(CHECKED_BY);
        let salted = CHECKED_BY.salted(&prepared(password), key.salt, key.iterations);
        let client = CHECKED_BY.hmac(&salted, b"Client Key");
        let stored = CHECKED_BY.digest(client.as_ref());
        constant_time::verify_slices_are_equal(stored.as_ref(), key.stored).is_ok()
    }

    /// As it is kept.
    pub fn seal(&self, vault: &Vault) -> Vec<u8> {
        vault.seal(&self.0)
    }

    /// As it was kept; nothing when it was sealed with another key.
    pub fn open(vault: &Vault, sealed: &[u8]) -> Option<Self> {
        let bytes: [u8; KEYS_BYTES] = vault.open(sealed)?.try_into().ok()?;
        (bytes[0] == FORM).then_some(Self(bytes))
    }
}

/// The password as it is hashed: by SASLprep (RFC 4013), or as it is where that refuses it.
fn prepared(password: &str) -> std::borrow::Cow<'_, str> {
    stringprep::saslprep(password).unwrap_or(std::borrow::Cow::Borrowed(password))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    /// RFC 5802, 5 and RFC 7677, 3: the server's signature of their exchanges.
    #[test]
    fn keys_are_those_of_the_specification() {
        let check = |hash: Hash, salt: &str, message: &str, signature: &str| {
            let salt = BASE64_STANDARD.decode(salt).unwrap();
            let salted = hash.salted("pencil", &salt, 4_096);
            let server = hash.hmac(&salted, b"Server Key");
            let signed = hash.hmac(server.as_ref(), message.as_bytes());
            assert_eq!(BASE64_STANDARD.encode(signed.as_ref()), signature);
        };
        check(
            Hash::Sha1,
            "QSXCR+Q6sek8bf92",
            "n=user,r=fyko+d2lbbFgONRv9qkxdawL,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,\
             s=QSXCR+Q6sek8bf92,i=4096,c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j",
            "rmF9pqV8S7suAoZWja4dJRkFsKQ=",
        );
        check(
            Hash::Sha256,
            "W22ZaJ0SNY7soEsUEjb6gQ==",
            "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,\
             r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        );
    }

    #[test]
    fn only_the_password_fits_its_keys() {
        let keys = ScramKeys::derive("correct horse", [7; SALT_BYTES]);
        assert!(keys.fits("correct horse"));
        assert!(!keys.fits("correct horsf"));
    }

    #[test]
    fn a_password_fits_however_its_characters_are_written() {
        // A soft hyphen maps to nothing, a no-break space to a space (RFC 4013, 3).
        assert!(ScramKeys::derive("IX\u{a0}9", [7; SALT_BYTES]).fits("I\u{ad}X 9"));
    }

    #[test]
    fn a_decoy_is_always_the_same_and_never_fits() {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::new(folder.path(), weir_base::Random::seeded(1));
        let (one, again) = (ScramKeys::decoy(&vault, "bob"), ScramKeys::decoy(&vault, "bob"));
        assert_eq!(one, again);
        assert_ne!(
            one.key(Hash::Sha1).salt,
            ScramKeys::decoy(&vault, "carol").key(Hash::Sha1).salt
        );
        assert_eq!(one.key(Hash::Sha512).iterations, Hash::Sha512.iterations());
        assert!(!one.fits(""));
    }

    #[test]
    fn keys_are_opened_as_they_were_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let vault = Vault::new(folder.path(), weir_base::Random::seeded(1));
        let keys = ScramKeys::derive("correct horse", [7; SALT_BYTES]);
        assert_eq!(ScramKeys::open(&vault, &keys.seal(&vault)), Some(keys));
    }
}
