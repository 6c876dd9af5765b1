//! `weir serve` as people and scripts meet it: the real binary on free ports.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A running server, killed when dropped.
struct Server {
    process: Child,
    /// What it logged before the line `ready`.
    before: String,
    ready: String,
    log: BufReader<ChildStderr>,
}

impl Server {
    fn start(data: &Path, args: &[&str]) -> Self {
        Self::start_on("sqlite:weir.db", data, args)
    }

    fn start_on(database: &str, data: &Path, args: &[&str]) -> Self {
        let mut command = weir(data);
        command.args(["serve", "--dev", "--listen", "127.0.0.1:0"]).args(args);
        command.env("WEIR_DATABASE_URL", database);
        Self::run(&mut command)
    }

    fn run(command: &mut Command) -> Self {
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        let mut server = Self { process, before: String::new(), ready: String::new(), log };
        while !server.ready.contains("ready") {
            server.before.push_str(&server.ready);
            server.ready.clear();
            let read = server.log.read_line(&mut server.ready).unwrap();
            assert_ne!(read, 0, "ended before it was ready: {}", server.before);
        }
        server
    }

    /// The value of `name=` in the line `ready`.
    fn address(&self, name: &str) -> String {
        let (_, rest) = self.ready.split_once(&format!("{name}=")).unwrap();
        rest.split_whitespace().next().unwrap().trim_matches('"').to_owned()
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the process is our child and has not been waited for.
        assert_eq!(unsafe { libc::kill(self.process.id() as i32, signal) }, 0);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn weir(data: &Path) -> Command {
    let mut command = Command::new(WEIR);
    command.arg("--data").arg(data).current_dir(data.parent().unwrap());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("WEIR_")) {
        command.env_remove(name);
    }
    command
}

fn run(data: &Path, args: &[&str]) -> Output {
    weir(data).args(args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn get(address: &str, path: &str) -> String {
    ask(address, &format!("GET {path} HTTP/1.1"))
}

fn ask(address: &str, head: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{head}\r\nHost: weir\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_serves_health_and_numbers_at_the_addresses_of_the_line_ready() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    let health = get(&server.address("http"), "/health");
    assert!(health.starts_with("HTTP/1.1 200 "), "{health}");
    assert!(health.contains("x-request-id: ") && health.ends_with("OK"), "{health}");
    assert!(get(&server.address("http"), "/no/such/page").starts_with("HTTP/1.1 404 "));
    let numbers = get(&server.address("metrics"), "/metrics");
    for name in ["process_resident_memory_bytes", "weir_http_requests_total", "weir_build_info"] {
        assert!(numbers.contains(name), "{name} in {numbers}");
    }
    assert!(numbers.contains("route=\"/health\""), "{numbers}");
    // What did not happen yet is there too, so that whoever watches sees it begin.
    for at_zero in ["\nweir_ddp_places 0\n", "\nweir_jobs_unacknowledged_total 0\n"] {
        assert!(numbers.contains(at_zero), "{at_zero:?} in {numbers}");
    }
}

#[test]
fn sigterm_ends_it_with_status_0_and_frees_the_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for _ in 0..2 {
        let mut server = Server::start(&data, &["--domain", "localhost"]);
        let idle = TcpStream::connect(server.address("http")).unwrap();
        server.signal(libc::SIGTERM);
        assert_eq!(server.process.wait().unwrap().code(), Some(0));
        drop(idle);
        assert!(!data.join("control.sock").exists());
        // All is in the database, which alone is then a whole copy.
        assert!(data.join("weir.db").exists() && !data.join("weir.db-wal").exists());
    }
}

#[test]
fn a_streaming_client_does_not_hold_up_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let mut server = Server::start(&data, &[]);
    let email = "alice@example.test";
    assert!(run(&data, &["account", "create", "alice", "--email", email]).status.success());
    let token = run(&data, &["account", "token", "alice"]).stdout;
    let token = String::from_utf8(token).unwrap();
    let mut stream = TcpStream::connect(server.address("http")).unwrap();
    let head = format!(
        "GET /api/v1/streaming/user HTTP/1.1\r\nHost: weir\r\nAuthorization: Bearer {}\r\n\r\n",
        token.trim()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    answer.read_line(&mut line).unwrap();
    assert!(line.starts_with("HTTP/1.1 200 "), "{line}");
    server.signal(libc::SIGTERM);
    let mut rest = String::new();
    answer.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("\r\n0\r\n\r\n"), "the answer did not end whole: {rest}");
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
    let mut log = String::new();
    server.log.read_to_string(&mut log).unwrap();
    assert!(log.contains("stopped") && !log.contains("cut off"), "{log}");
}

#[test]
fn a_second_serve_on_the_same_data_directory_refuses_to_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let _first = Server::start(&data, &[]);
    let second = run(&data, &["serve", "--dev", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1));
    assert!(stderr(&second).contains("another weir uses the data directory"), "{second:?}");
}

#[test]
fn commands_reach_a_running_server_through_its_socket_also_at_a_long_path() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("a-long-name-".repeat(12)).join("data");
    std::fs::create_dir(data.parent().unwrap()).unwrap();
    let create = |name: &str| {
        let email = format!("{name}@example.test");
        json(&run(&data, &["account", "create", name, "--email", &email, "--json"]))
    };
    let server = Server::start(&data, &["--domain", "localhost"]);
    assert_eq!(create("alice")["role"], "user");
    drop(server);
    // The same without a server: it knows its names from the first start.
    assert!(create("bob")["password"].as_str().unwrap().len() >= 12);
    let names = |value: serde_json::Value| -> Vec<String> {
        let rows = value.as_array().unwrap();
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(json(&run(&data, &["account", "list", "--json"]))), ["alice", "bob"]);
    let _server = Server::start(&data, &["--domain", "localhost"]);
    assert_eq!(names(json(&run(&data, &["account", "list", "--json"]))), ["alice", "bob"]);
}

#[test]
fn accounts_are_made_changed_and_given_tokens() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &[]);
    let alice = ["account", "create", "alice", "--email", "alice@example.test"];
    assert_eq!(run(&data, &alice).status.code(), Some(0));
    let again = run(&data, &alice);
    assert_eq!((again.status.code(), stderr(&again).lines().count()), (Some(1), 1), "{again:?}");
    let changed = run(&data, &["account", "set", "alice", "--role", "admin", "--json"]);
    assert_eq!(json(&changed)["role"], "admin");
    let token = run(&data, &["account", "token", "alice", "--scopes", "read write"]);
    let token = String::from_utf8(token.stdout).unwrap();
    let head = "GET /api/v1/accounts/verify_credentials HTTP/1.1\r\nAuthorization: Bearer ";
    let myself = ask(&server.address("http"), &format!("{head}{}", token.trim()));
    assert!(myself.contains("\"username\":\"alice\""), "{myself}");
    assert_eq!(
        run(&data, &["account", "token", "alice", "--scopes", "all"]).status.code(),
        Some(1)
    );
    assert_eq!(run(&data, &["account", "set", "alice"]).status.code(), Some(2));
    let missing = run(&data, &["account", "show", "nobody"]);
    assert_eq!(
        stderr(&missing),
        "weir: Account not found; `weir account list` shows who is here\n"
    );
}

#[test]
fn the_last_admin_is_not_deleted_and_who_is_gone_from_the_demo_is_not_named() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let words = || {
        let mut command = weir(&data);
        command.args(["serve", "--dev", "--demo", "--listen", "127.0.0.1:0"]);
        let mut server =
            Server::run(command.args(["--domain", "localhost"]).stdout(Stdio::piped()));
        let mut lines = BufReader::new(server.process.stdout.take().unwrap()).lines();
        lines.find_map(|line| line.ok().filter(|line| line.contains("Log in as"))).unwrap()
    };
    assert!(words().contains("Log in as alice (admin), bob, carol"));
    let last = run(&data, &["account", "delete", "alice"]);
    assert_eq!(last.status.code(), Some(1), "{last:?}");
    assert!(stderr(&last).contains("make another one an admin first"), "{last:?}");
    assert!(run(&data, &["account", "set", "bob", "--role", "admin"]).status.success());
    let deleted = run(&data, &["account", "delete", "alice"]);
    assert_eq!(String::from_utf8(deleted.stdout).unwrap(), "deleted  yes\nname     alice\n");
    assert!(words().contains("Log in as bob (admin), carol"));
}

#[test]
fn a_command_makes_no_data_directory_of_a_mistyped_name() {
    let dir = tempfile::tempdir().unwrap();
    let mistyped = dir.path().join("dtaa");
    let answer = run(&mistyped, &["account", "list"]);
    assert_eq!(answer.status.code(), Some(1));
    assert!(stderr(&answer).contains("there is no data directory"), "{}", stderr(&answer));
    assert!(stderr(&answer).contains("WEIR_DOMAIN"), "{}", stderr(&answer));
    assert!(!mistyped.exists());
}

#[test]
fn a_command_leaves_nothing_in_a_data_directory_of_another_user() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let own = std::fs::metadata(&data).unwrap().uid();
    // Only root may give it away.
    if own == 0 {
        std::os::unix::fs::chown(&data, Some(12_345), None).unwrap();
        let mut command = weir(&data);
        let answer = command.args(["account", "list"]).env("WEIR_DOMAIN", "a.test").output();
        let answer = answer.unwrap();
        assert_eq!(answer.status.code(), Some(1), "{answer:?}");
        assert!(stderr(&answer).contains("sudo -u '#12345' weir"), "{answer:?}");
        assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
    }
}

#[test]
fn a_key_that_cannot_be_used_ends_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("credentials.key"), "short").unwrap();
    let refused = run(&data, &["serve", "--dev", "--listen", "127.0.0.1:0"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(stderr(&refused).contains("credentials.key: it does not hold 32 bytes"), "{refused:?}");
}

#[test]
fn what_is_not_set_up_is_told_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let told = |name: &str, chat: &str| {
        let mut command = weir(&dir.path().join(name));
        command.args(["serve", "--domain", "a.test", "--listen", "127.0.0.1:0"]);
        for (variable, value) in [
            ("WEIR_METRICS_LISTEN", ""),
            ("WEIR_XMPP_C2S_LISTEN", chat),
            ("WEIR_XMPP_C2S_TLS_LISTEN", chat),
            ("WEIR_XMPP_S2S_LISTEN", chat),
        ] {
            command.env(variable, value);
        }
        Server::run(&mut command).before.clone()
    };
    let without_chat = told("a", "");
    assert!(without_chat.contains("set smtp_url under [mail]"), "{without_chat}");
    assert!(!without_chat.contains("chat apps"), "{without_chat}");
    let with_chat = told("b", "127.0.0.1:0");
    assert!(with_chat.contains("chat apps can connect only over WebSocket"), "{with_chat}");
    let developing = Server::start(&dir.path().join("c"), &[]);
    assert!(!developing.before.contains("smtp_url"), "{}", developing.before);
}

#[test]
fn other_servers_are_blocked_and_unblocked() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let _server = Server::start(&data, &[]);
    assert_eq!(json(&run(&data, &["federation", "hosts", "--json"])), serde_json::json!([]));
    assert_eq!(run(&data, &["federation", "block", "Spam.example"]).status.code(), Some(0));
    let hosts = json(&run(&data, &["federation", "hosts", "--json"]));
    assert_eq!(
        (&hosts[0]["host"], &hosts[0]["block"]),
        (&"spam.example".into(), &"suspend".into())
    );
    // Nobody knows how deliveries to it would fare.
    assert_eq!(hosts[0]["state"], serde_json::Value::Null);
    let status = json(&run(&data, &["federation", "status", "spam.example", "--json"]));
    assert_eq!((&status["state"], &status["waiting"]), (&serde_json::Value::Null, &0.into()));
    let shown = json(&run(&data, &["federation", "show", "spam.example", "--json"]));
    assert_eq!(shown["block"], "suspend");
    assert_eq!(run(&data, &["federation", "unblock", "spam.example"]).status.code(), Some(0));
    assert_eq!(run(&data, &["federation", "unblock", "spam.example"]).status.code(), Some(1));
    assert_eq!(run(&data, &["federation", "block", "not/a/domain"]).status.code(), Some(1));
    let milder =
        ["federation", "block", "loud.example", "--severity", "silence", "--reject-reports"];
    assert_eq!(run(&data, &milder).status.code(), Some(0));
    let shown = json(&run(&data, &["federation", "show", "loud.example", "--json"]));
    assert_eq!((&shown["block"], &shown["reject_reports"]), (&"silence".into(), &true.into()));
}

#[test]
fn the_list_of_servers_that_are_allowed_is_kept_by_commands() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let _server = Server::start(&data, &[]);
    for _ in 0..2 {
        assert_eq!(run(&data, &["federation", "allow", "Friend.example"]).status.code(), Some(0));
    }
    let hosts = json(&run(&data, &["federation", "hosts", "--json"]));
    let listed = (&hosts[0]["host"], &hosts[0]["allowed"], &hosts[0]["block"]);
    assert_eq!(listed, (&"friend.example".into(), &true.into(), &serde_json::Value::Null));
    assert_eq!(run(&data, &["federation", "disallow", "friend.example"]).status.code(), Some(0));
    assert_eq!(run(&data, &["federation", "disallow", "friend.example"]).status.code(), Some(1));
    assert_eq!(json(&run(&data, &["federation", "hosts", "--json"])), serde_json::json!([]));
}

#[test]
fn what_is_not_there_in_federation_is_answered_with_a_remedy_that_fits() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &["--domain", "localhost"]);
    let email = "alice@example.test";
    assert!(run(&data, &["account", "create", "alice", "--email", email]).status.success());
    let token = run(&data, &["account", "token", "alice"]).stdout;
    let head = format!(
        "POST /api/v1/statuses?status=hello HTTP/1.1\r\nAuthorization: Bearer {}",
        String::from_utf8(token).unwrap().trim()
    );
    let posted = ask(&server.address("http"), &head);
    let (_, rest) = posted.split_once("\"id\":\"").unwrap();
    let (post, _) = rest.split_once('"').unwrap();
    for (words, remedy) in [
        (["status", post], "in the last eight days not found; it went to no other server"),
        (["status", "1"], "not found; give the id or the address of a post"),
        (["status", "far.example"], "`weir federation hosts` lists those"),
        (["retry", "far.example"], "not found; `weir federation status` shows what waits"),
        (["unblock", "far.example"], "`weir federation hosts` lists those"),
    ] {
        let answer = run(&data, &[&["federation"], &words[..]].concat());
        assert_eq!(answer.status.code(), Some(1), "{answer:?}");
        let said = stderr(&answer);
        assert!(said.contains(remedy) && said.lines().count() == 1, "{words:?}: {said}");
    }
}

#[test]
fn apps_in_browsers_find_chat_also_where_there_is_no_federation() {
    for mode in ["open", "off"] {
        let dir = tempfile::tempdir().unwrap();
        let config = format!("[federation]\nmode = \"{mode}\"\n");
        std::fs::write(dir.path().join("weir.toml"), config).unwrap();
        let server = Server::start(&dir.path().join("data"), &[]);
        for path in ["/.well-known/host-meta", "/.well-known/host-meta.json"] {
            let meta = get(&server.address("http"), path);
            assert!(meta.contains("urn:xmpp:alt-connections:websocket"), "{mode}: {meta}");
            assert_eq!(meta.contains("lrdd"), mode == "open", "{meta}");
        }
    }
}

#[test]
fn a_database_that_cannot_be_opened_is_named_once_and_without_its_password() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    drop(Server::start(&data, &["--domain", "localhost"]));
    let ask = |url: &str| {
        let mut command = weir(&data);
        let output = command.args(["jobs", "queues"]).env("WEIR_DATABASE_URL", url).output();
        stderr(&output.unwrap())
    };
    let away = ask("postgres://weir:secret@127.0.0.1:1/weir");
    assert_eq!(away.matches("cannot open the database").count(), 1, "{away}");
    assert!(away.contains("127.0.0.1:1/weir") && !away.contains("secret"), "{away}");
    std::fs::create_dir(data.join("folder")).unwrap();
    let folder = ask("sqlite:folder");
    assert_eq!(folder.matches("cannot open the database").count(), 1, "{folder}");
    assert!(folder.contains("data/folder: "), "{folder}");
}

#[test]
fn without_a_server_steering_the_jobs_says_what_became_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    drop(Server::start(&data, &["--domain", "localhost"]));
    let quiet = run(&data, &["jobs", "quiet"]);
    assert_eq!(quiet.status.code(), Some(1), "{quiet:?}");
    assert!(stderr(&quiet).contains("there is none to quiet; start `weir serve`"), "{quiet:?}");
    let drained = run(&data, &["jobs", "drain", "deliver"]);
    assert!(stderr(&drained).contains("nobody works on what waits"), "{drained:?}");
    let moved = run(&data, &["jobs", "move", "deliver", "keys"]);
    assert_eq!(moved.status.code(), Some(1), "{moved:?}");
    assert!(stderr(&moved).contains("which are of one sort"), "{moved:?}");
    for args in [&["pause", "deliver"][..], &["limit", "deliver", "7"]] {
        let stored = run(&data, &[&["jobs"], args].concat());
        assert_eq!(stored.status.code(), Some(0), "{stored:?}");
        assert!(stderr(&stored).contains("it is stored, and holds "), "{stored:?}");
    }
    let _server = Server::start(&data, &["--domain", "localhost"]);
    let queues = json(&run(&data, &["jobs", "queues", "--json"]));
    let deliver =
        queues.as_array().unwrap().iter().find(|queue| queue["queue"] == "deliver").unwrap();
    assert_eq!((&deliver["paused"], &deliver["limit"]), (&true.into(), &7.into()));
    let resumed = run(&data, &["jobs", "resume", "deliver"]);
    assert_eq!((resumed.status.code(), stderr(&resumed).as_str()), (Some(0), ""));
}

#[test]
fn a_mistyped_queue_is_named_with_those_most_like_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    drop(Server::start(&data, &["--domain", "localhost"]));
    for args in [
        &["lanes", "delivr"][..],
        &["history", "--queue", "delivr"],
        &["list", "dead", "--queue", "delivr"],
        &["retry", "--all", "dead", "--queue", "delivr"],
        &["pause", "delivr"],
        &["limit", "delivr", "7"],
    ] {
        let refused = run(&data, &[&["jobs"], args].concat());
        assert_eq!(refused.status.code(), Some(1), "{args:?}: {refused:?}");
        let said = stderr(&refused);
        assert!(said.starts_with("weir: there is no queue delivr; there are deliver, "), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    for args in [&["lanes", "deliver"][..], &["history", "--queue", "deliver"]] {
        assert_eq!(run(&data, &[&["jobs"], args].concat()).status.code(), Some(0), "{args:?}");
    }
}

#[test]
fn a_data_directory_is_served_under_one_name_only() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    drop(Server::start(&data, &["--domain", "a.test"]));
    let args = ["serve", "--dev", "--listen", "127.0.0.1:0", "--domain", "b.test"];
    let refused = run(&data, &args);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("belongs to a.test"), "{refused:?}");
}

#[test]
fn on_postgres_it_finds_everything_again() {
    let Some(fixture) = weir_storm::fixture::postgres() else { return };
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let start = || Server::start_on(&fixture.url, &data, &["--domain", "localhost"]);
    let server = start();
    let email = "alice@example.test";
    assert!(run(&data, &["account", "create", "alice", "--email", email]).status.success());
    drop(server);
    let _server = start();
    assert_eq!(json(&run(&data, &["account", "show", "alice", "--json"]))["email"], email);
    assert!(!data.join("weir.db").exists());
}

#[test]
fn a_demo_is_found_again_and_is_never_anything_else() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for _ in 0..2 {
        let _server = Server::start(&data, &["--demo", "--domain", "localhost"]);
        let list = json(&run(&data, &["account", "list", "--json"]));
        let posts: u64 =
            list.as_array().unwrap().iter().map(|row| row["posts"].as_u64().unwrap()).sum();
        assert_eq!((list.as_array().unwrap().len(), posts), (5, 48));
    }
    let args = ["serve", "--dev", "--listen", "127.0.0.1:0", "--domain", "localhost"];
    assert!(stderr(&run(&data, &args)).contains("a demo lives in this data directory"));

    let home = dir.path().join("home");
    let server = Server::start(&home, &["--domain", "localhost"]);
    let email = "alice@example.test";
    assert!(run(&home, &["account", "create", "alice", "--email", email]).status.success());
    drop(server);
    let with_demo = [&args[..], &["--demo"]].concat();
    assert!(stderr(&run(&home, &with_demo)).contains("people live in this data directory"));
}

#[test]
fn sighup_keeps_it_serving() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(&dir.path().join("data"), &[]);
    server.signal(libc::SIGHUP);
    let mut line = String::new();
    while !line.contains("reload") {
        line.clear();
        assert_ne!(server.log.read_line(&mut line).unwrap(), 0);
    }
    assert!(get(&server.address("http"), "/health").ends_with("OK"));
}

#[test]
fn dev_refuses_a_domain_and_a_listener_that_others_could_reach() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    for args in [["--domain", "example.social"], ["--listen", "0.0.0.0:0"]] {
        let refused = run(&data, &["serve", "--dev", args[0], args[1]]);
        assert_eq!(refused.status.code(), Some(1));
        assert_eq!(stderr(&refused).lines().count(), 1, "{refused:?}");
    }
    assert!(!data.exists());
}

#[test]
fn check_prints_each_value_with_its_origin_and_serves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::write(dir.path().join("weir.toml"), "domain = \"a.test\"\n").unwrap();
    let output = run(&data, &["serve", "--check", "--listen", "127.0.0.1:7"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    let origin = |start: &str| {
        let line = text.lines().find(|line| line.starts_with(start)).unwrap();
        line.split_once("# ").unwrap().1.to_owned()
    };
    assert_eq!(origin("domain = \"a.test\""), "weir.toml line 1");
    assert_eq!(origin("listen = \"127.0.0.1:7\""), "--listen");
    assert_eq!(origin("url = \"sqlite:weir.db\""), "default");
    assert!(!data.exists());
}

#[test]
fn wrong_usage_ends_with_status_2_and_every_command_has_an_example() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run(dir.path(), &["frobnicate"]).status.code(), Some(2));
    assert_eq!(run(dir.path(), &["account", "create"]).status.code(), Some(2));
    let mut waiting = vec![Vec::<String>::new()];
    while let Some(words) = waiting.pop() {
        let mut args: Vec<&str> = words.iter().map(String::as_str).collect();
        args.push("--help");
        let help = run(dir.path(), &args);
        assert_eq!(help.status.code(), Some(0), "{words:?}");
        let text = String::from_utf8(help.stdout).unwrap();
        assert!(text.contains("Example"), "{words:?} has no example");
        let Some((_, commands)) = text.split_once("Commands:\n") else { continue };
        let lines = commands.lines().take_while(|line| line.starts_with("  "));
        // A long description goes on in a line of its own.
        for line in lines.filter(|line| !line.starts_with("   ")) {
            let name = line.split_whitespace().next().unwrap();
            if name != "help" {
                waiting.push(words.iter().cloned().chain([name.to_owned()]).collect());
            }
        }
    }
}
