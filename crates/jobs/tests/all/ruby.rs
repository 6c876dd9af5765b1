//! Real Ruby: Sidekiq's own process, its API and its web pages on a Redis that Weir shares.

use std::borrow::Cow;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random};
use weir_db::{Class, Db, Tx};
use weir_jobs::sidekiq::{Options, Times};
use weir_jobs::{Claimed, Delay, Failure, Job, Jobs, Queue, QueueStats, Registry, Retry};
use weir_jobs::{Unique, Workers};
use weir_storm::fixture::{Fixture, sqlite};

use crate::house::{soon, until};
use crate::redis_server::RedisServer;

/// The tests of this file beside one Sidekiq.
macro_rules! beside {
    ($name:ident, $sidekiq:expr) => {
        mod $name {
            use super::Sidekiq;

            #[tokio::test(flavor = "multi_thread")]
            async fn weir_enqueues_and_ruby_runs_and_the_other_way_round() {
                super::both_directions($sidekiq).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn rubys_api_sees_what_weir_does_and_steers_it() {
                super::api($sidekiq).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn a_dead_unique_job_that_ruby_retries_waits_for_the_other_of_its_key() {
                super::dead_keys($sidekiq).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn sidekiq_web_shows_weirs_jobs_and_its_buttons_work() {
                super::web($sidekiq).await;
            }
        }
    };
}

beside!(sidekiq_of_the_system, Sidekiq::OfTheSystem);
beside!(sidekiq_7, Sidekiq::Seven);

/// A Sidekiq that shares a Redis with Weir.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sidekiq {
    /// That which `make test` installs; 6.4 on Debian 12.
    OfTheSystem,
    /// 7.3, from `scripts/sidekiq`.
    Seven,
}

impl Sidekiq {
    fn ruby(self, redis: &RedisServer) -> Command {
        let mut command = Command::new("ruby");
        command.env("REDIS_URL", redis.url()).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(Stdio::null());
        if self == Self::Seven {
            command.envs(SEVEN.iter().map(|(name, value)| (name, value)));
        }
        command
    }
}

/// The variables by which Ruby finds Sidekiq 7.
static SEVEN: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/sidekiq");
    let told = Command::new(script).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    let told = String::from_utf8(told.stdout).unwrap();
    let variables = told.lines().filter_map(|line| line.split_once('='));
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
});

/// Run by Ruby.
#[derive(Serialize, Deserialize)]
struct Greet(String, i64);

impl Job for Greet {
    const KIND: &'static str = "greet";
    const QUEUE: Queue = Queue::new("greetings", Class::Outbound);
    const SIDEKIQ_CLASS: &'static str = "GreetWorker";
}

/// Run by Ruby, where it fails.
#[derive(Serialize, Deserialize)]
struct Failing {
    what: String,
}

impl Job for Failing {
    const KIND: &'static str = "failing";
    const QUEUE: Queue = Queue::new("greetings", Class::Outbound);
    const RETRY: Retry = Retry::DEFAULT.attempts(4);
    const SIDEKIQ_CLASS: &'static str = "FailingWorker";
}

/// Enqueued by Ruby, run here.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Answer {
    text: String,
    number: i64,
}

impl Job for Answer {
    const KIND: &'static str = "Answer";
    const QUEUE: Queue = Queue::new("answers", Class::Inbound);
    const RETRY: Retry = Retry { delay: Delay::FixedMs(3_600_000), ..Retry::DEFAULT };
}

/// Run here, one at a time.
#[derive(Serialize, Deserialize)]
struct Sole {
    text: String,
}

impl Job for Sole {
    const KIND: &'static str = "Sole";
    const QUEUE: Queue = Queue::new("soles", Class::Inbound);
    const UNIQUE: Unique = Unique::UntilDone;

    fn unique_key(&self) -> Option<Cow<'_, str>> {
        Some("sole".into())
    }
}

/// A Weir on a Redis.
struct Weir {
    jobs: Jobs,
    db: Db,
    redis: RedisServer,
    _fixture: Fixture,
    stop: CancellationToken,
    workers: Workers,
    answers: UnboundedReceiver<(String, Answer)>,
    /// Ends those that hold.
    release: CancellationToken,
}

impl Weir {
    /// Its answers and soles come out; one that says `hang` runs until the stop, `hold` until the
    /// release, `fail` fails, `die` dies.
    fn start(times: Times) -> Self {
        let (fixture, redis) = (sqlite(), RedisServer::start());
        let db = fixture.db.clone();
        let jobs = Jobs::open(db.clone(), Clock::system(), Random::seeded(3)).unwrap();
        let (told, answers) = mpsc::unbounded_channel();
        let mut registry = Registry::new();
        registry.elsewhere::<Greet>();
        registry.elsewhere::<Failing>();
        let release = CancellationToken::new();
        let (released, to_tell) = (release.clone(), told.clone());
        registry.task(move |claimed: Claimed<Answer>| {
            let what = claimed.job.text.clone();
            let _ = to_tell.send((claimed.jid().to_string(), claimed.job));
            run(what, released.clone())
        });
        let released = release.clone();
        registry.task(move |claimed: Claimed<Sole>| {
            let text = claimed.job.text.clone();
            let _ = told.send((claimed.jid().to_string(), Answer { text, number: 1 }));
            run(claimed.job.text, released.clone())
        });
        let stop = CancellationToken::new();
        let options = Options { times, ..Options::new(redis.url()) };
        let workers = jobs.start_on_redis(registry, options, stop.clone()).unwrap();
        Self { jobs, db, redis, _fixture: fixture, stop, workers, answers, release }
    }

    async fn enqueue<J: Job>(&self, job: J) -> String {
        let jobs = self.jobs.clone();
        let unit = move |tx: &mut Tx| jobs.enqueue(tx, &job);
        let id = self.db.write::<_, weir_db::Error, _>(Class::Interactive, unit).await.unwrap();
        format!("77656972{:016x}", id.0)
    }

    async fn stop(self) {
        self.stop.cancel();
        self.workers.finish(Duration::ZERO).await;
    }
}

async fn run(what: String, released: CancellationToken) -> Result<(), Failure> {
    match what.as_str() {
        "hang" => std::future::pending().await,
        "hold" => released.cancelled().await,
        "fail" => return Err(Failure::retry("it <failed>")),
        "die" => return Err(Failure::Dead("it died".into())),
        _ => {}
    }
    Ok(())
}

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/ruby").join(name)
}

/// A process of Sidekiq that works queue `greetings`.
fn worker(sidekiq: Sidekiq, redis: &RedisServer) -> Process {
    let mut command = sidekiq.ruby(redis);
    command.args(["-S", "sidekiq", "-c", "2", "-q", "greetings", "-r"]).arg(script("worker.rb"));
    Process(command.stdout(Stdio::null()).spawn().expect("ruby is installed"))
}

/// Sidekiq's API.
struct Console {
    _process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Console {
    fn open(sidekiq: Sidekiq, redis: &RedisServer) -> Self {
        let mut child = sidekiq.ruby(redis).arg(script("console.rb")).spawn().expect("ruby");
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut console = Self { _process: Process(child), input, output };
        let version = console.ask("Sidekiq::VERSION");
        let is_seven = version.as_str().unwrap().starts_with("7.");
        assert!(is_seven || sidekiq != Sidekiq::Seven, "{version}");
        console
    }

    /// What Ruby says to a line of it.
    fn ask(&mut self, line: &str) -> Value {
        writeln!(self.input, "{line}").unwrap();
        let mut answer = String::new();
        self.output.read_line(&mut answer).unwrap();
        serde_json::from_str::<[Value; 1]>(&answer)
            .unwrap_or_else(|_| panic!("{line}"))
            .into_iter()
            .next()
            .unwrap()
    }

    /// Asks until the answer is `expected`.
    fn until(&mut self, line: &str, expected: &Value) {
        let begun = Instant::now();
        loop {
            let answer = self.ask(line);
            if answer == *expected {
                return;
            }
            let late = begun.elapsed() > Duration::from_secs(60);
            assert!(!late, "{line}: {answer} instead of {expected}");
            std::thread::yield_now();
        }
    }
}

async fn both_directions(sidekiq: Sidekiq) {
    let mut weir = Weir::start(Times::Seconds);
    let _worker = worker(sidekiq, &weir.redis);
    let jid = weir.enqueue(Greet("bob".into(), 1)).await;
    let failing = weir.enqueue(Failing { what: "luck".into() }).await;
    let answer = Answer { text: "Hello bob".into(), number: 1 };
    assert_eq!(soon(weir.answers.recv()).await, Some((jid, answer)));
    until("its retry", async || weir.jobs.stats().await.unwrap().retries == 1).await;
    let mut console = Console::open(sidekiq, &weir.redis);
    let retry =
        console.ask("r = Sidekiq::RetrySet.new.first; [r.jid, r.klass, r.args, r['retry']]");
    assert_eq!(retry, json!([failing, "FailingWorker", [{ "what": "luck" }], 3]));
    let entry = weir.jobs.list(weir_jobs::Set::Retries, None, 1).await.unwrap().remove(0);
    assert_eq!((entry.kind.as_str(), entry.failures), ("FailingWorker", 1));
    assert_eq!(entry.reason.as_deref(), Some("no luck"));
    weir.stop().await;
}

async fn api(sidekiq: Sidekiq) {
    let mut weir = Weir::start(Times::Seconds);
    let mut ruby = Console::open(sidekiq, &weir.redis);
    let push = |text: &str, more: &str| {
        format!(
            "Sidekiq::Client.push('class' => 'Answer', 'queue' => 'answers', \
             'args' => ['{text}', 5] {more})"
        )
    };
    let failing = ruby.ask(&push("fail", ", 'retry' => 2"));
    let (jid, answer) = soon(weir.answers.recv()).await.unwrap();
    assert_eq!((json!(jid), answer.number), (failing.clone(), 5), "from arguments in their order");
    ruby.until("Sidekiq::RetrySet.new.size", &json!(1));
    let retry = ruby.ask(
        "r = Sidekiq::RetrySet.new.first; [r.jid, r.queue, r['retry_count'], \
         r['error_message'], r['error_class'], (r.at - Time.now).round(-2), \
         (Time.now - r.created_at).abs < 60]",
    );
    let marks = json!([failing, "answers", 0, "it <failed>", "Weir::Failed", 3_600, true]);
    assert_eq!(retry, marks);
    ruby.ask("Sidekiq::RetrySet.new.each(&:retry); nil");
    soon(weir.answers.recv()).await;
    ruby.until("(r = Sidekiq::RetrySet.new.first) && r['retry_count']", &json!(0));

    ruby.ask(&push("die", ""));
    soon(weir.answers.recv()).await;
    ruby.until("Sidekiq::DeadSet.new.size", &json!(1));
    let dead = ruby.ask("d = Sidekiq::DeadSet.new.first; [d.klass, d['error_message']]");
    assert_eq!(dead, json!(["Answer", "it died"]));
    ruby.ask("Sidekiq::DeadSet.new.first.retry");
    soon(weir.answers.recv()).await;
    ruby.until("Sidekiq::DeadSet.new.size", &json!(1));

    ruby.ask(&push("later", ", 'at' => Time.now.to_f + 0.3"));
    assert_eq!(soon(weir.answers.recv()).await.unwrap().1.text, "later");

    ruby.ask(&push("hang", ""));
    soon(weir.answers.recv()).await;
    ruby.until("running", &json!([["answers", "hang"]]));
    let process = ruby.ask(
        "p = Sidekiq::ProcessSet.new.first; [p['tag'], p['queues'].sort, p['busy'], \
         p['quiet'], p['pid'], Sidekiq::ProcessSet.new.size]",
    );
    let pid = std::process::id();
    assert_eq!(process, json!(["weir", ["answers", "soles"], 1, "false", pid, 1]));
    ruby.until(
        "s = Sidekiq::Stats.new; [s.processed, s.failed, s.processes_size, s.workers_size]",
        &json!([5, 4, 1, 1]),
    );
    let today = ruby.ask("Sidekiq::Stats::History.new(1).processed.values.first");
    assert_eq!(today, json!(5));

    if sidekiq == Sidekiq::Seven {
        let numbers = "t = Sidekiq::Metrics::Query.new.top_jobs.job_results['Answer'].totals; \
             [t['p'], t['f']]";
        ruby.until(numbers, &json!([5, 4]));
    }

    ruby.ask("Sidekiq::ProcessSet.new.first.quiet!");
    ruby.until("Sidekiq::ProcessSet.new.first['quiet']", &json!("true"));
    ruby.ask(&push("waits", ""));
    let queue = "q = Sidekiq::Queue.new('answers'); [q.size, q.latency < 60, q.first.args[0]]";
    assert_eq!(ruby.ask(queue), json!([1, true, "waits"]));
    ruby.ask("Sidekiq::ProcessSet.new.first.stop!");
    soon(weir.workers.finish(Duration::ZERO)).await;
    let names = "Sidekiq::Queue.new('answers').map { |job| job.args[0] }";
    assert_eq!(ruby.ask(names), json!(["waits", "hang"]), "what ran goes before what waits");
    assert_eq!(ruby.ask("Sidekiq::ProcessSet.new.size"), json!(0));
}

async fn dead_keys(sidekiq: Sidekiq) {
    let mut weir = Weir::start(Times::Seconds);
    let sole = |text: &str| Sole { text: text.into() };
    let mut ruby = Console::open(sidekiq, &weir.redis);
    let first = weir.enqueue(sole("die")).await;
    assert_eq!(soon(weir.answers.recv()).await.unwrap().0, first);
    let dead = "d = Sidekiq::DeadSet.new.first; d && [d.jid, d['error_message']]";
    ruby.until(dead, &json!([first, "it died"]));
    let second = weir.enqueue(sole("hold")).await;
    assert_eq!(soon(weir.answers.recv()).await.unwrap().0, second, "it is let in");

    ruby.ask("Sidekiq::DeadSet.new.first.retry; nil");
    ruby.until(dead, &json!([first, "another job of its unique key waits or runs"]));
    assert!(weir.answers.try_recv().is_err(), "it did not run beside the other");

    weir.release.cancel();
    let keys = |tx: &mut Tx| tx.query_one("SELECT COUNT(*) FROM jobs_unique", &[], |it| it.get(0));
    until("the key is free", async || {
        weir.db.read::<i64, weir_db::Error, _>(Class::Interactive, keys).await.unwrap() == 0
    })
    .await;
    ruby.ask("Sidekiq::DeadSet.new.first.retry; nil");
    assert_eq!(soon(weir.answers.recv()).await.unwrap().0, first);
    ruby.until(dead, &json!([first, "it died"]));
    weir.stop().await;
}

async fn web(sidekiq: Sidekiq) {
    let mut weir = Weir::start(Times::Seconds);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = sidekiq.ruby(&weir.redis);
    let _web = Process(command.arg(script("web.rb")).arg(port.to_string()).spawn().unwrap());
    for (number, text) in ["hang", "fail", "die"].into_iter().enumerate() {
        let number = number as i64;
        weir.enqueue(Answer { text: text.into(), number }).await;
        soon(weir.answers.recv()).await;
    }
    let (jobs, at) = (weir.jobs.clone(), Clock::system().now().plus_ms(3_600_000));
    let unit = move |tx: &mut Tx| {
        let later = Answer { text: "later".into(), number: 9 };
        jobs.enqueue_at(tx, at, &later)
    };
    weir.db.write::<_, weir_db::Error, _>(Class::Interactive, unit).await.unwrap();
    weir.enqueue(Greet("alice".into(), 7)).await;
    until("all are in their places", async || {
        let stats = weir.jobs.stats().await.unwrap();
        let of = |count: fn(&QueueStats) -> u64| stats.queues.iter().map(count).sum::<u64>();
        let (depth, running) = (of(|queue| queue.depth), of(|queue| queue.running));
        (stats.scheduled, stats.retries, stats.dead, depth, running) == (1, 1, 1, 2, 1)
    })
    .await;

    let busy = page(port, "/busy", |page| page.contains("hang"));
    assert!(busy.contains(&format!(":{}", std::process::id())) && busy.contains("weir"), "{busy}");
    assert!(busy.contains("name=\"quiet\" value=\"1\""), "{busy}");
    assert!(page(port, "/queues", |_| true).contains("greetings"));
    let queue = page(port, "/queues/greetings", |_| true);
    assert!(queue.contains("GreetWorker") && queue.contains("alice"), "{queue}");
    let retries = page(port, "/retries", |_| true);
    assert!(retries.contains("it &lt;failed&gt;"), "{retries}");
    let scheduled = page(port, "/scheduled", |_| true);
    assert!(scheduled.contains("later") && scheduled.contains("Answer"), "{scheduled}");
    assert!(page(port, "/morgue", |_| true).contains("it died"));
    // The numbers come with the next sign of life.
    page(port, "/stats", |stats| stats.contains("\"processed\":2") && stats.contains("\"busy\":1"));
    for (path, page_of) in [("/retries", &retries), ("/scheduled", &scheduled)] {
        page(port, &format!("{path}/{}", key_of(page_of)), |page| page.contains("Answer"));
    }
    if sidekiq == Sidekiq::Seven {
        page(port, "/metrics", |page| page.contains("/metrics/Answer"));
        page(port, "/metrics/Answer", |page| page.contains("Answer"));
    }

    // The button that adds all scheduled jobs to their queues.
    let session = credentials(&fetch(port, &get("/scheduled")).unwrap());
    let form = format!("add_to_queue=now&key%5B%5D={}", key_of(&scheduled));
    let sent = fetch(port, &post("/scheduled", session, form)).unwrap();
    assert!(sent.starts_with("HTTP/1.1 302"), "{sent}");
    assert_eq!(soon(weir.answers.recv()).await.unwrap().1.text, "later");
    weir.stop().await;
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
}

fn post(path: &str, session: Option<(String, String)>, mut form: String) -> String {
    let proof = match session {
        Some((cookie, token)) => {
            form.push_str(&format!("&authenticity_token={token}"));
            format!("Cookie: {cookie}")
        }
        // From Sidekiq 8 on the browser's word is enough.
        None => "Sec-Fetch-Site: same-origin".to_owned(),
    };
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n{proof}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    )
}

/// What a request is answered with, head and body.
fn fetch(port: u16, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A page, asked for until it comes and is as wanted.
fn page(port: u16, path: &str, wanted: impl Fn(&str) -> bool) -> String {
    let begun = Instant::now();
    loop {
        match fetch(port, &get(path)) {
            Ok(page) if page.starts_with("HTTP/1.1 200") && wanted(&page) => return page,
            other => {
                let late = begun.elapsed() > Duration::from_secs(60);
                assert!(!late, "{path} was not as wanted: {other:?}");
            }
        }
    }
}

/// The session of a page and the token of its forms, where they have one.
fn credentials(page: &str) -> Option<(String, String)> {
    let token = between(page, "name='authenticity_token' value='", "'")?;
    let cookie = between(page, "Set-Cookie: ", ";")?;
    Some((cookie, token.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")))
}

/// By what the only job of a page is named.
fn key_of(page: &str) -> String {
    let key = between(&page.replace('"', "'"), "name='key[]' value='", "'");
    key.unwrap_or_else(|| panic!("{page}")).replace('|', "%7C")
}

fn between(text: &str, before: &str, after: &str) -> Option<String> {
    let rest = &text[text.find(before)? + before.len()..];
    Some(rest[..rest.find(after)?].to_owned())
}
