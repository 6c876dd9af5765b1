//! The little of WebSocket (RFC 6455) that a listener needs, at little cost: what a load tool
//! spends on its own side is taken from the server beside it.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;

use anyhow::{Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

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

/// A WebSocket that is open.
pub(super) struct Wire {
    stream: TcpStream,
    /// The beginning of a frame whose end has not come.
    begun: Vec<u8>,
}

/// Connects to `path` at `address`, asking as `host` with further header lines; `receive_bytes` is
/// what the system may hold of what comes, where it is to be little.
pub(super) async fn connect(
    address: SocketAddr,
    host: &str,
    path: &str,
    headers: &str,
    receive_bytes: Option<u32>,
) -> Result<Wire> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(bytes) = receive_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    let mut stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::with_capacity(512);
    let end = loop {
        if stream.read_buf(&mut answer).await? == 0 {
            bail!("the server closed the connection amid its answer");
        }
        if let Some(at) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if answer.len() > ANSWER_BYTES_MAX {
            bail!("the server's answer is no end of headers");
        }
    };
    if !answer.starts_with(b"HTTP/1.1 101") {
        let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
        bail!("the server answers {}", String::from_utf8_lossy(line));
    }
    Ok(Wire { stream, begun: answer.split_off(end) })
}

impl Wire {
    /// Waits for frames and hands each to `see`: what it is, and its payload. Answers how many
    /// bytes came, 0 at the end.
    pub(super) async fn read(&mut self, mut see: impl FnMut(u8, &[u8])) -> io::Result<usize> {
        loop {
            self.stream.readable().await?;
            let (stream, begun) = (&self.stream, &mut self.begun);
            let read: io::Result<usize> = READ.with_borrow_mut(|buffer| {
                let count = stream.try_read(buffer)?;
                if begun.is_empty() {
                    let used = frames(&buffer[..count], &mut see);
                    begun.extend_from_slice(&buffer[used..count]);
                } else {
                    begun.extend_from_slice(&buffer[..count]);
                    let used = frames(begun, &mut see);
                    begun.drain(..used);
                }
                Ok(count)
            });
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
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
        self.stream.write_all(&frame).await
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
}
