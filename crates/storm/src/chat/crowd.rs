//! Those who are online: each reads in a task of its own, and answers what has to be answered.
//!
//! What a stanza is for stands in its id, with the moment it was sent (in ns since the beginning):
//! `m` a message that is answered with the next one, `p` one that is sent back as `q`, `g` one to a
//! room, `i` a ping to the server. In presence it stands in the status, behind an `s`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::link::{Reader, Writer};
use super::log_in::Arrived;
use super::wire::{attribute, name, text_of};
use crate::load::Latencies;

/// Times are kept in so many places, so that tasks do not wait for each other.
const PLACES: usize = 16;

/// What came, and how long it took.
#[derive(Default)]
pub(super) struct Times {
    pub(super) messages: Latencies,
    pub(super) trips: Latencies,
    pub(super) presences: Latencies,
    pub(super) pings: Latencies,
}

/// What all of them share.
pub(super) struct Scene {
    began: Instant,
    /// Whether messages are answered with the next one.
    pub(super) running: AtomicBool,
    pub(super) messages: AtomicU64,
    pub(super) presences: AtomicU64,
    pub(super) online: AtomicU64,
    pub(super) refused: AtomicU64,
    /// Messages to a room that came, and when the last did.
    pub(super) in_room: AtomicU64,
    room_last_ns: AtomicU64,
    pub(super) hint: &'static str,
    body: String,
    times: [Mutex<Times>; PLACES],
}

impl Scene {
    pub(super) fn new(bytes: usize, hint: &'static str) -> Self {
        Self {
            began: Instant::now(),
            running: AtomicBool::new(false),
            messages: AtomicU64::new(0),
            presences: AtomicU64::new(0),
            online: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            in_room: AtomicU64::new(0),
            room_last_ns: AtomicU64::new(0),
            hint,
            body: "water ".repeat(bytes / 6 + 1)[..bytes].to_owned(),
            times: Default::default(),
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// All times since they were last taken.
    pub(super) fn take(&self) -> Times {
        let mut all = Times::default();
        for place in &self.times {
            let some = std::mem::take(&mut *place.lock());
            all.messages.merge(some.messages);
            all.trips.merge(some.trips);
            all.presences.merge(some.presences);
            all.pings.merge(some.pings);
        }
        all
    }

    /// How long after `from_ns` the last message to a room came.
    pub(super) fn room_took(&self, from_ns: u64) -> Duration {
        let last_ns = self.room_last_ns.load(Ordering::Relaxed);
        Duration::from_nanos(last_ns.saturating_sub(from_ns))
    }

    /// A message as text.
    pub(super) fn message(&self, to: &str, what: char, at_ns: u64) -> String {
        let kind = if what == 'g' { "groupchat" } else { "chat" };
        let (body, hint) = (&self.body, self.hint);
        format!(
            "<message to='{to}' type='{kind}' id='{what}{at_ns}'>\
             <body>{body}</body>{hint}</message>"
        )
    }

    /// What one element means; `answers` is what is said then.
    fn hear(&self, person: &Person, element: &str, answers: &mut String) {
        let id = attribute(element, "id").unwrap_or_default();
        let kind = attribute(element, "type");
        let from = attribute(element, "from").unwrap_or_default();
        match name(element) {
            _ if kind == Some("error") => {
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
            "message" => self.hear_message(person, id, from, answers),
            "presence" => match kind {
                Some("subscribe") => {
                    let _ = write!(answers, "<presence to='{from}' type='subscribed'/>");
                }
                Some("subscribed") => person.step(),
                None => {
                    self.presences.fetch_add(1, Ordering::Relaxed);
                    if let Some(took) = self.since(text_of(element, "status"), 's') {
                        self.times[person.place].lock().presences.record(took, true);
                    }
                    if element.contains("code='110'") || element.contains("code=\"110\"") {
                        person.step();
                    }
                }
                _ => {}
            },
            "iq" => match kind {
                Some("get" | "set") => {
                    let _ = write!(answers, "<iq type='result' to='{from}' id='{id}'/>");
                }
                _ => match self.since(Some(id), 'i') {
                    Some(took) => self.times[person.place].lock().pings.record(took, true),
                    None => person.step(),
                },
            },
            _ => {}
        }
    }

    fn hear_message(&self, person: &Person, id: &str, from: &str, answers: &mut String) {
        let now_ns = self.now_ns();
        match id.as_bytes().first() {
            Some(b'm') => {
                self.messages.fetch_add(1, Ordering::Relaxed);
                if let Some(took) = self.since(Some(id), 'm') {
                    self.times[person.place].lock().messages.record(took, true);
                }
                if self.running.load(Ordering::Relaxed) {
                    answers.push_str(&self.message(from, 'm', now_ns));
                }
            }
            Some(b'p') => {
                let at_ns = id[1..].parse().unwrap_or(now_ns);
                answers.push_str(&self.message(from, 'q', at_ns));
            }
            Some(b'q') => {
                if let Some(took) = self.since(Some(id), 'q') {
                    self.times[person.place].lock().trips.record(took, true);
                }
            }
            Some(b'g') => {
                self.in_room.fetch_add(1, Ordering::Relaxed);
                self.room_last_ns.fetch_max(now_ns, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// How long ago the moment in `text`, behind `what`, was.
    fn since(&self, text: Option<&str>, what: char) -> Option<Duration> {
        let at_ns: u64 = text?.strip_prefix(what)?.parse().ok()?;
        Some(Duration::from_nanos(self.now_ns().saturating_sub(at_ns)))
    }
}

/// Somebody online.
pub(super) struct Person {
    pub(super) jid: String,
    writer: tokio::sync::Mutex<Writer>,
    place: usize,
    /// Answers that are waited for, one after the other.
    steps: AtomicU64,
    stepped: Notify,
}

impl Person {
    pub(super) async fn say(&self, text: &str) -> Result<()> {
        let mut writer = self.writer.lock().await;
        writer.write_all(text.as_bytes()).await?;
        Ok(writer.flush().await?)
    }

    fn step(&self) {
        self.steps.fetch_add(1, Ordering::AcqRel);
        self.stepped.notify_one();
    }

    /// Answers that came so far.
    pub(super) fn steps(&self) -> u64 {
        self.steps.load(Ordering::Acquire)
    }

    /// Waits until there were `steps` answers in all.
    pub(super) async fn until(&self, steps: u64) {
        while self.steps() < steps {
            self.stepped.notified().await;
        }
    }
}

/// Somebody online, and the task that reads for them.
pub(super) struct Online {
    pub(super) person: Arc<Person>,
    reading: JoinHandle<()>,
}

impl Online {
    /// Takes over a connection; `at` is anybody's number.
    pub(super) fn new(arrived: Arrived, at: usize, scene: &Arc<Scene>) -> Self {
        scene.presences.fetch_add(arrived.presences, Ordering::Relaxed);
        scene.online.fetch_add(1, Ordering::Relaxed);
        let person = Arc::new(Person {
            jid: arrived.jid,
            writer: tokio::sync::Mutex::new(arrived.link.writer),
            place: at % PLACES,
            steps: AtomicU64::new(0),
            stepped: Notify::new(),
        });
        let reading = tokio::spawn(read(person.clone(), arrived.link.reader, scene.clone()));
        Self { person, reading }
    }

    /// The connection is gone without a word.
    pub(super) async fn cut(self, scene: &Scene) {
        self.reading.abort();
        if !matches!(self.reading.await, Ok(())) {
            scene.online.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

async fn read(person: Arc<Person>, mut reader: Reader, scene: Arc<Scene>) {
    let mut answers = String::new();
    loop {
        let heard = reader.each_there(|element| scene.hear(&person, element, &mut answers));
        if !answers.is_empty() {
            let _ = person.say(&answers).await;
            answers.clear();
            answers.shrink_to(4_096);
        }
        if heard.is_err() || !matches!(reader.more().await, Ok(true)) {
            scene.online.fetch_sub(1, Ordering::Relaxed);
            return;
        }
    }
}
