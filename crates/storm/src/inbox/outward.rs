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
    /// Hosts on which somebody follows: each gets every post once.
    hosts: u64,
    servers: Servers,
    /// Deliveries a second that are wanted.
    per_s: f64,
}

/// How far it is.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Deliveries that are to come, of posts that were answered.
    pub(super) expected: AtomicU64,
    /// Those that came.
    pub(super) came: AtomicU64,
    posts: Mutex<Vec<Post>>,
}

/// One post: when it was due, and what came of it.
#[derive(Debug, Clone, Copy)]
struct Post {
    due: Instant,
    came: u64,
    last: Instant,
}

impl Outgoing {
    /// Deliveries that are still to come.
    pub(super) fn missing(&self) -> u64 {
        let came = self.came.load(Ordering::Relaxed);
        self.expected.load(Ordering::Relaxed).saturating_sub(came)
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
    /// `patience`. How long it took until the last host had each post.
    pub(super) async fn run(
        self,
        outgoing: Arc<Outgoing>,
        began: Instant,
        stop: CancellationToken,
        patience: Duration,
    ) -> Vec<Sample> {
        let hosts = self.hosts;
        let heard = self.servers.listen();
        let writing = tokio::spawn(self.write(outgoing.clone(), stop));
        let counting = count(&outgoing, heard);
        tokio::pin!(counting);
        tokio::select! {
            // Nobody ends that while the hosts serve.
            () = &mut counting => {}
            () = ended(&outgoing, writing, patience) => {}
        }
        let sample = |post: &Post| Sample::new(began, post.due, post.last, post.came >= hosts);
        outgoing.posts.lock().iter().map(sample).collect()
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
            outgoing.posts.lock().push(Post { due, came: 0, last: due });
            let (api, token, hosts) = (self.api.clone(), self.person.token.clone(), self.hosts);
            let outgoing = outgoing.clone();
            open.spawn(async move {
                let text = format!("{WORDS}{number} of those that go to many servers.");
                let body = json!({ "status": text });
                if api.is_answered(&token, "/api/v1/statuses", Some(&body)).await {
                    outgoing.expected.fetch_add(hosts, Ordering::Relaxed);
                }
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
        let Some(number) = number_in(&arrival.body) else { continue };
        if let Some(post) = outgoing.posts.lock().get_mut(number) {
            post.came += 1;
            post.last = post.last.max(arrival.at);
            outgoing.came.fetch_add(1, Ordering::Relaxed);
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
}
