//! Databases and users of PostgreSQL that will not do are told with the remedy.

use std::path::Path;

use weir_db::{Db, Error, Options, Tx};
use weir_storm::fixture::PostgresServer;

use crate::{CLASS, MARKS};

const MAKE_USER: &str = "createuser weir";
const MAKE_DATABASE: &str = "createdb --owner weir --encoding UTF8 --template template0 weir";

fn open(server: &PostgresServer, database: &str) -> Result<Db, Error> {
    let options = Options { connections_max: 2, ..Options::default() };
    Db::open(&server.url_of("weir", database), Path::new("/"), &options)
}

#[test]
fn the_user_and_the_database_of_the_documentation_will_do() {
    let Some(server) = PostgresServer::start() else { return };
    server.look_after(MAKE_USER);
    server.look_after(MAKE_DATABASE);
    open(&server, "weir").unwrap().migrate("test", &[MARKS]).unwrap();
}

#[test]
fn a_database_in_another_encoding_is_refused() {
    let Some(server) = PostgresServer::start() else { return };
    server.look_after(MAKE_USER);
    server.look_after("createdb --owner weir --encoding LATIN1 --template template0 latin");
    let refused = open(&server, "latin").map(|_| ());
    let Err(Error::Unfit { reason, .. }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("LATIN1") && reason.contains(MAKE_DATABASE), "{reason}");
}

#[test]
fn a_user_who_may_not_make_tables_is_to_own_the_database() {
    let Some(server) = PostgresServer::start() else { return };
    server.look_after(MAKE_USER);
    // As it is from PostgreSQL 15 on.
    let revoke = |tx: &mut Tx| tx.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC", &[]);
    server.open(false).write_blocking(CLASS, revoke).unwrap();
    let refused = open(&server, "postgres").unwrap().migrate("test", &[MARKS]);
    assert!(matches!(&refused, Err(Error::Forbidden(_))), "{refused:?}");
    assert!(refused.unwrap_err().to_string().contains("OWNER TO"));
}

#[test]
fn where_too_few_connections_are_left_the_setting_is_named() {
    let Some(server) = PostgresServer::start() else { return };
    server.look_after("createuser --connection-limit=1 weir");
    server.look_after(MAKE_DATABASE);
    let refused = open(&server, "weir").map(|_| ());
    let Err(Error::Unfit { reason, .. }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("`max_connections`"), "{reason}");
}
