//! Looking for jobs and steering many of them.

use weir_db::Tx;
use weir_jobs::{Action, Claimed, Error, Failure, Outcome, Registry, Search, Set};

use crate::house::{Call, House, Note, SlowCall, houses, soon, until};

async fn enqueue(house: &House, count: i64) {
    let jobs = house.jobs.clone();
    let write = move |tx: &mut Tx| {
        let notes: Vec<Note> = (0..count).map(|number| Note::new(number % 3, number)).collect();
        jobs.enqueue_many(tx, &notes)
    };
    house.write(write).await;
}

fn search(lane: &str, text: &str) -> Search {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Search { lane: some(lane), text: some(text), ..Search::all(Set::Ready) }
}

#[tokio::test]
async fn a_search_finds_what_is_meant_in_looks_of_a_thousand() {
    for house in houses() {
        enqueue(&house, 2_500).await;
        let (mut after, mut looks, mut found) = (None, 0, Vec::new());
        loop {
            let look = house.jobs.look(&search("1", ":1999"), after).await.unwrap();
            looks += 1;
            found.extend(look.found);
            after = look.last;
            if after.is_none() {
                break;
            }
        }
        assert_eq!((looks, found.len()), (3, 1), "{}", house.fixture.name);
        assert_eq!(found[0].payload, r#"{"lane":"1","number":1999}"#);
    }
}

#[tokio::test]
async fn many_are_deleted_killed_and_raised_by_what_is_said_of_them() {
    for house in houses() {
        enqueue(&house, 2_400).await;
        let (mut told, jobs) = (0, house.jobs.clone());
        let swept = jobs.sweep(&search("0", ""), Action::Delete, |_| told += 1).await.unwrap();
        assert_eq!((swept.looked, swept.changed, told), (2_400, 800, 3));
        let swept = jobs.sweep(&search("1", ""), Action::Kill, |_| ()).await.unwrap();
        assert_eq!((swept.changed, house.rows("jobs_dead").await), (800, 800));
        assert_eq!(jobs.stats().await.unwrap().queues[0].depth, 800);
        let dead = Search { lane: Some("1".into()), ..Search::all(Set::Dead) };
        let swept = jobs.sweep(&dead, Action::Retry, |_| ()).await.unwrap();
        assert_eq!((swept.changed, house.rows("jobs_dead").await), (800, 0));
        let later = jobs.sweep(&Search::all(Set::Retries), Action::Delete, |_| ()).await.unwrap();
        assert_eq!((later.changed, house.rows("jobs_later").await), (800, 0));
        // What is left runs, and nothing else.
        let mut registry = Registry::new();
        registry.simple_unit(|tx: &mut Tx, notes: &[Claimed<Note>]| {
            for note in notes {
                crate::house::write_effect(tx, note.job.number)?;
            }
            Ok(vec![Outcome::Done; notes.len()])
        });
        let running = house.start(registry);
        until("the rest is done", async || house.jobs.stats().await.unwrap().queues[0].depth == 0)
            .await;
        running.stop().await;
        let mut effects = house.effects().await;
        effects.sort_unstable();
        let left: Vec<i64> = (0..2_400).filter(|number| number % 3 == 2).collect();
        assert_eq!(effects, left, "{}", house.fixture.name);
    }
}

#[tokio::test]
async fn the_history_tells_each_minute_and_outlives_the_process() {
    for house in houses() {
        let jobs = house.jobs.clone();
        let write =
            move |tx: &mut Tx| jobs.enqueue_many(tx, &[0, 1, 2].map(|number| Call { number }));
        house.write(write).await;
        let mut registry = Registry::new();
        registry.task(async |call: Claimed<Call>| match call.job.number {
            0 => Err(Failure::Dead("no".into())),
            _ => Ok(()),
        });
        let running = house.start(registry);
        until("all ended", async || house.jobs.stats().await.unwrap().queues[0].depth == 0).await;
        running.stop().await;
        let first = soon(house.jobs.history(60)).await.unwrap();
        let told: Vec<_> = first.iter().map(|it| (it.queue.as_str(), it.done, it.failed)).collect();
        assert_eq!(told, [("calls", 2, 1)], "{}", house.fixture.name);
        let house = house.reopened();
        assert_eq!(soon(house.jobs.history(60)).await.unwrap(), first);
        house.advance(24 * 3_600 * 1_000);
        assert_eq!(soon(house.jobs.history(1_440)).await.unwrap(), []);
        assert_eq!(house.rows("jobs_history").await, 0, "what is older than a day is gone");
    }
}

#[tokio::test]
async fn jobs_that_wait_move_to_another_queue_of_their_sort_and_are_worked_off_there() {
    for house in houses() {
        let (told, mut runs) = tokio::sync::mpsc::unbounded_channel();
        let mut registry = Registry::new();
        registry.task(move |claimed: Claimed<Call>| {
            let _ = told.send(claimed.job.number);
            async { Ok(()) }
        });
        registry.task(|_: Claimed<SlowCall>| async { Ok(()) });
        registry.simple_unit::<Note, _>(|_, notes| Ok(vec![Outcome::Done; notes.len()]));
        // As weir-jobs itself makes the queues, when work begins.
        let running = house.start(registry);
        let jobs = &house.jobs;
        for queue in ["calls", "slow calls"] {
            jobs.pause(queue).await.unwrap();
        }
        let enqueuing = jobs.clone();
        let calls: Vec<Call> = (0..1_500).map(|number| Call { number }).collect();
        house.write(move |tx| enqueuing.enqueue_many(tx, &calls)).await;
        let depth = |name: &str| {
            jobs.queues().iter().find(|it| &*it.name == name).map_or(0, |queue| queue.depth)
        };
        until("they wait", async || depth("calls") == 1_500).await;
        let swept = jobs.move_queue("calls", "slow calls", |_| ()).await.unwrap();
        assert_eq!(swept.changed, 1_500, "{}", house.fixture.name);
        until("the move", async || depth("slow calls") == 1_500 && depth("calls") == 0).await;
        assert!(runs.try_recv().is_err());
        jobs.resume("slow calls").await.unwrap();
        let mut ran = Vec::new();
        for _ in 0..1_500 {
            ran.push(soon(runs.recv()).await.unwrap());
        }
        ran.sort_unstable();
        assert_eq!(ran, (0..1_500).collect::<Vec<_>>());
        let refused = jobs.move_queue("calls", "notes", |_| ()).await;
        assert!(matches!(refused, Err(Error::QueuesDiffer { .. })), "{refused:?}");
        running.stop().await;
        assert_eq!(house.rows("jobs").await, 0);
    }
}
