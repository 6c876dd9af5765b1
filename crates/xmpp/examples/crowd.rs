//! How much a great many people online cost the server itself: its memory and its time, without
//! sockets. Everything else is what `weir serve` runs: streams, log-ins by SCRAM, the roster read
//! from SQLite, presence to all contacts, messages, a room.
//!
//! ```sh
//! cargo run --release -p weir-xmpp --features jemalloc --example crowd -- --sessions 200000
//! ```
//!
//! Accounts and rosters are written in bulk, with one password. The other side of the connections
//! lies in one block that is written before the figures begin, and is told apart; so are the
//! kernel's buffers, of which there are none here.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use clap::Parser;
use parking_lot::Mutex;
use serde_json::{Map, json};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random};
use weir_community::accounts::{self, NewAccount};
use weir_community::users::{self, NewUser, Role};
use weir_community::{Community, Setup, Site};
use weir_db::{Class, Db, Options, params};
use weir_jobs::Jobs;
use weir_storm::chat::scram::{self, Hash, Keys};
use weir_storm::findings::Files;
use weir_storm::load::Latencies;
use weir_storm::machine;
use weir_xmpp::Xmpp;
use weir_xmpp::stream::{ByteStream, accept};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// People of an XMPP server in this process, without sockets.
#[derive(Debug, Parser)]
struct Wish {
    /// People online.
    #[arg(long, default_value_t = 200_000)]
    sessions: usize,
    /// Contacts of each, subscribed both ways, all online.
    #[arg(long, default_value_t = 18)]
    contacts: usize,
    /// Log-ins under way at once while the crowd gathers.
    #[arg(long, default_value_t = 64)]
    at_once: usize,
    /// Log-ins a second afterwards, beside all the others.
    #[arg(long, default_value_t = 550)]
    rate: usize,
    /// For how long each part is measured, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Signs of life a second, from all of them in turn.
    #[arg(long, default_value_t = 33_000)]
    keepalives: u64,
    /// Changes of presence a second.
    #[arg(long, default_value_t = 1_000)]
    changes: u64,
    /// People in the room; 0 leaves it out.
    #[arg(long, default_value_t = 20_000)]
    occupants: usize,
    /// Where the database lies for the while.
    #[arg(long)]
    scratch: Option<std::path::PathBuf>,
    #[command(flatten)]
    files: Files,
}

const DOMAIN: &str = "crowd.test";
const PASSWORD: &str = "water under the bridge";
/// Messages under way in each chat, and chats.
const IN_FLIGHT: usize = 4;
const CHATS: usize = 100;

/// What all clients share.
struct Scene {
    keys: Keys,
    done: mpsc::UnboundedSender<usize>,
    presences: AtomicU64,
    messages: AtomicU64,
    in_room: AtomicU64,
    talking: AtomicBool,
}

static SCENE: OnceLock<Scene> = OnceLock::new();

fn scene() -> &'static Scene {
    // Set before there is any client.
    SCENE.get().expect("the scene is set")
}

/// One client: what it has said that the server has not read, and how far it is.
struct Client(Mutex<Side>);

#[derive(Default)]
struct Side {
    number: u32,
    step: Step,
    said: Vec<u8>,
    waker: Option<Waker>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    #[default]
    Away,
    Opened,
    Proving,
    Proved,
    Reopened,
    Binding,
    Asking,
    /// The roster is there, the own presence not.
    Listed,
    /// The other way round.
    Seen,
    Online,
}

impl Client {
    fn say(&self, text: &[u8]) {
        let waker = self.0.lock().say(text);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Side {
    fn say(&mut self, text: &[u8]) -> Option<Waker> {
        self.said.extend_from_slice(text);
        self.waker.take()
    }

    fn name(&self) -> String {
        format!("c{}", self.number)
    }

    /// What the server wrote: whole elements.
    fn hear(&mut self, heard: &[u8]) {
        if self.step == Step::Online {
            return self.live(heard);
        }
        let text = String::from_utf8_lossy(heard);
        let has = |part: &str| text.contains(part);
        let name = self.name();
        match self.step {
            Step::Opened if has("</stream:features>") => {
                let first = BASE64.encode(format!("n,,{}", self.first()));
                let auth = format!(
                    "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='SCRAM-SHA-1'>\
                     {first}</auth>"
                );
                self.go_on(Step::Proving, &auth);
            }
            Step::Proving if has("<challenge") => {
                let inner = text.split_once("<challenge").and_then(|(_, rest)| {
                    let inner = rest.split_once('>')?.1;
                    Some(inner.split('<').next()?.trim().to_owned())
                });
                let server_first = inner.and_then(|inner| BASE64.decode(inner).ok());
                let server_first = String::from_utf8(server_first.unwrap_or_default());
                let server_first = server_first.unwrap_or_default();
                let last = scene().keys.last(&self.first(), &server_first);
                // The keys are those of the one password that everybody here has.
                let (last, _) = last.expect("all have the same password");
                let response = format!(
                    "<response xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>{}</response>",
                    BASE64.encode(last)
                );
                self.go_on(Step::Proved, &response);
            }
            Step::Proved if has("<success") => self.go_on(Step::Reopened, HEADER),
            Step::Reopened if has("</stream:features>") => self.go_on(
                Step::Binding,
                "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
                 <resource>crowd</resource></bind></iq>",
            ),
            Step::Binding if has("</bind>") => self.go_on(
                Step::Asking,
                "<iq type='get' id='o'><query xmlns='jabber:iq:roster'/></iq><presence/>",
            ),
            Step::Asking | Step::Listed | Step::Seen => {
                let own = format!("from='{name}@{DOMAIN}/crowd'");
                let listed = self.step == Step::Listed || has("jabber:iq:roster");
                let seen = self.step == Step::Seen || has(&own);
                count_presences(heard);
                self.step = match (listed, seen) {
                    (true, true) => Step::Online,
                    (true, false) => Step::Listed,
                    (false, true) => Step::Seen,
                    (false, false) => Step::Asking,
                };
                if self.step == Step::Online {
                    self.said = Vec::new();
                    let _ = scene().done.send(self.number as usize);
                }
            }
            _ => assert!(!has("<failure") && !has("stream:error"), "{name} is not let in: {text}"),
        }
    }

    fn first(&self) -> String {
        scram::first(&self.name(), "crowd")
    }

    fn go_on(&mut self, step: Step, text: &str) {
        self.step = step;
        if let Some(waker) = self.say(text.as_bytes()) {
            waker.wake();
        }
    }

    /// Somebody online hears presence, and messages that are answered.
    fn live(&mut self, heard: &[u8]) {
        count_presences(heard);
        let messages = memchr::memmem::find_iter(heard, b"<message ").count();
        if messages == 0 {
            return;
        }
        if memchr::memmem::find(heard, b"groupchat").is_some() {
            scene().in_room.fetch_add(messages as u64, Relaxed);
            return;
        }
        scene().messages.fetch_add(messages as u64, Relaxed);
        if !scene().talking.load(Relaxed) {
            return;
        }
        let other = self.number ^ 1;
        let mut waker = None;
        for _ in 0..messages {
            waker = self.say(message(other).as_bytes()).or(waker);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn count_presences(heard: &[u8]) {
    let count = memchr::memmem::find_iter(heard, b"<presence ").count();
    scene().presences.fetch_add(count as u64, Relaxed);
}

fn message(to: u32) -> String {
    format!(
        "<message to='c{to}@{DOMAIN}/crowd' type='chat' id='m'><body>water under the bridge, and \
         more of it, and then some</body><no-store xmlns='urn:xmpp:hints'/></message>"
    )
}

const HEADER: &str = "<stream:stream xmlns='jabber:client' \
    xmlns:stream='http://etherx.jabber.org/streams' to='crowd.test' version='1.0'>";

/// The server's end of a client's connection.
struct Pipe(&'static Client);

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut side = self.0.0.lock();
        if side.said.is_empty() {
            match &mut side.waker {
                Some(waker) => waker.clone_from(context.waker()),
                none => *none = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        let count = side.said.len().min(buffer.remaining());
        buffer.put_slice(&side.said[..count]);
        side.said.drain(..count);
        if side.said.is_empty() {
            side.said = Vec::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.0.lock().hear(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The crowd, and what was measured.
struct Crowd {
    wish: Wish,
    xmpp: Xmpp,
    clients: &'static [Client],
    done: mpsc::UnboundedReceiver<usize>,
    results: Map<String, serde_json::Value>,
}

impl Crowd {
    fn number(&mut self, key: &str, value: f64) {
        let places = if value.abs() < 1_000.0 { 100.0 } else { 1.0 };
        let value = (value * places).round() / places;
        eprintln!("  {key}: {value}");
        self.results.insert(key.into(), json!(value));
    }

    fn arrive(&self, number: usize) {
        let client = &self.clients[number];
        client.0.lock().step = Step::Opened;
        client.say(HEADER.as_bytes());
        let transport = Box::new(ByteStream::plain(Pipe(client)));
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        tokio::spawn(accept(self.xmpp.clone(), transport, peer));
    }

    /// All come, as fast as it goes.
    async fn gather(&mut self) -> Result<()> {
        let count = self.wish.sessions;
        eprintln!("{count} people log in");
        let (rss, used, began) =
            (machine::anonymous_bytes(), machine::processor_s(), Instant::now());
        let (mut begun, mut done) = (0, 0);
        while done < count {
            while begun < count && begun - done < self.wish.at_once {
                self.arrive(begun);
                begun += 1;
            }
            self.done.recv().await.context("the clients are gone")?;
            done += 1;
            if done % (count / 10).max(1) == 0 {
                let each = machine::anonymous_bytes().saturating_sub(rss) as f64 / done as f64;
                let s = began.elapsed().as_secs_f64();
                eprintln!("  {done} are in after {s:.1} s, {each:.0} bytes each");
            }
        }
        self.settle().await;
        let took = began.elapsed().as_secs_f64();
        self.number("logins_per_s", count as f64 / took);
        let each_us = (machine::processor_s() - used) * 1e6 / count as f64;
        self.number("login_processor_us", each_us);
        tokio::time::sleep(Duration::from_secs(12)).await;
        let grown = machine::anonymous_bytes().saturating_sub(rss) as f64;
        self.number("rss_per_user_bytes", grown / count as f64);
        self.number("rss_bytes", grown);
        self.number("presences_at_login", scene().presences.load(Relaxed) as f64);
        Ok(())
    }

    /// Until no presence comes any more.
    async fn settle(&self) {
        let mut seen = u64::MAX;
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = scene().presences.load(Relaxed);
            if now == seen {
                return;
            }
            seen = now;
        }
    }

    /// More come, at a rate.
    async fn paced(&mut self) -> Result<()> {
        let (rate, from) = (self.wish.rate, self.wish.sessions);
        let count = self.clients.len() - from;
        if count == 0 || rate == 0 {
            return Ok(());
        }
        eprintln!("{rate} log-ins a second beside them");
        let used = machine::processor_s();
        let mut times = Latencies::default();
        let began = Instant::now();
        let due = |at: usize| began + Duration::from_secs_f64(at as f64 / rate as f64);
        let (mut next, mut done) = (0, 0);
        while done < count {
            tokio::select! {
                () = tokio::time::sleep_until(due(next).into()), if next < count => {
                    self.arrive(from + next);
                    next += 1;
                }
                one = self.done.recv() => {
                    let at = one.context("the clients are gone")? - from;
                    times.record(due(at).elapsed(), true);
                    done += 1;
                }
            }
        }
        self.number("paced_login_p50_ms", times.percentile_ms(50.0));
        self.number("paced_login_p99_ms", times.percentile_ms(99.0));
        self.number("paced_login_max_ms", times.percentile_ms(100.0));
        let each_us = (machine::processor_s() - used) * 1e6 / count as f64;
        self.number("paced_login_processor_us", each_us);
        Ok(())
    }

    /// `act` is done so many times a second.
    async fn at_rate(&self, rate: u64, mut act: impl FnMut(u64)) {
        let (began, total) = (Instant::now(), rate * self.wish.seconds);
        let mut done = 0;
        let mut each = tokio::time::interval(Duration::from_millis(2));
        while done < total {
            each.tick().await;
            let due = (began.elapsed().as_secs_f64() * rate as f64) as u64;
            while done < due.min(total) {
                act(done);
                done += 1;
            }
        }
    }

    async fn keepalives(&mut self) {
        let (rate, count) = (self.wish.keepalives, self.wish.sessions as u64);
        if rate == 0 {
            return;
        }
        eprintln!("{rate} signs of life a second");
        let used = machine::processor_s();
        let clients = self.clients;
        self.at_rate(rate, |number| clients[(number * 7 % count) as usize].say(b" ")).await;
        let total = (rate * self.wish.seconds) as f64;
        self.number("keepalive_processor_us", (machine::processor_s() - used) * 1e6 / total);
    }

    async fn changes(&mut self) {
        let (rate, count) = (self.wish.changes, self.wish.sessions as u64);
        if rate == 0 {
            return;
        }
        eprintln!("{rate} changes of presence a second");
        let (used, before) = (machine::processor_s(), scene().presences.load(Relaxed));
        let began = Instant::now();
        let clients = self.clients;
        self.at_rate(rate, |number| {
            let status = format!("<presence><status>change {}</status></presence>", number % 97);
            clients[(number * 7 % count) as usize].say(status.as_bytes());
        })
        .await;
        let took = began.elapsed().as_secs_f64();
        self.settle().await;
        let came = (scene().presences.load(Relaxed) - before) as f64;
        self.number("presences_per_s", came / took);
        self.number("presence_processor_us", (machine::processor_s() - used) * 1e6 / came);
    }

    async fn messages(&mut self) {
        let chats = CHATS.min(self.wish.sessions / 2);
        eprintln!("{chats} chats as fast as they go, no archive");
        scene().talking.store(true, Relaxed);
        for chat in 0..chats {
            let from = &self.clients[2 * chat];
            (0..IN_FLIGHT).for_each(|_| from.say(message(2 * chat as u32 + 1).as_bytes()));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (used, came, began) =
            (machine::processor_s(), scene().messages.load(Relaxed), Instant::now());
        tokio::time::sleep(Duration::from_secs(self.wish.seconds)).await;
        let came = (scene().messages.load(Relaxed) - came) as f64;
        let (took, used) = (began.elapsed().as_secs_f64(), machine::processor_s() - used);
        scene().talking.store(false, Relaxed);
        tokio::time::sleep(Duration::from_millis(500)).await;
        self.number("messages_per_s", came / took);
        self.number("message_processor_us", used * 1e6 / came.max(1.0));
    }

    /// A room in which nobody is told who comes and goes, as in a lecture hall.
    async fn room(&mut self) -> Result<()> {
        let occupants = self.wish.occupants.min(self.wish.sessions);
        if occupants == 0 {
            return Ok(());
        }
        eprintln!("{occupants} people enter a room");
        let room = format!("hall@conference.{DOMAIN}");
        let enter = |number: usize| {
            format!(
                "<presence to='{room}/c{number}'><x xmlns='http://jabber.org/protocol/muc'>\
                 <history maxstanzas='0'/></x></presence>"
            )
        };
        let (used, began) = (machine::processor_s(), Instant::now());
        self.clients[0].say(enter(0).as_bytes());
        self.settle().await;
        let form = format!(
            "<iq type='set' to='{room}' id='r'><query xmlns='http://jabber.org/protocol/muc#owner'>\
             <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>\
             http://jabber.org/protocol/muc#roomconfig</value></field>\
             <field var='muc#roomconfig_presencebroadcast'><value>moderator</value></field>\
             <field var='muc#roomconfig_maxusers'><value></value></field>\
             </x></query></iq>"
        );
        self.clients[0].say(form.as_bytes());
        self.settle().await;
        for number in 1..occupants {
            self.clients[number].say(enter(number).as_bytes());
            if number % 200 == 0 {
                tokio::task::yield_now().await;
            }
        }
        self.settle().await;
        self.number("room_enter_ms", began.elapsed().as_secs_f64() * 1e3);
        self.number(
            "room_enter_processor_us",
            (machine::processor_s() - used) * 1e6 / occupants as f64,
        );
        let (mut times, used) = (Latencies::default(), machine::processor_s());
        for number in 0..20 {
            scene().in_room.store(0, Relaxed);
            let from = Instant::now();
            let words = format!(
                "<message to='{room}' type='groupchat' id='g{number}'><body>good evening</body>\
                 </message>"
            );
            self.clients[number % occupants].say(words.as_bytes());
            while scene().in_room.load(Relaxed) < occupants as u64 {
                ensure!(from.elapsed() < Duration::from_secs(20), "not all heard it");
                tokio::time::sleep(Duration::from_micros(500)).await;
            }
            times.record(from.elapsed(), true);
        }
        self.number("room_all_p50_ms", times.percentile_ms(50.0));
        self.number("room_all_max_ms", times.percentile_ms(100.0));
        let each_us = (machine::processor_s() - used) * 1e6 / (20 * occupants) as f64;
        self.number("room_delivery_processor_us", each_us);
        Ok(())
    }
}

/// Writes accounts `c0` to `cN` with one password and their contacts; answers its keys.
async fn fill(community: &Community, db: &Db, people: usize, contacts: usize) -> Result<Keys> {
    eprintln!("writing {people} accounts with {contacts} contacts each");
    let new = NewAccount {
        username: "c0".into(),
        user: NewUser {
            email: "c0@mail.test".into(),
            password: users::hash_password(PASSWORD).await?,
            role: Role::User,
            confirmed: true,
            approved: true,
            locale: "en".into(),
            reason: String::new(),
            ip: String::new(),
            invite_id: None,
        },
        reserved_allowed: false,
    };
    let made =
        community.write(Class::Interactive, move |tx, env| accounts::create(tx, env, &new)).await?;
    let first = made;
    const CHUNK: usize = 20_000;
    let began = Instant::now();
    for from in (0..people).step_by(CHUNK) {
        let to = (from + CHUNK).min(people);
        db.write_blocking(Class::Housekeeping, move |tx| {
            let numbers = "WITH RECURSIVE people (n) AS (
                SELECT CAST(?1 AS BIGINT) UNION ALL SELECT n + 1 FROM people WHERE n + 1 < ?2)";
            if to > 1 {
                let from = from.max(1);
                for sql in [
                    "INSERT INTO accounts (id, username, username_key, domain, uri, url,
                       created_at) {}
                     SELECT ?3 + n, 'c' || n, 'c' || n, '', 'http://x/ap/users/' || (?3 + n),
                       'http://x/ap/users/' || (?3 + n), 0 FROM people",
                    "INSERT INTO users (account_id, email, email_key, password_hash, confirmed_at,
                       approved, created_at, scram) {}
                     SELECT ?3 + n, 'c' || n || '@mail.test', 'c' || n || '@mail.test',
                       u.password_hash, 1, 1, 0, u.scram
                     FROM people JOIN users u ON u.account_id = ?3",
                ] {
                    tx.run(&sql.replace("{}", numbers), params![from, to, first])?;
                }
            }
            tx.run(
                "WITH RECURSIVE people (n) AS (
                   SELECT CAST(?1 AS BIGINT) UNION ALL SELECT n + 1 FROM people WHERE n + 1 < ?2),
                 steps (s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM steps WHERE s < ?4)
                 INSERT INTO chat_contacts (account_id, jid, state)
                 SELECT ?3 + n, 'c' || ((n + d) % ?5) || '@crowd.test', 7
                 FROM people JOIN (SELECT s AS d FROM steps UNION ALL SELECT ?5 - s FROM steps)",
                params![from, to, first, contacts / 2, people],
            )?;
            Ok::<_, weir_db::Error>(())
        })?;
        if (to * 10 / people) > (from * 10 / people) {
            eprintln!("  {to} after {:.1} s", began.elapsed().as_secs_f64());
        }
    }
    let (vault, sealed) = (community.env().clone(), first);
    let sealed: Vec<u8> = community
        .read(Class::Interactive, move |tx, _| {
            let sql = "SELECT scram FROM users WHERE account_id = ?1";
            Ok::<_, weir_community::Error>(tx.value(sql, params![sealed])?.unwrap_or_default())
        })
        .await?;
    let keys = users::scram::ScramKeys::open(&vault.vault, &sealed).context("no keys")?;
    let key = keys.key(users::scram::Hash::Sha1);
    let told = format!("r=x,s={},i={}", BASE64.encode(key.salt), key.iterations);
    Keys::derive(Hash::Sha1, PASSWORD, &told)
}

#[tokio::main]
async fn main() -> Result<()> {
    let wish = Wish::parse();
    let place = match &wish.scratch {
        Some(scratch) => tempfile::tempdir_in(scratch)?,
        None => tempfile::tempdir()?,
    };
    let more = wish.rate * wish.seconds as usize;
    let people = wish.sessions + more;
    let (clock, random) = (Clock::system(), Random::system());
    let db = Db::open("sqlite:weir.db", place.path(), &Options::default())?;
    let jobs = Jobs::open(db.clone(), clock.clone(), random.clone())?;
    let community = Community::open(Setup {
        db: db.clone(),
        jobs,
        clock,
        random,
        site: Site { domain: DOMAIN.into(), base: format!("https://{DOMAIN}") },
        data: place.path().to_owned(),
    })?;
    let keys = fill(&community, &db, people, wish.contacts).await?;
    let (sender, done) = mpsc::unbounded_channel();
    let scene = Scene {
        keys,
        done: sender,
        presences: AtomicU64::new(0),
        messages: AtomicU64::new(0),
        in_room: AtomicU64::new(0),
        talking: AtomicBool::new(false),
    };
    ensure!(SCENE.set(scene).is_ok(), "the scene is set twice");
    let before = machine::anonymous_bytes();
    let clients: Vec<Client> = (0..people)
        .map(|number| {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            Client(Mutex::new(Side { number, ..Side::default() }))
        })
        .collect();
    let clients: &'static [Client] = clients.leak();
    let client_bytes = machine::anonymous_bytes().saturating_sub(before) as f64;
    let shutdown = CancellationToken::new();
    let xmpp = Xmpp::start(weir_xmpp::Setup {
        community,
        dev: true,
        door: weir_xmpp::register::open_door(),
        externals: Default::default(),
        sessions_max: people + 1,
        tls: None,
        shutdown: shutdown.clone(),
    });
    let mut crowd = Crowd { wish, xmpp, clients, done, results: Map::new() };
    crowd.number("client_bytes_apart", client_bytes / people as f64);
    crowd.gather().await?;
    crowd.keepalives().await;
    crowd.paced().await?;
    crowd.changes().await;
    crowd.messages().await;
    crowd.room().await?;
    let parameters = json!({ "sessions": crowd.wish.sessions, "contacts": crowd.wish.contacts });
    let more = json!({ "parameters": parameters });
    crowd.wish.files.give("crowd", &crowd.results, more, |object| object.to_string())?;
    // Two million farewells are of no interest.
    std::process::exit(0)
}
