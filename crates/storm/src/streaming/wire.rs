//! The little of WebSocket (RFC 6455) and of server-sent events that a listener needs, at little
//! cost: what a load tool spends on its own side is taken from the server beside it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::ready;

use anyhow::{Context as _, Result, bail};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::net::TcpSocket;

use super::Transport;
use super::events::Events;
use crate::pipe::Pipe;

/// The longest answer to a handshake that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// Read at once, in bytes.
const READ_BYTES: usize = 64 * 1024;

thread_local! {
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// What frames hold.
pub(super) const TEXT: u8 = 1;
pub(super) const CLOSE: u8 = 8;
pub(super) const PING: u8 = 9;
pub(super) const PONG: u8 = 10;

/// Where to connect, and how.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) address: SocketAddr,
    /// What the server is called, with its port where it is no usual one.
    pub(super) host: String,
    pub(super) transport: Transport,
    /// With TLS, for the server of this name.
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// A connection by which something is told.
pub(super) struct Wire {
    pipe: Box<dyn Pipe>,
    told: Told,
}

/// How it is told, with what has only begun.
enum Told {
    Frames(Vec<u8>),
    Events(Events),
}

impl Way {
    /// Connects to `path`; `receive_bytes` is what the system may hold of what comes, where it is
    /// to be little.
    pub(super) async fn open(&self, path: &str, receive_bytes: Option<u32>) -> Result<Wire> {
        let address = self.address;
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(bytes) = receive_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true)?;
        let mut pipe: Box<dyn Pipe> = match &self.tls {
            None => Box::new(stream),
            Some((config, name)) => {
                let connecting =
                    tokio_rustls::TlsConnector::from(config.clone()).connect(name.clone(), stream);
                Box::new(connecting.await.context("TLS: --insecure takes any certificate")?)
            }
        };
        let wants = match self.transport {
            Transport::Websocket => {
                "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            }
            Transport::Sse => "Accept: text/event-stream\r\n",
        };
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{wants}\r\n", self.host);
        pipe.write_all(request.as_bytes()).await?;
        pipe.flush().await?;
        let mut answer = Vec::with_capacity(512);
        let end = loop {
            if pipe.read_buf(&mut answer).await? == 0 {
                bail!("the server closed the connection amid its answer");
            }
            if let Some(at) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if answer.len() > ANSWER_BYTES_MAX {
                bail!("the server's answer is no end of headers");
            }
        };
        let expected: &[u8] = match self.transport {
            Transport::Websocket => b"HTTP/1.1 101",
            Transport::Sse => b"HTTP/1.1 200",
        };
        if !answer.starts_with(expected) {
            let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
            bail!("the server answers {}", String::from_utf8_lossy(line));
        }
        let begun = answer.split_off(end);
        let told = match self.transport {
            Transport::Websocket => Told::Frames(begun),
            Transport::Sse => Told::Events(Events::after(&answer, begun)),
        };
        Ok(Wire { pipe, told })
    }
}

impl Wire {
    /// Waits for frames or events and hands each to `see`: what it is ([`TEXT`] for an event), and
    /// its payload. Answers how many bytes came, 0 at the end.
    pub(super) async fn read(&mut self, mut see: impl FnMut(u8, &[u8])) -> io::Result<usize> {
        poll_fn(|context| {
            READ.with_borrow_mut(|buffer| {
                let mut buffer = ReadBuf::new(buffer);
                ready!(Pin::new(&mut self.pipe).poll_read(context, &mut buffer))?;
                let came = buffer.filled();
                let is_over = match &mut self.told {
                    Told::Frames(begun) if begun.is_empty() => {
                        let used = frames(came, &mut see);
                        begun.extend_from_slice(&came[used..]);
                        false
                    }
                    Told::Frames(begun) => {
                        begun.extend_from_slice(came);
                        let used = frames(begun, &mut see);
                        begun.drain(..used);
                        false
                    }
                    Told::Events(events) => events.take(came, &mut |event| see(TEXT, event)),
                };
                std::task::Poll::Ready(Ok(if is_over { 0 } else { came.len() }))
            })
        })
        .await
    }

    /// Sends a frame of up to 65,535 bytes, masked with zeros.
    pub(super) async fn send(&mut self, opcode: u8, payload: &[u8]) -> io::Result<()> {
        let mut frame = vec![0x80 | opcode];
        match u8::try_from(payload.len()) {
            Ok(length) if length < 126 => frame.push(0x80 | length),
            _ => {
                frame.push(0x80 | 126);
                let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
                frame.extend_from_slice(&length.to_be_bytes());
            }
        }
        frame.extend_from_slice(&[0; 4]);
        frame.extend_from_slice(payload);
        self.pipe.write_all(&frame).await?;
        self.pipe.flush().await
    }
}

/// Hands the whole frames at the start of `bytes` to `see`; how many bytes those were.
fn frames(bytes: &[u8], see: &mut impl FnMut(u8, &[u8])) -> usize {
    let mut at = 0;
    while let [first, second, rest @ ..] = &bytes[at..] {
        let (header, length) = match (second & 0x7F, rest) {
            (126, [a, b, ..]) => (4, usize::from(u16::from_be_bytes([*a, *b]))),
            (127, [a, b, c, d, e, f, g, h, ..]) => {
                (10, u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]) as usize)
            }
            (126 | 127, _) => break,
            (short, _) => (2, usize::from(short)),
        };
        let Some(payload) = bytes.get(at + header..(at + header).saturating_add(length)) else {
            break;
        };
        see(first & 0x0F, payload);
        at += header + length;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_whole_and_what_has_only_begun_is_left() {
        let mut bytes = vec![0x81, 2, b'h', b'i', 0x82, 126, 0, 200];
        bytes.extend([7; 200]);
        bytes.extend([0x81, 5, b'x']);
        let mut seen = Vec::new();
        let used = frames(&bytes, &mut |opcode, payload| seen.push((opcode, payload.len())));
        assert_eq!((seen, used), (vec![(1, 2), (2, 200)], 4 + 4 + 200));
        assert_eq!(frames(&[0x81, 126, 0], &mut |_, _| {}), 0);
        assert_eq!(frames(&[0x81], &mut |_, _| {}), 0);
    }

    /// A server with a certificate of its own making that tells one event to each who comes.
    async fn serve() -> SocketAddr {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.unwrap())
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut asked = vec![0; 4_096];
                let count = stream.read(&mut asked).await.unwrap();
                let line = String::from_utf8_lossy(&asked[..count]).into_owned();
                let status = if line.starts_with("GET /there ") { "200 OK" } else { "404 No" };
                let answer = format!(
                    "HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n\
                     4\r\n:)\n\n\r\nb\r\ndata: one\n\n\r\n0\r\n\r\n"
                );
                let (head, tail) = answer.split_at(answer.find(":)").unwrap());
                stream.write_all(head.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                stream.write_all(tail.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
            }
        });
        address
    }

    async fn way(address: SocketAddr, anybody: bool) -> Way {
        let name = ServerName::try_from("localhost").unwrap();
        let tls = Some((crate::pipe::trusting(anybody).unwrap(), name));
        Way { address, host: "localhost".into(), transport: Transport::Sse, tls }
    }

    #[tokio::test]
    async fn events_come_over_tls_of_whom_nobody_knows_where_that_is_wanted() {
        let address = serve().await;
        let mut wire = way(address, true).await.open("/there", None).await.unwrap();
        let mut seen = Vec::new();
        while wire.read(|_, event| seen.push(event.to_vec())).await.unwrap() > 0 {}
        assert_eq!(seen, [b":)".to_vec(), b"data: one".to_vec()]);
        let refused = way(address, true).await.open("/elsewhere", None).await.err().unwrap();
        assert!(refused.to_string().contains("404"), "{refused:#}");
        let unknown = way(address, false).await.open("/there", None).await.err().unwrap();
        assert!(format!("{unknown:#}").contains("--insecure"), "{unknown:#}");
    }
}
