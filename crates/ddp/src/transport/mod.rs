//! How messages travel: a WebSocket, or one of SockJS's ways.

mod pipe;
mod sockjs;
mod websocket;

use std::collections::VecDeque;
use std::sync::Arc;

use axum::Router;
use bytes::Bytes;
use hyper_util::rt::TokioIo;
use weir_live::socket::{self, Message, Socket, close_code};

use crate::server::Server;
use crate::wire;
use pipe::Pipe;
pub(crate) use sockjs::Pipes;

type Upgraded = TokioIo<hyper::upgrade::Upgraded>;

/// Everything a DDP server serves: `/websocket` and `/sockjs/…`.
pub fn router<A: Clone + Send + Sync + 'static>(server: Server<A>) -> Router {
    Router::new().merge(websocket::table()).merge(sockjs::table()).with_state(server)
}

/// A connection to a client.
pub(crate) enum Wire {
    /// A message a frame, at `/websocket`.
    Socket(Socket<Upgraded>),
    /// SockJS's frames over a WebSocket, and messages of a frame that were not heard yet.
    SockJs(Socket<Upgraded>, VecDeque<String>),
    /// SockJS over requests.
    Pipe(Arc<Pipe>),
}

/// The connection is of no more use.
#[derive(Debug)]
pub(crate) struct Gone;

/// What came over a connection.
pub(crate) enum Said {
    /// A message.
    Text(String),
    /// A sign of life.
    Nothing,
    /// The client closed the connection; it may come back.
    Goodbye,
}

impl Wire {
    /// Whether permessage-deflate was agreed on. SockJS frames are made for one session each and
    /// are not compressed.
    pub(crate) fn is_deflating(&self) -> bool {
        matches!(self, Self::Socket(socket) if socket.is_deflating())
    }

    /// What opens it, before anything else is said.
    pub(crate) async fn open(&mut self) -> Result<(), Gone> {
        match self {
            Self::SockJs(socket, _) => {
                let open = socket::text(wire::sockjs::OPEN);
                socket.send_many(&[open]).await.map_err(|_| Gone)
            }
            Self::Socket(_) | Self::Pipe(_) => Ok(()),
        }
    }

    /// The next message. Dropping the future loses nothing.
    pub(crate) async fn recv(&mut self) -> Result<Said, Gone> {
        match self {
            Self::Socket(socket) => recv(socket).await,
            Self::SockJs(socket, heard) => {
                if let Some(text) = heard.pop_front() {
                    return Ok(Said::Text(text));
                }
                match recv(socket).await? {
                    Said::Text(frame) => match wire::sockjs::messages(&frame) {
                        Ok(messages) => {
                            heard.extend(messages);
                            Ok(heard.pop_front().map_or(Said::Nothing, Said::Text))
                        }
                        Err(_) => {
                            socket.close(close_code::INVALID_DATA, "Broken framing").await;
                            Err(Gone)
                        }
                    },
                    other => Ok(other),
                }
            }
            Self::Pipe(pipe) => pipe.recv().await,
        }
    }

    /// Sends frames, in order, in as few writes as the connection takes.
    pub(crate) async fn send(&mut self, frames: &[Bytes]) -> Result<(), Gone> {
        match self {
            Self::Socket(socket) => socket.send_many(frames).await.map_err(|_| Gone),
            Self::SockJs(socket, _) => {
                let arrays = sockjs::arrays(frames);
                let frames: Vec<Bytes> = arrays.iter().map(|array| socket::text(array)).collect();
                socket.send_many(&frames).await.map_err(|_| Gone)
            }
            Self::Pipe(pipe) => pipe.send(frames).await,
        }
    }

    /// Says goodbye.
    pub(crate) async fn close(&mut self, code: u16, reason: &str) {
        match self {
            Self::Socket(socket) => socket.close(code, reason).await,
            Self::SockJs(socket, _) => {
                let last = socket::text(&wire::sockjs::close(code, reason));
                let _ = socket.send_many(&[last]).await;
                socket.close(close_code::NORMAL, "").await;
            }
            Self::Pipe(pipe) => pipe.close(code, reason),
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Self::Pipe(pipe) = self {
            pipe.close(3000, "Go away!");
        }
    }
}

async fn recv(socket: &mut Socket<Upgraded>) -> Result<Said, Gone> {
    match socket.recv().await.map_err(|_| Gone)? {
        Message::Text(text) => Ok(Said::Text(text)),
        Message::Ping(_) | Message::Pong(_) => Ok(Said::Nothing),
        Message::Close(_) => Ok(Said::Goodbye),
        Message::Binary(_) => {
            socket.close(close_code::UNSUPPORTED, "text only").await;
            Err(Gone)
        }
    }
}
