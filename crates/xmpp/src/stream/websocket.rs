//! XMPP over WebSocket (RFC 7395), at `/xmpp-websocket`: an element a message, nothing around.

use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderValue, StatusCode, header};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;
use weir_http::ClientIp;
use weir_live::socket::{
    self, HandshakeError, Message, Socket, SocketError, SocketLimits, Sockets, close_code,
};

use super::transport::{Header, Received, Security, Transport};
use super::{accept, splice};
use crate::face::Xmpp;
use crate::limits;
use crate::sasl::Bindings;
use crate::wire::{StreamCondition, StreamError, ns, parse, write};

/// The subprotocol (RFC 7395, 3.1).
const PROTOCOL: &str = "xmpp";

/// What is served at `/xmpp-websocket`.
pub(super) fn router(xmpp: Xmpp) -> Router {
    let sockets = Sockets::new(SocketLimits {
        message_bytes_max: limits::STANZA_BYTES_MAX as usize,
        ..SocketLimits::default()
    });
    Router::new().route("/xmpp-websocket", get(upgrade)).with_state((xmpp, sockets))
}

/// Answers the handshake, and runs the connection once it stands.
async fn upgrade(State((xmpp, sockets)): State<(Xmpp, Sockets)>, request: Request) -> Response {
    let upgrade = match socket::upgrade_headers(request.headers()) {
        Ok(upgrade) if upgrade.protocols.iter().any(|offered| offered == PROTOCOL) => upgrade,
        Ok(_) => {
            let text = "Offer the subprotocol xmpp (RFC 7395).";
            return (StatusCode::BAD_REQUEST, text).into_response();
        }
        Err(error) => {
            let mut response = (StatusCode::BAD_REQUEST, error.to_string()).into_response();
            if error == HandshakeError::Version {
                *response.status_mut() = StatusCode::UPGRADE_REQUIRED;
                let version = HeaderValue::from_static("13");
                response.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, version);
            }
            return response;
        }
    };
    let peer = request.extensions().get::<ClientIp>().map(|ip| ip.0);
    let peer = peer.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    let mut response = StatusCode::SWITCHING_PROTOCOLS.into_response();
    response.headers_mut().extend(upgrade.response_headers(Some(PROTOCOL)));
    *response.body_mut() = Body::empty();
    let upgraded = weir_http::upgraded(request);
    tokio::spawn(async move {
        let Ok((stream, read)) = upgraded.await else { return };
        // Where people come by https, TLS ends here or at the proxy before us.
        let is_encrypted = xmpp.env().site.base.starts_with("https://");
        let security = Security { is_encrypted, bindings: Bindings::NONE };
        let transport = WebSocket::new(sockets.server(stream).after(&read), security);
        accept(xmpp, Box::new(transport), peer).await;
    });
    response
}

/// A WebSocket that carries an XML stream.
struct WebSocket<S> {
    socket: Socket<S>,
    /// Frames that wait to be written; takes nothing while nothing does.
    out: Vec<u8>,
    written: usize,
    /// For a message that began and does not end.
    timer: Option<Pin<Box<Sleep>>>,
    security: Box<Security>,
    element_bytes_max: usize,
    has_said_close: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> WebSocket<S> {
    fn new(socket: Socket<S>, security: Security) -> Self {
        Self {
            socket,
            out: Vec::new(),
            written: 0,
            timer: None,
            security: Box::new(security),
            element_bytes_max: limits::STRANGER_BYTES_MAX as usize,
            has_said_close: false,
        }
    }

    fn put(&mut self, text: &[&str]) {
        self.out.extend_from_slice(&socket::text_of(text));
    }

    fn take(&self, text: &str) -> Received {
        if text.len() > self.element_bytes_max {
            let text = "this stanza is too long";
            let error = StreamError::new(StreamCondition::PolicyViolation).text(text);
            return Received::Bad(error);
        }
        if text.trim().is_empty() {
            return Received::Space;
        }
        match parse::element(text) {
            Err(error) => Received::Bad(StreamError::from(error)),
            Ok(element) if element.is("open", ns::FRAMING) => Received::Open(element),
            Ok(element) if element.is("close", ns::FRAMING) => Received::Close,
            Ok(element) if element.ns == ns::FRAMING || element.ns == ns::STREAM => {
                Received::Bad(StreamError::new(StreamCondition::BadFormat))
            }
            Ok(element) => Received::Element(element),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Transport for WebSocket<S> {
    fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Received> {
        let message = std::task::ready!(self.socket.poll_recv(context, &mut self.timer));
        self.timer = None;
        let violation = |text: String| {
            Received::Bad(StreamError::new(StreamCondition::PolicyViolation).text(text))
        };
        Poll::Ready(match message {
            Ok(Message::Text(text)) => self.take(&text),
            Ok(Message::Ping(_) | Message::Pong(_)) => Received::Space,
            Ok(Message::Binary(_)) => violation("send text".into()),
            Ok(Message::Close(_)) => Received::Gone,
            Err(error @ (SocketError::Protocol(_) | SocketError::SlowMessage)) => {
                violation(error.to_string())
            }
            Err(_) => Received::Gone,
        })
    }

    fn queue(&mut self, parts: &[&[u8]]) {
        let whole;
        let element = match parts {
            [element] => *element,
            parts => {
                whole = parts.concat();
                &whole
            }
        };
        // Whatever is written here is text.
        let Ok(text) = std::str::from_utf8(element) else { return };
        let parts = splice::declared(text.as_bytes());
        // Cut before and behind a name.
        let parts = parts.map(|part| std::str::from_utf8(part).unwrap_or_default());
        self.put(&parts);
    }

    fn open(&mut self, header: &Header<'_>) {
        let mut text = String::from("<open");
        write::attribute("xmlns", ns::FRAMING, &mut text);
        write::attribute("id", header.id, &mut text);
        write::attribute("from", header.from, &mut text);
        if let Some(to) = header.to {
            write::attribute("to", to, &mut text);
        }
        text.push_str(" version='1.0' xml:lang='en'/>");
        self.put(&[&text]);
    }

    fn close_stream(&mut self) {
        self.put(&["<close xmlns='urn:ietf:params:xml:ns:xmpp-framing'/>"]);
    }

    fn waiting_bytes(&self) -> usize {
        self.out.len() - self.written
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = self.socket.poll_send(context, &self.out, &mut self.written);
        if let Poll::Ready(Ok(())) = sent {
            (self.out, self.written) = (Vec::new(), 0);
        }
        sent
    }

    fn keep_alive(&mut self) {
        self.out.extend_from_slice(&socket::ping(b""));
    }

    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !std::mem::replace(&mut self.has_said_close, true) {
            self.out.extend_from_slice(&socket::close(close_code::NORMAL, ""));
        }
        std::task::ready!(self.poll_flush(context))?;
        self.socket.poll_end(context)
    }

    fn security(&self) -> &Security {
        &self.security
    }

    fn restart(&mut self) {}

    fn set_element_bytes_max(&mut self, bytes: u32) {
        self.element_bytes_max = bytes as usize;
    }
}
