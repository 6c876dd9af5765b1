//! What stands before: who follows, and which hosts answer how.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::Value;

use super::{Options, Storm};
use crate::api::Person;
use crate::fediverse::{Behaviour, Courier, Servers};

/// How often a Follow is sent again that was not taken.
const TRIES_MAX: u32 = 20;
/// How long it may take until all followers are known, for each of them, in ms.
const WAIT_EACH_MS: u64 = 20;

/// How a host is once the posts are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It answers at once.
    Live,
    /// It takes its time.
    Slow,
    /// It answers with an error.
    Failing,
    /// It does not answer: connections are refused.
    Refuses,
    /// The same: connections are taken.
    Hangs,
}

/// The kinds of all hosts, spread evenly.
pub(super) fn kinds(options: &Options) -> Vec<Kind> {
    let mut kinds = vec![Kind::Live; options.hosts as usize];
    let others = (0..options.dead)
        .map(|number| if number % 2 == 0 { Kind::Refuses } else { Kind::Hangs })
        .chain((0..options.slow).map(|_| Kind::Slow))
        .chain((0..options.failing).map(|_| Kind::Failing));
    let others: Vec<Kind> = others.collect();
    let count = others.len();
    for (number, kind) in others.into_iter().enumerate() {
        kinds[number * options.hosts as usize / count] = kind;
    }
    kinds
}

/// Has hosts be what they are.
pub(super) fn behave(servers: &Servers, kinds: &[Kind], slow_ms: u64) {
    for (host, kind) in kinds.iter().enumerate() {
        let behaviour = match kind {
            Kind::Live => Behaviour::Fine,
            Kind::Slow => Behaviour::Slow(Duration::from_millis(slow_ms)),
            Kind::Failing => Behaviour::Fails(503),
            Kind::Refuses => Behaviour::Refuses,
            Kind::Hangs => Behaviour::Hangs,
        };
        servers.set(host, behaviour);
    }
}

/// Has every actor follow `person`, and waits until all of them are told that they do; how long
/// that took, in seconds.
pub(super) async fn follow(
    storm: &Storm,
    courier: &Courier,
    servers: &Servers,
    person: &Person,
) -> Result<f64> {
    let began = Instant::now();
    let count = storm.options.followers;
    let next = Arc::new(AtomicU64::new(0));
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..storm.options.clients {
        let (next, courier, person) = (next.clone(), courier.clone(), person.uri.clone());
        let fediverse = storm.fediverse.clone();
        senders.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return Ok(());
                }
                let actor = number as usize;
                let object = Value::from(person.clone());
                let follow = fediverse.about(actor, "Follow", number, object);
                let mut left = TRIES_MAX;
                loop {
                    match courier.tell(&fediverse, actor, &person, &follow).await? {
                        200..=299 => break,
                        429 | 503 if left > 0 => {
                            left -= 1;
                            tokio::time::sleep(Duration::from_millis(500)).await;
                        }
                        status => bail!("a Follow of {person} is answered by {status}"),
                    }
                }
            }
        });
    }
    while let Some(sender) = senders.join_next().await {
        sender??;
    }
    wait(storm, servers, person).await?;
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("{count} actors follow, after {seconds:.1} s");
    Ok(seconds)
}

/// Waits until the server counts all followers, and has told each of them.
async fn wait(storm: &Storm, servers: &Servers, person: &Person) -> Result<()> {
    let count = storm.options.followers;
    let patience = Duration::from_millis(10_000 + count * WAIT_EACH_MS);
    let began = Instant::now();
    loop {
        let path = format!("/api/v1/accounts/{}", person.id);
        let account = storm.api.get(&person.token, &path).await?;
        let known = account["followers_count"].as_u64().unwrap_or(0);
        let told: u64 = (0..storm.kinds.len()).map(|host| servers.arrivals(host).count).sum();
        if known >= count && told >= count {
            return Ok(());
        }
        if began.elapsed() > patience {
            bail!("only {known} of {count} followers are known, and {told} were told");
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fediverse::Named;
    use crate::findings::Files;

    #[test]
    fn as_many_hosts_of_each_kind_as_were_asked_for_are_spread_over_all() {
        let options = Options {
            target: String::new(),
            followers: 100,
            hosts: 100,
            dead: 5,
            slow: 4,
            slow_ms: 10,
            failing: 3,
            personal: false,
            second_after_ms: 0,
            clients: 1,
            patience: 1,
            seconds: None,
            token: None,
            named: Named::default(),
            files: Files::default(),
        };
        let kinds = kinds(&options);
        let of = |wanted: Kind| kinds.iter().filter(|kind| **kind == wanted).count();
        assert_eq!((of(Kind::Refuses), of(Kind::Hangs)), (3, 2));
        assert_eq!((of(Kind::Slow), of(Kind::Failing), of(Kind::Live)), (4, 3, 88));
    }
}
