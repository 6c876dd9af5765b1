//! Passwords: the rule for new ones, hashing and checking off the serving threads.

use std::num::NonZeroU64;
use std::sync::LazyLock;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};
use tokio::sync::Semaphore;
use weir_base::{Id, Secret};
use weir_db::{Tx, params};

use super::scram::ScramKeys;
use crate::{Env, Error};

/// The shortest password, in characters.
pub const PASSWORD_CHARACTERS_MIN: usize = 8;
/// The longest password, in bytes, so that nobody makes the hash slow.
pub const PASSWORD_BYTES_MAX: usize = 1_024;
/// Hashes computed at once: each takes 19 MiB and a core.
static HASHING: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(2, usize::from)));

/// Whether the password can be used.
///
/// # Errors
/// [`Error::Invalid`].
pub fn check_password(password: &str) -> Result<(), Error> {
    if password.chars().count() < PASSWORD_CHARACTERS_MIN {
        let message = format!("is too short (minimum is {PASSWORD_CHARACTERS_MIN} characters)");
        return Err(Error::invalid("password", "ERR_TOO_SHORT", message));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        let message = format!("is too long (maximum is {PASSWORD_BYTES_MAX} bytes)");
        return Err(Error::invalid("password", "ERR_TOO_LONG", message));
    }
    Ok(())
}

fn hasher() -> Argon2<'static> {
    // 19 MiB, two passes: the first recommendation of OWASP for Argon2id.
    let params = Params::new(19 * 1024, 2, 1, None).unwrap_or_default();
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

/// What is hashed in a password's place: its SHA-256 as hex, so that the digest that DDP clients
/// send and the plain text that the others send meet one hash.
fn digest(password: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, password.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A password as it is kept.
#[derive(Debug, Clone)]
pub struct KeptPassword {
    /// Argon2id over its hex SHA-256, in PHC form.
    pub hash: Secret<String>,
    /// What chat's log-ins check it by; none where only a hash is known.
    pub scram: Option<ScramKeys>,
}

impl KeptPassword {
    /// A password of which only this hash is known, as of people who were taken over.
    pub fn of_hash(hash: impl Into<String>) -> Self {
        Self { hash: Secret::new(hash.into()), scram: None }
    }

    /// The keys as they are written.
    pub(super) fn sealed(&self, env: &Env) -> Option<Vec<u8>> {
        self.scram.as_ref().map(|keys| keys.seal(&env.vault))
    }
}

/// Tells the password that somebody has now from the ones before, and nothing else of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PasswordMark(NonZeroU64);

impl PasswordMark {
    /// The mark of the password whose hash, with its salt, is kept as `hash`.
    pub(super) fn of(hash: &str) -> Self {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, hash.as_bytes());
        let mut mark = [0; 8];
        mark.copy_from_slice(&digest.as_ref()[..8]);
        Self(NonZeroU64::new(u64::from_be_bytes(mark)).unwrap_or(NonZeroU64::MIN))
    }
}

/// Argon2id over the password and SCRAM's keys of it, in a bounded pool off the serving threads.
///
/// # Errors
/// [`Error::Upstream`] when the pool is gone (the process is stopping).
pub async fn hash_password(password: &str) -> Result<KeptPassword, Error> {
    let (digest, password) = (digest(password), Secret::new(password.to_owned()));
    in_pool(move || {
        let mut salts = [0; 32];
        weir_base::Random::system().fill(&mut salts);
        let hash = hasher().hash_password_with_salt(digest.as_bytes(), &salts[..16]);
        let hash = hash.map_err(|error| Error::Upstream(format!("password: {error}")))?;
        let mut salt = [0; 16];
        salt.copy_from_slice(&salts[16..]);
        let scram = Some(ScramKeys::derive(password.expose(), salt));
        Ok(KeptPassword { hash: Secret::new(hash.to_string()), scram })
    })
    .await?
}

/// SCRAM's keys of a password that was found to be right, for somebody who has none yet.
///
/// # Errors
/// As [`hash_password`].
pub async fn scram_keys(password: &str) -> Result<ScramKeys, Error> {
    let password = Secret::new(password.to_owned());
    in_pool(move || {
        let mut salt = [0; 16];
        weir_base::Random::system().fill(&mut salt);
        ScramKeys::derive(password.expose(), salt)
    })
    .await
}

/// Keeps SCRAM's keys of the password that `account` has had while its hash was `hash`; does
/// nothing if it has another one meanwhile, or keys already.
///
/// # Errors
/// The database's.
pub fn learn_scram_keys(
    tx: &mut Tx,
    env: &Env,
    account: Id,
    hash: &str,
    keys: &ScramKeys,
) -> Result<(), Error> {
    tx.run(
        "UPDATE users SET scram = ?3 WHERE account_id = ?1 AND password_hash = ?2
           AND scram IS NULL",
        params![account, hash, keys.seal(&env.vault)],
    )?;
    Ok(())
}

/// Whether `password` is the one behind `keys`, off the serving threads.
///
/// # Errors
/// As [`hash_password`].
pub async fn verify_by_scram(keys: ScramKeys, password: &str) -> Result<bool, Error> {
    if password.len() > PASSWORD_BYTES_MAX {
        return Ok(false);
    }
    let password = Secret::new(password.to_owned());
    in_pool(move || keys.fits(password.expose())).await
}

/// Whether `password` is the one behind `hash`; an empty `hash` takes as long and is always wrong,
/// so that nobody learns by the time which names exist.
///
/// # Errors
/// As [`hash_password`].
pub async fn verify_password(hash: &str, password: &str) -> Result<bool, Error> {
    if password.len() > PASSWORD_BYTES_MAX {
        return Ok(false);
    }
    verify_digest(hash, &digest(password)).await
}

/// As [`verify_password`], of the password's SHA-256 as 64 lower-case hex digits.
///
/// # Errors
/// As [`hash_password`].
pub async fn verify_digest(hash: &str, digest: &str) -> Result<bool, Error> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digest.len() != 64 || !digest.bytes().all(is_digit) {
        return Ok(false);
    }
    let (hash, digest) = (hash.to_owned(), digest.to_owned());
    in_pool(move || match PasswordHash::new(&hash) {
        Ok(known) => hasher().verify_password(digest.as_bytes(), &known).is_ok(),
        Err(_) => {
            let _ = hasher().hash_password_with_salt(digest.as_bytes(), &[0; 16]);
            false
        }
    })
    .await
}

async fn in_pool<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    let stopped = || Error::Upstream("the server is stopping".into());
    let _place = HASHING.acquire().await.map_err(|_| stopped())?;
    tokio::task::spawn_blocking(work).await.map_err(|_| stopped())
}
