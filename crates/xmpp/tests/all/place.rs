//! A community that chats, for a test, and apps of its people.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random, Secret, Timestamp};
use weir_community::accounts::{self, NewAccount};
use weir_community::streams;
use weir_community::users::{self, NewUser, Role};
use weir_community::{Community, Setup, Site};
use weir_db::Class;
use weir_jobs::Jobs;
use weir_storm::fixture::{self, Fixture};
use weir_xmpp::iq::external::{External, Externals};
use weir_xmpp::stream::ChatTls;
use weir_xmpp::wire::{Element, Frame, Framer};

/// Longer than anything takes that comes at all.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct Place {
    pub community: Community,
    pub xmpp: weir_xmpp::Xmpp,
    pub domain: &'static str,
    pub name: &'static str,
    pub address: SocketAddr,
    pub tls_address: SocketAddr,
    pub tls: ChatTls,
    pub clock: Clock,
    shutdown: CancellationToken,
    hashes: HashMap<String, users::KeptPassword>,
    data: tempfile::TempDir,
    _fixture: Fixture,
}

/// Empty databases with the tables of everything.
pub fn databases() -> Vec<Fixture> {
    fixture::databases_with(|db| {
        weir_jobs::migrate(db).unwrap();
        weir_community::migrate(db).unwrap();
    })
}

/// A community on each database, with a clock that stands still.
pub async fn places() -> Vec<Place> {
    let mut all = Vec::new();
    for fixture in databases() {
        all.push(Place::on(fixture, true).await);
    }
    all
}

impl Place {
    pub async fn on(fixture: Fixture, dev: bool) -> Self {
        Self::named(fixture, dev, "weir.test").await
    }

    /// The community of this domain.
    pub async fn named(fixture: Fixture, dev: bool, domain: &'static str) -> Self {
        Self::among(fixture, dev, domain, None).await
    }

    /// The same as one of several nodes, which tell each other over the Redis at `bus`.
    pub async fn among(
        fixture: Fixture,
        dev: bool,
        domain: &'static str,
        bus: Option<&str>,
    ) -> Self {
        let clock = Clock::manual(Timestamp::from_ms(1_700_000_000_000));
        let random = Random::seeded(domain.bytes().map(u64::from).sum());
        let jobs = Jobs::open(fixture.db.clone(), clock.clone(), random.clone()).unwrap();
        let data = tempfile::tempdir().unwrap();
        let setup = Setup {
            db: fixture.db.clone(),
            jobs,
            clock: clock.clone(),
            random,
            site: Site { domain: domain.into(), base: format!("https://{domain}") },
            data: data.path().to_owned(),
        };
        let community = Community::open(setup).unwrap();
        let shutdown = CancellationToken::new();
        write_certificate(data.path(), domain);
        let (cert, key) = (data.path().join("cert.pem"), data.path().join("key.pem"));
        let tls = weir_http::Tls::from_files(&cert, &key).unwrap();
        let tls = ChatTls::new(tls).unwrap();
        let xmpp = weir_xmpp::Xmpp::start(weir_xmpp::Setup {
            community: community.clone(),
            dev,
            tls: Some(tls.clone()),
            door: weir_xmpp::register::open_door(),
            externals: externals(),
            sessions_max: 1_000,
            shutdown: shutdown.clone(),
        });
        let nodes = bus.map(|url| streams::Nodes::join(&community, url).unwrap());
        let told = streams::run_among(community.clone(), nodes, shutdown.clone());
        tokio::spawn(told);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(weir_xmpp::stream::listen::serve(xmpp.clone(), listener));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let tls_address = listener.local_addr().unwrap();
        tokio::spawn(weir_xmpp::stream::listen::serve_tls(xmpp.clone(), listener));
        let name = fixture.name;
        let hashes = HashMap::new();
        Self {
            community,
            xmpp,
            domain,
            name,
            address,
            tls_address,
            tls,
            clock,
            shutdown,
            hashes,
            data,
            _fixture: fixture,
        }
    }

    /// An account of this name, whose password is `password of NAME`, unless there is one.
    pub async fn person(&mut self, name: &str) {
        if self.hashes.contains_key(name) {
            return;
        }
        let hash = users::hash_password(&format!("password of {name}")).await.unwrap();
        self.hashes.insert(name.into(), hash.clone());
        let user = NewUser {
            email: format!("{name}@mail.test"),
            password: hash,
            role: Role::User,
            confirmed: true,
            approved: true,
            locale: "en".into(),
            reason: String::new(),
            ip: String::new(),
            invite_id: None,
        };
        let new = NewAccount { username: name.into(), user, reserved_allowed: false };
        let made = self
            .community
            .write(Class::Interactive, move |tx, env| accounts::create(tx, env, &new));
        made.await.unwrap();
    }

    /// The certificate is another, and the server is told to read it.
    pub fn renew_certificate(&self) {
        write_certificate(self.data.path(), self.domain);
        self.tls.tls().reload().unwrap();
    }

    /// The server stops.
    pub fn shut_down(&self) {
        self.shutdown.cancel();
    }

    /// An app that has opened a stream and got its header and features.
    pub async fn app(&self) -> App {
        let mut app = App::silent(self.address).await.of(self.domain);
        app.open().await;
        app
    }

    /// An app of somebody who is logged in and has bound this resource.
    pub async fn logged_in(&mut self, name: &str, resource: &str) -> App {
        self.person(name).await;
        let mut app = self.app().await;
        app.log_in(name).await;
        app.bind(resource).await;
        app
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// What carries a client's stream.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A client of XMPP.
pub struct App {
    io: Box<dyn Io>,
    framer: Framer,
    domain: &'static str,
    pings: u32,
    /// Read already, and not looked at yet.
    kept: VecDeque<Element>,
}

impl App {
    /// A connection on which nothing was said.
    pub async fn silent(address: SocketAddr) -> Self {
        Self::on(Box::new(TcpStream::connect(address).await.unwrap()))
    }

    /// A client on whatever carries it.
    pub fn on(io: Box<dyn Io>) -> Self {
        let (framer, kept) = (Framer::new(1 << 20), VecDeque::new());
        Self { io, framer, domain: "weir.test", pings: 0, kept }
    }

    pub async fn connect(address: SocketAddr) -> Self {
        let mut app = Self::silent(address).await;
        app.open().await;
        app
    }

    /// Opens the stream (anew); answers its features.
    pub async fn open(&mut self) -> Element {
        self.framer.restart();
        let domain = self.domain;
        self.send(&format!(
            "<?xml version='1.0'?><stream:stream xmlns='jabber:client' \
             xmlns:stream='http://etherx.jabber.org/streams' version='1.0' to='{domain}'>"
        ))
        .await;
        let header = self.frame().await;
        assert!(matches!(header, Some(Frame::Open(_))), "{header:?}");
        let features = self.receive().await;
        assert_eq!(features.name, "features");
        features
    }

    pub async fn log_in(&mut self, name: &str) {
        let message = BASE64_STANDARD.encode(format!("\0{name}\0password of {name}"));
        self.log_in_with("PLAIN", &message).await;
    }

    /// Logs in by a mechanism of one message.
    pub async fn log_in_with(&mut self, mechanism: &str, message: &str) {
        let sasl = "urn:ietf:params:xml:ns:xmpp-sasl";
        self.send(&format!("<auth xmlns='{sasl}' mechanism='{mechanism}'>{message}</auth>")).await;
        let answer = self.receive().await;
        assert_eq!(answer.name, "success", "{answer:?}");
        self.open().await;
    }

    pub async fn bind(&mut self, resource: &str) {
        let bind = format!(
            "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
             <resource>{resource}</resource></bind></iq>"
        );
        self.send(&bind).await;
        let answer = self.receive().await;
        assert_eq!(answer.attr("type"), Some("result"), "{answer:?}");
    }

    /// A client of another domain.
    pub fn of(mut self, domain: &'static str) -> Self {
        self.domain = domain;
        self
    }

    /// Gives away what carries the stream, for TLS.
    pub fn into_io(self) -> Box<dyn Io> {
        self.io
    }

    pub async fn send(&mut self, text: &str) {
        self.io.write_all(text.as_bytes()).await.unwrap();
    }

    /// Bytes as they are; whether the server still took them.
    pub async fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.io.write_all(bytes).await.is_ok()
    }

    /// The next frame that is no white space; none at the end of the connection.
    pub async fn frame(&mut self) -> Option<Frame> {
        if let Some(kept) = self.kept.pop_front() {
            return Some(Frame::Element(kept));
        }
        loop {
            match self.framer.next_frame().expect("the server sends XML") {
                Some(Frame::Space) => continue,
                Some(frame) => return Some(frame),
                None => {}
            }
            let mut buffer = [0; 4_096];
            let read = tokio::time::timeout(PATIENCE, self.io.read(&mut buffer)).await;
            let read = read.expect("nothing comes from the server").unwrap_or(0);
            if read == 0 {
                return None;
            }
            self.framer.push(&buffer[..read]);
        }
    }

    /// The next element.
    pub async fn receive(&mut self) -> Element {
        match self.frame().await {
            Some(Frame::Element(element)) => element,
            other => panic!("no element: {other:?}"),
        }
    }

    /// What comes before the answer to a ping of the server.
    pub async fn until_ping(&mut self) -> Vec<Element> {
        self.pings += 1;
        let id = format!("ping{}", self.pings);
        let ping = "<ping xmlns='urn:xmpp:ping'/>";
        let domain = self.domain;
        self.send(&format!("<iq type='get' to='{domain}' id='{id}'>{ping}</iq>")).await;
        let mut before = Vec::new();
        loop {
            let next = self.receive().await;
            if next.attr("id") == Some(&id) {
                return before;
            }
            before.push(next);
        }
    }

    /// Everything sent so far was worked by the server; what came meanwhile is kept for later.
    pub async fn sync(&mut self) {
        let before = self.until_ping().await;
        self.kept.extend(before);
    }

    /// The error that ends the stream.
    pub async fn stream_error(&mut self) -> String {
        loop {
            match self.frame().await {
                Some(Frame::Element(element)) if element.name == "error" => {
                    let condition = element.children().next().map(|child| child.name.to_string());
                    return condition.unwrap_or_default();
                }
                Some(_) => {}
                None => return "none".into(),
            }
        }
    }

    /// Cuts the connection without a word.
    pub async fn vanish(mut self) {
        let _ = self.io.shutdown().await;
    }
}

/// Makes a certificate of this domain, in files.
fn write_certificate(folder: &Path, domain: &str) {
    let made = rcgen::generate_simple_self_signed(vec![domain.into()]).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
}

/// What apps need for calls.
fn externals() -> Externals {
    let list = ["stun:stun.weir.test:3478", "turn:turn.weir.test:3478?transport=udp"];
    let services = list.iter().map(|text| External::parse(text).unwrap()).collect();
    Externals { services, secret: Secret::new("shared with turn".into()) }
}
