//! `weir serve`: opens everything, serves, and ends in order.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_base::{Random, Turns};
use weir_community::{Community, Site, streams};
use weir_db::{Db, Dialect};
use weir_http::{Limits, Serving, Tls, TlsError};

use crate::beneath::Beneath;
use crate::config::{Checked, Config, Loaded, Role};
use crate::control::{ControlSocket, Served};
use crate::data_dir::{DataDir, DataDirError};
use crate::demo::DemoError;
use crate::outside::{Outside, OutsideError};
use crate::parts::{Parts, PartsError};
use crate::site::{self, SiteError};
use crate::{demo, federation, log, metrics, output, process, routes, work, xmpp};

/// How long the end may take; what is cut off then is as after a crash: nothing accepted is lost.
const END_MAX: Duration = Duration::from_secs(9);

/// How long running jobs may take to end; those that reach outside may run again after the start.
const JOBS_END_MAX: Duration = Duration::from_secs(6);

/// Over how long streaming sessions are ended at the shutdown.
const DRAIN: Duration = Duration::from_secs(4);

/// Connections that the system holds until they are taken; it may be set to hold fewer.
const BACKLOG: u32 = 16_384;

/// Descriptors kept for what is not a connection: the database, media, what is fetched.
const DESCRIPTORS_KEPT: u64 = 256;

/// Why serving cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data directory.
    #[error(transparent)]
    Data(#[from] DataDirError),
    /// A part.
    #[error(transparent)]
    Parts(#[from] PartsError),
    /// The names under which the community is reached.
    #[error(transparent)]
    Site(#[from] SiteError),
    /// The certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A listener.
    #[error("cannot listen on {address}: {source}; {}", listen_remedy(*address, key, source))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The key that says where.
        key: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Something the system refuses.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The names of what is here.
    #[error(transparent)]
    Federation(#[from] weir_activitypub::SetupError),
    /// The jobs.
    #[error("cannot start the jobs: {0}")]
    Jobs(#[from] weir_jobs::StartError),
    /// What reaches outside.
    #[error(transparent)]
    Outside(#[from] OutsideError),
    /// Mail.
    #[error("cannot set up mail: {0}; check [mail]")]
    Mail(#[from] weir_community::mail::MailError),
    /// The demo community.
    #[error(transparent)]
    Demo(#[from] DemoError),
    /// The bus between the nodes.
    #[error("cannot use {0}; check `url` under [redis]")]
    Nodes(String),
    /// Counting.
    #[error("cannot start to count: {0}")]
    Metrics(String),
}

/// What to do where `address` cannot be listened on, which `key` says.
fn listen_remedy(address: SocketAddr, key: &str, source: &io::Error) -> String {
    match source.kind() {
        io::ErrorKind::AddrInUse => format!("stop what listens there, or set {key}"),
        io::ErrorKind::PermissionDenied if address.port() < 1024 => format!(
            "ports below 1024 need CAP_NET_BIND_SERVICE (systemd: \
             AmbientCapabilities=CAP_NET_BIND_SERVICE); give Weir that, or set {key}"
        ),
        _ => format!("set {key} to another address"),
    }
}

/// Serves until a signal ends it.
///
/// # Errors
/// [`ServeError`] when it cannot begin.
pub fn run(loaded: &Loaded, checked: &Checked, extra_ca: Option<&Path>) -> Result<(), ServeError> {
    log::start(loaded);
    announce(loaded, checked);
    let refused = |source| ServeError::System { what: "start threads", source };
    let beneath = Beneath::start().map_err(refused)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .on_thread_start(|| Turns::Short.take())
        .enable_all()
        .build()
        .map_err(refused)?;
    let served = runtime.block_on(serve(checked, extra_ca, &beneath));
    runtime.shutdown_timeout(Duration::from_secs(1));
    beneath.door.shutdown_timeout(Duration::from_secs(1));
    beneath.jobs.shutdown_timeout(Duration::from_secs(1));
    // Nobody else may have the data directory before SQLite is closed; and parts that are kept for
    // ever have handles on it. PostgreSQL needs no farewell.
    let (_data, db) = served?;
    if db.dialect() == Dialect::Sqlite {
        db.close();
    }
    tracing::info!("stopped");
    Ok(())
}

fn announce(loaded: &Loaded, checked: &Checked) {
    for (name, nearest) in &loaded.strangers {
        tracing::warn!("the variable {name} sets nothing; did you mean {nearest}?");
    }
    if checked.modes.dev {
        tracing::warn!(
            "DEVELOPMENT MODE (--dev): sign-up is open, nothing is encrypted, no limits hold, and \
             private addresses are fetched. Never serve people like this."
        );
    }
    let config = &checked.config;
    let has_mail = !config.mail.smtp_url.expose().is_empty();
    if !has_mail && !checked.modes.dev && config.roles.contains(&Role::Jobs) {
        tracing::warn!("mails go to this log only: set smtp_url under [mail] to send them");
    }
}

struct Listeners {
    http: TcpListener,
    http_address: SocketAddr,
    metrics: Option<TcpListener>,
    metrics_address: Option<SocketAddr>,
    chat: xmpp::Doors,
}

/// Serves until a signal ends it; what is left to do then is to close the database.
async fn serve(
    checked: &Checked,
    extra_ca: Option<&Path>,
    beneath: &Beneath,
) -> Result<(DataDir, Db), ServeError> {
    let config = &checked.config;
    let descriptors_max = process::raise_descriptor_limit();
    let data = DataDir::open(&config.data)?;
    let listeners = listen(checked).await?;
    let tls = match (&config.tls.cert, &config.tls.key) {
        (Some(cert), Some(key)) => Some(Tls::from_files(cert, key)?),
        _ => None,
    };
    let handle = metrics::start().map_err(ServeError::Metrics)?;
    tokio::spawn(metrics::keep_up(handle.clone()));
    let bound = listeners.http_address;
    let site = Site { domain: checked.domain(bound), base: checked.public_url(bound) };
    let site = site::claim(&data, site)?;
    let parts = Arc::new(open(config.clone(), data.path().to_owned(), site).await?);
    let base = &parts.community.env().site.base;
    let outside = Outside::open(checked, data.path(), base, extra_ca)?;
    let federation = federation::face(checked, &parts, &outside, beneath.door.handle())?;
    let words = match checked.modes.demo {
        true => {
            demo::populate(&parts.community, data.path()).await?;
            let url = checked.public_url(bound);
            Some(demo::words(&parts.community, &url, data.path()).await?)
        }
        false => {
            demo::refuse_other_use(data.path())?;
            None
        }
    };
    let socket = ControlSocket::bind(&data)
        .map_err(|source| ServeError::System { what: "make the control socket", source })?;

    let shutdown = CancellationToken::new();
    let workers = match config.roles.contains(&Role::Jobs) {
        true => {
            parts.jobs.set_place(&data.path().display().to_string());
            keep_journal(&parts, data.path()).await;
            let registry = work::registry(config, &parts, &outside, federation.as_ref())?;
            let _there = beneath.jobs.enter();
            Some(work::start(config, &parts.jobs, registry, data.path(), shutdown.clone())?)
        }
        false => None,
    };
    let signals = Signals::listen(tls.clone())
        .map_err(|source| ServeError::System { what: "listen to signals", source })?;
    let tasks = TaskTracker::new();
    let chat = match config.roles.contains(&Role::Xmpp) {
        true => {
            let tls = xmpp::tls(checked, tls.as_ref(), &parts.community)?;
            let stop = shutdown.clone();
            Some(xmpp::face(checked, &parts.community, tls, descriptors_max, stop))
        }
        false => None,
    };
    let faces = routes::Faces { federation: federation.as_ref(), chat: chat.as_ref() };
    let router = routes::router(checked, &parts, &outside, faces, shutdown.clone());
    let serving = to_everybody(config, router, tls, descriptors_max);
    // Before anything is served: what changes from then on is told to the others.
    let nodes = nodes(config, &parts)?;
    tasks.spawn(weir_http::serve(listeners.http, serving, shutdown.clone()));
    if let Some(listener) = listeners.metrics {
        let serving = to_ourselves(metrics::router(handle, parts.db.clone(), descriptors_max));
        tasks.spawn(weir_http::serve(listener, serving, shutdown.clone()));
    }
    tasks.spawn(socket.serve(Served::Everything(parts.clone()), shutdown.clone()));
    let chat_addresses = listeners.chat.addresses();
    if let Some(chat) = chat {
        let servers = xmpp::servers(checked, &chat, &outside)?;
        listeners.chat.open(checked, &chat, servers, &tasks);
    }
    // Until nothing commits any more.
    let committed = CancellationToken::new();
    let telling =
        tokio::spawn(streams::run_among(parts.community.clone(), nodes, committed.clone()));
    tasks.spawn(drain(parts.community.clone(), shutdown.clone()));
    let db = parts.db.clone();
    drop(parts);

    let metrics_address = listeners.metrics_address.map(|address| address.to_string());
    tracing::info!(
        http = %bound,
        metrics = metrics_address.unwrap_or_default(),
        xmpp = chat_addresses.c2s,
        xmpp_tls = chat_addresses.c2s_tls,
        xmpp_s2s = chat_addresses.s2s,
        xmpp_components = chat_addresses.components,
        domain = checked.domain(bound),
        url = checked.public_url(bound),
        data = %data.path().display(),
        "ready"
    );
    if let Some(words) = words {
        output::text(&words);
    }
    signals.wait().await;
    tracing::info!("stopping");
    end_in_time();
    shutdown.cancel();
    tasks.close();
    if let Some(workers) = workers {
        workers.finish(JOBS_END_MAX).await;
    }
    tasks.wait().await;
    // Requests and jobs have ended: the other nodes hear of the last they did.
    committed.cancel();
    if let Err(error) = telling.await {
        tracing::error!(%error, "the other nodes may not know what was done last");
    }
    Ok((data, db))
}

/// The other nodes on the same database, where there can be some.
fn nodes(config: &Config, parts: &Parts) -> Result<Option<streams::Nodes>, ServeError> {
    let url = config.redis.url.expose();
    if url.is_empty() || parts.db.dialect() != Dialect::Postgres {
        return Ok(None);
    }
    streams::Nodes::join(&parts.community, url).map(Some).map_err(ServeError::Nodes)
}

/// How what everybody can reach is served.
fn to_everybody(
    config: &Config,
    router: Router,
    tls: Option<Tls>,
    descriptors_max: u64,
) -> Serving {
    let connections_max = connections_max(config.http.connections_max, descriptors_max);
    let limits = Limits {
        connections_max,
        connections_per_source_max: (connections_max / 4).max(16),
        ..Limits::default()
    };
    let trusted_proxies = config.http.trusted_proxies.clone().into();
    Serving { router, tls, limits, trusted_proxies, random: Random::system() }
}

/// How the numbers are served, to those who look after the machine.
fn to_ourselves(router: Router) -> Serving {
    let limits = Limits { connections_max: 64, ..Limits::default() };
    Serving { router, tls: None, limits, trusted_proxies: Arc::from([]), random: Random::system() }
}

/// Ends the streaming sessions at the shutdown, a slice at a time, so that not everybody comes back
/// in the same moment.
async fn drain(community: Community, shutdown: CancellationToken) {
    shutdown.cancelled().await;
    community.env().streams.hub().drain_over(DRAIN).await;
}

/// Writes down which jobs run, so that one that kills the process is found. Goes without where
/// that cannot be.
async fn keep_journal(parts: &Arc<Parts>, data: &Path) {
    let (jobs, path) = (parts.jobs.clone(), data.join("jobs.running"));
    let kept = tokio::task::spawn_blocking(move || jobs.keep_journal(&path)).await;
    if let Ok(Err(error)) = kept {
        tracing::warn!(%error, "jobs that kill the process will not be found");
    }
}

/// Opens the parts on a thread that may wait for the disk.
async fn open(config: Config, data: PathBuf, site: Site) -> Result<Parts, ServeError> {
    let opened = tokio::task::spawn_blocking(move || Parts::open(&config, &data, site)).await;
    let opened = opened
        .map_err(|error| ServeError::System { what: "open the data", source: error.into() })?;
    Ok(opened?)
}

/// How many connections to hold: as told, or what the descriptors allow.
fn connections_max(told: u32, descriptors_max: u64) -> usize {
    if told > 0 {
        return told as usize;
    }
    let free = descriptors_max.saturating_sub(DESCRIPTORS_KEPT).max(descriptors_max / 4);
    usize::try_from(free.min(1_000_000)).unwrap_or(1_000_000)
}

async fn listen(checked: &Checked) -> Result<Listeners, ServeError> {
    let address = checked.config.http.listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
    let (http, http_address) = bind(address, "http.listen (--listen, WEIR_HTTP_LISTEN)").await?;
    let metrics = checked.config.metrics.listen;
    let metrics = bind_any(metrics, "metrics.listen", checked.metrics_port_may_move).await?;
    let (metrics, metrics_address) = metrics.unzip();
    let chat = xmpp::Doors::bind(checked).await?;
    Ok(Listeners { http, http_address, metrics, metrics_address, chat })
}

/// A listener that may be left out, and that takes another port when its own is taken and it may.
pub(crate) async fn bind_any(
    address: Option<SocketAddr>,
    key: &'static str,
    may_move: bool,
) -> Result<Option<(TcpListener, SocketAddr)>, ServeError> {
    let Some(address) = address else { return Ok(None) };
    match bind(address, key).await {
        Err(ServeError::Listen { address, key, .. }) if may_move => {
            bind(SocketAddr::new(address.ip(), 0), key).await.map(Some)
        }
        bound => bound.map(Some),
    }
}

async fn bind(
    address: SocketAddr,
    key: &'static str,
) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Listen { address, key, source };
    let listener = open_listener(address).map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// A listener before which many may stand at once: after a cut everybody comes back together, and
/// whom the system turns away tries again only after a second.
fn open_listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Ends the process when ending in order takes too long.
fn end_in_time() {
    std::thread::spawn(|| {
        std::thread::sleep(END_MAX);
        tracing::warn!("what still runs is cut off");
        std::process::exit(0);
    });
}

struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
    tls: Option<Tls>,
}

impl Signals {
    fn listen(tls: Option<Tls>) -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            tls,
        })
    }

    /// Waits for the end, reloading what can be reloaded meanwhile.
    async fn wait(mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => reload(self.tls.as_ref()),
            }
        }
    }
}

fn reload(tls: Option<&Tls>) {
    match tls.map(Tls::reload) {
        Some(Err(error)) => tracing::error!(%error, "the certificate stays as it was"),
        Some(Ok(())) => tracing::info!("the certificate was read again"),
        None => tracing::info!("there is nothing to reload"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_listen_is_told_what_helps() {
        let told = |address: &str, kind: io::ErrorKind| {
            let (address, source) = (address.parse().unwrap(), kind.into());
            ServeError::Listen { address, key: "http.listen", source }.to_string()
        };
        let taken = told("127.0.0.1:443", io::ErrorKind::AddrInUse);
        assert!(taken.contains("stop what listens there, or set http.listen"), "{taken}");
        let low = told("0.0.0.0:443", io::ErrorKind::PermissionDenied);
        assert!(low.contains("CAP_NET_BIND_SERVICE") && !low.contains("stop"), "{low}");
        let elsewhere = told("192.0.2.1:8080", io::ErrorKind::AddrNotAvailable);
        assert!(elsewhere.ends_with("set http.listen to another address"), "{elsewhere}");
    }
}
