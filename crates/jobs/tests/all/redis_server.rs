//! A Redis of a test's own.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use weir_jobs::sidekiq::Options;

pub struct RedisServer {
    child: Option<Child>,
    port: u16,
    directory: TempDir,
}

impl RedisServer {
    /// Starts `redis-server`, which `make test` installs, on a free port.
    pub fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let directory = tempfile::tempdir().unwrap();
        let mut server = Self { child: None, port, directory };
        server.resume();
        server
    }

    /// Starts it again, with what it had written.
    pub fn resume(&mut self) {
        let child = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "yes", "--appendfsync", "always", "--loglevel", "warning"])
            .arg("--dir")
            .arg(self.directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed: `make test` does that");
        self.child = Some(child);
        let begun = Instant::now();
        while self
            .client()
            .get_connection()
            .and_then(|mut to| redis::cmd("PING").exec(&mut to))
            .is_err()
        {
            assert!(begun.elapsed() < Duration::from_secs(30), "redis-server does not answer");
            std::thread::yield_now();
        }
    }

    /// Kills it.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// For a worker that stands in for all processes of one place.
    pub fn options(&self) -> Options {
        Options { place: "here".into(), ..Options::new(self.url()) }
    }

    pub fn client(&self) -> redis::Client {
        redis::Client::open(self.url()).unwrap()
    }

    /// What a command gives.
    pub fn ask<T: redis::FromRedisValue>(&self, command: &[&str]) -> T {
        let mut cmd = redis::Cmd::new();
        for part in command {
            cmd.arg(*part);
        }
        cmd.query(&mut self.client().get_connection().unwrap()).unwrap()
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.stop();
    }
}
