//! Where the jobs lie while they are measured.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use url::Url;
use weir_base::Random;
use weir_db::{Db, Options as DbOptions};
use weir_jobs::Jobs;

use super::{Options, proxy};
use crate::command::Shows;

/// A database of its own, gone when it is dropped.
pub(super) struct Place {
    pub(super) db: Db,
    pub(super) backend: &'static str,
    made: Option<Made>,
    directory: TempDir,
}

/// A database that was made on a server.
struct Made {
    server: String,
    name: String,
}

impl Place {
    /// What `options` name: SQLite in a temporary directory, or a new database on a server.
    pub(super) async fn open(options: &Options) -> Result<Self> {
        let directory = directory(options)?;
        let made = match &options.target {
            None => None,
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Some(Made::on(url)?)
            }
            Some(url) => bail!(
                "{url} is nothing that jobs lie in; name postgres://… or redis://…, or leave \
                 --target out"
            ),
        };
        let (url, backend) = match &made {
            None => ("sqlite:storm.db".to_owned(), "sqlite"),
            Some(made) => (through(&made.url()?, options.latency_ms, 5432).await?, "postgres"),
        };
        let path = directory.path().to_owned();
        let open = move || Db::open(&url, &path, &DbOptions::default());
        let db = tokio::task::spawn_blocking(open).await?.context("the target")?;
        Ok(Self { db, backend, made, directory })
    }

    /// Says how to look at `jobs` while the storm goes on, where others can.
    pub(super) fn show(&self, jobs: &Jobs, shows: Option<Shows>) {
        match shows.map(|shows| shows(jobs, self.directory.path())) {
            Some(Ok(command)) => eprintln!("to watch it: {command}"),
            Some(Err(reason)) => eprintln!("it cannot be watched: {reason}"),
            None => {}
        }
    }

    /// SQLite in a temporary directory, whatever the target is.
    pub(super) fn beside_redis(options: &Options) -> Result<Self> {
        let directory = directory(options)?;
        let db = Db::open("sqlite:storm.db", directory.path(), &DbOptions::default())?;
        Ok(Self { db, backend: "redis", made: None, directory })
    }
}

fn directory(options: &Options) -> Result<TempDir> {
    let within = options.scratch.clone().unwrap_or_else(std::env::temp_dir);
    TempDir::new_in(&within).with_context(|| {
        format!("no directory can be made in {}; name one with --scratch", within.display())
    })
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(made) = &self.made {
            let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", made.name);
            if let Err(error) = on_server(&made.server, &sql) {
                eprintln!("the database {} is left behind: {error:#}", made.name);
            }
        }
    }
}

impl Made {
    fn on(server: &str) -> Result<Self> {
        let letter = |_| char::from(b'a' + Random::system().below(26) as u8);
        let name = format!("weir_storm_{}", (0..12).map(letter).collect::<String>());
        let sql = format!(
            "CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
        );
        on_server(server, &sql).context("a database cannot be made on the target")?;
        Ok(Self { server: server.to_owned(), name })
    }

    fn url(&self) -> Result<String> {
        let mut url = Url::parse(&self.server)?;
        url.set_path(&self.name);
        Ok(url.into())
    }
}

/// On a thread of its own, since the driver may not block one that runs asynchronous code.
fn on_server(server: &str, sql: &str) -> Result<()> {
    let run = || -> Result<()> {
        let mut client = ::postgres::Client::connect(server, ::postgres::NoTls)?;
        Ok(client.batch_execute(sql)?)
    };
    let ran = std::thread::scope(|scope| scope.spawn(run).join());
    ran.unwrap_or_else(|_| bail!("the driver of PostgreSQL panicked"))
}

/// The address of `url` with `latency_ms` before every answer.
pub(super) async fn through(url: &str, latency_ms: u64, default_port: u16) -> Result<String> {
    let mut url = Url::parse(url).with_context(|| format!("{url} is no address"))?;
    if latency_ms == 0 {
        return Ok(url.into());
    }
    let host = url.host_str().context("the target names no host to reach over a network")?;
    let target = format!("{host}:{}", url.port().unwrap_or(default_port));
    let address = proxy::start(target, Duration::from_millis(latency_ms)).await?;
    url.set_host(Some("127.0.0.1"))?;
    if url.set_port(Some(address.port())).is_err() {
        bail!("{url} takes no port");
    }
    Ok(url.into())
}
