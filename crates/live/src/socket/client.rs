//! The client's side: for tests, load tools and connections to other servers.

use std::io;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use weir_base::Random;

use super::deflate;
use super::frame::{self, Opcode};
use super::handshake::accept_key;
use super::{Message, Peer, Socket, SocketError, Sockets};

/// The longest answer to a handshake that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 8 * 1024;

/// What to ask a server for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The `Host` header, with the port where it is not the usual one.
    pub host: String,
    /// Path and query, beginning with `/`.
    pub path: String,
    /// Further headers: authorization, subprotocols, origin.
    pub headers: HeaderMap,
    /// Whether to offer permessage-deflate. Messages from here are never compressed.
    pub deflate: bool,
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The stream failed.
    #[error("the stream failed before the WebSocket stood: {0}")]
    Io(#[from] io::Error),
    /// Host or path can't stand in a request.
    #[error("host or path of the WebSocket request hold spaces or control characters")]
    BadRequest,
    /// The server answered something else than 101.
    #[error("the server answered the WebSocket request with status {0}")]
    Refused(u16),
    /// The server's answer is no HTTP, too long, or its accept key is wrong.
    #[error("the server's answer to the WebSocket request makes no sense")]
    BadAnswer,
}

/// A WebSocket seen from the client.
pub struct Client<S> {
    socket: Socket<S>,
    /// The headers of the server's answer.
    pub answer: HeaderMap,
}

/// Speaks the opening handshake (RFC 6455, section 4.1) over a connected stream. The caller sets
/// the deadline.
pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    sockets: &Sockets,
    request: &Request,
    random: Random,
) -> Result<Client<S>, ConnectError> {
    let mut nonce = [0; 16];
    random.fill(&mut nonce);
    let key = BASE64_STANDARD.encode(nonce);
    let head = request_head(request, &key)?;
    stream.write_all(&head).await?;
    stream.flush().await?;
    let answer = read_head(&mut stream).await?;
    let headers = answer_headers(&answer)?;
    if headers.get("sec-websocket-accept").is_none_or(|accept| *accept != accept_key(&key)) {
        return Err(ConnectError::BadAnswer);
    }
    let socket = sockets.socket(stream, Peer::Server, Some(random));
    let socket = socket.deflating(request.deflate && deflate::is_agreed(&headers));
    Ok(Client { socket, answer: headers })
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// A client on a stream whose handshake is done.
    pub fn upgraded(stream: S, sockets: &Sockets, random: Random) -> Self {
        let socket = sockets.socket(stream, Peer::Server, Some(random));
        Self { socket, answer: HeaderMap::new() }
    }

    /// A client that takes compressed messages, as both sides agreed on.
    pub fn deflating(mut self) -> Self {
        self.socket = self.socket.deflating(true);
        self
    }

    /// See [`Socket::recv`].
    pub async fn recv(&mut self) -> Result<Message, SocketError> {
        self.socket.recv().await
    }

    /// Sends text.
    pub async fn send_text(&mut self, text: &str) -> Result<(), SocketError> {
        self.send(Opcode::Text, text.as_bytes()).await
    }

    /// Sends bytes.
    pub async fn send_binary(&mut self, bytes: &[u8]) -> Result<(), SocketError> {
        self.send(Opcode::Binary, bytes).await
    }

    /// Sends a ping, with at most 125 bytes of `payload`.
    pub async fn ping(&mut self, payload: &[u8]) -> Result<(), SocketError> {
        let frame = frame::control(Opcode::Ping, payload, self.socket.mask());
        self.socket.send_many(&[frame]).await
    }

    /// See [`Socket::close`].
    pub async fn close(&mut self, code: u16, reason: &str) {
        self.socket.close(code, reason).await;
    }

    async fn send(&mut self, opcode: Opcode, payload: &[u8]) -> Result<(), SocketError> {
        let frame: Bytes = frame::encode(opcode, &[payload], self.socket.mask());
        self.socket.send_many(&[frame]).await
    }
}

fn request_head(request: &Request, key: &str) -> Result<Vec<u8>, ConnectError> {
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !plain(&request.host) || !plain(&request.path) {
        return Err(ConnectError::BadRequest);
    }
    let mut head = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n",
        request.path, request.host,
    )
    .into_bytes();
    if request.deflate {
        head.extend_from_slice(b"Sec-WebSocket-Extensions: ");
        head.extend_from_slice(deflate::AGREED.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    for (name, value) in &request.headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    Ok(head)
}

/// Reads up to the empty line and no byte more: frames may follow at once.
async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Vec<u8>, ConnectError> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= ANSWER_BYTES_MAX {
            return Err(ConnectError::BadAnswer);
        }
        head.push(stream.read_u8().await?);
    }
    Ok(head)
}

fn answer_headers(head: &[u8]) -> Result<HeaderMap, ConnectError> {
    let head = std::str::from_utf8(head).map_err(|_| ConnectError::BadAnswer)?;
    let mut lines = head.split("\r\n");
    let mut status = lines.next().unwrap_or_default().splitn(3, ' ');
    let (Some("HTTP/1.1"), Some(code)) = (status.next(), status.next()) else {
        return Err(ConnectError::BadAnswer);
    };
    match code.parse() {
        Ok(101) => {}
        Ok(code) => return Err(ConnectError::Refused(code)),
        Err(_) => return Err(ConnectError::BadAnswer),
    }
    let mut headers = HeaderMap::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(ConnectError::BadAnswer)?;
        let name: HeaderName = name.parse().map_err(|_| ConnectError::BadAnswer)?;
        let value: HeaderValue = value.trim().parse().map_err(|_| ConnectError::BadAnswer)?;
        headers.append(name, value);
    }
    Ok(headers)
}
