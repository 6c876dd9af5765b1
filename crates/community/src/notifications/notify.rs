//! Telling people what others did.

use std::collections::HashSet;

use weir_base::Id;
use weir_db::{ToValue, Tx, Value, ids};

use super::Kind;
use super::policy::{self, Treatment};
use crate::streams::{Event, Topic};
use crate::{Env, Error, push};

/// Hours that one group of notifications spans.
const GROUP_MS: i64 = 12 * 60 * 60 * 1_000;

/// That somebody did something, for one of those whom it concerns.
#[derive(Debug, Clone, Copy)]
pub struct Notice {
    /// Who may be told.
    pub to: Id,
    /// What happened.
    pub kind: Kind,
    /// Who did it.
    pub from: Id,
    /// With which post.
    pub status: Option<Id>,
}

/// Tells `to` that `from` did something, unless it is themselves, a remote account, somebody they
/// block or mute, or told already.
///
/// # Errors
/// The database's.
pub fn notify(
    tx: &mut Tx,
    env: &Env,
    to: Id,
    kind: Kind,
    from: Id,
    status: Option<Id>,
) -> Result<(), Error> {
    notify_each(tx, env, vec![Notice { to, kind, from, status }])
}

/// As [`notify`], many, by statements for all of them.
///
/// # Errors
/// The database's.
pub(crate) fn notify_each(tx: &mut Tx, env: &Env, notices: Vec<Notice>) -> Result<(), Error> {
    let notices: Vec<Notice> = notices
        .into_iter()
        .filter(|notice| notice.to != notice.from || notice.kind == Kind::Poll)
        .collect();
    let notices = wanted(tx, env, notices)?;
    let treatments = policy::treat_each(tx, env, &notices)?;
    let mut told: Vec<(Notice, Id, bool)> = Vec::new();
    for (notice, treatment) in notices.into_iter().zip(treatments) {
        if treatment != Treatment::Drop {
            told.push((notice, env.ids.next(), treatment == Treatment::Filter));
        }
    }
    let groups: Vec<String> = told.iter().map(|(notice, id, _)| group_key(notice, *id)).collect();
    let rows = told.iter().zip(&groups).map(|((notice, id, filtered), group)| {
        [
            id.to_value(),
            notice.to.to_value(),
            Value::Text(notice.kind.name().into()),
            notice.from.to_value(),
            Value::Int(notice.status.unwrap_or(Id::ZERO).0),
            group.to_value(),
            filtered.to_value(),
        ]
    });
    let mut inserted: HashSet<Id> = HashSet::new();
    tx.query_each(
        "INSERT INTO notifications (id, account_id, kind, from_account_id, status_id, group_key,
           filtered) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING RETURNING id",
        rows,
        |row| {
            inserted.insert(row.get(0)?);
            Ok(())
        },
    )?;
    let new = told.into_iter().filter(|(_, id, _)| inserted.contains(id));
    let mut pushed = Vec::new();
    for (notice, id, filtered) in new {
        if filtered {
            policy::request(tx, env, notice.to, notice.from, notice.status)?;
        } else {
            let event = Event::Notification { account: notice.to, id };
            env.streams.tell(tx, Topic::Own(notice.to), event);
            pushed.push((notice, id));
        }
    }
    push::enqueue_each(tx, env, &pushed)
}

/// Whether `to` is told what `from` says to them in private: as of a mention, though whoever is
/// `known` to them is no stranger.
pub(crate) fn is_told(
    tx: &mut Tx,
    env: &Env,
    to: Id,
    from: Id,
    known: bool,
) -> Result<bool, Error> {
    let wanted = wanted(tx, env, vec![Notice { to, kind: Kind::Mention, from, status: None }])?;
    if wanted.is_empty() || known {
        return Ok(!wanted.is_empty());
    }
    Ok(policy::treat_each(tx, env, &wanted)?.contains(&Treatment::Accept))
}

/// Those of `pairs`, of whom something in private is for and who wrote it, where the first is here
/// and wants to hear of the second at all; of whom staff limited, only if they are told of them.
pub(crate) fn heard_in_private(
    tx: &mut Tx,
    env: &Env,
    pairs: &[(Id, Id)],
) -> Result<HashSet<(Id, Id)>, Error> {
    if pairs.is_empty() {
        return Ok(HashSet::new());
    }
    let notice =
        |(to, from): &(Id, Id)| Notice { to: *to, kind: Kind::Mention, from: *from, status: None };
    let wanted = wanted(tx, env, pairs.iter().map(notice).collect())?;
    let writers: Vec<Id> = wanted.iter().map(|notice| notice.from).collect();
    let limited: Vec<Id> = tx.column(
        "SELECT id FROM accounts WHERE id IN ids(?1) AND silenced_at IS NOT NULL",
        &[ids(&writers)],
    )?;
    let (judged, free): (Vec<Notice>, Vec<Notice>) =
        wanted.into_iter().partition(|notice| limited.contains(&notice.from));
    let treatments = policy::treat_each(tx, env, &judged)?;
    let told = judged.into_iter().zip(treatments);
    let told = told.filter(|(_, treatment)| *treatment == Treatment::Accept);
    let heard = free.into_iter().chain(told.map(|(notice, _)| notice));
    Ok(heard.map(|notice| (notice.to, notice.from)).collect())
}

/// Those of `notices` whose receivers are local and want to hear of who did it at all.
fn wanted(tx: &mut Tx, env: &Env, notices: Vec<Notice>) -> Result<Vec<Notice>, Error> {
    let now = env.clock.now();
    let each = notices.iter().map(|notice| {
        let status = notice.status.unwrap_or(Id::ZERO);
        [notice.to.to_value(), notice.from.to_value(), now.to_value(), Value::Int(status.0)]
    });
    let mut answers = Vec::with_capacity(notices.len());
    tx.query_each(
        "SELECT (SELECT 1 FROM accounts t JOIN accounts f ON f.id = ?2
         WHERE t.id = ?1 AND t.domain = '' AND t.suspended_at IS NULL AND t.deleted_at IS NULL
           AND f.suspended_at IS NULL
           AND NOT EXISTS (SELECT 1 FROM blocks WHERE account_id = ?1 AND target_id = ?2)
           AND NOT EXISTS (SELECT 1 FROM mutes WHERE account_id = ?1 AND target_id = ?2
             AND notifications = 1 AND (expires_at IS NULL OR expires_at > ?3))
           AND NOT EXISTS (SELECT 1 FROM account_domain_blocks d WHERE d.account_id = ?1
             AND d.domain = f.domain AND f.domain <> '')
           AND NOT EXISTS (SELECT 1 FROM conversation_mutes m JOIN statuses s
             ON s.conversation_id = m.conversation_id WHERE m.account_id = ?1 AND s.id = ?4))",
        each,
        |row| {
            answers.push(row.get::<Option<i64>>(0)?.is_some());
            Ok(())
        },
    )?;
    let wanted = notices.into_iter().zip(answers).filter_map(|(one, wanted)| wanted.then_some(one));
    Ok(wanted.collect())
}

/// What notifications are shown together by.
pub(super) fn group_key(notice: &Notice, id: Id) -> String {
    let Notice { kind, status, .. } = notice;
    if !kind.is_grouped() {
        return format!("ungrouped-{id}");
    }
    let span = id.time().as_ms() / GROUP_MS;
    match status {
        Some(status) => format!("{}-{status}-{span}", kind.name()),
        None => format!("{}-{span}", kind.name()),
    }
}
