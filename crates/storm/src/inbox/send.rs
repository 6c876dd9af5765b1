//! Sending what is signed: many connections, each host from its own address, as fast as it goes or
//! at a rate. What is turned away or not answered is sent again, as servers do.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::sign::Requests;
use crate::load::Latencies;

/// How long an answer is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// How long nobody knocks again where nobody answered.
const AGAIN: Duration = Duration::from_millis(100);
/// Who is turned away comes back after what it was told, but no later than this.
const RETURN_MAX: Duration = Duration::from_secs(5);
/// How soon is looked again for what is due and not signed yet.
const UNSIGNED: Duration = Duration::from_millis(5);
/// The head of an answer is no longer than this, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Requests longer than this may be refused before they are read to their end.
const LARGE_BYTES: usize = 1024 * 1024;

/// What is sent.
pub(super) struct Flood {
    /// Requests, as they go over the wire.
    pub(super) requests: Requests,
    /// The number of the host that each comes from.
    pub(super) sources: Vec<usize>,
    /// Whether each is waited for until it was worked.
    pub(super) awaited: Vec<bool>,
    /// Where it goes.
    pub(super) target: SocketAddr,
    /// The addresses of the hosts, where connections can be made from them.
    pub(super) addresses: Option<Vec<IpAddr>>,
    /// How many are sent at once.
    pub(super) connections: usize,
    /// How many are sent a second; 0: as fast as they are answered.
    pub(super) rate: u64,
    /// For how long is tried again what is not accepted, once nothing is.
    pub(super) patience: Duration,
}

/// How far it is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Answered with success.
    pub(super) accepted: AtomicU64,
    /// Of these, what is waited for until it was worked.
    pub(super) awaited: AtomicU64,
    /// Turned away for now (429, 503), counted each time.
    pub(super) turned_away: AtomicU64,
    /// Not answered at all, counted each time.
    pub(super) unanswered: AtomicU64,
    /// When something was accepted last, in ms since the first was sent.
    accepted_ms: AtomicU64,
    /// Nothing more is sent.
    pub(super) is_over: AtomicBool,
}

/// What became of it.
pub(super) struct Sent {
    /// The last answer to each; 0 where there was none.
    pub(super) statuses: Vec<u16>,
    /// How long it took until those that were accepted were, from the moment each was due, or, as
    /// fast as it goes, from the first time that it was sent.
    pub(super) latencies: Latencies,
    /// From the first to the last accepted; at a rate until the last was due, if that is later.
    pub(super) took: Duration,
}

/// What a few hosts have to say.
#[derive(Default)]
struct Group {
    next: VecDeque<usize>,
    /// What was turned away: when it is sent again, and from when on its time counts.
    later: VecDeque<(Instant, usize, Instant)>,
}

/// Sends everything.
pub(super) async fn send(flood: Arc<Flood>, progress: Arc<Progress>) -> Sent {
    let hosts = flood.sources.iter().max().map_or(1, |last| last + 1);
    let count = flood.connections.clamp(1, hosts);
    let mut groups: Vec<Group> = (0..count).map(|_| Group::default()).collect();
    for (place, source) in flood.sources.iter().enumerate() {
        groups[source % count].next.push_back(place);
    }
    let groups: Arc<Vec<Mutex<Group>>> = Arc::new(groups.into_iter().map(Mutex::new).collect());
    let began = Instant::now();
    flood.requests.start(began, flood.rate);
    let mut workers = tokio::task::JoinSet::new();
    for number in 0..flood.connections.max(1) {
        let worker = Worker {
            flood: flood.clone(),
            groups: groups.clone(),
            group: number % count,
            progress: progress.clone(),
            began,
            lines: HashMap::new(),
            latencies: Latencies::default(),
            statuses: Vec::new(),
            last_accepted: began,
        };
        workers.spawn(worker.run());
    }
    let (mut latencies, mut last) = (Latencies::default(), began);
    let mut statuses = vec![0; flood.sources.len()];
    while let Some(worker) = workers.join_next().await {
        let Ok(worker) = worker else { continue };
        latencies.merge(worker.latencies);
        last = last.max(worker.last_accepted);
        for (place, status) in worker.statuses {
            // Another worker may have sent again what was turned away.
            if !is_taken(statuses[place]) {
                statuses[place] = status;
            }
        }
    }
    progress.is_over.store(true, Ordering::Relaxed);
    let took = (last - began).max(flood.due(statuses.len().saturating_sub(1)));
    latencies.set_elapsed(took);
    Sent { statuses, latencies, took }
}

impl Flood {
    /// When what is at `place` is to be sent, after the first.
    fn due(&self, place: usize) -> Duration {
        match self.rate {
            0 => Duration::ZERO,
            rate => Duration::from_secs_f64(place as f64 / rate as f64),
        }
    }
}

/// Whether an answer says that the message was taken.
pub(super) fn is_taken(status: u16) -> bool {
    (200..300).contains(&status)
}

struct Worker {
    flood: Arc<Flood>,
    groups: Arc<Vec<Mutex<Group>>>,
    group: usize,
    progress: Arc<Progress>,
    began: Instant,
    /// A connection from each host.
    lines: HashMap<usize, Line>,
    latencies: Latencies,
    statuses: Vec<(usize, u16)>,
    last_accepted: Instant,
}

/// What a worker is to do next.
enum Turn {
    /// With the moment from which on its time counts.
    Send(usize, Bytes, Instant),
    Wait(Instant),
    Done,
}

impl Worker {
    async fn run(mut self) -> Self {
        loop {
            match self.turn() {
                Turn::Done => return self,
                Turn::Wait(until) => tokio::time::sleep_until(until.into()).await,
                Turn::Send(place, request, since) => self.one(place, &request, since).await,
            }
        }
    }

    fn turn(&self) -> Turn {
        let Ok(mut group) = self.groups[self.group].lock() else { return Turn::Done };
        let now = Instant::now();
        let mut wait = None;
        if let Some(place) = group.next.front().copied() {
            let due = self.began + self.flood.due(place);
            if due > now {
                return Turn::Wait(due);
            }
            if let Some(request) = self.flood.requests.get(place) {
                group.next.pop_front();
                // Else each would be waited for in turn, and that for hours. Of those that are on
                // their way an answer may still come.
                if self.is_out_of_patience(now, due, ANSWER_MAX) {
                    self.flood.requests.done(place);
                    return Turn::Wait(now);
                }
                let since = if self.flood.rate > 0 { due } else { now };
                return Turn::Send(place, request, since);
            }
            // There may be no room to sign it before something goes that was turned away.
            wait = Some(now + UNSIGNED);
        }
        match group.later.front().copied() {
            None => wait.map_or(Turn::Done, Turn::Wait),
            Some((at, ..)) if at > now => Turn::Wait(wait.unwrap_or(at)),
            Some((_, place, since)) => {
                group.later.pop_front();
                Turn::Send(place, self.flood.requests.get(place).unwrap_or_default(), since)
            }
        }
    }

    /// Whether nothing was accepted for too long, by any worker, since something was `due`; `more`
    /// is what is waited for beyond the patience.
    fn is_out_of_patience(&self, now: Instant, due: Instant, more: Duration) -> bool {
        let accepted_ms = self.progress.accepted_ms.load(Ordering::Relaxed);
        let last = self.began + Duration::from_millis(accepted_ms);
        now.saturating_duration_since(last.max(due)) > self.flood.patience + more
    }

    /// Sends what is at `place` until it is answered, and forgets it then; what is turned away is
    /// kept for later.
    async fn one(&mut self, place: usize, request: &Bytes, since: Instant) {
        if !self.is_for_later(place, request, since).await {
            self.flood.requests.done(place);
        }
    }

    async fn is_for_later(&mut self, place: usize, request: &Bytes, since: Instant) -> bool {
        if request.is_empty() {
            return false;
        }
        let flood = self.flood.clone();
        let source = flood.sources[place];
        let is_large = request.len() > LARGE_BYTES;
        loop {
            let answer = self.exchange(source, request).await;
            let now = Instant::now();
            match answer {
                Ok(answer) if matches!(answer.status, 429 | 503) => {
                    self.progress.turned_away.fetch_add(1, Ordering::Relaxed);
                    self.statuses.push((place, answer.status));
                    if !self.is_out_of_patience(now, self.began, Duration::ZERO) {
                        let after = answer.retry_after.unwrap_or(RETURN_MAX).min(RETURN_MAX);
                        if let Ok(mut group) = self.groups[self.group].lock() {
                            group.later.push_back((now + after, place, since));
                            return true;
                        }
                    }
                    return false;
                }
                Ok(answer) => {
                    self.statuses.push((place, answer.status));
                    if is_taken(answer.status) {
                        self.latencies.record(now - since, true);
                        self.progress.accepted.fetch_add(1, Ordering::Relaxed);
                        let awaited = u64::from(flood.awaited[place]);
                        self.progress.awaited.fetch_add(awaited, Ordering::Relaxed);
                        self.last_accepted = now;
                        let ms = (now - self.began).as_millis() as u64;
                        self.progress.accepted_ms.fetch_max(ms, Ordering::Relaxed);
                    }
                    return false;
                }
                Err(_) => {
                    self.lines.remove(&source);
                    self.progress.unanswered.fetch_add(1, Ordering::Relaxed);
                    if is_large || self.is_out_of_patience(now, self.began, Duration::ZERO) {
                        return false;
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    async fn exchange(&mut self, source: usize, request: &[u8]) -> io::Result<Answer> {
        let mut line = match self.lines.remove(&source) {
            Some(line) => line,
            None => {
                let from = self.flood.addresses.as_ref().and_then(|all| all.get(source).copied());
                Line::open(self.flood.target, from).await?
            }
        };
        let answer = tokio::time::timeout(ANSWER_MAX, line.exchange(request)).await??;
        if answer.keep {
            self.lines.insert(source, line);
        }
        Ok(answer)
    }
}

/// The answer to a request.
pub(super) struct Answer {
    pub(super) status: u16,
    retry_after: Option<Duration>,
    keep: bool,
}

/// A connection that is used again. It reads no more of an answer than it must: what it costs is
/// taken from the server beside it.
pub(super) struct Line {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Line {
    pub(super) async fn open(target: SocketAddr, from: Option<IpAddr>) -> io::Result<Self> {
        let socket = if target.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(from) = from {
            socket.bind((from, 0).into())?;
        }
        let stream = socket.connect(target).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(1024) })
    }

    /// Sends a request and reads its answer.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> io::Result<Answer> {
        let written = self.stream.write_all(request).await;
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await?;
            if read == 0 {
                written?;
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if let Some((answer, length)) = parse(&self.buffer)? {
                let mut rest = (length).saturating_sub(self.buffer.len());
                while rest > 0 {
                    self.buffer.clear();
                    let read = self.stream.read_buf(&mut self.buffer).await?;
                    if read == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    rest = rest.saturating_sub(read);
                }
                return Ok(answer);
            }
            if self.buffer.len() > HEAD_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}

/// The answer whose head stands in `bytes`, and how long it is with its body, if it is all there.
fn parse(bytes: &[u8]) -> io::Result<Option<(Answer, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut headers);
    let parsed = head.parse(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    let httparse::Status::Complete(length) = parsed else { return Ok(None) };
    let status = head.code.unwrap_or_default();
    let text = |name: &str| {
        let found = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok()).map(str::trim)
    };
    let body: Option<usize> = match text("content-length") {
        Some(length) => length.parse().ok(),
        None => (status == 204).then_some(0),
    };
    let closes = text("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    let retry_after = text("retry-after").and_then(|value| value.parse().ok());
    let answer = Answer {
        status,
        retry_after: retry_after.map(Duration::from_secs),
        keep: body.is_some() && !closes,
    };
    Ok(Some((answer, length + body.unwrap_or(0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_as_long_as_it_says() {
        let bytes = b"HTTP/1.1 429 Too Many\r\ncontent-length: 5\r\nRetry-After: 7\r\n\r\nhello";
        let (answer, length) = parse(bytes).unwrap().unwrap();
        assert_eq!((answer.status, length, answer.keep), (429, bytes.len(), true));
        assert_eq!(answer.retry_after, Some(Duration::from_secs(7)));
        assert!(parse(&bytes[..30]).unwrap().is_none());
    }

    #[test]
    fn a_connection_whose_answer_has_no_length_is_not_used_again() {
        let bytes = b"HTTP/1.1 202 Accepted\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
        assert!(!parse(bytes).unwrap().unwrap().0.keep);
        assert!(parse(b"SSH-2.0-OpenSSH\r\n").is_err());
    }
}
