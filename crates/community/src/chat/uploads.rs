//! Files that people send by chat (XEP-0363): first a place for one is asked for, then its bytes
//! come over HTTP, once.
//!
//! They are kept as they came, since apps encrypt them. An account keeps its newest files within
//! [`KEPT_BYTES_MAX`] and [`KEPT_MAX`]; older ones go when a new place is asked for.

use tempfile::TempPath;
use weir_base::{Id, Timestamp};
use weir_db::{Tx, ids, params};

use crate::media::{self, Files};
use crate::{Env, Error};

/// The largest file, in bytes.
pub const FILE_BYTES_MAX: u64 = 100 * 1024 * 1024;
/// What one account may have here, in bytes.
pub const KEPT_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;
/// How many files one account may have here, those that have not come yet among them.
pub const KEPT_MAX: usize = 5_000;
/// Places of one account whose files have not come.
pub const OPEN_MAX: usize = 50;
/// How long a place waits for its file, in ms.
pub const OPEN_MS_MAX: i64 = 10 * 60 * 1_000;
/// The longest name of a file, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// The longest media type, in bytes.
const CONTENT_TYPE_BYTES_MAX: usize = 127;
/// Random characters of the key by which a file is reached: who has the address may read it.
const KEY_BYTES: usize = 24;
/// Files that are let go in one unit.
const GONE_MAX: usize = 200;

/// A file that somebody wants to send.
#[derive(Debug, Clone)]
pub struct New {
    /// Its name, as its receivers see it.
    pub name: String,
    /// Its size, in bytes.
    pub bytes: u64,
    /// What it is, as its sender says; may be empty.
    pub content_type: String,
}

weir_db::record! {
    /// A place for a file, or the file in it.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Upload {
        /// Its id.
        pub id: Id,
        /// Whose.
        pub account_id: Id,
        /// By what it is reached.
        pub key: String,
        /// The name of the file.
        pub name: String,
        /// Its size, in bytes.
        pub bytes: u64,
        /// What it is, as its sender said; may be empty.
        pub content_type: String,
        /// The stored file; empty until it has come.
        pub file: String,
        /// When the place was asked for.
        pub created_at: Timestamp,
    }
}

impl Upload {
    /// Whether its file may still come at `now`.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.file.is_empty() && now < self.created_at.plus_ms(OPEN_MS_MAX)
    }
}

/// `account` wants to send a file: a place for it. The oldest files of the account go where it has
/// too many.
///
/// # Errors
/// [`Error::Invalid`] with field `size` when it is too large, with other fields when name or type
/// are not acceptable; [`Error::TooMany`] when too many places wait for their files.
pub fn ask(tx: &mut Tx, env: &Env, account: Id, new: &New) -> Result<Upload, Error> {
    check(new)?;
    let now = env.clock.now();
    let open_since = now.plus_ms(-OPEN_MS_MAX);
    let open: Vec<Timestamp> = tx.column(
        "SELECT created_at FROM chat_uploads WHERE account_id = ?1 AND file = ''
           AND created_at > ?2 ORDER BY created_at LIMIT ?3",
        params![account, open_since, OPEN_MAX],
    )?;
    if let Some(first) = open.first().filter(|_| open.len() >= OPEN_MAX) {
        let wait_ms = first.plus_ms(OPEN_MS_MAX).as_ms() - now.as_ms();
        return Err(Error::TooMany { retry_after_s: (wait_ms.max(0) as u64).div_ceil(1_000) });
    }
    make_room(tx, env, account, new.bytes, open_since)?;
    let upload = Upload {
        id: env.ids.next(),
        account_id: account,
        key: env.random.token(KEY_BYTES),
        name: new.name.clone(),
        bytes: new.bytes,
        content_type: new.content_type.clone(),
        file: String::new(),
        created_at: now,
    };
    tx.run(
        "INSERT INTO chat_uploads (id, account_id, key, name, bytes, content_type, file, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, '', ?7)",
        params![
            upload.id,
            account,
            upload.key,
            upload.name,
            upload.bytes,
            upload.content_type,
            now
        ],
    )?;
    Ok(upload)
}

fn check(new: &New) -> Result<(), Error> {
    if new.bytes == 0 || new.bytes > FILE_BYTES_MAX {
        let most = format!("must be 1 to {FILE_BYTES_MAX} bytes");
        return Err(Error::invalid("size", "ERR_TOO_LONG", most));
    }
    let is_bad = |c: char| c.is_control() || c == '/' || c == '\\';
    let name = new.name.as_str();
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(is_bad) {
        return Err(Error::invalid("filename", "ERR_INVALID", "is not a plain file name"));
    }
    let kind = new.content_type.as_str();
    let fits = |b: u8| b.is_ascii_graphic() || b == b' ';
    if kind.len() > CONTENT_TYPE_BYTES_MAX || !kind.bytes().all(fits) {
        return Err(Error::invalid("content_type", "ERR_INVALID", "is not a media type"));
    }
    Ok(())
}

/// Lets go what did not come in time, and the oldest files where there are too many.
fn make_room(
    tx: &mut Tx,
    env: &Env,
    account: Id,
    bytes: u64,
    open_since: Timestamp,
) -> Result<(), Error> {
    tx.run(
        "DELETE FROM chat_uploads WHERE account_id = ?1 AND file = '' AND created_at <= ?2",
        params![account, open_since],
    )?;
    let (mut count, mut kept): (usize, i64) = tx.query_one(
        "SELECT count(*), CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM chat_uploads
         WHERE account_id = ?1",
        params![account],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let most = (KEPT_BYTES_MAX - bytes) as i64;
    if count < KEPT_MAX && kept <= most {
        return Ok(());
    }
    let oldest: Vec<Upload> = tx.records(
        "SELECT {} FROM chat_uploads WHERE account_id = ?1 AND file <> '' ORDER BY id LIMIT ?2",
        params![account, GONE_MAX],
    )?;
    let mut gone = Vec::new();
    for upload in oldest {
        if count < KEPT_MAX && kept <= most {
            break;
        }
        count -= 1;
        kept -= upload.bytes as i64;
        gone.push(upload);
    }
    forget(tx, env, gone)?;
    if count < KEPT_MAX && kept <= most {
        return Ok(());
    }
    // Many small files: a few tries more make room.
    Err(Error::TooMany { retry_after_s: 1 })
}

fn forget(tx: &mut Tx, env: &Env, gone: Vec<Upload>) -> Result<(), Error> {
    let list: Vec<Id> = gone.iter().map(|upload| upload.id).collect();
    tx.run("DELETE FROM chat_uploads WHERE id IN ids(?1)", &[ids(&list)])?;
    media::forget_files(tx, env, gone.into_iter().map(|upload| upload.file))
}

/// What is reached by `key`, with or without its file.
///
/// # Errors
/// The database's.
pub fn find(tx: &mut Tx, key: &str) -> Result<Option<Upload>, Error> {
    Ok(tx.record("SELECT {} FROM chat_uploads WHERE key = ?1", params![key])?)
}

/// The bytes of `upload` have come, and lie in `file` from now on; false when others came first, or
/// too much time has passed.
///
/// # Errors
/// The database's.
pub fn fill(tx: &mut Tx, env: &Env, upload: Id, file: &str) -> Result<bool, Error> {
    let open_since = env.clock.now().plus_ms(-OPEN_MS_MAX);
    let filled = tx.execute(
        "UPDATE chat_uploads SET file = ?2 WHERE id = ?1 AND file = '' AND created_at > ?3",
        params![upload, file, open_since],
    )?;
    if filled == 0 {
        media::forget_files(tx, env, [file.to_owned()])?;
    }
    Ok(filled > 0)
}

/// Keeps a file that came whole, once it is on the disk, and gives its stored name.
///
/// # Errors
/// [`Error::Upstream`] when it cannot be stored.
pub async fn keep(files: &Files, file: TempPath) -> Result<String, Error> {
    let store = files.store.clone();
    media::blocking(move || store.keep(file, "bin")).await
}

/// Takes some of the files of a deleted account away; false when there are none left.
pub(super) fn erase(tx: &mut Tx, env: &Env, account: Id) -> Result<bool, Error> {
    let some: Vec<Upload> = tx.records(
        "SELECT {} FROM chat_uploads WHERE account_id = ?1 ORDER BY id LIMIT ?2",
        params![account, GONE_MAX],
    )?;
    let is_some = !some.is_empty();
    if is_some {
        forget(tx, env, some)?;
    }
    Ok(is_some)
}
