//! The bus between nodes, with a real Redis.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weir_base::Random;
use weir_live::bus::{Bus, Ear, Heard};

/// A Redis of a test's own.
struct Redis {
    child: Option<Child>,
    port: u16,
}

impl Redis {
    fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut redis = Self { child: None, port };
        redis.resume();
        redis
    }

    fn resume(&mut self) {
        let child = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed: `make test` does that");
        self.child = Some(child);
    }

    fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn node(&self, seed: u64) -> (Bus, Ear) {
        let url = format!("redis://127.0.0.1:{}", self.port);
        Bus::open(&url, "test", &Random::seeded(seed)).unwrap()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn heard(ear: &mut Ear) -> Heard {
    tokio::time::timeout(Duration::from_secs(60), ear.next()).await.unwrap().unwrap()
}

/// What is heard next but comings and leavings; a message as its text.
async fn next(ear: &mut Ear) -> Option<String> {
    loop {
        match heard(ear).await {
            Heard::Message { payload, .. } => return Some(String::from_utf8(payload).unwrap()),
            Heard::Missed => return MISSED,
            Heard::Joined(_) | Heard::Left(_) => {}
        }
    }
}

const MISSED: Option<String> = None;

fn said(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[tokio::test]
async fn what_one_node_says_the_others_hear_in_order_and_itself_does_not() {
    let redis = Redis::start();
    let ((first, mut own), (_second, mut other)) = (redis.node(1), redis.node(2));
    assert_eq!(next(&mut own).await, MISSED);
    assert_eq!(next(&mut other).await, MISSED);
    for number in 0..1_000 {
        first.tell(number.to_string().as_bytes());
    }
    for number in 0..1_000 {
        assert_eq!(next(&mut other).await, said(&number.to_string()));
    }
    first.tell(b"the end");
    assert_eq!(next(&mut other).await, said("the end"));
    let more = tokio::time::timeout(Duration::from_millis(1), next(&mut own)).await;
    assert!(more.is_err(), "{more:?}");
}

#[tokio::test]
async fn who_leaves_has_said_everything_and_is_not_missed() {
    let redis = Redis::start();
    let ((first, mut own), (second, mut other)) = (redis.node(1), redis.node(2));
    assert_eq!(next(&mut own).await, MISSED);
    assert_eq!(next(&mut other).await, MISSED);
    for number in 0..1_000 {
        first.tell(number.to_string().as_bytes());
    }
    first.leave().await;
    drop((first, own));
    let Heard::Joined(node) = heard(&mut other).await else { panic!("nobody came") };
    for number in 0..1_000 {
        let payload = number.to_string().into_bytes();
        assert_eq!(heard(&mut other).await, Heard::Message { node, payload });
    }
    assert_eq!(heard(&mut other).await, Heard::Left(node));
    second.leave().await;
}

#[tokio::test]
async fn what_was_said_while_redis_was_away_is_known_to_be_missed() {
    let mut redis = Redis::start();
    let ((first, _own), (_second, mut other)) = (redis.node(1), redis.node(2));
    assert_eq!(next(&mut other).await, MISSED);
    first.tell(b"before");
    assert_eq!(next(&mut other).await, said("before"));
    redis.stop();
    first.tell(b"into the void");
    redis.resume();
    assert_eq!(next(&mut other).await, MISSED);
    // Said until it is heard: the speaker's own way back may take a moment longer.
    let after = async {
        loop {
            first.tell(b"after");
            let heard = tokio::time::timeout(Duration::from_millis(200), other.next()).await;
            match heard {
                Ok(Some(Heard::Message { payload, .. })) if payload == b"after" => return,
                heard => assert_ne!(heard, Ok(None)),
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), after).await.unwrap();
}

#[tokio::test]
async fn a_node_whose_address_makes_no_sense_is_refused() {
    assert!(Bus::open("http://nowhere", "test", &Random::seeded(1)).is_err());
}
