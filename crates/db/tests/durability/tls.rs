//! TLS to PostgreSQL, with a certificate that signed itself.

use std::net::TcpListener;
use std::path::Path;

use weir_db::{Db, Error, Options, Tx};
use weir_storm::fixture::PostgresServer;

use crate::CLASS;

/// A server that offers TLS as `localhost`, the port, and the path of its certificate.
fn server() -> Option<(PostgresServer, u16, String)> {
    let server = PostgresServer::prepare()?;
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let cert = server.file("cert.pem", &signed.cert.pem());
    let key = server.file("key.pem", &signed.signing_key.serialize_pem());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    server.begin_with(&format!(
        "-c listen_addresses=127.0.0.1 -p {port} -c ssl=on -c ssl_cert_file={} -c ssl_key_file={}",
        cert.display(),
        key.display()
    ));
    Some((server, port, cert.display().to_string()))
}

/// Whether the connection is encrypted.
fn is_encrypted(host: &str, port: u16, query: &str) -> Result<bool, Error> {
    let options = Options { connections_max: 1, ..Options::default() };
    let url = format!("postgres://postgres@{host}:{port}/postgres{query}");
    let db = Db::open(&url, Path::new("/"), &options)?;
    let unit = |tx: &mut Tx| {
        tx.column::<i64>(
            "SELECT CAST(count(*) AS BIGINT) FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl",
            &[],
        )
    };
    Ok(db.read_blocking(CLASS, unit)? == [1])
}

#[test]
fn the_url_decides_on_tls_to_postgres_and_on_who_the_server_must_be() {
    let Some((_server, port, cert)) = server() else { return };
    let encrypted = |host, query: &str| is_encrypted(host, port, query);
    assert!(!encrypted("localhost", "").unwrap(), "on this machine plain text is enough");
    assert!(!encrypted("localhost", "?sslmode=disable").unwrap());
    assert!(encrypted("localhost", "?sslmode=prefer").unwrap());
    assert!(encrypted("127.0.0.1", "?sslmode=require").unwrap());

    let roots = format!("&sslrootcert={cert}");
    assert!(encrypted("localhost", &format!("?sslmode=verify-full{roots}")).unwrap());
    // The certificate does not name the address.
    let refused = encrypted("127.0.0.1", &format!("?sslmode=verify-full{roots}"));
    let Err(Error::Open { reason, .. }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("certificate"), "{reason}");
    assert!(encrypted("127.0.0.1", &format!("?sslmode=verify-ca{roots}")).unwrap());
    // Nobody whom the system trusts has signed it.
    let refused = encrypted("localhost", "?sslmode=verify-full");
    assert!(matches!(refused, Err(Error::Open { .. })), "{refused:?}");
}

#[test]
fn a_server_without_tls_is_refused_when_tls_is_required() {
    let Some(server) = PostgresServer::prepare() else { return };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    server.begin_with(&format!("-c listen_addresses=127.0.0.1 -p {port}"));
    assert!(!is_encrypted("localhost", port, "?sslmode=prefer").unwrap());
    let refused = is_encrypted("localhost", port, "?sslmode=require");
    let Err(Error::Open { reason, .. }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("TLS"), "{reason}");
}
