//! The rules between values: what must be set, and what `--dev` and `--demo` refuse.

use std::net::SocketAddr;

use url::{Host, Url};
use weir_http::{Tls, TlsError};

use super::{Config, ConfigError, JobsBackend, Loaded, Origin, RegistrationMode, Role, Switch};

/// What `serve` was told to be.
#[derive(Debug, Clone, Copy, Default)]
pub struct Modes {
    /// For tests and development: open, without encryption, on loopback only.
    pub dev: bool,
    /// With people, posts and pictures to look at, on loopback only.
    pub demo: bool,
}

/// Where chat listens.
const CHAT_LISTENERS: [&str; 4] =
    ["xmpp.c2s_listen", "xmpp.c2s_tls_listen", "xmpp.s2s_listen", "xmpp.component_listen"];

/// How much is logged.
const LOG_LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A configuration that keeps the rules.
#[derive(Debug)]
pub struct Checked {
    /// The values.
    pub config: Config,
    /// What `serve` was told to be.
    pub modes: Modes,
    /// Whether the metrics listener may take another port when its own is taken.
    pub metrics_port_may_move: bool,
    /// The keys of chat's listeners that may do the same.
    pub chat_ports_may_move: Vec<&'static str>,
}

impl Checked {
    /// What stands after the @, for a server that listens on `bound`.
    pub fn domain(&self, bound: SocketAddr) -> String {
        if !self.config.domain.is_empty() {
            self.config.domain.clone()
        } else if bound.ip() == std::net::Ipv4Addr::LOCALHOST {
            format!("localhost:{}", bound.port())
        } else {
            bound.to_string()
        }
    }

    /// The address at which others reach a server that listens on `bound`, without a slash at
    /// the end.
    pub fn public_url(&self, bound: SocketAddr) -> String {
        if !self.config.http.public_url.is_empty() {
            return self.config.http.public_url.clone();
        }
        let scheme =
            if self.modes.dev && self.config.tls.cert.is_none() { "http" } else { "https" };
        format!("{scheme}://{}", self.domain(bound))
    }
}

/// Holds the rules against what was loaded.
///
/// # Errors
/// [`ConfigError::BadValue`] with the place, the key and the remedy.
pub fn check(loaded: &mut Loaded, modes: Modes) -> Result<Checked, ConfigError> {
    domain(loaded, modes)?;
    public_url(loaded, modes)?;
    listeners(loaded, modes)?;
    if modes.dev {
        open_up(loaded);
    }
    let config = &loaded.config;
    if config.tls.cert.is_some() != config.tls.key.is_some() {
        let (set, missing) = if config.tls.cert.is_some() {
            ("tls.cert", "tls.key")
        } else {
            ("tls.key", "tls.cert")
        };
        return refuse(loaded, set, format!("it needs {missing} too"));
    }
    tls_files(loaded)?;
    database(loaded)?;
    let all = [Role::Web, Role::Live, Role::Jobs].iter().all(|role| config.roles.contains(role));
    if !all && config.database.url.expose().starts_with("sqlite:") {
        let reason = "on SQLite one process does all: leave roles out, or use PostgreSQL";
        return refuse(loaded, "roles", reason.into());
    }
    let redis = config.redis.url.expose();
    if !redis.is_empty()
        && !["redis://", "rediss://", "unix:"].iter().any(|with| redis.starts_with(with))
    {
        let reason = "expected redis://HOST:PORT, rediss://HOST:PORT or unix:PATH".into();
        return refuse(loaded, "redis.url", reason);
    }
    if config.jobs.backend == JobsBackend::Redis && redis.is_empty() {
        let reason = "it needs redis.url: say where Redis is, or leave the jobs in the database";
        return refuse(loaded, "jobs.backend", reason.into());
    }
    if config.media.store != "file" {
        return refuse(loaded, "media.store", "expected \"file\"".into());
    }
    let smtp = config.mail.smtp_url.expose();
    if !(smtp.is_empty() || smtp.starts_with("smtp://") || smtp.starts_with("smtps://")) {
        let reason = "expected smtp://HOST:PORT or smtps://HOST:PORT".into();
        return refuse(loaded, "mail.smtp_url", reason);
    }
    log_level(loaded)?;
    let may_move =
        |key| modes.dev && matches!(loaded.origin(key), Origin::Default | Origin::Mode(_));
    Ok(Checked {
        config: loaded.config.clone(),
        modes,
        metrics_port_may_move: may_move("metrics.listen"),
        chat_ports_may_move: CHAT_LISTENERS.into_iter().filter(|key| may_move(key)).collect(),
    })
}

fn refuse<T>(loaded: &Loaded, key: &str, reason: String) -> Result<T, ConfigError> {
    Err(ConfigError::BadValue { origin: loaded.origin(key).clone(), key: key.to_owned(), reason })
}

fn log_level(loaded: &Loaded) -> Result<(), ConfigError> {
    let level = &loaded.config.log.level;
    // A lone word that is no level would be taken for a part of the program, and all others be
    // silent.
    let is_level = |word: &str| LOG_LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    let is_known = |word: &str| word.contains('=') || word.starts_with('[') || is_level(word);
    let strange = level.split(',').find(|word| !is_known(word));
    if let Some(word) = strange {
        let levels = LOG_LEVELS.join(", ");
        let reason = format!("expected one of {levels}, or PART=LEVEL, found \"{word}\"");
        return refuse(loaded, "log.level", reason);
    }
    match tracing_subscriber::EnvFilter::try_new(level) {
        Ok(_) => Ok(()),
        Err(error) => refuse(loaded, "log.level", error.to_string()),
    }
}

/// The certificate and its key can be read, and belong together.
fn tls_files(loaded: &Loaded) -> Result<(), ConfigError> {
    let (Some(cert), Some(key)) = (&loaded.config.tls.cert, &loaded.config.tls.key) else {
        return Ok(());
    };
    match Tls::from_files(cert, key) {
        Ok(_) => Ok(()),
        Err(TlsError::File { what, path, reason }) => {
            let which = if path == *key { "tls.key" } else { "tls.cert" };
            let path = path.display();
            let reason = format!(
                "cannot read a {what} from {path}: {reason}; give a PEM file that this user may \
                 read"
            );
            refuse(loaded, which, reason)
        }
        Err(other) => refuse(loaded, "tls.cert", other.to_string()),
    }
}

fn database(loaded: &Loaded) -> Result<(), ConfigError> {
    let reason = match weir_db::check_url(loaded.config.database.url.expose()) {
        Ok(()) => return Ok(()),
        Err(weir_db::Error::Open { reason, .. }) => {
            format!("{reason}; expected postgres://USER:PASSWORD@HOST:PORT/DATABASE")
        }
        Err(_) => "expected sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/DATABASE".into(),
    };
    refuse(loaded, "database.url", reason)
}

fn domain(loaded: &Loaded, modes: Modes) -> Result<(), ConfigError> {
    let domain = &loaded.config.domain;
    if domain.is_empty() {
        if modes.dev {
            return Ok(());
        }
        let reason = "set it to what stands after the @, in the file, as WEIR_DOMAIN or with \
                      --domain; or try Weir with --dev";
        return refuse(loaded, "domain", reason.into());
    }
    // The scheme has no default port, so that none is dropped as needless.
    let parsed = Url::parse(&format!("weir://{domain}/")).ok().and_then(|url| {
        let plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let host = Host::parse(url.host_str()?).ok()?;
        (plain && url.username().is_empty()).then(|| (host, url.port()))
    });
    let Some((host, port)) = parsed else {
        let reason = format!("expected a host like \"example.social\", found \"{domain}\"");
        return refuse(loaded, "domain", reason);
    };
    let normal = port.map_or(host.to_string(), |port| format!("{host}:{port}"));
    if normal != *domain {
        return refuse(loaded, "domain", format!("write it as \"{normal}\""));
    }
    if modes.dev {
        if !is_local(&host) {
            let reason = format!(
                "--dev serves local domains only (localhost, *.localhost, *.test or a loopback \
                 address), not \"{domain}\"; leave --dev out to serve it"
            );
            return refuse(loaded, "domain", reason);
        }
    } else if port.is_some() {
        let reason = "a port belongs into http.public_url; only --dev takes one here";
        return refuse(loaded, "domain", reason.into());
    }
    Ok(())
}

fn is_local(host: &Host<String>) -> bool {
    match host {
        Host::Domain(name) => {
            name == "localhost" || name.ends_with(".localhost") || name.ends_with(".test")
        }
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

fn public_url(loaded: &mut Loaded, modes: Modes) -> Result<(), ConfigError> {
    let text = loaded.config.http.public_url.clone();
    if text.is_empty() {
        return Ok(());
    }
    let url = Url::parse(&text).ok().filter(|url| {
        let known = url.scheme() == "https" || (url.scheme() == "http" && modes.dev);
        known && url.path() == "/" && url.query().is_none() && url.fragment().is_none()
    });
    let Some(url) = url else {
        let reason = format!(
            "expected https:// and a host, without a path (http:// with --dev only), \
             found \"{text}\""
        );
        return refuse(loaded, "http.public_url", reason);
    };
    loaded.config.http.public_url = url.as_str().trim_end_matches('/').to_owned();
    Ok(())
}

/// In development everybody may sign up, unless a test says otherwise.
fn open_up(loaded: &mut Loaded) {
    let mut choose = |key: &str, choice: &dyn Fn(&mut Config)| {
        if *loaded.origin(key) == Origin::Default {
            choice(&mut loaded.config);
            loaded.origins.insert(key.to_owned(), Origin::Mode("--dev"));
        }
    };
    choose("registrations.mode", &|config| config.registrations.mode = RegistrationMode::Open);
    choose("registrations.confirm_email", &|config| {
        config.registrations.confirm_email = Switch::Off;
    });
}

fn listeners(loaded: &mut Loaded, modes: Modes) -> Result<(), ConfigError> {
    let Some(http) = loaded.config.http.listen else {
        return refuse(loaded, "http.listen", "expected an address like \"127.0.0.1:8080\"".into());
    };
    let mode = match modes {
        Modes { dev: true, .. } => "--dev",
        Modes { demo: true, .. } => "--demo",
        _ => return Ok(()),
    };
    if *loaded.origin("metrics.listen") == Origin::Default
        && let Some(metrics) = &mut loaded.config.metrics.listen
        && http.ip().is_loopback()
    {
        metrics.set_ip(http.ip());
        loaded.origins.insert("metrics.listen".into(), Origin::Mode(mode));
    }
    for key in CHAT_LISTENERS {
        let is_default = *loaded.origin(key) == Origin::Default;
        let xmpp = &mut loaded.config.xmpp;
        let listener = match key {
            "xmpp.c2s_listen" => &mut xmpp.c2s_listen,
            "xmpp.c2s_tls_listen" => &mut xmpp.c2s_tls_listen,
            "xmpp.s2s_listen" => &mut xmpp.s2s_listen,
            _ => &mut xmpp.component_listen,
        };
        if let Some(address) = listener
            && is_default
            && http.ip().is_loopback()
        {
            address.set_ip(http.ip());
            loaded.origins.insert(key.into(), Origin::Mode(mode));
        }
    }
    let xmpp = &loaded.config.xmpp;
    let listeners = [
        ("http.listen", loaded.config.http.listen),
        ("metrics.listen", loaded.config.metrics.listen),
        ("xmpp.c2s_listen", xmpp.c2s_listen),
        ("xmpp.c2s_tls_listen", xmpp.c2s_tls_listen),
        ("xmpp.s2s_listen", xmpp.s2s_listen),
        ("xmpp.component_listen", xmpp.component_listen),
    ];
    for (key, address) in listeners {
        if let Some(address) = address.filter(|address| !address.ip().is_loopback()) {
            let reason = format!(
                "{mode} listens on loopback addresses only (127.0.0.1, [::1]), not on {address}"
            );
            return refuse(loaded, key, reason);
        }
    }
    Ok(())
}
