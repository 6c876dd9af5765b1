//! Fresh databases for tests: one on SQLite and one on PostgreSQL, gone when they are dropped.

mod postgres_server;
mod redis_server;
mod small_disk;

use std::path::Path;
use std::sync::OnceLock;

use tempfile::TempDir;
use weir_base::Random;
use weir_db::{Class, Db, Options};

pub use postgres_server::PostgresServer;
pub use redis_server::RedisServer;
pub use small_disk::on_small_disk;

/// Where PostgreSQL is for tests: a URL whose user may create databases.
const POSTGRES_VARIABLE: &str = "WEIR_TEST_POSTGRES";
/// Set to `sqlite` by whoever wants to test without PostgreSQL.
const ONLY_VARIABLE: &str = "WEIR_TEST_ONLY";

/// How an empty database on PostgreSQL is made.
const EMPTY: &str = "TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'";
/// How databases are called that others are copies of, with the number of their process.
const FILLED_PREFIX: &str = "weir_filled_";

/// A database of its own for one test.
pub struct Fixture {
    /// The open database.
    pub db: Db,
    /// Which it is, for messages: `sqlite` or `postgres`.
    pub name: &'static str,
    /// The URL it was opened by.
    pub url: String,
    place: Place,
}

enum Place {
    /// Holds the database's directory until the test is over.
    Directory(TempDir),
    /// The server's URL, and the name of the database on it.
    Server { url: String, database: String },
    /// The database goes with its server.
    Own,
}

/// An empty SQLite database, and an empty PostgreSQL database on the server that the variable
/// `WEIR_TEST_POSTGRES` names.
///
/// # Panics
/// Without that variable, unless `WEIR_TEST_ONLY=sqlite` says that PostgreSQL is left out on
/// purpose: a test must not skip silently.
pub fn databases() -> Vec<Fixture> {
    std::iter::once(sqlite()).chain(postgres()).collect()
}

/// The same with the tables that `fill` makes. On PostgreSQL hundreds of them take a quarter of a
/// second, so they are made once in a process, in a database that others are copies of.
///
/// # Panics
/// As [`databases`]; and when `fill` does.
pub fn databases_with(fill: fn(&Db)) -> Vec<Fixture> {
    let sqlite = sqlite();
    fill(&sqlite.db);
    std::iter::once(sqlite).chain(postgres_with(fill)).collect()
}

/// The PostgreSQL database of [`databases_with`].
fn postgres_with(fill: fn(&Db)) -> Option<Fixture> {
    // One for all who call, for those of one process all want the same tables.
    static FILLED: OnceLock<String> = OnceLock::new();
    if is_without_postgres() {
        return None;
    }
    let server = server();
    let filled = FILLED.get_or_init(|| {
        forget_those_of_the_dead(&server);
        let name = format!("{FILLED_PREFIX}{}", std::process::id());
        must(&server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        must(&server, &format!("CREATE DATABASE {name} {EMPTY}"));
        fill(&open(&at(&server, &name), Path::new("/")));
        must(&server, &format!("ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false"));
        must(
            &server,
            &format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
            ),
        );
        name
    });
    Some(on_postgres(&server, &format!("TEMPLATE {filled}")))
}

/// Removes what processes left that are gone: it is copied till their end.
fn forget_those_of_the_dead(server: &str) {
    let sql = format!("SELECT datname FROM pg_database WHERE datname LIKE '{FILLED_PREFIX}%'");
    for name in rows(server, &sql) {
        let process = name.trim_start_matches(FILLED_PREFIX);
        if !Path::new("/proc").join(process).exists() {
            // Another one may do the same.
            let _ = on_server(server, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        }
    }
}

/// An empty SQLite database in a directory of its own.
///
/// # Panics
/// When the directory or the database cannot be made.
pub fn sqlite() -> Fixture {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let url = "sqlite:weir.db".to_owned();
    let db = open(&url, directory.path());
    Fixture { db, name: "sqlite", url, place: Place::Directory(directory) }
}

/// An empty PostgreSQL database, or none when `WEIR_TEST_ONLY=sqlite` leaves it out on purpose.
///
/// # Panics
/// When neither variable is set, or the server refuses.
pub fn postgres() -> Option<Fixture> {
    (!is_without_postgres()).then(|| on_postgres(&server(), EMPTY))
}

fn server() -> String {
    std::env::var(POSTGRES_VARIABLE).unwrap_or_else(|_| {
        panic!(
            "{POSTGRES_VARIABLE} is not set: run `make test`, which starts a PostgreSQL, \
             or set {ONLY_VARIABLE}=sqlite to leave PostgreSQL out"
        )
    })
}

/// A new database on `server` that is made `like` this.
fn on_postgres(server: &str, like: &str) -> Fixture {
    let letter = |_| char::from(b'a' + Random::system().below(26) as u8);
    let database = format!("weir_test_{}", (0..12).map(letter).collect::<String>());
    must(server, &format!("CREATE DATABASE {database} {like}"));
    let url = at(server, &database);
    let db = open(&url, Path::new("/"));
    let place = Place::Server { url: server.to_owned(), database };
    Fixture { db, name: "postgres", url, place }
}

/// The URL of `database` on `server`.
fn at(server: &str, database: &str) -> String {
    let mut url = url::Url::parse(server).expect("WEIR_TEST_POSTGRES is a URL");
    url.set_path(database);
    url.to_string()
}

/// Whether `WEIR_TEST_ONLY=sqlite` leaves PostgreSQL out on purpose.
pub fn is_without_postgres() -> bool {
    std::env::var(ONLY_VARIABLE).is_ok_and(|only| only == "sqlite")
}

fn open(url: &str, base: &Path) -> Db {
    // Few connections, since many tests run at once against one server.
    let options = Options { connections_max: 4, ..Options::default() };
    Db::open(url, base, &options).unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// From now on a commit that brings rows into `table` breaks its connection, on PostgreSQL.
///
/// # Errors
/// The database's.
pub fn break_commits(db: &Db, table: &str) -> Result<(), weir_db::Error> {
    let table = table.to_owned();
    db.write_blocking(Class::Interactive, move |tx| {
        let body = "BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END";
        tx.execute(
            &format!("CREATE FUNCTION break_commit() RETURNS trigger LANGUAGE plpgsql AS '{body}'"),
            &[],
        )?;
        tx.execute(
            &format!(
                "CREATE CONSTRAINT TRIGGER break_commit AFTER INSERT ON {table}
                 DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION break_commit()"
            ),
            &[],
        )
        .map(|_| ())
    })
}

fn must(server: &str, sql: &str) {
    on_server(server, sql).unwrap_or_else(|error| panic!("{POSTGRES_VARIABLE}={server}: {error}"));
}

fn on_server(server: &str, sql: &str) -> Result<(), String> {
    with_server(server, |client| client.batch_execute(sql))
}

/// The first column of what `sql` finds.
fn rows(server: &str, sql: &str) -> Vec<String> {
    let rows = with_server(server, |client| client.query(sql, &[]));
    let rows = rows.unwrap_or_else(|error| panic!("{POSTGRES_VARIABLE}={server}: {error}"));
    rows.iter().map(|row| row.get(0)).collect()
}

/// On a thread of its own, since the driver may not block a thread that runs asynchronous code.
fn with_server<T: Send>(
    server: &str,
    run: impl FnOnce(&mut ::postgres::Client) -> Result<T, ::postgres::Error> + Send,
) -> Result<T, String> {
    let run = || run(&mut ::postgres::Client::connect(server, ::postgres::NoTls)?);
    std::thread::scope(|scope| scope.spawn(run).join())
        .map_err(|_| "the driver panicked".to_owned())?
        .map_err(|error: ::postgres::Error| format!("{error:?}"))
}

impl Fixture {
    /// A second handle on the same database, as another process would have it.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub fn open_again(&self) -> Db {
        open(&self.url, self.directory())
    }

    /// What a relative `url` is relative to.
    pub fn directory(&self) -> &Path {
        match &self.place {
            Place::Directory(directory) => directory.path(),
            Place::Server { .. } | Place::Own => Path::new("/"),
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Place::Server { url, database } = &self.place {
            // A database left behind does no harm, and a second panic would hide the first.
            let _ = on_server(url, &format!("DROP DATABASE IF EXISTS {database} WITH (FORCE)"));
        }
    }
}
