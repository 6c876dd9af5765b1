//! PostgreSQL: a thread a connection; their number is the budget.

mod ahead;
mod connection;
mod courtesy;
mod growth;
mod many;
mod tls;

use std::error::Error as _;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) use connection::PgConnection;
use connection::Refusal;
use courtesy::Courtesy;
use growth::Growth;
use tls::Tls;
use weir_base::Turns;

use crate::hooks::{CommitOrder, Doubts, Hook};
use crate::meters::Meters;
use crate::queue::ClassQueue;
use crate::sqlite::Queue;
use crate::tx::Connection;
use crate::unit::Work;
use crate::{Class, Error, Options, Tx};

/// How often a unit is repeated that met others.
const REPEATS_MAX: u32 = 40;
/// How often a unit is repeated whose connection broke before its commit.
const RECONNECTS_MAX: u32 = 3;
/// How long a connection may take to be made, unless the URL says.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// How long the server's machine may be silent, unless the URL says.
const SILENCE_TIME_MAX: Duration = Duration::from_secs(30);

/// Whether what `url` says makes sense; see [`crate::check_url`].
pub(crate) fn check(url: &str) -> Result<(), Error> {
    read(url).map(|_| ())
}

fn read(url: &str) -> Result<(tokio_postgres::Config, Option<Tls>), Error> {
    tls::read(url).map_err(|reason| Error::Open { path: "database.url".into(), reason })
}

pub(crate) fn open(
    url: &str,
    options: &Options,
    doubts: Arc<Doubts>,
) -> Result<(Queue, Vec<JoinHandle<()>>), Error> {
    let queue: Queue = Arc::new(ClassQueue::new(options.connections_max, "all"));
    let (mut config, tls) = read(url)?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIME_MAX);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENCE_TIME_MAX);
    }
    let path = format!("{:?} {}", config.get_hosts(), config.get_dbname().unwrap_or_default());
    let attempts = config.get_hosts().len().max(1) as u32 + 1;
    let place = Arc::new(Place {
        connect_time_max: attempts * *config.get_connect_timeout().unwrap_or(&CONNECT_TIME_MAX),
        config,
        tls,
        sync: options.sync,
        statement_time_max: options.statement_time_max,
        growth: Growth::new(options.growth_looked_for_each),
        courtesy: Arc::default(),
    });
    let order = Arc::new(CommitOrder::new(doubts));
    let mut threads = Vec::new();
    // Each thread makes its own connection: the driver may not block the caller's thread, which
    // may run asynchronous code.
    let (tell, told) = std::sync::mpsc::channel();
    for number in 0..options.connections_max {
        let mut server = Server {
            place: place.clone(),
            connection: None,
            queue: queue.clone(),
            order: order.clone(),
            is_down: false,
        };
        let tell = tell.clone();
        let body = move || {
            Turns::Short.take();
            let first = server.connect();
            let refused = first.is_err();
            let _ = tell.send(first);
            drop(tell);
            if !refused {
                server.run();
            }
        };
        match std::thread::Builder::new().name(format!("db-{number}")).spawn(body) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                queue.close();
                return Err(Error::Open { path, reason: error.to_string() });
            }
        }
    }
    drop(tell);
    for first in told {
        if let Err(Refusal { reason, is_unfit }) = first {
            queue.close();
            return Err(match is_unfit {
                true => Error::Unfit { path, reason },
                false => Error::Open { path, reason },
            });
        }
    }
    Ok((queue, threads))
}

/// Where the database is, and how it is spoken to.
struct Place {
    config: tokio_postgres::Config,
    /// None: in plain text.
    tls: Option<Tls>,
    /// The names that are tried, the handshakes and the log-in together.
    connect_time_max: Duration,
    sync: bool,
    statement_time_max: Duration,
    growth: Growth,
    courtesy: Arc<Courtesy>,
}

struct Server {
    place: Arc<Place>,
    connection: Option<PgConnection>,
    queue: Queue,
    order: Arc<CommitOrder>,
    /// The last attempt to connect failed: the next unit tries once and does not wait.
    is_down: bool,
}

/// How one run of a unit ended.
enum End {
    /// Its result stands and nothing follows.
    Answer,
    /// It only read: its result stands, and its transaction is still to be ended.
    Read,
    /// Committed; its hooks have this place in the order of commits.
    Follow(u64, Vec<Hook>),
    /// It met others: once more.
    Repeat,
    /// A unique row stood there: once more, lest it was only the snapshot that did not show it.
    /// With the failure, where the unit's result does not tell of it.
    LookAgain(Option<Error>),
    /// The connection broke before the commit.
    Reconnect,
    /// The server did not answer in time, or only reads: the unit has failed, and is not tried at
    /// once again.
    Leave,
    /// The commit failed.
    Fail(Error),
}

impl Server {
    fn connect(&mut self) -> Result<(), Refusal> {
        let connected = PgConnection::connect(&self.place);
        self.is_down = connected.is_err();
        self.connection = Some(connected?);
        Ok(())
    }

    fn run(&mut self) {
        let meters = [Meters::new("write"), Meters::new("read")];
        let mut done = None;
        while let Some((turn, work)) = self.queue.pop(done.take()) {
            let started = Instant::now();
            let mut held = Duration::ZERO;
            let reads_only = !work.kind().writes();
            if !reads_only || work.is_wanted() {
                let place = self.place.clone();
                // Who writes may wait for the locks of a unit that would be held.
                let is_first = turn.class == Class::Interactive && reads_only;
                let _first = is_first.then(|| place.courtesy.first());
                self.unit(turn.class, work);
                held = self.connection.as_ref().map_or(held, PgConnection::held);
                meters[usize::from(reads_only)].unit(
                    turn.class,
                    started.elapsed().saturating_sub(held),
                    self.queue.len(),
                );
            }
            self.look_for_growth();
            done = Some((turn, started.elapsed().saturating_sub(held)));
        }
    }

    fn look_for_growth(&mut self) {
        let growth = &self.place.growth;
        let Some(connection) = &mut self.connection else { return };
        let Some(mut look) = growth.due() else { return };
        if let Err(failure) = growth.look(&mut look, connection) {
            tracing::warn!(error = %failure.error, "tables that have grown could not be looked at");
            self.connection = None;
        }
    }

    fn unit(&mut self, class: Class, mut work: Box<dyn Work>) {
        let may_be_held = class > Class::Live;
        if let Some(connection) = &mut self.connection {
            connection.hold(may_be_held);
        }
        let mut repeats = 0;
        let mut looked_again = false;
        let mut reconnects = if self.is_down { RECONNECTS_MAX } else { 0 };
        loop {
            if self.connection.is_none()
                && let Err(Refusal { reason, .. }) = self.connect()
            {
                if reconnects >= RECONNECTS_MAX {
                    return work.fail(Error::Unavailable(reason));
                }
                reconnects += 1;
                std::thread::sleep(Duration::from_millis(100 << reconnects));
                continue;
            }
            let Some(connection) = self.connection.as_mut() else { continue };
            match attempt(connection, class, &mut *work, &self.order) {
                End::Answer => return work.answer(),
                End::Read => {
                    work.answer();
                    // Nobody waits for this.
                    if connection.batch("COMMIT").is_err() {
                        self.connection = None;
                    }
                    return;
                }
                End::Follow(ticket, hooks) => {
                    return self.order.finish(ticket, Some((hooks, work)));
                }
                End::Fail(error) => {
                    // What could not be said leaves it unknown whether the transaction is over.
                    if matches!(
                        error,
                        Error::Unavailable(_)
                            | Error::Slow(_)
                            | Error::Forbidden(_)
                            | Error::Statement { .. }
                    ) {
                        self.connection = None;
                    }
                    return work.fail(error);
                }
                End::Leave => {
                    self.connection = None;
                    return work.answer();
                }
                End::LookAgain(_) if !looked_again => looked_again = true,
                End::LookAgain(None) => return work.answer(),
                End::LookAgain(Some(error)) => return work.fail(error),
                End::Repeat if repeats < REPEATS_MAX => {
                    repeats += 1;
                    metrics::counter!("weir_db_repeats_total").increment(1);
                    back_off(repeats);
                }
                End::Repeat => return work.fail(Error::Contended),
                End::Reconnect => {
                    self.connection = None;
                    metrics::counter!("weir_db_reconnects_total").increment(1);
                    reconnects += 1;
                    if reconnects > RECONNECTS_MAX {
                        return work.fail(Error::Unavailable("the connection broke".into()));
                    }
                }
            }
        }
    }
}

/// Waits a little longer after each repeat, by chance, so that those who met do not meet again.
fn back_off(repeats: u32) {
    let most_us = 200_u64 << repeats.min(8);
    std::thread::sleep(Duration::from_micros(weir_base::Random::system().below(most_us)));
}

/// What begins a transaction that only reads, and one that writes, …
const BEGIN: [&str; 2] =
    ["BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", "BEGIN ISOLATION LEVEL REPEATABLE READ"];
/// … and the same for what comes in by the thousand: a plan is made once for each statement there,
/// for whatever parameters. PostgreSQL would go on to make one at each use where the first ones,
/// made while a table was small, seemed to cost less than one for all; and making it is a good part
/// of the work of a small statement. What these look for goes by one index, whatever the
/// parameters.
const BEGIN_PLANNED_ONCE: [&str; 2] = [
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
     SET LOCAL plan_cache_mode = force_generic_plan",
    "BEGIN ISOLATION LEVEL REPEATABLE READ; SET LOCAL plan_cache_mode = force_generic_plan",
];

fn attempt(
    connection: &mut PgConnection,
    class: Class,
    work: &mut dyn Work,
    order: &CommitOrder,
) -> End {
    let begin = if class == Class::Inbound { BEGIN_PLANNED_ONCE } else { BEGIN };
    let writes = work.kind().writes();
    connection.is_patient = false;
    connection.begin(begin[usize::from(writes)], writes);
    let mut tx = Tx::new(Connection::Postgres(connection));
    let kept = work.run(&mut tx);
    let (conflict, unique, broken) = (tx.conflict, tx.unique, tx.broken);
    let hooks = std::mem::take(&mut tx.hooks);
    drop(tx);
    if connection.is_silent {
        return End::Leave;
    }
    if broken {
        return End::Reconnect;
    }
    // Locks are given back at once.
    connection.hold_no_more();
    if !kept || conflict {
        return match connection.roll_back() {
            Err(_) if connection.is_silent => End::Leave,
            // Nothing is known of such a connection.
            Err(_) => End::Reconnect,
            Ok(()) if conflict => End::Repeat,
            Ok(()) if connection.only_reads => End::Leave,
            Ok(()) if unique => End::LookAgain(None),
            Ok(()) => End::Answer,
        };
    }
    if hooks.is_empty() && !writes {
        return End::Read;
    }
    if let Err(failure) = connection.settle_first() {
        return match failure.error {
            _ if failure.broken => End::Reconnect,
            error @ (Error::Unavailable(_) | Error::Slow(_)) => End::Fail(error),
            _ if connection.roll_back().is_err() => End::Reconnect,
            _ if failure.conflict => End::Repeat,
            error @ Error::Unique(_) => End::LookAgain(Some(error)),
            error => End::Fail(error),
        };
    }
    let ticket = (!hooks.is_empty()).then(|| order.ticket());
    let committed = connection.batch("COMMIT");
    match (committed, ticket) {
        (Ok(()), Some(ticket)) => End::Follow(ticket, hooks),
        (Ok(()), None) => End::Answer,
        (Err(failure), ticket) => {
            // When the connection broke it is unknown whether the commit reached the disk: only
            // who asked can look.
            match (ticket, &failure.error) {
                (Some(ticket), Error::Unavailable(_)) => order.doubt(ticket),
                (Some(ticket), _) => order.finish(ticket, None),
                (None, _) => {}
            }
            match failure.error {
                _ if failure.conflict => End::Repeat,
                Error::Unique(_) => End::LookAgain(Some(failure.error)),
                error => End::Fail(error),
            }
        }
    }
}

fn reason(error: &tokio_postgres::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
