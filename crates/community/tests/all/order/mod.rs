//! Whatever order activities are worked in, however often they come, in whatever batches and by
//! however many at once: the end state is that of the door's order.

mod history;
mod state;

use std::sync::Arc;

use weir_base::{Id, Random, Timestamp};
use weir_community::federation::order::Version;
use weir_community::federation::{self, Deed, Incoming, Undone};
use weir_community::{Community, Error, accounts, statuses};
use weir_db::{Class, Tx};

use crate::place::{Place, places};
use history::{Universe, history};

/// Works `batch` in one transaction, as a worker would.
async fn work(community: &Community, batch: Vec<Incoming>) {
    let done = community
        .write(Class::Inbound, move |tx, env| {
            let mut senders = federation::Senders::read(tx, &batch)?;
            let messages: Vec<_> = batch.iter().map(|incoming| (incoming, None)).collect();
            let done = federation::receive_plain(tx, env, &mut senders, &messages)?;
            for (incoming, _) in batch.iter().zip(done).filter(|(_, done)| !done) {
                let message = format!("{incoming:?}");
                federation::receive(tx, env, &mut senders, incoming).map_err(
                    |error| match error {
                        Error::Db(error) => Error::Db(error),
                        other => panic!("{message}: {other}"),
                    },
                )?;
            }
            Ok(())
        })
        .await;
    done.unwrap();
}

/// Takes away what deleted accounts left, as their jobs would.
async fn erase(place: &Place, universe: &Universe) {
    for actor in universe.actors.clone() {
        place
            .community
            .write(Class::Inbound, move |tx, env| {
                let account = accounts::by_uri(tx, &actor)?.unwrap();
                if account.deleted_at.is_some() {
                    while !accounts::erase_step(tx, env, account.id)? {}
                }
                Ok(())
            })
            .await
            .unwrap();
    }
}

/// The same messages with repetitions, in another order.
fn shuffled(history: &[Incoming], random: &Random) -> Vec<Incoming> {
    let mut other = history.to_vec();
    for _ in 0..history.len() / 2 {
        other.push(history[random.below(history.len() as u64) as usize].clone());
    }
    for at in (1..other.len()).rev() {
        other.swap(at, random.below(at as u64 + 1) as usize);
    }
    other
}

fn batches(mut history: Vec<Incoming>, random: &Random) -> Vec<Vec<Incoming>> {
    let mut batches = Vec::new();
    while !history.is_empty() {
        let size = 1 + random.below(16) as usize;
        batches.push(history.drain(..size.min(history.len())).collect());
    }
    batches
}

async fn compare(place: &Place, seed: u64, tasks: usize) {
    let random = Random::seeded(seed);
    let door = Universe::new(place, &format!("{seed}a")).await;
    for incoming in history(&door, seed) {
        work(&place.community, vec![incoming]).await;
    }
    erase(place, &door).await;
    let other = Universe::new(place, &format!("{seed}b")).await;
    let parts = batches(shuffled(&history(&other, seed), &random), &random);
    if tasks == 1 {
        for batch in parts {
            work(&place.community, batch).await;
            if random.below(8) == 0 {
                erase(place, &other).await;
            }
        }
    } else {
        let waiting = Arc::new(parking_lot::Mutex::new(parts));
        let workers: Vec<_> = (0..tasks)
            .map(|_| {
                let (waiting, community) = (waiting.clone(), place.community.clone());
                tokio::spawn(async move {
                    loop {
                        let Some(batch) = waiting.lock().pop() else { return };
                        work(&community, batch).await;
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.await.unwrap();
        }
    }
    erase(place, &other).await;
    let (expected, found) = (state::of(place, &door).await, state::of(place, &other).await);
    if expected != found {
        for incoming in history(&door, seed) {
            let deed = match &incoming.deed {
                Deed::Post(post) => format!("post {} {}", post.uri, post.content),
                other => format!("{other:?}"),
            };
            eprintln!("{} {} {deed}", incoming.version.at, incoming.activity);
        }
        let only = |a: &[String], b: &[String]| -> Vec<String> {
            a.iter().filter(|line| !b.contains(line)).cloned().collect()
        };
        panic!(
            "{}, seed {seed}: in the door's order {:#?}\nbut here {:#?}",
            place.name(),
            only(&expected, &found),
            only(&found, &expected)
        );
    }
    assert!(expected.len() > 20, "the history does something");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_order_of_working_changes_nothing() {
    for place in places() {
        for seed in 0..10 {
            compare(&place, seed, 1).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_who_work_at_once_change_nothing() {
    for place in places() {
        for seed in 100..104 {
            compare(&place, seed, 8).await;
        }
    }
}

#[tokio::test]
async fn an_address_that_a_database_cannot_keep_as_it_is_harms_nobody_in_its_batch() {
    for place in places() {
        let universe = Universe::new(&place, "nul").await;
        let [ann, ben] = [0, 1].map(|actor| universe.actors[actor].clone());
        let at = |seq| Version { at: Timestamp::from_ms(1_700_000_100_000), seq: Id(seq) };
        let by = |actor: &str, activity: &str, seq, deed| Incoming {
            actor: actor.into(),
            activity: activity.into(),
            version: at(seq),
            arrived: Timestamp::from_ms(1_700_000_100_000),
            deed,
        };
        let liked = || Deed::Like { object: universe.post.clone() };
        let strange = format!("{ann}/activities/\0");
        let undone = Undone { activity: strange.clone(), ..Undone::default() };
        let long = format!("{ben}/{:\u{e9}<1000}", "");
        let batch = vec![
            by(&ann, &format!("{ann}/undo"), 1, Deed::Undo(undone)),
            by(&ann, &strange, 2, liked()),
            by(&ben, &long, 3, liked()),
        ];
        work(&place.community, batch).await;
        let uri = universe.post.clone();
        let read =
            move |tx: &mut Tx, _: &_| Ok(statuses::by_uri(tx, &uri)?.unwrap().favourites_count);
        // Both count: the door lets no such address in, so nobody has to find it again.
        assert_eq!(place.read(read).await.unwrap(), 2, "{}", place.name());
    }
}

/// The id of what stands at `uri`.
fn id_in(uri: &str) -> Option<Id> {
    uri.rsplit('/').next()?.parse().ok()
}
