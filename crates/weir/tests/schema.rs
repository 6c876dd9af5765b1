//! The committed schemas are the sum of the migrations: whoever changes one sees the whole change
//! in review, and nobody changes it unnoticed.

use std::path::Path;
use std::process::Command;

/// Compares what the migrations make of an empty database with the committed file, or writes it
/// when `WEIR_TEST_UPDATE` is set (`cargo xtask schema`).
fn compare(url: &str, file: &str) {
    let data = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["schema", "--data"])
        .arg(data.path())
        .env("WEIR_DATABASE_URL", url)
        .env("WEIR_DOMAIN", "schema.test")
        .current_dir(data.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let schema = String::from_utf8(output.stdout).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema").join(file);
    if std::env::var_os("WEIR_TEST_UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &schema).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let changed = schema.lines().zip(committed.lines()).find(|(is, was)| is != was);
    assert!(
        committed == schema,
        "schema/{file} is not the sum of the migrations; run `cargo xtask schema` and commit the \
         result. The first difference (now, committed): {changed:?}"
    );
}

#[test]
fn the_committed_sqlite_schema_is_the_sum_of_the_migrations() {
    compare("sqlite:weir.db", "sqlite.sql");
}

#[test]
fn the_committed_postgres_schema_is_the_sum_of_the_migrations() {
    if let Some(fixture) = weir_storm::fixture::postgres() {
        compare(&fixture.url, "postgres.txt");
    }
}
