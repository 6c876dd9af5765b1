//! A connection made of many requests: what SockJS's clients do where WebSockets do not pass.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_base::KIB;

use super::{Gone, Said};

/// Messages of a client that wait to be heard.
const HEARD_MAX: usize = 256;
/// What these take together, in bytes; where nothing waits any one answer's messages fit.
const HEARD_BYTES_MAX: usize = 128 * KIB;
/// What may wait for the client to fetch it, in bytes; an empty pipe takes any one slice.
const WAITING_BYTES_MAX: usize = 256 * KIB;

/// Both ends are held as `Arc`s: the session's in its wire, the requests' in the registry.
pub(crate) struct Pipe {
    state: Mutex<State>,
    said: Notify,
    waiting: Notify,
    fetched: Notify,
    over: Notify,
    write_deadline: Duration,
}

#[derive(Default)]
struct State {
    heard: VecDeque<String>,
    heard_bytes: usize,
    frames: VecDeque<Bytes>,
    bytes: usize,
    fetching: bool,
    closed: Option<(u16, String)>,
}

/// What a request finds.
pub(super) enum Found {
    /// Frames for the client.
    Frames(Vec<Bytes>),
    /// The session is over.
    Closed(u16, String),
    /// Nothing yet.
    Nothing,
}

/// No request fetches while another does.
pub(super) struct Fetching(pub(super) Arc<Pipe>);

impl Drop for Fetching {
    fn drop(&mut self) {
        self.0.state.lock().fetching = false;
    }
}

impl Pipe {
    pub(super) fn new(write_deadline: Duration) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            said: Notify::new(),
            waiting: Notify::new(),
            fetched: Notify::new(),
            over: Notify::new(),
            write_deadline,
        })
    }

    /// The next message of the client.
    pub(super) async fn recv(&self) -> Result<Said, Gone> {
        loop {
            {
                let mut state = self.state.lock();
                if let Some(text) = state.heard.pop_front() {
                    state.heard_bytes -= text.len();
                    return Ok(Said::Text(text));
                }
                if state.closed.is_some() {
                    return Err(Gone);
                }
            }
            self.said.notified().await;
        }
    }

    /// Puts frames where the client fetches them; waits while too much lies there.
    pub(super) async fn send(&self, frames: &[Bytes]) -> Result<(), Gone> {
        let size: usize = frames.iter().map(Bytes::len).sum();
        let put = async {
            loop {
                {
                    let mut state = self.state.lock();
                    if state.closed.is_some() {
                        return Err(Gone);
                    }
                    if state.bytes == 0 || state.bytes + size <= WAITING_BYTES_MAX {
                        state.frames.extend(frames.iter().cloned());
                        state.bytes += size;
                        break;
                    }
                }
                self.fetched.notified().await;
            }
            self.waiting.notify_one();
            Ok(())
        };
        tokio::time::timeout(self.write_deadline, put).await.unwrap_or(Err(Gone))
    }

    /// Ends it, from either side.
    pub(super) fn close(&self, code: u16, reason: &str) {
        self.state.lock().closed.get_or_insert_with(|| (code, reason.to_owned()));
        self.said.notify_one();
        self.waiting.notify_one();
        self.fetched.notify_one();
        self.over.notify_one();
    }

    /// Waits until it is ended.
    pub(super) async fn over(&self) {
        while self.state.lock().closed.is_none() {
            self.over.notified().await;
        }
    }

    /// The client says something; false where it has said too much that was not heard yet.
    pub(super) fn hear(&self, messages: Vec<String>) -> bool {
        let mut state = self.state.lock();
        let bytes: usize = messages.iter().map(String::len).sum();
        let is_much = state.heard_bytes > 0 && state.heard_bytes + bytes > HEARD_BYTES_MAX;
        if is_much || state.heard.len() + messages.len() > HEARD_MAX {
            return false;
        }
        state.heard.extend(messages);
        state.heard_bytes += bytes;
        drop(state);
        self.said.notify_one();
        true
    }

    /// The right to fetch; none while somebody else has it.
    pub(super) fn begin(self: &Arc<Self>) -> Option<Fetching> {
        let taken = std::mem::replace(&mut self.state.lock().fetching, true);
        (!taken).then(|| Fetching(self.clone()))
    }

    /// What lies there, up to about `bytes_max`; waits at most `patience` for something.
    pub(super) async fn fetch(&self, bytes_max: usize, patience: Duration) -> Found {
        let wait = async {
            loop {
                if let Some(found) = self.take(bytes_max) {
                    return found;
                }
                self.waiting.notified().await;
            }
        };
        tokio::time::timeout(patience, wait).await.unwrap_or(Found::Nothing)
    }

    fn take(&self, bytes_max: usize) -> Option<Found> {
        let mut state = self.state.lock();
        let (mut frames, mut bytes) = (Vec::new(), 0);
        while bytes < bytes_max
            && let Some(frame) = state.frames.pop_front()
        {
            bytes += frame.len();
            frames.push(frame);
        }
        state.bytes -= bytes;
        if !frames.is_empty() {
            drop(state);
            self.fetched.notify_one();
            return Some(Found::Frames(frames));
        }
        state.closed.clone().map(|(code, reason)| Found::Closed(code, reason))
    }
}
