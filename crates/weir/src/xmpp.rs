//! Chat, put together with what it leans on.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_base::Secret;
use weir_community::Community;
use weir_http::Tls;
use weir_xmpp::iq::external::Externals;
use weir_xmpp::stream::{ChatTls, listen};
use weir_xmpp::{Setup, Xmpp};

use crate::config::{Checked, Role};
use crate::options;
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
            tracing::warn!(
                "chat apps can connect only over WebSocket: set cert and key under [tls], for \
                 the domain itself"
            );
            return Ok(None);
        }
    };
    ChatTls::new(tls).map(Some).map_err(|error| ServeError::Tls(error.into()))
}

/// Where chat listens.
pub struct Doors {
    c2s: Option<(TcpListener, SocketAddr)>,
    c2s_tls: Option<(TcpListener, SocketAddr)>,
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
        })
    }

    /// Where people's apps connect, without and with TLS from the first byte; empty where nowhere.
    pub fn addresses(&self) -> (String, String) {
        let text = |door: &Option<(TcpListener, SocketAddr)>| {
            door.as_ref().map(|(_, address)| address.to_string()).unwrap_or_default()
        };
        (text(&self.c2s), text(&self.c2s_tls))
    }

    /// Lets everybody in.
    pub fn open(self, chat: &Xmpp, tasks: &TaskTracker) {
        if let Some((listener, _)) = self.c2s {
            tasks.spawn(listen::serve(chat.clone(), listener));
        }
        if let Some((listener, _)) = self.c2s_tls {
            tasks.spawn(listen::serve_tls(chat.clone(), listener));
        }
    }
}
