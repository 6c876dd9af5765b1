//! Where the measured server keeps its rows and files.

use anyhow::Result;

/// A data directory and a database of its own, removed at the end.
pub(crate) struct Place {
    /// The data directory.
    pub(crate) data: tempfile::TempDir,
    /// The database.
    pub(crate) url: String,
    /// The server to tell that the database is not needed any more, and the database's name.
    admin: Option<(String, String)>,
}

impl Place {
    /// A new one, on SQLite or on the server `postgres`. Blocks the calling thread.
    pub(crate) fn new(postgres: Option<&str>) -> Result<Self> {
        let data = tempfile::tempdir()?;
        let Some(server) = postgres else {
            let url = format!("sqlite:{}", data.path().join("weir.db").display());
            return Ok(Self { data, url, admin: None });
        };
        let name = format!("weir_bench_{}", std::process::id());
        let mut admin = postgres::Client::connect(server, postgres::NoTls)?;
        admin.batch_execute(&format!(
            "CREATE DATABASE {name} TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C' ENCODING 'UTF8'"
        ))?;
        let mut url = url::Url::parse(server)?;
        url.set_path(&name);
        Ok(Self { data, url: url.into(), admin: Some((server.to_owned(), name)) })
    }

    fn remove_database(server: &str, name: &str) -> Result<()> {
        let mut admin = postgres::Client::connect(server, postgres::NoTls)?;
        admin.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)"))?;
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((server, name)) = self.admin.take() else { return };
        // The client blocks, which a thread of the runtime must not.
        let removed = std::thread::spawn(move || Self::remove_database(&server, &name)).join();
        if !matches!(removed, Ok(Ok(()))) {
            eprintln!("the database of this run could not be removed");
        }
    }
}
