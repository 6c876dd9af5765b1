//! What goes out meanwhile: somebody who is followed on every host writes again and again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Sample, Storm};
use crate::api::{Api, Person};
use crate::fediverse::{Arrival, Courier, Servers};

/// What the posts begin with; their number follows.
const WORDS: &str = "Outward post ";
/// Follows that are sent at once.
const AT_ONCE: usize = 16;
/// How long it may take until they are known.
const KNOWN_MAX: Duration = Duration::from_secs(60);

/// Somebody who writes to followers on every host.
pub(super) struct Herald {
    api: Api,
    person: Person,
    /// Hosts on which somebody follows, which are the first ones: each gets every post once.
    hosts: u64,
    servers: Servers,
    /// Deliveries a second that are wanted.
    per_s: f64,
}

/// How far it is.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Deliveries that are to come, of posts that were answered or came to a host.
    pub(super) expected: AtomicU64,
    /// Those that came, each once.
    pub(super) came: AtomicU64,
    repeated: AtomicU64,
    failed: AtomicU64,
    posts: Mutex<Vec<Post>>,
}

/// What became of it.
#[derive(Debug, Default)]
pub(super) struct Outward {
    /// How long it took until the last host had each post, or until it was given up.
    pub(super) samples: Vec<Sample>,
    /// From the moment at which the first post was due until the last delivery came.
    pub(super) took: Duration,
    /// Deliveries that came again.
    pub(super) repeated: u64,
    /// Posts that were not answered with success.
    pub(super) failed: u64,
}

/// One post: when it was due, and what came of it.
#[derive(Debug)]
struct Post {
    due: Instant,
    /// How many hosts are to have it.
    hosts: u64,
    /// Whether these count among what is to come.
    is_expected: bool,
    /// A bit for each host, set where it came.
    came_to: Vec<u64>,
    came: u64,
    last: Option<Instant>,
}

impl Post {
    fn new(due: Instant, hosts: u64) -> Self {
        let came_to = vec![0; hosts.div_ceil(64) as usize];
        Self { due, hosts, is_expected: false, came_to, came: 0, last: None }
    }

    /// Notes a delivery; whether it was the first to this host.
    fn add(&mut self, host: usize, at: Instant) -> bool {
        let (bits, bit) = (&mut self.came_to[host / 64], 1_u64 << (host % 64));
        let is_new = *bits & bit == 0;
        if is_new {
            *bits |= bit;
            self.came += 1;
            self.last = self.last.max(Some(at));
        }
        is_new
    }
}

impl Outgoing {
    /// Deliveries that are still to come.
    pub(super) fn missing(&self) -> u64 {
        let came = self.came.load(Ordering::Relaxed);
        self.expected.load(Ordering::Relaxed).saturating_sub(came)
    }

    fn answered(&self, number: usize, is_fine: bool) {
        if !is_fine {
            self.failed.fetch_add(1, Ordering::Relaxed);
        } else if let Some(post) = self.posts.lock().get_mut(number) {
            self.count_in(post);
        }
    }

    fn count_in(&self, post: &mut Post) {
        if !std::mem::replace(&mut post.is_expected, true) {
            self.expected.fetch_add(post.hosts, Ordering::Relaxed);
        }
    }

    fn arrived(&self, number: usize, host: usize, at: Instant) {
        let mut posts = self.posts.lock();
        let post = posts.get_mut(number).filter(|post| (host as u64) < post.hosts);
        let Some(post) = post else { return };
        // It may have been written though nobody answered in time.
        self.count_in(post);
        let counter = if post.add(host, at) { &self.came } else { &self.repeated };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// What became of it, where what is missing is given up now.
    fn outward(&self, began: Instant, now: Instant) -> Outward {
        let posts = self.posts.lock();
        let sample = |post: &Post| {
            let everywhere = post.last.filter(|_| post.came >= post.hosts);
            Sample::new(began, post.due, everywhere.unwrap_or(now), everywhere.is_some())
        };
        let first = posts.first().map(|post| post.due);
        let last = posts.iter().filter_map(|post| post.last).max();
        let took = first.zip(last).map(|(first, last)| last.saturating_duration_since(first));
        Outward {
            samples: posts.iter().map(sample).collect(),
            took: took.unwrap_or_default(),
            repeated: self.repeated.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

/// Has somebody join, and one of the `known` actors on each host follow them.
pub(super) async fn arrange(
    storm: &Storm,
    courier: &Courier,
    servers: &Servers,
    known: &[usize],
) -> Result<Option<Herald>> {
    let options = &storm.options;
    if options.outward == 0 {
        return Ok(None);
    }
    let (fediverse, api) = (&storm.fediverse, &storm.api);
    let mut people =
        api.people(&[format!("herald{}", options.seed)], "leave out --outward").await?;
    let person = people.pop().context("nobody can write on this server")?;
    // Actors live on the hosts in turn.
    let followers: Vec<usize> = known.iter().copied().take(options.hosts as usize).collect();
    let follow = |actor: usize| {
        let object = Value::from(person.uri.clone());
        let follow = fediverse.about(actor, "Follow", u64::from(u32::MAX), object);
        let (courier, uri) = (courier.clone(), &person.uri);
        async move {
            match courier.tell(fediverse, actor, uri, &follow).await? {
                200..=299 => Ok(()),
                status => bail!("a Follow of {uri} is answered by {status}"),
            }
        }
    };
    let asked = stream::iter(followers.iter().copied()).map(follow).buffer_unordered(AT_ONCE);
    asked.try_collect::<()>().await?;
    let (began, hosts) = (Instant::now(), followers.len() as u64);
    let path = format!("/api/v1/accounts/{}", person.id);
    while api.get(&person.token, &path).await?["followers_count"].as_u64() != Some(hosts) {
        if began.elapsed() > KNOWN_MAX {
            bail!("{} is not followed on {hosts} hosts", person.name);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let (api, servers, per_s) = (api.clone(), servers.clone(), options.outward as f64);
    Ok(Some(Herald { api, person, hosts, servers, per_s }))
}

impl Herald {
    /// Writes until `stop`, and then waits for what is still to come, as long as something does in
    /// `patience`.
    pub(super) async fn run(
        self,
        outgoing: Arc<Outgoing>,
        began: Instant,
        stop: CancellationToken,
        patience: Duration,
    ) -> Outward {
        let heard = self.servers.listen();
        let writing = tokio::spawn(self.write(outgoing.clone(), stop));
        let counting = count(&outgoing, heard);
        tokio::pin!(counting);
        tokio::select! {
            // Nobody ends that while the hosts serve.
            () = &mut counting => {}
            () = ended(&outgoing, writing, patience) => {}
        }
        outgoing.outward(began, Instant::now())
    }

    async fn write(self, outgoing: Arc<Outgoing>, stop: CancellationToken) {
        let first = Instant::now();
        let mut open = tokio::task::JoinSet::new();
        for number in 0_u64.. {
            let due =
                first + Duration::from_secs_f64(number as f64 * self.hosts as f64 / self.per_s);
            tokio::select! {
                () = tokio::time::sleep_until(due.into()) => {}
                () = stop.cancelled() => break,
            }
            outgoing.posts.lock().push(Post::new(due, self.hosts));
            let (api, token) = (self.api.clone(), self.person.token.clone());
            let outgoing = outgoing.clone();
            open.spawn(async move {
                let text = format!("{WORDS}{number} of those that go to many servers.");
                let body = json!({ "status": text });
                let is_fine = api.is_answered(&token, "/api/v1/statuses", Some(&body)).await;
                outgoing.answered(number as usize, is_fine);
            });
            while open.try_join_next().is_some() {}
        }
        while open.join_next().await.is_some() {}
    }
}

/// Waits until nothing more is written, and everything came or nothing comes any more.
async fn ended(outgoing: &Outgoing, writing: tokio::task::JoinHandle<()>, patience: Duration) {
    // Who fails to write wrote nothing more.
    let _ = writing.await;
    let (mut before, mut changed) = (0, Instant::now());
    loop {
        let came = outgoing.came.load(Ordering::Relaxed);
        if outgoing.missing() == 0 || changed.elapsed() > patience {
            return;
        }
        if came != before {
            (before, changed) = (came, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn count(outgoing: &Outgoing, mut heard: mpsc::UnboundedReceiver<Arrival>) {
    while let Some(arrival) = heard.recv().await {
        if let Some(number) = number_in(&arrival.body) {
            outgoing.arrived(number, arrival.host, arrival.at);
        }
    }
}

/// The number of the post that a delivery is of, if it is of one of these.
fn number_in(body: &[u8]) -> Option<usize> {
    let rest = &body[memchr::memmem::find(body, WORDS.as_bytes())? + WORDS.len()..];
    let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_tells_which_post_it_is_of() {
        let body = br#"{"object":{"content":"<p>Outward post 17 of those</p>"}}"#;
        assert_eq!(number_in(body), Some(17));
        assert_eq!(number_in(b"Outward post none"), None);
        assert_eq!(number_in(b"another post 17"), None);
    }

    const MS: Duration = Duration::from_millis(1);

    /// So many posts to 70 hosts, of which the first is due at `began`, and one more each 10 ms.
    fn outgoing(began: Instant, posts: u32) -> Outgoing {
        let outgoing = Outgoing::default();
        let due = (0..posts).map(|number| began + MS * 10 * number);
        outgoing.posts.lock().extend(due.map(|due| Post::new(due, 70)));
        outgoing
    }

    #[test]
    fn what_comes_twice_does_not_stand_for_what_is_lost() {
        let began = Instant::now();
        let outgoing = outgoing(began, 2);
        (0..2).for_each(|number| outgoing.answered(number, true));
        for host in 0..70 {
            outgoing.arrived(0, host, began + MS * 5);
            outgoing.arrived(0, host, began + MS * 300);
        }
        // Nobody follows there.
        outgoing.arrived(1, 70, began + MS * 400);
        assert_eq!((outgoing.missing(), outgoing.came.load(Ordering::Relaxed)), (70, 70));
        let outward = outgoing.outward(began, began + MS * 500);
        assert_eq!((outward.repeated, outward.failed, outward.took), (70, 0, MS * 5));
    }

    #[test]
    fn what_is_not_everywhere_took_until_it_was_given_up() {
        let began = Instant::now();
        let outgoing = outgoing(began, 3);
        (0..3).for_each(|number| outgoing.answered(number, true));
        (0..70).for_each(|host| outgoing.arrived(0, host, began + MS * 4));
        outgoing.arrived(1, 69, began + MS * 12);
        let outward = outgoing.outward(began, began + MS * 500);
        let found: Vec<_> = outward.samples.iter().map(|one| (one.ms.round(), one.fine)).collect();
        assert_eq!(found, [(4.0, true), (490.0, false), (480.0, false)]);
        assert_eq!((outgoing.missing(), outward.took), (69 + 70, MS * 12));
    }

    #[test]
    fn a_post_that_failed_is_expected_once_it_came_to_a_host() {
        let began = Instant::now();
        let outgoing = outgoing(began, 2);
        (0..2).for_each(|number| outgoing.answered(number, false));
        assert_eq!(outgoing.missing(), 0);
        outgoing.arrived(1, 0, began + MS * 20);
        assert_eq!(outgoing.missing(), 69);
        assert_eq!(outgoing.outward(began, began + MS * 30).failed, 2);
    }
}
