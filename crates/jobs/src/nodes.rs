//! The processes that work on one database: who is alive, and who leads.
//!
//! Each has a row in `jobs_nodes` whose `beat` it raises every [`NodeOptions::beat`]. A node whose
//! beat another has seen unchanged for [`NodeOptions::lease`], by its own monotonic clock, is
//! taken for dead: its row goes, and what it held is free. So no clock of any machine is compared
//! with another's, and one that jumps does nothing. What is held stands in `jobs_leases`. Time in
//! which this node could not look itself, as while the database was away, is nobody's silence.
//!
//! A node that was only paused finds its row gone. It learns of it before it acts, since whatever
//! may be done by one node alone asks in its own transaction ([`Nodes::is_leader`]), and it comes
//! back as a new node.
//!
//! On PostgreSQL the nodes share the lanes evenly, by leases of slots ([`crate::slots`]).
//! On SQLite one process has the database: the last that started. It holds everything at once.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use weir_base::Id;
use weir_db::{Class, Dialect, Error, Tx, params};

use crate::Jobs;
use crate::directory::Directory;
use crate::dispatch::AGAIN_AFTER;
use crate::jobs::Inner;
use crate::slots::{self, SLOTS, Slot, Slots, each};
use crate::views::View;

/// The lease of the node that promotes what is due and starts periodic jobs.
const LEADER: &str = "leader";

/// How nodes that share a PostgreSQL notice each other's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeOptions {
    /// How often a node says that it lives.
    pub beat: Duration,
    /// A node that said nothing for so long is taken for dead; several times `beat`.
    pub lease: Duration,
    /// So long the jobs that wait beside one that runs stand still at most, when another node came
    /// that is to have them.
    pub patience: Duration,
}

impl Default for NodeOptions {
    /// A beat every 2 s, a lease of 8 s, 30 s of patience.
    fn default() -> Self {
        let [beat, lease, patience] = [2, 8, 30].map(Duration::from_secs);
        Self { beat, lease, patience }
    }
}

impl Jobs {
    /// Names where this process runs on its machine, such as its data directory, of which there is
    /// one at a time. What an earlier process of the same place held is this one's from its first
    /// beat on, whether that one was killed or lives: then it is as one that was silent for too
    /// long. To be called before the workers start, once.
    pub fn set_place(&self, path: &str) {
        let place = format!("{}:{path}", hostname());
        // Called twice, the first stays.
        let _ = self.inner.nodes.place.set(place.replace('\0', "\u{FFFD}"));
    }
}

/// What the machine is called.
pub(crate) fn hostname() -> String {
    let read =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
    read.map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned())
}

/// This process among the nodes.
pub(crate) struct Nodes {
    options: NodeOptions,
    /// What takes the leases of an earlier process over.
    place: OnceLock<String>,
    state: Mutex<State>,
    /// Held while what a look found is added, and while slots go: one is whole before the other.
    moving: Mutex<()>,
}

#[derive(Default)]
struct State {
    me: Option<Id>,
    leads: bool,
    slots: Slots,
    /// Others, with the beat that was seen and since when.
    others: HashMap<Id, (i64, Instant)>,
    /// When they were looked at last.
    looked_at: Option<Instant>,
}

/// What a turn of the heart found.
struct Found {
    me: Id,
    leads: bool,
    /// Slots that are leased by this node.
    leased: u64,
    others: Vec<(Id, i64)>,
}

impl Nodes {
    pub(crate) fn new(options: NodeOptions) -> Self {
        Self { options, place: OnceLock::new(), state: Mutex::default(), moving: Mutex::default() }
    }

    /// This node, once it is one.
    pub(crate) fn me(&self) -> Option<Id> {
        self.state.lock().me
    }

    /// Whether this is a node, and knows the rows of all that it leases.
    pub(crate) fn is_settled(&self) -> bool {
        let state = self.state.lock();
        state.me.is_some() && state.slots.mask(Slot::Gained) == 0
    }

    /// Whether this is the only node as well.
    pub(crate) fn knows_all(&self) -> bool {
        self.is_settled() && self.state.lock().others.is_empty()
    }

    /// The slots to look for news of, and those to read whole. Of what this node held before it
    /// was silent for too long jobs may run still: those are read when they ended.
    pub(crate) fn to_look_at(&self, directory: &Directory) -> (u64, u64) {
        let state = self.state.lock();
        let (known, gained) = (state.slots.known(), state.slots.mask(Slot::Gained));
        drop(state);
        (known, directory.quiet(gained))
    }

    /// Hands what was read of `known` and `gained` to `add`, if it is still this node's.
    pub(crate) fn loaded(&self, known: u64, gained: u64, add: impl FnOnce(u64)) {
        let _whole = self.moving.lock();
        let mut state = self.state.lock();
        let now_gained = gained & state.slots.mask(Slot::Gained);
        let known = now_gained | (known & state.slots.known());
        state.slots.set(now_gained, Slot::Held);
        drop(state);
        add(known);
    }

    /// Forgets the leaving slots of which nothing runs, before others may have them; tells which.
    /// Those that it fails to give back are read anew.
    fn let_go(&self, directory: &Directory) -> u64 {
        let _whole = self.moving.lock();
        let mut state = self.state.lock();
        let left = directory.quiet(state.slots.mask(Slot::Leaving));
        state.slots.set(left, Slot::Away);
        directory.abandon(left);
        left
    }

    /// Whether this node led when it last looked: what it does as leader asks
    /// [`is_leader`](Self::is_leader).
    pub(crate) fn leads(&self) -> bool {
        self.state.lock().leads
    }

    /// Whether this node leads, in the transaction that needs it: that and a change of the leader
    /// exclude each other.
    pub(crate) fn is_leader(&self, tx: &mut Tx) -> Result<bool, Error> {
        let Some(me) = self.state.lock().me else { return Ok(false) };
        let sql = "UPDATE jobs_leases SET node = node WHERE name = ?1 AND node = ?2";
        Ok(tx.execute(sql, params![LEADER, me])? == 1)
    }

    /// This node was found not to lead.
    pub(crate) fn deposed(&self, dialect: Dialect) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.leads) && dialect == Dialect::Sqlite {
            tracing::error!("another process works on this SQLite database: stop one of them");
        }
    }

    /// Whether this node looked at the others lately. While the database is away they cannot beat
    /// either: the first that is back would take all of them for dead.
    fn looks(&self, state: &State, now: Instant) -> bool {
        let gap_max = self.options.lease / 2;
        state.looked_at.is_some_and(|at| now.duration_since(at) <= gap_max)
    }

    /// Those whose beat stood still for a lease, at `now`.
    fn dead(&self, now: Instant) -> Vec<(Id, i64)> {
        let state = self.state.lock();
        if !self.looks(&state, now) {
            return Vec::new();
        }
        let silent = |since: &Instant| now.duration_since(*since) >= self.options.lease;
        let dead = state.others.iter().filter(|(_, (_, since))| silent(since));
        dead.map(|(node, (beat, _))| (*node, *beat)).collect()
    }

    /// Notes what was found, at `now`; true when this node begins to lead.
    fn saw(&self, directory: &Directory, found: Found, now: Instant) -> bool {
        let _whole = self.moving.lock();
        let mut state = self.state.lock();
        let mut lost = !found.leased & !state.slots.mask(Slot::Away);
        if state.me != Some(found.me) {
            // What it held was another's meanwhile.
            lost = !state.slots.mask(Slot::Away);
        }
        state.slots.set(lost, Slot::Away);
        let gained = found.leased & state.slots.mask(Slot::Away);
        state.slots.set(gained, Slot::Gained);
        let share = SLOTS.div_ceil(found.others.len() + 1);
        directory.abandon(lost);
        state.slots.shed(share, self.options.patience, now);
        directory.hold_back(state.slots.mask(Slot::Leaving));
        metrics::gauge!("weir_jobs_leased_slots").set(state.slots.leased() as f64);
        let looks = self.looks(&state, now);
        let mut before = std::mem::take(&mut state.others);
        for (node, beat) in found.others {
            let seen = before.remove(&node).filter(|(last, _)| looks && *last == beat);
            state.others.insert(node, seen.unwrap_or((beat, now)));
        }
        state.looked_at = Some(now);
        metrics::gauge!("weir_jobs_nodes").set(state.others.len() as f64 + 1.0);
        if state.me.is_some_and(|me| me != found.me) {
            tracing::warn!("this process was silent for too long: it begins anew");
        }
        state.me = Some(found.me);
        found.leads && !std::mem::replace(&mut state.leads, found.leads)
    }
}

/// Keeps this process among the nodes until `leave` says that all its work ended, or until `stop`
/// when nobody will say.
pub(crate) async fn run(
    inner: Arc<Inner>,
    stop: CancellationToken,
    mut leave: oneshot::Receiver<()>,
) {
    let nodes = &inner.nodes;
    let mut dropped = false;
    loop {
        let mut wait = nodes.options.beat;
        match turn(&inner).await {
            Ok(Some(found)) => {
                inner.outage.answered();
                if nodes.saw(&inner.directory, found, Instant::now()) {
                    inner.later.due(inner.clock.now());
                    inner.later.wake.notify_one();
                }
                inner.news.wake.notify_one();
            }
            Ok(None) => nodes.deposed(Dialect::Sqlite),
            Err(error) => {
                inner.outage.failed("this node cannot say that it lives", &error);
                wait = wait.min(AGAIN_AFTER);
            }
        }
        // On SQLite nobody listens.
        let silent = inner.db.dialect() == Dialect::Sqlite && nodes.leads();
        tokio::select! {
            () = tokio::time::sleep(wait), if !silent => {}
            left = &mut leave, if !dropped => match left {
                Ok(()) => return goodbye(&inner).await,
                Err(_) => dropped = true,
            },
            () = stop.cancelled(), if dropped => return,
        }
    }
}

/// Says that this node lives, and takes what the dead held; none when another process took the
/// SQLite database.
async fn turn(inner: &Arc<Inner>) -> Result<Option<Found>, Error> {
    let (me, left) = (inner.nodes.me(), inner.nodes.let_go(&inner.directory));
    let (fresh, dead) = (inner.ids.next(), inner.nodes.dead(Instant::now()));
    let place = inner.nodes.place.get().cloned().unwrap_or_default();
    let view = match inner.db.dialect() {
        Dialect::Sqlite => String::new(),
        Dialect::Postgres => View::of(inner),
    };
    let turn = move |tx: &mut Tx| {
        let Some(me) = register(tx, me, fresh, &place, &view)? else { return Ok(None) };
        for (node, beat) in &dead {
            let sql = "DELETE FROM jobs_nodes WHERE node = ?1 AND beat = ?2";
            tx.run(sql, params![node, beat])?;
        }
        let leads = take(tx, LEADER, me)?;
        let others: Vec<(Id, i64)> = tx.query(
            "SELECT node, beat FROM jobs_nodes WHERE node <> ?1 ORDER BY node",
            params![me],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let leased = match tx.dialect() {
            Dialect::Sqlite => 0,
            Dialect::Postgres => lease_slots(tx, me, left, SLOTS.div_ceil(others.len() + 1))?,
        };
        Ok::<_, Error>(Some(Found { me, leads, leased, others }))
    };
    inner.db.write(Class::Interactive, turn).await
}

fn register(
    tx: &mut Tx,
    me: Option<Id>,
    fresh: Id,
    place: &str,
    view: &str,
) -> Result<Option<Id>, Error> {
    if let Some(me) = me {
        let sql = "UPDATE jobs_nodes SET beat = beat + 1, view = ?2 WHERE node = ?1";
        if tx.execute(sql, params![me, view])? == 1 {
            return Ok(Some(me));
        }
        if tx.dialect() == Dialect::Sqlite {
            return Ok(None);
        }
    }
    if tx.dialect() == Dialect::Sqlite {
        tx.run("DELETE FROM jobs_nodes", &[])?;
    }
    // Who was here before is gone: its leases change hands in one step, so nobody else takes them.
    let gone = "DELETE FROM jobs_nodes WHERE place = ?1 AND place <> '' RETURNING node";
    for before in tx.column::<Id>(gone, params![place])? {
        let sql = "UPDATE jobs_leases SET node = ?1 WHERE node = ?2";
        tx.run(sql, params![fresh, before])?;
    }
    let sql = "INSERT INTO jobs_nodes (node, beat, place, view) VALUES (?1, 0, ?2, ?3)";
    tx.run(sql, params![fresh, place, view])?;
    Ok(Some(fresh))
}

/// Gives the slots of `left` back and takes what is free, up to `share`; tells what is leased.
fn lease_slots(tx: &mut Tx, me: Id, left: u64, share: usize) -> Result<u64, Error> {
    for at in each(left) {
        let sql = "DELETE FROM jobs_leases WHERE name = ?1 AND node = ?2";
        tx.run(sql, params![slots::lease(at), me])?;
    }
    let held: Vec<(String, Id)> = tx.query(
        "SELECT l.name, l.node FROM jobs_leases l JOIN jobs_nodes n ON n.node = l.node
         ORDER BY l.name",
        &[],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let holder = |at| held.iter().find(|(name, _)| *name == slots::lease(at)).map(|it| it.1);
    let mine: u64 = (0..SLOTS).filter(|at| holder(*at) == Some(me)).map(|at| 1 << at).sum();
    let room = share.saturating_sub(mine.count_ones() as usize);
    let mut leased = mine;
    // What was just given back is for others.
    let free = (0..SLOTS).filter(|at| holder(*at).is_none() && left >> at & 1 == 0);
    for at in free.take(room) {
        if take(tx, &slots::lease(at), me)? {
            leased |= 1 << at;
        }
    }
    Ok(leased)
}

/// Takes lease `name` if nobody alive holds it; true when `me` has it.
fn take(tx: &mut Tx, name: &str, me: Id) -> Result<bool, Error> {
    let holder: Option<(Id, Option<Id>)> = tx.query_opt(
        "SELECT l.node, n.node FROM jobs_leases l LEFT JOIN jobs_nodes n ON n.node = l.node
         WHERE l.name = ?1",
        params![name],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let sql = match holder {
        Some((_, Some(alive))) => return Ok(alive == me),
        Some((_, None)) => "UPDATE jobs_leases SET node = ?1 WHERE name = ?2",
        None => "INSERT INTO jobs_leases (node, name) VALUES (?1, ?2)",
    };
    Ok(tx.execute(sql, params![me, name])? == 1)
}

/// Gives up all that this node holds.
async fn goodbye(inner: &Arc<Inner>) {
    let Some(me) = inner.nodes.state.lock().me.take() else { return };
    let leave = move |tx: &mut Tx| {
        tx.run("DELETE FROM jobs_leases WHERE node = ?1", params![me])?;
        tx.run("DELETE FROM jobs_nodes WHERE node = ?1", params![me])?;
        Ok::<_, Error>(())
    };
    if let Err(error) = inner.db.write(Class::Interactive, leave).await {
        tracing::warn!(%error, "this node ends without goodbye: others notice after a while");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn found(beat: i64) -> Found {
        Found { me: Id(1), leads: false, leased: 0, others: vec![(Id(2), beat)] }
    }

    #[test]
    fn who_is_silent_for_a_lease_is_dead() {
        let (nodes, directory) = (Nodes::new(NodeOptions::default()), Directory::default());
        let begin = Instant::now();
        for at in 0..4 {
            let now = begin + 2 * at * SECOND;
            assert_eq!(nodes.dead(now), []);
            nodes.saw(&directory, found(7), now);
        }
        assert_eq!(nodes.dead(begin + 8 * SECOND), [(Id(2), 7)]);
    }

    #[test]
    fn nobody_is_dead_for_what_this_node_could_not_see() {
        let (nodes, directory) = (Nodes::new(NodeOptions::default()), Directory::default());
        let begin = Instant::now();
        nodes.saw(&directory, found(7), begin);
        // The database was away; or the turn itself had to wait for it.
        let back = begin + 20 * SECOND;
        assert_eq!(nodes.dead(back), []);
        nodes.saw(&directory, found(7), back);
        for at in 1..4 {
            let now = back + 2 * at * SECOND;
            assert_eq!(nodes.dead(now), [], "it has a lease to come back");
            nodes.saw(&directory, found(7), now);
        }
        assert_eq!(nodes.dead(back + 8 * SECOND), [(Id(2), 7)], "it did not");
    }
}
