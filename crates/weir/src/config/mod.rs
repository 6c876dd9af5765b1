//! The configuration: what can be set, where each value came from, and the rules between values.
//!
//! A value comes from the first of these that gives it: a flag, an environment variable, the
//! file, the default. The comments below are the documentation: the example file is made of them.

mod example;
mod load;
mod rules;
mod setting;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use weir_base::Secret;
use weir_http::Network;
use weir_xmpp::iq::external::External;

pub use example::example;
pub use load::{ConfigError, Flag, Loaded, Origin, load};
pub use rules::{Checked, Modes, check};
pub use setting::without_password as setting_without_password;
use setting::{Setting, settings, words};

/// A key's name, its section (empty for those on top), and what it means, line by line.
#[derive(Debug)]
pub struct Key {
    /// The table it stands in; empty for the keys on top.
    pub section: &'static str,
    /// Its name within the section.
    pub name: &'static str,
    /// Its documentation, line by line.
    pub docs: &'static [&'static str],
}

impl Key {
    /// `http.listen`
    pub fn path(&self) -> String {
        if self.section.is_empty() {
            self.name.to_owned()
        } else {
            format!("{}.{}", self.section, self.name)
        }
    }

    /// `WEIR_HTTP_LISTEN`
    pub fn variable(&self) -> String {
        format!("WEIR_{}", self.path().replace('.', "_").to_uppercase())
    }
}

/// A value as it stands outside.
pub enum Raw<'a> {
    /// In the file.
    Toml(&'a toml::de::DeValue<'a>),
    /// In an environment variable or a flag.
    Text(&'a str),
}

impl Raw<'_> {
    fn read<T: Setting>(&self) -> Result<T, String> {
        match self {
            Raw::Toml(value) => T::from_toml(value),
            Raw::Text(text) => T::from_text(text),
        }
    }
}

words! {
    /// A part of the work that a process may do.
    Role {
        /// Serves HTTP.
        Web = "web",
        /// Holds streaming sessions.
        Live = "live",
        /// Works background jobs.
        Jobs = "jobs",
        /// Serves chat.
        Xmpp = "xmpp",
    }
}

words! {
    /// With whom this server federates.
    FederationMode {
        /// With everybody who is not blocked.
        Open = "open",
        /// With listed domains only.
        Allowlist = "allowlist",
        /// With nobody.
        Off = "off",
    }
}

words! {
    /// Who may sign up.
    RegistrationMode {
        /// Everybody.
        Open = "open",
        /// Whom the staff approves.
        Approval = "approval",
        /// Who holds an invitation.
        Invite = "invite",
        /// Nobody.
        Closed = "closed",
    }
}

words! {
    /// Whether something is done.
    Switch {
        /// When what it needs is there.
        Auto = "auto",
        /// Always.
        On = "on",
        /// Never.
        Off = "off",
    }
}

words! {
    /// Where background jobs are worked from.
    JobsBackend {
        /// The database.
        Database = "database",
        /// Redis, in Sidekiq's format.
        Redis = "redis",
    }
}

words! {
    /// How log lines look.
    LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

settings! {
    /// The configuration of a Weir server. Every key may be left out, and every key is also an
    /// environment variable: `listen` under `[http]` is `WEIR_HTTP_LISTEN`. Flags win over
    /// variables, variables over this file. `weir serve --check` prints what is in effect and why.
    struct Config {
        /// What stands after the @ in the names of the people here. It cannot change once
        /// accounts exist. Only `weir serve --dev` does without: there it is the address that is
        /// listened on.
        domain: String = String::new();
        /// The directory in which all state lies: database, media, keys, the control socket.
        data: PathBuf = PathBuf::from("data");
        /// The parts of the work this process does, any of web, live, jobs and xmpp. On SQLite
        /// there is one process, and it does all.
        roles: Vec<Role> = vec![Role::Web, Role::Live, Role::Jobs, Role::Xmpp];
    }

    /// Pages, the Mastodon API, streaming and federation share one port.
    section http: Http {
        /// Where to listen. Port 0 takes any free port; the line `ready` in the log tells it.
        listen: Option<SocketAddr> = Some(SocketAddr::from(([127, 0, 0, 1], 8080)));
        /// The address at which browsers and other servers reach this one. Empty: `https://`
        /// and the domain. Never change it once other servers know accounts from here.
        public_url: String = String::new();
        /// Addresses and networks of reverse proxies whose X-Forwarded-For is believed, like
        /// ["127.0.0.1", "10.0.0.0/8"].
        trusted_proxies: Vec<Network> = Vec::new();
        /// The most connections to hold at once. 0 derives it from the descriptor limit.
        connections_max: u32 = 0;
    }

    /// HTTPS without a proxy. Both files are read again on SIGHUP.
    section tls: TlsFiles {
        /// The file with the certificate chain, PEM.
        cert: Option<PathBuf> = None;
        /// The file with its private key, PEM.
        key: Option<PathBuf> = None;
    }

    /// Where the community's rows lie.
    section database: Database {
        /// sqlite:PATH (a path that is not absolute starts in the data directory), or
        /// postgres://USER:PASSWORD@HOST/NAME. To a PostgreSQL on another machine add
        /// ?sslmode=verify-full, and &sslrootcert=FILE for a certificate of your own: see
        /// docs/postgresql.md.
        url: Secret<String> = Secret::new("sqlite:weir.db".to_owned());
        /// The most connections to hold to the database. 0 derives it from the machine.
        max_connections: u32 = 0;
    }

    /// Redis or Valkey, for what is shared between processes. Nothing needs it on one node.
    section redis: Redis {
        /// redis://[[USER]:PASSWORD@]HOST[:PORT][/NUMBER], rediss:// for TLS, or unix:PATH.
        /// Empty: none.
        url: Secret<String> = Secret::new(String::new());
    }

    /// The memory of this process.
    section memory: Memory {
        /// What it should stay within, in MiB. Near it less urgent jobs wait. 0: three quarters of
        /// what the control group or the machine has.
        budget_mib: u32 = 0;
    }

    /// Background jobs.
    section jobs: Jobs {
        /// database: worked from where they are written. redis: handed over to queues in
        /// Sidekiq's format, which real Sidekiq processes and Sidekiq Web can share; what Redis
        /// does not keep over a crash is lost, so read what the start says of it.
        backend: JobsBackend = JobsBackend::Database;
    }

    /// How this server speaks with others.
    section federation: Federation {
        /// open: with everybody who is not blocked. allowlist: with those that
        /// `weir federation allow` lists. off: with nobody.
        mode: FederationMode = FederationMode::Open;
        /// Whether others must sign what they fetch, so that blocked servers can be refused. With
        /// an allowlist they must anyway.
        require_signed_fetch: bool = false;
        /// Names that resolve to given addresses, for tests and private networks, like
        /// { "other.test" = "127.0.0.2" }.
        resolve: BTreeMap<String, IpAddr> = BTreeMap::new();
    }

    /// How long things are kept that nobody here asked for.
    section retention: Retention {
        /// Days for which posts and accounts of other servers are kept though nobody here follows
        /// or touched them; see docs/housekeeping.md. 0: for good.
        remote_days: u32 = 30;
        /// Days for which chat messages stay in the archives of people and rooms. 0: for good.
        chat_days: u32 = 0;
        /// Days for which notifications are kept. 0: for good.
        notification_days: u32 = 180;
    }

    /// Who may sign up. What staff sets while the server runs wins over this.
    section registrations: Registrations {
        /// open, approval, invite or closed.
        mode: RegistrationMode = RegistrationMode::Approval;
        /// Whether new people prove their e-mail address: auto (when mail is set up), on, off.
        confirm_email: Switch = Switch::Auto;
    }

    /// Chat by XMPP. Accounts are addresses: NAME@DOMAIN.
    section xmpp: XmppListeners {
        /// Where people's apps connect; TLS begins when they ask for it. Empty: nowhere.
        c2s_listen: Option<SocketAddr> = Some(SocketAddr::from(([0u16; 8], 5222)));
        /// The same, with TLS from the first byte. Empty: nowhere.
        c2s_tls_listen: Option<SocketAddr> = Some(SocketAddr::from(([0u16; 8], 5223)));
        /// STUN and TURN servers that apps use for calls, like ["stun:turn.example.org:3478",
        /// "turn:turn.example.org:3478?transport=udp", "turns:turn.example.org:5349"].
        external_services: Vec<External> = Vec::new();
        /// What is shared with the TURN servers (`static-auth-secret` of coturn): people get names
        /// and passwords made of it that hold for a day. Empty: they get none.
        turn_secret: Option<Secret<String>> = None;
        /// Where other servers connect. Empty: nowhere.
        s2s_listen: Option<SocketAddr> = Some(SocketAddr::from(([0u16; 8], 5269)));
        /// Whether only servers are spoken with whose certificate proves their domain, by an
        /// authority that this system trusts. Else dialback does too, which leans on DNS.
        s2s_certificates_only: bool = false;
        /// Where gateways and other components (XEP-0114) connect, if any are named below; what
        /// they say is not encrypted. Empty: nowhere.
        component_listen: Option<SocketAddr> = Some(SocketAddr::from(([127, 0, 0, 1], 5347)));
        /// The components that may connect, by their domains, each with its secret, like
        /// { "irc.example.social" = "SECRET" }.
        components: BTreeMap<String, Secret<String>> = BTreeMap::new();
        /// Where the chat servers of some domains are, like { "other.test" = "127.0.0.2:5269" };
        /// of all others DNS is asked.
        servers: BTreeMap<String, SocketAddr> = BTreeMap::new();
        /// The name server that is asked where other chat servers are. Empty: the system's.
        name_server: Option<SocketAddr> = None;
    }

    /// Pictures, sound and video.
    section media: Media {
        /// `file`: under `media/` in the data directory.
        store: String = "file".to_owned();
    }

    /// Outgoing mail: confirmations, password resets.
    section mail: Mail {
        /// smtp://USER:PASSWORD@HOST:PORT, or smtps:// for TLS from the first byte. With smtp://
        /// TLS is turned on where it is offered, and must be before a password is sent. Empty:
        /// no mail goes out; what would have stands in the log, as warnings.
        smtp_url: Secret<String> = Secret::new(String::new());
        /// The sender. Empty: `Weir <weir@DOMAIN>`.
        from: String = String::new();
    }

    /// The numbers of this process, for Prometheus.
    section metrics: Metrics {
        /// Where `/metrics` is served, without a password: keep it private. Empty: nowhere.
        listen: Option<SocketAddr> = Some(SocketAddr::from(([127, 0, 0, 1], 9464)));
    }

    /// What is logged, on standard error.
    section log: Log {
        /// off, error, warn, info, debug or trace; also by part: `info,weir_http=debug`.
        level: String = "info".to_owned();
        /// `text` for people, `json` for collectors.
        format: LogFormat = LogFormat::Text;
    }
}

#[cfg(test)]
mod tests;
