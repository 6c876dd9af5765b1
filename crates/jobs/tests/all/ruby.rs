//! Real Ruby: Sidekiq's own process, its API and its web pages on a Redis that Weir shares.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_util::sync::CancellationToken;
use weir_base::{Clock, Random};
use weir_db::{Class, Db, Tx};
use weir_jobs::sidekiq::{Options, Times};
use weir_jobs::{Claimed, Delay, Failure, Job, Jobs, Queue, QueueStats, Registry, Retry, Workers};
use weir_storm::fixture::{Fixture, sqlite};

use crate::house::{soon, until};
use crate::redis_server::RedisServer;

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

/// A Weir on a Redis.
struct Weir {
    jobs: Jobs,
    db: Db,
    redis: RedisServer,
    _fixture: Fixture,
    stop: CancellationToken,
    workers: Workers,
    answers: UnboundedReceiver<(String, Answer)>,
}

impl Weir {
    /// Its answers come out; one that says `hang` runs until the stop, `fail` fails, `die` dies.
    fn start(times: Times) -> Self {
        let (fixture, redis) = (sqlite(), RedisServer::start());
        let db = fixture.db.clone();
        let jobs = Jobs::open(db.clone(), Clock::system(), Random::seeded(3)).unwrap();
        let (told, answers) = mpsc::unbounded_channel();
        let mut registry = Registry::new();
        registry.elsewhere::<Greet>();
        registry.elsewhere::<Failing>();
        registry.task(move |claimed: Claimed<Answer>| {
            let what = claimed.job.text.clone();
            let _ = told.send((claimed.jid().to_string(), claimed.job));
            async move {
                match what.as_str() {
                    "hang" => std::future::pending().await,
                    "fail" => Err(Failure::retry("it <failed>")),
                    "die" => Err(Failure::Dead("it died".into())),
                    _ => Ok(()),
                }
            }
        });
        let stop = CancellationToken::new();
        let options = Options { times, ..Options::new(redis.url()) };
        let workers = jobs.start_on_redis(registry, options, stop.clone()).unwrap();
        Self { jobs, db, redis, _fixture: fixture, stop, workers, answers }
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

fn ruby(command: &str, redis: &RedisServer) -> Command {
    let mut command = Command::new(command);
    command.env("REDIS_URL", redis.url()).stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::null());
    command
}

/// A Sidekiq that works queue `greetings`.
fn sidekiq(redis: &RedisServer) -> Process {
    let mut command = ruby("sidekiq", redis);
    command.args(["-c", "2", "-q", "greetings", "-r"]).arg(script("worker.rb"));
    Process(command.stdout(Stdio::null()).spawn().expect("ruby-sidekiq is installed"))
}

/// Sidekiq's API.
struct Console {
    _process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Console {
    fn open(redis: &RedisServer) -> Self {
        let mut child = ruby("ruby", redis).arg(script("console.rb")).spawn().expect("ruby");
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready");
        Self { _process: Process(child), input, output }
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

#[tokio::test(flavor = "multi_thread")]
async fn weir_enqueues_and_ruby_runs_and_the_other_way_round() {
    let mut weir = Weir::start(Times::Seconds);
    let _sidekiq = sidekiq(&weir.redis);
    let jid = weir.enqueue(Greet("bob".into(), 1)).await;
    let failing = weir.enqueue(Failing { what: "luck".into() }).await;
    let answer = Answer { text: "Hello bob".into(), number: 1 };
    assert_eq!(soon(weir.answers.recv()).await, Some((jid, answer)));
    until("its retry", async || weir.jobs.stats().await.unwrap().retries == 1).await;
    let mut console = Console::open(&weir.redis);
    let retry =
        console.ask("r = Sidekiq::RetrySet.new.first; [r.jid, r.klass, r.args, r['retry']]");
    assert_eq!(retry, json!([failing, "FailingWorker", [{ "what": "luck" }], 3]));
    let entry = weir.jobs.list(weir_jobs::Set::Retries, None, 1).await.unwrap().remove(0);
    assert_eq!((entry.kind.as_str(), entry.failures), ("FailingWorker", 1));
    assert_eq!(entry.reason.as_deref(), Some("no luck"));
    weir.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rubys_api_sees_what_weir_does_and_steers_it() {
    let mut weir = Weir::start(Times::Seconds);
    let mut ruby = Console::open(&weir.redis);
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
    ruby.until(
        "Sidekiq::Workers.new.map { |_, _, work| [work['queue'], work['payload']['args'][0]] }",
        &json!([["answers", "hang"]]),
    );
    let process = ruby.ask(
        "p = Sidekiq::ProcessSet.new.first; [p['tag'], p['queues'].sort, p['busy'], \
         p['quiet'], p['pid'], Sidekiq::ProcessSet.new.size]",
    );
    let pid = std::process::id();
    assert_eq!(process, json!(["weir", ["answers"], 1, "false", pid, 1]));
    ruby.until(
        "s = Sidekiq::Stats.new; [s.processed, s.failed, s.processes_size, s.workers_size]",
        &json!([5, 4, 1, 1]),
    );
    let today = ruby.ask("Sidekiq::Stats::History.new(1).processed.values.first");
    assert_eq!(today, json!(5));

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

#[tokio::test(flavor = "multi_thread")]
async fn sidekiq_web_shows_weirs_jobs_and_its_buttons_work() {
    let mut weir = Weir::start(Times::Seconds);
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = ruby("ruby", &weir.redis);
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
    let jid = weir.enqueue(Greet("carol".into(), 7)).await;
    until("all are in their places", async || {
        let stats = weir.jobs.stats().await.unwrap();
        let of = |count: fn(&QueueStats) -> u64| stats.queues.iter().map(count).sum::<u64>();
        let (depth, running) = (of(|queue| queue.depth), of(|queue| queue.running));
        (stats.scheduled, stats.retries, stats.dead, depth, running) == (1, 1, 1, 2, 1)
    })
    .await;

    let busy = page(port, "/busy", |page| page.contains("hang"));
    assert!(busy.contains(&format!(":{}", std::process::id())) && busy.contains("weir"), "{busy}");
    assert!(page(port, "/queues", |_| true).contains("greetings"));
    let queue = page(port, "/queues/greetings", |_| true);
    assert!(queue.contains("GreetWorker") && queue.contains("carol"), "{queue}");
    let retries = page(port, "/retries", |_| true);
    assert!(retries.contains("it &lt;failed&gt;"), "{retries}");
    let scheduled = page(port, "/scheduled", |_| true);
    assert!(scheduled.contains("later") && scheduled.contains("Answer"), "{scheduled}");
    assert!(page(port, "/morgue", |_| true).contains("it died"));
    let stats = page(port, "/stats", |_| true);
    assert!(stats.contains("\"processed\":2") && stats.contains("\"busy\":1"), "{stats}");
    assert!(!jid.is_empty());

    // The button that adds all scheduled jobs to their queues.
    let (cookie, token) = credentials(&fetch(port, &get("/scheduled")).unwrap());
    let form = format!("authenticity_token={token}&add_to_queue=now&{}", key_of(&scheduled));
    let sent = fetch(port, &post("/scheduled", &cookie, &form)).unwrap();
    assert!(sent.starts_with("HTTP/1.1 302"), "{sent}");
    assert_eq!(soon(weir.answers.recv()).await.unwrap().1.text, "later");
    weir.stop().await;
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
}

fn post(path: &str, cookie: &str, form: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nCookie: {cookie}\r\n\
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

/// The session of a page and the token of its forms.
fn credentials(page: &str) -> (String, String) {
    let between = |text: &str, before: &str, after: &str| {
        let begin = text.find(before).unwrap_or_else(|| panic!("no {before}: {text}"));
        let rest = &text[begin + before.len()..];
        rest[..rest.find(after).unwrap()].to_owned()
    };
    let token = between(page, "name='authenticity_token' value='", "'");
    let cookie = between(page, "Set-Cookie: ", ";");
    (cookie, token.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D"))
}

/// The field that names the only job of a page.
fn key_of(page: &str) -> String {
    let name = "name='key[]' value='";
    let rest = &page[page.find(name).unwrap() + name.len()..];
    format!("key%5B%5D={}", &rest[..rest.find('\'').unwrap()])
}
