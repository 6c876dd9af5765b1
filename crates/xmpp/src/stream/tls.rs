//! TLS of people's apps: by STARTTLS (RFC 6120 section 5) or from the first byte (XEP-0368).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::crypto::aws_lc_rs;
use rustls::server::NoServerSessionStorage;
use rustls::{ProtocolVersion, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use weir_http::Tls;

use super::transport::Security;
use crate::sasl::{Binding, Bindings, endpoint};

/// The certificate, and how TLS is spoken with it; clones share it.
#[derive(Clone)]
pub struct ChatTls {
    tls: Tls,
    acceptor: TlsAcceptor,
}

impl ChatTls {
    /// TLS for people's apps with the certificate of `tls`, which can be read again.
    ///
    /// # Errors
    /// When TLS refuses its settings.
    pub fn new(tls: Tls) -> Result<Self, rustls::Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(tls.certificates());
        config.alpn_protocols = vec![b"xmpp-client".to_vec()];
        // Who comes back brings what it takes to go on: nothing is kept here for it.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.ticketer = aws_lc_rs::Ticketer::new()?;
        config.send_tls13_tickets = 1;
        Ok(Self { tls, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// The certificate.
    pub fn tls(&self) -> &Tls {
        &self.tls
    }

    fn security(&self, stream: &TlsStream<TcpStream>) -> Security {
        let mut bindings = Bindings::default();
        let (_, connection) = stream.get_ref();
        // Before version 1.3 the exporter is not bound to the certificate (RFC 9266, 3.1).
        if connection.protocol_version() == Some(ProtocolVersion::TLSv1_3) {
            let label = b"EXPORTER-Channel-Binding";
            if let Ok(data) = connection.export_keying_material([0; 32], label, Some(&[])) {
                bindings = bindings.with(Binding::Exporter, &data);
            }
        }
        let certificate = self.tls.certificate();
        if let Some(data) = certificate.and_then(|certificate| endpoint(&certificate)) {
            bindings = bindings.with(Binding::Endpoint, &data);
        }
        Security { is_encrypted: true, bindings }
    }
}

/// A connection of the network, plain or through TLS.
pub enum Wire {
    /// As it is.
    Plain(TcpStream),
    /// Through TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Starts TLS.
pub(super) fn start(
    wire: Wire,
    tls: ChatTls,
) -> Pin<Box<dyn Future<Output = io::Result<(Wire, Security)>> + Send>> {
    Box::pin(async move {
        let Wire::Plain(io) = wire else { return Err(io::ErrorKind::InvalidInput.into()) };
        let stream = tls.acceptor.accept(io).await?;
        let security = tls.security(&stream);
        Ok((Wire::Tls(Box::new(stream)), security))
    })
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_read(cx, buf),
            Self::Tls(io) => Pin::new(io.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_write(cx, buf),
            Self::Tls(io) => Pin::new(io.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_flush(cx),
            Self::Tls(io) => Pin::new(io.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(io) => Pin::new(io).poll_shutdown(cx),
            Self::Tls(io) => Pin::new(io.as_mut()).poll_shutdown(cx),
        }
    }
}
