//! The handle: opening and enqueueing.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use weir_base::{Clock, Id, IdGenerator, Random, Timestamp};
use weir_db::{Class, Db, Dialect, Owned, Tx, params};

use crate::cursors::Cursors;
use crate::directory::{Directory, QueueState};
use crate::endings::Totals;
use crate::hand::Hand;
use crate::history::{self, History};
use crate::hooks::{Enqueuing, Hooks};
use crate::inspect::Readable;
use crate::journal::Journal;
use crate::later::Later;
use crate::load::DatabaseTimes;
use crate::news::{self, News};
use crate::nodes::Nodes;
use crate::outage::Outage;
use crate::registry::Periodic;
use crate::rows;
use crate::rows::{Claim, NewRow};
use crate::running::Running;
use crate::suspects::Trial;
use crate::{Error, Job, NodeOptions, Unique, schema, sidekiq, unique};

/// The longest fairness key, in bytes.
const LANE_BYTES_MAX: usize = 255;
/// Rows that one statement counts at the start.
const KINDS_COUNTED_MAX: u64 = 100_000;
/// What is made ready for a payload, in bytes; it grows where that is too little.
const PAYLOAD_BYTES_USUAL: usize = 256;
/// The largest payload, in bytes.
const PAYLOAD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The engine's handle; clones share it.
#[derive(Clone)]
pub struct Jobs {
    pub(crate) inner: Arc<Inner>,
}

/// Jobs of one type that only have to be written; see [`Jobs::pack`]. A transaction that is
/// repeated writes them again under new ids.
pub struct Packed<J> {
    rows: Vec<NewRow>,
    /// Where they stand in `rows`, lane by lane.
    by_lane: Vec<u32>,
    /// The jobs as they will be taken, if they are to be kept in hand.
    in_hand: Vec<Claim>,
    of: PhantomData<fn(J)>,
}

pub(crate) struct Inner {
    /// Nobody else has the jobs of a SQLite database meanwhile.
    _owned: Owned,
    pub(crate) db: Db,
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) ids: IdGenerator,
    pub(crate) directory: Directory,
    pub(crate) hand: Hand,
    pub(crate) later: Later,
    pub(crate) nodes: Nodes,
    pub(crate) news: News,
    /// What the registry plans, once the workers run.
    pub(crate) periodic: OnceLock<Vec<Arc<Periodic>>>,
    pub(crate) totals: Totals,
    pub(crate) history: History,
    pub(crate) database_times: DatabaseTimes,
    /// From the end of a task until that is durable.
    pub(crate) ack_seconds: metrics::Histogram,
    /// Whether the database answers.
    pub(crate) outage: Outage,
    /// Memory that the process should stay within, in bytes; 0 when nobody said.
    pub(crate) memory_budget: AtomicU64,
    pub(crate) running: Running,
    pub(crate) cursors: Cursors,
    pub(crate) hooks: Hooks,
    /// How payloads read that are not kept as people read them, by kind and by class.
    pub(crate) readable: Mutex<BTreeMap<&'static str, Readable>>,
    /// Where it is written down what runs, if it is.
    pub(crate) journal: OnceLock<Arc<Journal>>,
    /// What is tried alone before the others start.
    pub(crate) trials: Mutex<Vec<Trial>>,
    /// Take nothing any more.
    pub(crate) quiet: AtomicBool,
    /// The kinds that have a handler, once the workers run.
    pub(crate) kinds: OnceLock<BTreeSet<&'static str>>,
    /// What rows held at the start: queue, kind, count.
    pub(crate) found: OnceLock<Vec<(String, String, u64)>>,
    /// Where jobs go, once the workers run on Redis.
    pub(crate) redis: OnceLock<Arc<sidekiq::Shared>>,
    /// On PostgreSQL, for each class, held while a batch of its units is written: side by side they
    /// would wait for each other's rows, and be repeated for them.
    pub(crate) units: [tokio::sync::Mutex<()>; Class::ALL.len()],
}

impl Jobs {
    /// Brings the engine's tables up to date and, on SQLite, reads which lanes hold jobs, by one
    /// query over the clustered index; on PostgreSQL that is read as this node gets lanes to work
    /// on. Blocks the calling thread meanwhile.
    ///
    /// # Errors
    /// [`Error::Db`], which on SQLite is [`weir_db::Error::Owned`] while another process has its
    /// jobs open: what waits is known to one of them only.
    pub fn open(db: Db, clock: Clock, random: Random) -> Result<Jobs, Error> {
        Self::open_as(db, clock, random, NodeOptions::default())
    }

    /// As [`open`](Self::open), with other times after which nodes notice each other's end.
    ///
    /// # Errors
    /// [`Error::Db`].
    pub fn open_as(
        db: Db,
        clock: Clock,
        random: Random,
        options: NodeOptions,
    ) -> Result<Jobs, Error> {
        let inner = Inner {
            _owned: db.own(schema::PART)?,
            ids: IdGenerator::new(clock.clone(), random.clone()),
            db,
            clock,
            random,
            directory: Directory::default(),
            hand: Hand::default(),
            later: Later::new(),
            nodes: Nodes::new(options),
            news: News::default(),
            periodic: OnceLock::new(),
            totals: Totals::default(),
            history: History::default(),
            database_times: DatabaseTimes::default(),
            ack_seconds: metrics::histogram!("weir_jobs_ack_seconds"),
            outage: Outage::of_database(),
            memory_budget: AtomicU64::new(0),
            running: Running::default(),
            cursors: Cursors::default(),
            hooks: Hooks::default(),
            readable: Mutex::default(),
            journal: OnceLock::new(),
            trials: Mutex::default(),
            quiet: AtomicBool::new(false),
            kinds: OnceLock::new(),
            found: OnceLock::new(),
            redis: OnceLock::new(),
            units: std::array::from_fn(|_| tokio::sync::Mutex::new(())),
        };
        inner.load()?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Enqueues `job` in the caller's transaction: it runs if, and only after, that commits. If
    /// another keeps it away ([`Job::UNIQUE`]), nothing is done and that one's id is given.
    ///
    /// # Errors
    /// What the database says. A payload above 4 MiB, and once the workers run a kind without a
    /// handler, are refused as [`weir_db::Error::Statement`].
    pub fn enqueue<J: Job>(&self, tx: &mut Tx, job: &J) -> Result<Id, weir_db::Error> {
        self.put(tx, job, None, None)
    }

    /// Enqueues `jobs`, in their order, many rows a statement.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn enqueue_many<J: Job>(&self, tx: &mut Tx, jobs: &[J]) -> Result<(), weir_db::Error> {
        self.put_many(tx, jobs, None, None).map(|_| ())
    }

    /// Makes `jobs` ready to be enqueued: what takes time and needs no transaction is done here,
    /// on the caller's thread, and not on the one thread that writes to SQLite. Hooks on
    /// enqueueing run here.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn pack<J: Job>(&self, jobs: &[J]) -> Result<Packed<J>, weir_db::Error> {
        let row = |job| self.row(job, None, None);
        let rows = jobs.iter().map(row).collect::<Result<Vec<_>, _>>()?;
        let mut by_lane: Vec<u32> = (0..).take(rows.len()).collect();
        by_lane.sort_by(|one, other| rows[*one as usize].lane.cmp(&rows[*other as usize].lane));
        Ok(Packed { rows, by_lane, in_hand: Vec::new(), of: PhantomData })
    }

    /// As [`pack`](Self::pack), of units that will be worked soon: once they are enqueued they are
    /// kept in memory besides, as far as there is room, and their handler gets a copy of what is
    /// given here, with what it holds beside its payload, instead of what their rows say.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn pack_in_hand<J: Job + Clone>(&self, jobs: Vec<J>) -> Result<Packed<J>, weir_db::Error> {
        let mut packed = self.pack(&jobs)?;
        // A hook may have changed what the rows say, and on Redis others take the jobs.
        if !self.inner.hooks.any() && self.inner.redis.get().is_none() {
            let jobs = packed.rows.iter().zip(jobs);
            packed.in_hand = jobs.map(|(row, job)| row.claim(Arc::new(job))).collect();
        }
        Ok(packed)
    }

    /// Enqueues what was packed, as [`enqueue_many`](Self::enqueue_many) does: the jobs wait from
    /// now on.
    ///
    /// # Errors
    /// What the database says.
    pub fn enqueue_packed<J: Job>(
        &self,
        tx: &mut Tx,
        packed: &mut Packed<J>,
    ) -> Result<(), weir_db::Error> {
        if packed.rows.is_empty() {
            return Ok(());
        }
        let now = self.inner.clock.now();
        let ids = self.inner.ids.next_many(packed.rows.len());
        for (row, id) in packed.rows.iter_mut().zip(ids) {
            // In the order of commits, and their time runs from here.
            row.id = id;
            row.enqueued_at = now;
            row.expires_at = expires_at::<J>(now);
        }
        if J::UNIQUE != Unique::No {
            let rows = self.not_kept_away::<J>(tx, packed.rows.clone())?;
            return self.insert(tx, rows);
        }
        rows::insert_ready(tx, &packed.rows)?;
        if !packed.in_hand.is_empty() {
            // Before anybody can be told of them, so that what was taken is never held afterwards.
            // If this is not committed nobody asks for these ids.
            let claims = std::mem::take(&mut packed.in_hand);
            let rows = packed.rows.iter().zip(claims);
            self.inner.hand.hold(rows.map(|(row, claim)| row.enqueued(claim)));
        }
        let by_lane = packed.by_lane.iter().map(|at| &packed.rows[*at as usize]);
        self.tell_added(tx, by_lane.map(|row| (row.queue, row.lane.clone(), row.id)).collect());
        Ok(())
    }

    /// Enqueues `job` to become ready at `at` (now, when that has passed). What becomes ready
    /// together runs, within a lane, in order of id.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn enqueue_at<J: Job>(
        &self,
        tx: &mut Tx,
        at: Timestamp,
        job: &J,
    ) -> Result<Id, weir_db::Error> {
        self.put(tx, job, Some(at), None)
    }

    /// Enqueues `jobs`, in their order, to become ready at `at` (now, when that has passed), many
    /// rows a statement.
    ///
    /// # Errors
    /// As [`enqueue`](Self::enqueue).
    pub fn enqueue_many_at<J: Job>(
        &self,
        tx: &mut Tx,
        at: Timestamp,
        jobs: &[J],
    ) -> Result<(), weir_db::Error> {
        self.put_many(tx, jobs, Some(at), None).map(|_| ())
    }

    /// Writes `job`, and gives its id, or that of the one which keeps it away.
    pub(crate) fn put<J: Job>(
        &self,
        tx: &mut Tx,
        job: &J,
        at: Option<Timestamp>,
        batch_id: Option<Id>,
    ) -> Result<Id, weir_db::Error> {
        let row = self.row(job, at, batch_id)?;
        let id = row.id;
        if let Some(other) = self.kept_away_by::<J>(tx, &row)? {
            return Ok(other);
        }
        match at {
            Some(at) => self.insert_at(tx, at, vec![row])?,
            None => self.insert_one(tx, row)?,
        }
        Ok(id)
    }

    /// Writes `jobs` but for those that others keep away, and tells how many.
    pub(crate) fn put_many<J: Job>(
        &self,
        tx: &mut Tx,
        jobs: &[J],
        at: Option<Timestamp>,
        batch_id: Option<Id>,
    ) -> Result<usize, weir_db::Error> {
        let row = |job| self.row(job, at, batch_id);
        let rows = jobs.iter().map(row).collect::<Result<Vec<_>, _>>()?;
        let rows = self.not_kept_away::<J>(tx, rows)?;
        let count = rows.len();
        match at {
            Some(at) => self.insert_at(tx, at, rows)?,
            None => self.insert(tx, rows)?,
        }
        Ok(count)
    }

    /// Those of `rows` whose keys are free; they are taken.
    fn not_kept_away<J: Job>(
        &self,
        tx: &mut Tx,
        rows: Vec<NewRow>,
    ) -> Result<Vec<NewRow>, weir_db::Error> {
        if J::UNIQUE == Unique::No {
            return Ok(rows);
        }
        let mut free = Vec::with_capacity(rows.len());
        for row in rows {
            if self.kept_away_by::<J>(tx, &row)?.is_none() {
                free.push(row);
            }
        }
        Ok(free)
    }

    /// Takes the key of a job whose type is unique; gives the id of the job that has it, if any.
    fn kept_away_by<J: Job>(
        &self,
        tx: &mut Tx,
        row: &NewRow,
    ) -> Result<Option<Id>, weir_db::Error> {
        match &row.unique_key {
            Some(key) if J::UNIQUE != Unique::No => {
                unique::take(tx, J::UNIQUE, key, row.id, self.inner.clock.now())
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn insert_at(
        &self,
        tx: &mut Tx,
        at: Timestamp,
        rows: Vec<NewRow>,
    ) -> Result<(), weir_db::Error> {
        if at <= self.inner.clock.now() {
            return self.insert(tx, rows);
        }
        rows::insert_later(tx, at, rows::State::Scheduled, None, &rows)?;
        let inner = self.inner.clone();
        tx.after_commit(move || inner.later.due(at));
        Ok(())
    }

    /// As [`insert`](Self::insert), with nothing made for a list: most are enqueued one by one.
    fn insert_one(&self, tx: &mut Tx, row: NewRow) -> Result<(), weir_db::Error> {
        rows::insert_ready(tx, std::slice::from_ref(&row))?;
        let (inner, NewRow { queue, lane, id, .. }) = (self.inner.clone(), row);
        tx.after_commit(move || inner.added_one(queue, &lane, id));
        Ok(())
    }

    pub(crate) fn insert(&self, tx: &mut Tx, rows: Vec<NewRow>) -> Result<(), weir_db::Error> {
        rows::insert_ready(tx, &rows)?;
        self.tell_added(tx, rows.into_iter().map(|row| (row.queue, row.lane, row.id)).collect());
        Ok(())
    }

    fn tell_added(&self, tx: &mut Tx, mut added: Vec<(&'static str, Arc<str>, Id)>) {
        let inner = self.inner.clone();
        tx.after_commit(move || {
            // Lane by lane; here, since the thread that writes has more to do.
            added.sort();
            inner.added(&added, None);
        });
    }

    pub(crate) fn row<J: Job>(
        &self,
        job: &J,
        at: Option<Timestamp>,
        batch_id: Option<Id>,
    ) -> Result<NewRow, weir_db::Error> {
        let refuse = |reason: String| weir_db::Error::Statement {
            reason: format!("a job of kind {}: {reason}", J::KIND),
            sql: "enqueue".into(),
        };
        if self.inner.kinds.get().is_some_and(|kinds| !kinds.contains(J::KIND)) {
            return Err(refuse("no handler is registered for it".into()));
        }
        // Most fit into so much from the beginning.
        let mut json = Vec::with_capacity(PAYLOAD_BYTES_USUAL);
        serde_json::to_writer(&mut json, job).map_err(|error| refuse(error.to_string()))?;
        let mut payload = String::from_utf8(json).map_err(|error| refuse(error.to_string()))?;
        let name = job.lane();
        let mut lane: Arc<str> = lane_name(&name).into();
        if self.inner.hooks.any() {
            let (kind, queue, mut shown_lane) = (J::KIND, J::QUEUE.name, lane.to_string());
            let shown = Enqueuing { kind, queue, lane: &mut shown_lane, payload: &mut payload };
            self.inner.hooks.enqueuing(shown).map_err(refuse)?;
            lane = lane_name(&shown_lane).into();
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(refuse(format!("its payload is larger than {PAYLOAD_BYTES_MAX} bytes")));
        }
        let now = self.inner.clock.now();
        let key = if J::UNIQUE == Unique::No { None } else { job.unique_key() };
        Ok(NewRow {
            queue: J::QUEUE.name,
            lane,
            id: self.inner.ids.next(),
            kind: J::KIND,
            enqueued_at: now,
            unique_key: key.map(|key| format!("{}:{key}", J::KIND).replace('\0', "\u{FFFD}")),
            payload,
            batch_id,
            expires_at: expires_at::<J>(at.map_or(now, |at| at.max(now))),
        })
    }
}

/// Brings the tables of jobs in `db` up to date, as [`Jobs::open`] does.
///
/// # Errors
/// The database's.
pub fn migrate(db: &Db) -> Result<(), Error> {
    db.migrate(schema::PART, schema::MIGRATIONS)?;
    db.migrate(history::PART, history::MIGRATIONS)?;
    Ok(db.migrate(sidekiq::seen::PART, sidekiq::seen::MIGRATIONS)?)
}

/// When a job that is ready from `ready_at` on is not to be run any more.
fn expires_at<J: Job>(ready_at: Timestamp) -> Option<Timestamp> {
    J::EXPIRES_AFTER_MS.map(|ms| ready_at.plus_ms(ms.max(0)))
}

impl Inner {
    fn load(&self) -> Result<(), Error> {
        migrate(&self.db)?;
        if self.db.dialect() == Dialect::Postgres {
            self.db.write_blocking(Class::Interactive, news::forget_foreign_numbers)?;
        }
        let loaded = self.db.read_blocking(Class::Interactive, load)?;
        for (queue, _) in loaded.kinds.keys() {
            self.directory.queue(queue);
        }
        let found = loaded.later.into_iter().chain(loaded.kinds);
        let found = found.map(|((queue, kind), count)| (queue, kind, count)).collect();
        for ((queue, lane), (ids, ready_ms)) in loaded.lanes {
            self.directory.queue(&queue).turns.lock().found(&lane, &ids, ready_ms);
        }
        for queue in loaded.paused {
            self.directory.queue(&queue).paused.store(true, Ordering::Relaxed);
        }
        for (queue, limit) in loaded.limits {
            self.directory.queue(&queue).limit_by_hand.store(limit, Ordering::Relaxed);
        }
        if let Some(at) = loaded.next_due {
            self.later.due(at);
        }
        self.later.died(loaded.dead);
        let _ = self.found.set(found);
        Ok(())
    }

    /// Whether job `id` waits, as far as is known here. On PostgreSQL the lane may be another
    /// node's: then nobody here can say that it runs.
    pub(crate) fn waits(&self, state: &QueueState, lane: &str, id: Id) -> bool {
        self.is_elsewhere(state, lane) || state.turns.lock().waits(lane, id.0)
    }

    /// Whether another node works on `lane`, or may.
    pub(crate) fn is_elsewhere(&self, state: &QueueState, lane: &str) -> bool {
        self.db.dialect() == Dialect::Postgres
            && self.redis.get().is_none()
            && !state.turns.lock().knows(lane)
    }

    /// Whether another node may run jobs of `lane`, of which nothing is known here.
    pub(crate) fn may_run_elsewhere(&self, state: &QueueState, lane: &str) -> bool {
        self.nodes.me().is_some() && !self.nodes.knows_all() && self.is_elsewhere(state, lane)
    }

    /// A row was committed.
    fn added_one(&self, queue: &str, lane: &str, id: Id) {
        let state = self.directory.queue(queue);
        match self.db.dialect() {
            Dialect::Sqlite => state.added(lane, &[id.0], None),
            // It may be another node's: the next look, which this brings on, will tell.
            Dialect::Postgres => self.news.wake.notify_one(),
        }
    }

    /// Rows were committed: (queue, lane, id), neighbours together. None was ready before
    /// `ready_at`, or if that is not said, before it was enqueued.
    ///
    /// On PostgreSQL they may be another node's: the next look, which this brings on, will tell.
    pub(crate) fn added<S: AsRef<str>, L: AsRef<str>>(
        &self,
        rows: &[(S, L, Id)],
        ready_at: Option<Timestamp>,
    ) {
        if self.db.dialect() == Dialect::Postgres {
            for run in rows.chunk_by(|one, next| one.0.as_ref() == next.0.as_ref()) {
                self.directory.queue(run[0].0.as_ref());
            }
            return self.news.wake.notify_one();
        }
        for run in rows.chunk_by(|one, next| {
            one.0.as_ref() == next.0.as_ref() && one.1.as_ref() == next.1.as_ref()
        }) {
            let ids: Vec<i64> = run.iter().map(|(_, _, id)| id.0).collect();
            let (queue, lane, _) = &run[0];
            self.directory.queue(queue.as_ref()).added(lane.as_ref(), &ids, ready_at);
        }
    }
}

/// How many jobs each queue has of each kind.
type KindCounts = BTreeMap<(String, String), u64>;

struct Loaded {
    /// By queue and lane: the ids, and since when the first is ready, in ms.
    lanes: BTreeMap<(String, String), (Vec<i64>, i64)>,
    kinds: KindCounts,
    later: KindCounts,
    paused: Vec<String>,
    limits: Vec<(String, usize)>,
    next_due: Option<Timestamp>,
    dead: i64,
}

fn load(tx: &mut Tx) -> Result<Loaded, weir_db::Error> {
    let mut lanes: BTreeMap<(String, String), (Vec<i64>, i64)> = BTreeMap::new();
    let (mut kinds, mut later) = (KindCounts::new(), KindCounts::new());
    match tx.dialect() {
        Dialect::Sqlite => {
            let sql = "SELECT queue, kind, lane, id, enqueued_at FROM jobs ORDER BY id";
            tx.query(sql, &[], |row| {
                let queue: String = row.get(0)?;
                *kinds.entry((queue.clone(), row.get(1)?)).or_default() += 1;
                let (ids, ready_ms) =
                    lanes.entry((queue, row.get(2)?)).or_insert_with(|| (Vec::new(), i64::MAX));
                ids.push(row.get(3)?);
                *ready_ms = row.get::<i64>(4)?.min(*ready_ms);
                Ok(())
            })?;
            // Counted here: to group them, the database would sort them all.
            tx.query("SELECT queue, kind FROM jobs_later", &[], |row| {
                *later.entry((row.get(0)?, row.get(1)?)).or_default() += 1;
                Ok(())
            })?;
        }
        // Which lanes are this node's is known when it works.
        Dialect::Postgres => {
            kinds = count_kinds(tx, "jobs")?;
            later = count_kinds(tx, "jobs_later")?;
        }
    }
    Ok(Loaded {
        lanes,
        kinds,
        later,
        paused: tx.column("SELECT queue FROM jobs_queues WHERE paused = 1", &[])?,
        limits: tx.query(
            "SELECT queue, running_max FROM jobs_queues WHERE running_max > 0",
            &[],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?,
        next_due: rows::next_due(tx)?,
        dead: tx.value("SELECT COUNT(*) FROM jobs_dead", &[])?.unwrap_or(0),
    })
}

/// How many jobs of `table` each queue has of each kind, a part at a time: for all of many millions
/// a statement takes longer than it may.
fn count_kinds(tx: &mut Tx, table: &str) -> Result<KindCounts, weir_db::Error> {
    let sql = format!(
        "SELECT queue, kind, COUNT(*), MAX(id) FROM
           (SELECT queue, kind, id FROM {table} WHERE id > ?1 ORDER BY id LIMIT ?2) part
         GROUP BY queue, kind"
    );
    let (mut kinds, mut after) = (KindCounts::new(), i64::MIN);
    loop {
        let (begin, mut counted) = (after, 0);
        tx.query(&sql, params![begin, KINDS_COUNTED_MAX], |row| {
            let count: u64 = row.get(2)?;
            *kinds.entry((row.get(0)?, row.get(1)?)).or_default() += count;
            after = row.get::<i64>(3)?.max(after);
            counted += count;
            Ok(())
        })?;
        if counted < KINDS_COUNTED_MAX {
            return Ok(kinds);
        }
    }
}

/// A fairness key without what PostgreSQL cannot store, cut to its limit.
pub(crate) fn lane_name(key: &str) -> Cow<'_, str> {
    let mut end = key.len().min(LANE_BYTES_MAX);
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    let key = &key[..end];
    if key.as_bytes().contains(&0) {
        Cow::Owned(key.replace('\0', "\u{FFFD}"))
    } else {
        Cow::Borrowed(key)
    }
}
