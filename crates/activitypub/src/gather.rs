//! Writing together what comes at once: whoever comes while a transaction is on its way to the disk
//! goes with the next one.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use weir_community::{Community, Error};

/// Things of one transaction.
const TOGETHER_MAX: usize = 256;
/// Transactions that are on their way at once: one is filled while the other is synced.
const WRITERS_MAX: usize = 2;

/// Writes several things in one transaction of `C`.
pub(crate) type Write<T, C = Community> =
    for<'c> fn(&'c C, Vec<T>) -> BoxFuture<'c, Result<(), Error>>;

/// Things on their way to the disk, each with somebody who waits until it is there: so there are no
/// more of them than requests or jobs, but for those whose askers went away since.
pub(crate) struct Gather<T, C = Community> {
    write: Write<T, C>,
    state: Arc<Mutex<State<T>>>,
}

struct State<T> {
    waiting: Vec<(T, oneshot::Sender<bool>)>,
    writers: usize,
}

impl<T: Send + 'static, C: Clone + Send + Sync + 'static> Gather<T, C> {
    pub(crate) fn new(write: Write<T, C>) -> Self {
        let state = State { waiting: Vec::new(), writers: 0 };
        Self { write, state: Arc::new(Mutex::new(state)) }
    }

    /// Makes `one` durable; false when it could not be.
    pub(crate) async fn keep(&self, on: &C, one: T) -> bool {
        let (tell, told) = oneshot::channel();
        let begins = {
            let mut state = self.state.lock();
            state.waiting.push((one, tell));
            let begins = state.writers < WRITERS_MAX;
            state.writers += usize::from(begins);
            begins
        };
        if begins {
            // A task of its own: whoever asks may go away, those who came along may not suffer.
            tokio::spawn(write_all(self.write, self.state.clone(), on.clone()));
        }
        told.await.unwrap_or(false)
    }
}

/// Writes until nothing waits.
async fn write_all<T, C>(write: Write<T, C>, state: Arc<Mutex<State<T>>>, on: C) {
    loop {
        let some: Vec<(T, oneshot::Sender<bool>)> = {
            let mut state = state.lock();
            let count = state.waiting.len().min(TOGETHER_MAX);
            if count == 0 {
                state.writers -= 1;
                return;
            }
            state.waiting.drain(..count).collect()
        };
        let (things, askers): (Vec<T>, Vec<_>) = some.into_iter().unzip();
        let written = AssertUnwindSafe(async { write(&on, things).await });
        let is_written = match written.catch_unwind().await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                let count = askers.len();
                tracing::warn!(%error, count, "what came in or went out is not on disk");
                false
            }
            // The panic was reported where it happened, and others may still come.
            Err(_) => false,
        };
        for asker in askers {
            // Who went away does not hear it.
            let _ = asker.send(is_written);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{Semaphore, mpsc};

    use super::*;

    /// What is written, as soon as it is let.
    #[derive(Clone)]
    struct Place {
        begun: mpsc::UnboundedSender<Vec<u32>>,
        let_end: Arc<Semaphore>,
    }

    const PANICS: u32 = u32::MAX;
    const FAILS: u32 = u32::MAX - 1;

    fn write(place: &Place, some: Vec<u32>) -> BoxFuture<'_, Result<(), Error>> {
        async move {
            place.begun.send(some.clone()).unwrap();
            place.let_end.acquire().await.unwrap().forget();
            assert!(!some.contains(&PANICS), "as it was told to");
            if some.contains(&FAILS) {
                return Err(Error::NotFound("it"));
            }
            Ok(())
        }
        .boxed()
    }

    struct House {
        gather: Arc<Gather<u32, Place>>,
        place: Place,
        begun: mpsc::UnboundedReceiver<Vec<u32>>,
    }

    impl House {
        fn new() -> Self {
            let (tell, begun) = mpsc::unbounded_channel();
            let place = Place { begun: tell, let_end: Arc::new(Semaphore::new(0)) };
            Self { gather: Arc::new(Gather::new(write)), place, begun }
        }

        fn come(&self, one: u32) -> tokio::task::JoinHandle<bool> {
            let (gather, place) = (self.gather.clone(), self.place.clone());
            tokio::spawn(async move { gather.keep(&place, one).await })
        }

        /// As [`come`](Self::come), when it has a writer of its own.
        async fn begin(&mut self, one: u32) -> tokio::task::JoinHandle<bool> {
            let asked = self.come(one);
            assert_eq!(self.begun.recv().await, Some(vec![one]));
            asked
        }

        async fn all_wait(&self, count: usize) {
            while self.gather.state.lock().waiting.len() < count {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn what_comes_while_others_are_written_goes_together_and_in_order() {
        let mut house = House::new();
        let mut asked = vec![house.begin(1).await, house.begin(2).await];
        for one in 3..8 {
            asked.push(house.come(one));
            house.all_wait(one as usize - 2).await;
        }
        house.place.let_end.add_permits(1);
        assert_eq!(house.begun.recv().await, Some(vec![3, 4, 5, 6, 7]));
        house.place.let_end.add_permits(2);
        for one in asked {
            assert!(one.await.unwrap());
        }
        let next = house.begin(8).await;
        house.place.let_end.add_permits(1);
        assert!(next.await.unwrap(), "who comes later has a writer again");
    }

    #[tokio::test]
    async fn a_failure_and_a_panic_are_told_and_others_are_written_all_the_same() {
        let mut house = House::new();
        for bad in [FAILS, PANICS, PANICS] {
            let asked = [house.begin(bad).await, house.begin(1).await];
            house.place.let_end.add_permits(2);
            let [bad, good] = asked;
            assert_eq!((bad.await.unwrap(), good.await.unwrap()), (false, true));
        }
    }

    #[tokio::test]
    async fn who_goes_away_takes_nothing_back() {
        let mut house = House::new();
        house.begin(1).await.abort();
        let last = [house.begin(2).await, house.come(3)];
        house.all_wait(1).await;
        house.place.let_end.add_permits(3);
        assert_eq!(house.begun.recv().await, Some(vec![3]));
        for one in last {
            assert!(one.await.unwrap());
        }
    }
}
