//! Invitations.

use weir_base::{Id, Timestamp};
use weir_db::{Tx, params};

use super::{Role, by_account};
use crate::{Env, Error};

/// Invitations a person may have open.
const OPEN_MAX: i64 = 50;
/// How often one invitation may be used at most.
const USES_MAX: i64 = 1_000;

weir_db::record! {
    /// An invitation.
    #[derive(Debug, Clone)]
    pub struct Invite {
        /// Its id.
        pub id: Id,
        /// What stands in its link.
        pub code: String,
        /// Who invites.
        pub account_id: Id,
        /// How often it was used.
        pub uses: i64,
        /// How often it may be used; without limit when there is none.
        pub uses_max: Option<i64>,
        /// When it ends.
        pub expires_at: Option<Timestamp>,
        /// Whether the new person follows the one who invited.
        pub autofollow: bool,
    }
}

impl Invite {
    /// Whether it can be used at `now`.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.uses < self.uses_max.unwrap_or(i64::MAX)
            && self.expires_at.is_none_or(|expires_at| expires_at > now)
    }
}

/// How a new invitation is to be.
#[derive(Debug, Clone, Default)]
pub struct NewInvite {
    /// How often it may be used; without limit when there is none.
    pub uses_max: Option<i64>,
    /// How long it lasts, in s; for ever when there is none.
    pub expires_in_s: Option<i64>,
    /// Whether the new person follows the one who invited.
    pub autofollow: bool,
}

/// `by` invites.
///
/// # Errors
/// [`Error::Invalid`] when a number is out of range or too many invitations are open.
pub fn create_invite(tx: &mut Tx, env: &Env, by: Id, new: &NewInvite) -> Result<Invite, Error> {
    let now = env.clock.now();
    if new.uses_max.is_some_and(|uses| !(1..=USES_MAX).contains(&uses)) {
        let message = format!("must be 1 to {USES_MAX}");
        return Err(Error::invalid("uses_max", "ERR_INVALID", message));
    }
    if new.expires_in_s.is_some_and(|life_s| !(60..=366 * 86_400).contains(&life_s)) {
        return Err(Error::invalid("expires_in", "ERR_INVALID", "must be a year at most"));
    }
    let open = invites_of(tx, by)?.iter().filter(|invite| invite.is_open(now)).count();
    if open as i64 >= OPEN_MAX {
        let message = format!("can be {OPEN_MAX} at most; revoke some first");
        return Err(Error::invalid("invites", "ERR_TOO_MANY", message));
    }
    let expires_at = new.expires_in_s.map(|life_s| now.plus_ms(life_s.saturating_mul(1_000)));
    let invite = Invite {
        id: env.ids.next(),
        code: env.random.token(12),
        account_id: by,
        uses: 0,
        uses_max: new.uses_max,
        expires_at,
        autofollow: new.autofollow,
    };
    tx.run(
        "INSERT INTO invites (id, code, account_id, uses_max, expires_at, autofollow)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![invite.id, invite.code, by, invite.uses_max, invite.expires_at, invite.autofollow],
    )?;
    Ok(invite)
}

/// The invitations of a person, the newest first.
///
/// # Errors
/// The database's.
pub fn invites_of(tx: &mut Tx, account: Id) -> Result<Vec<Invite>, Error> {
    Ok(tx.records(
        "SELECT {} FROM invites WHERE account_id = ?1 ORDER BY id DESC LIMIT 200",
        params![account],
    )?)
}

/// Ends one of a person's invitations at once.
///
/// # Errors
/// [`Error::NotFound`] when it is not theirs.
pub fn revoke_invite(tx: &mut Tx, account: Id, id: Id) -> Result<(), Error> {
    let sql = "DELETE FROM invites WHERE id = ?1 AND account_id = ?2";
    match tx.execute(sql, params![id, account])? {
        0 => Err(Error::NotFound("Invite")),
        _ => Ok(()),
    }
}

/// The invitation with this code, if it can be used, and whether staff made it.
///
/// # Errors
/// The database's.
pub fn open_invite(tx: &mut Tx, env: &Env, code: &str) -> Result<Option<(Invite, bool)>, Error> {
    let found: Option<Invite> =
        tx.record("SELECT {} FROM invites WHERE code = ?1", params![code])?;
    let Some(invite) = found.filter(|invite| invite.is_open(env.clock.now())) else {
        return Ok(None);
    };
    let inviter = match by_account(tx, invite.account_id) {
        Ok(user) if user.approved && !user.disabled => user,
        Ok(_) | Err(Error::NotFound(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let staff = Role::parse(&inviter.role).is_some_and(|role| role >= Role::Moderator);
    Ok(Some((invite, staff)))
}

/// Uses the invitation of `by` with this code for `guest`, which is none for somebody of elsewhere;
/// who joined by it has used it already. False when it cannot be used, or is somebody else's.
///
/// # Errors
/// The database's.
pub fn use_invite_of(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    code: &str,
    guest: Option<Id>,
) -> Result<bool, Error> {
    let joined: Option<i64> = tx.value(
        "SELECT 1 FROM users u JOIN invites i ON i.id = u.invite_id
         WHERE u.account_id = ?1 AND i.code = ?2 AND i.account_id = ?3
           AND (i.expires_at IS NULL OR i.expires_at > ?4)",
        params![guest, code, by, env.clock.now()],
    )?;
    if joined.is_some() {
        return Ok(true);
    }
    match open_invite(tx, env, code)? {
        Some((invite, _)) if invite.account_id == by => use_invite(tx, invite.id),
        _ => Ok(false),
    }
}

/// Counts a use of the invitation; false when its last place was just taken.
pub(super) fn use_invite(tx: &mut Tx, id: Id) -> Result<bool, Error> {
    let used = tx.execute(
        "UPDATE invites SET uses = uses + 1
         WHERE id = ?1 AND (uses_max IS NULL OR uses < uses_max)",
        params![id],
    )?;
    Ok(used > 0)
}
