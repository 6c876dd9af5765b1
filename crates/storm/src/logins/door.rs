//! Where the server is reached: an address, with TLS or without.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use url::Url;
use weir_base::{MIB, Random};
use weir_live::socket::client::{Client as Socket, Request, connect};
use weir_live::socket::{SocketLimits, Sockets};

use crate::pipe::{self, Pipe};

/// A way to the server. Clones are the same.
#[derive(Clone)]
pub(super) struct Door {
    address: SocketAddr,
    host: String,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    sockets: Sockets,
    random: Random,
}

impl Door {
    /// The way to `target`; of who it is, any certificate is taken where it `may_be_anybody`.
    ///
    /// # Errors
    /// When there is none.
    pub(super) async fn to(target: &Url, may_be_anybody: bool, seed: u64) -> Result<Self> {
        let host = target.host_str().context("--target names no host")?;
        let encrypted = matches!(target.scheme(), "https" | "wss");
        let port = target.port().unwrap_or(if encrypted { 443 } else { 80 });
        let bare = host.trim_matches(['[', ']']);
        let address = tokio::net::lookup_host((bare, port)).await?.next();
        let tls = match encrypted {
            true => {
                let name = ServerName::try_from(bare.to_owned())?;
                Some((pipe::trusting(may_be_anybody)?, name))
            }
            false => None,
        };
        let limits = SocketLimits { message_bytes_max: 16 * MIB, ..SocketLimits::default() };
        Ok(Self {
            address: address.context("--target has no address")?,
            host: format!("{host}:{port}"),
            tls,
            sockets: Sockets::new(limits),
            random: Random::seeded(seed),
        })
    }

    /// The port.
    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// A WebSocket on which nothing was said.
    ///
    /// # Errors
    /// When the server does not take one more.
    pub(super) async fn open(&self) -> Result<Socket<Box<dyn Pipe>>> {
        let connected = TcpStream::connect(self.address).await;
        let stream = connected.context("the server refuses connections")?;
        stream.set_nodelay(true)?;
        let pipe: Box<dyn Pipe> = match &self.tls {
            None => Box::new(stream),
            Some((config, name)) => {
                let connecting =
                    tokio_rustls::TlsConnector::from(config.clone()).connect(name.clone(), stream);
                Box::new(connecting.await.context("TLS: --insecure takes any certificate")?)
            }
        };
        let (host, path) = (self.host.clone(), "/websocket".into());
        let request = Request { host, path, ..Request::default() };
        Ok(connect(pipe, &self.sockets, &request, self.random.clone()).await?)
    }
}
