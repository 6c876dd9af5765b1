//! Chat, put together with what it leans on.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_base::Secret;
use weir_community::Community;
use weir_http::Tls;
use weir_xmpp::iq::external::Externals;
use weir_xmpp::s2s::{self, Finding, Servers, Trust};
use weir_xmpp::stream::{ChatTls, listen};
use weir_xmpp::{Setup, Xmpp};

use crate::config::{Checked, FederationMode, Role};
use crate::options;
use crate::outside::Outside;
use crate::serve::{ServeError, bind_any};

/// Sessions without a descriptor of their own (they wait to be resumed), for each that has one.
const SESSIONS_PER_DESCRIPTOR: u64 = 2;

/// The face of chat.
pub fn face(
    checked: &Checked,
    community: &Community,
    tls: Option<ChatTls>,
    descriptors_max: u64,
    shutdown: CancellationToken,
) -> Xmpp {
    let sessions_max = descriptors_max.saturating_mul(SESSIONS_PER_DESCRIPTOR);
    Xmpp::start(Setup {
        community: community.clone(),
        dev: checked.modes.dev,
        tls,
        door: options::door(checked),
        externals: Externals {
            services: checked.config.xmpp.external_services.clone(),
            secret: checked.config.xmpp.turn_secret.clone().unwrap_or_else(no_secret),
        },
        sessions_max: usize::try_from(sessions_max).unwrap_or(usize::MAX),
        shutdown,
    })
}

fn no_secret() -> Secret<String> {
    Secret::new(String::new())
}

/// The certificate of chat: the one of HTTPS; in development one that is made up.
///
/// # Errors
/// [`ServeError::Tls`].
pub fn tls(
    checked: &Checked,
    https: Option<&Tls>,
    community: &Community,
) -> Result<Option<ChatTls>, ServeError> {
    let tls = match https {
        Some(tls) => tls.clone(),
        None if checked.modes.dev || checked.modes.demo => {
            Tls::self_made(vec![weir_community::chat::address::domain(community.env()).into()])?
        }
        None => {
            let xmpp = &checked.config.xmpp;
            if xmpp.c2s_listen.or(xmpp.c2s_tls_listen).or(xmpp.s2s_listen).is_some() {
                tracing::warn!(
                    "chat apps can connect only over WebSocket: set cert and key under [tls], for \
                     the domain itself"
                );
            }
            return Ok(None);
        }
    };
    ChatTls::new(tls).map(Some).map_err(|error| ServeError::Tls(error.into()))
}

/// What speaks with other chat servers; none where the configuration switches it off, or where
/// there is no certificate.
///
/// # Errors
/// [`ServeError::Tls`].
pub fn servers(
    checked: &Checked,
    chat: &Xmpp,
    outside: &Outside,
) -> Result<Option<Servers>, ServeError> {
    let (federation, xmpp) = (&checked.config.federation, &checked.config.xmpp);
    let Some(tls) = chat.tls.as_ref().filter(|_| federation.mode != FederationMode::Off) else {
        return Ok(None);
    };
    let setup = s2s::Setup {
        tls: tls.tls().clone(),
        trust: Trust::new(&outside.extra_ca),
        finding: Finding {
            servers: xmpp.servers.clone(),
            addresses: federation.resolve.clone(),
            name_server: xmpp.name_server,
            allow_private: checked.modes.dev,
        },
        allowlist: federation.mode == FederationMode::Allowlist,
        certificates_only: xmpp.s2s_certificates_only,
        allow_plain: false,
    };
    let servers = Servers::start(chat, setup);
    servers.map(Some).map_err(|error| ServeError::Tls(error.into()))
}

/// Where chat listens.
pub struct Doors {
    c2s: Option<(TcpListener, SocketAddr)>,
    c2s_tls: Option<(TcpListener, SocketAddr)>,
    s2s: Option<(TcpListener, SocketAddr)>,
    components: Option<(TcpListener, SocketAddr)>,
}

/// The addresses where chat listens; empty where it does not.
pub struct Addresses {
    /// For people's apps.
    pub c2s: String,
    /// For people's apps, with TLS from the first byte.
    pub c2s_tls: String,
    /// For other servers.
    pub s2s: String,
    /// For components.
    pub components: String,
}

impl Doors {
    /// Takes the addresses of the configuration.
    ///
    /// # Errors
    /// [`ServeError::Listen`].
    pub async fn bind(checked: &Checked) -> Result<Self, ServeError> {
        let chats = checked.config.roles.contains(&Role::Xmpp);
        let bind = async |address: Option<SocketAddr>, key| {
            let may_move = checked.chat_ports_may_move.contains(&key);
            bind_any(address.filter(|_| chats), key, may_move).await
        };
        let xmpp = &checked.config.xmpp;
        Ok(Self {
            c2s: bind(xmpp.c2s_listen, "xmpp.c2s_listen").await?,
            c2s_tls: bind(xmpp.c2s_tls_listen, "xmpp.c2s_tls_listen").await?,
            s2s: {
                let federates = checked.config.federation.mode != FederationMode::Off;
                bind(xmpp.s2s_listen.filter(|_| federates), "xmpp.s2s_listen").await?
            },
            components: {
                let listen = xmpp.component_listen.filter(|_| !xmpp.components.is_empty());
                bind(listen, "xmpp.component_listen").await?
            },
        })
    }

    /// Where it listens.
    pub fn addresses(&self) -> Addresses {
        let text = |door: &Option<(TcpListener, SocketAddr)>| {
            door.as_ref().map(|(_, address)| address.to_string()).unwrap_or_default()
        };
        Addresses {
            c2s: text(&self.c2s),
            c2s_tls: text(&self.c2s_tls),
            s2s: text(&self.s2s),
            components: text(&self.components),
        }
    }

    /// Lets everybody in.
    pub fn open(
        self,
        checked: &Checked,
        chat: &Xmpp,
        servers: Option<Servers>,
        tasks: &TaskTracker,
    ) {
        if let (Some((listener, _)), Some(servers)) = (self.s2s, servers) {
            tasks.spawn(s2s::serve(servers, listener));
        }
        if let Some((listener, _)) = self.components {
            let secrets = checked.config.xmpp.components.clone();
            tasks.spawn(s2s::serve_components(chat.clone(), listener, secrets));
        }
        if let Some((listener, _)) = self.c2s {
            tasks.spawn(listen::serve(chat.clone(), listener));
        }
        if let Some((listener, _)) = self.c2s_tls {
            tasks.spawn(listen::serve_tls(chat.clone(), listener));
        }
    }
}
