//! Doing together what is asked for at once: whoever comes while a transaction is under way goes
//! with the next one.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use weir_community::{Community, Error};

/// Things of one transaction.
const TOGETHER_MAX: usize = 256;
/// Transactions that are under way at once: one is filled while the other is synced.
const RUNNING_MAX: usize = 2;

/// Does several things in one transaction of `C`; one answer for each, in their order.
pub(crate) type Together<T, R, C = Community> =
    for<'c> fn(&'c C, Vec<T>) -> BoxFuture<'c, Result<Vec<R>, Error>>;

/// What is asked for, each with somebody who waits for the answer: so there is no more of it than
/// requests or jobs, but for what those asked who went away since.
pub(crate) struct Gather<T, R = (), C = Community> {
    together: Together<T, R, C>,
    state: Arc<Mutex<State<T, R>>>,
}

struct State<T, R> {
    waiting: Vec<(T, oneshot::Sender<R>)>,
    running: usize,
}

impl<T: Send + 'static, R: Send + 'static, C: Clone + Send + Sync + 'static> Gather<T, R, C> {
    pub(crate) fn new(together: Together<T, R, C>) -> Self {
        let state = State { waiting: Vec::new(), running: 0 };
        Self { together, state: Arc::new(Mutex::new(state)) }
    }

    /// Has `one` done; none when it could not be, which was reported.
    pub(crate) async fn ask(&self, on: &C, one: T) -> Option<R> {
        let (tell, told) = oneshot::channel();
        let begins = {
            let mut state = self.state.lock();
            state.waiting.push((one, tell));
            let begins = state.running < RUNNING_MAX;
            state.running += usize::from(begins);
            begins
        };
        if begins {
            // A task of its own: whoever asks may go away, those who came along may not suffer.
            tokio::spawn(do_all(self.together, self.state.clone(), on.clone()));
        }
        told.await.ok()
    }
}

/// Goes on until nothing waits.
async fn do_all<T, R, C>(together: Together<T, R, C>, state: Arc<Mutex<State<T, R>>>, on: C) {
    loop {
        let some: Vec<(T, oneshot::Sender<R>)> = {
            let mut state = state.lock();
            let count = state.waiting.len().min(TOGETHER_MAX);
            if count == 0 {
                state.running -= 1;
                return;
            }
            state.waiting.drain(..count).collect()
        };
        let (things, askers): (Vec<T>, Vec<_>) = some.into_iter().unzip();
        let done = AssertUnwindSafe(async { together(&on, things).await });
        let answers = match done.catch_unwind().await {
            Ok(Ok(answers)) => answers,
            Ok(Err(error)) => {
                let count = askers.len();
                tracing::warn!(%error, count, "the database did not do what was asked of it");
                Vec::new()
            }
            // The panic was reported where it happened, and others may still come.
            Err(_) => Vec::new(),
        };
        for (asker, answer) in askers.into_iter().zip(answers) {
            // Who went away does not hear it.
            let _ = asker.send(answer);
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

    /// The answers tell their questions.
    fn write(place: &Place, some: Vec<u32>) -> BoxFuture<'_, Result<Vec<u32>, Error>> {
        async move {
            place.begun.send(some.clone()).unwrap();
            place.let_end.acquire().await.unwrap().forget();
            assert!(!some.contains(&PANICS), "as it was told to");
            if some.contains(&FAILS) {
                return Err(Error::NotFound("it"));
            }
            Ok(some)
        }
        .boxed()
    }

    struct House {
        gather: Arc<Gather<u32, u32, Place>>,
        place: Place,
        begun: mpsc::UnboundedReceiver<Vec<u32>>,
    }

    impl House {
        fn new() -> Self {
            let (tell, begun) = mpsc::unbounded_channel();
            let place = Place { begun: tell, let_end: Arc::new(Semaphore::new(0)) };
            Self { gather: Arc::new(Gather::new(write)), place, begun }
        }

        fn come(&self, one: u32) -> tokio::task::JoinHandle<Option<u32>> {
            let (gather, place) = (self.gather.clone(), self.place.clone());
            tokio::spawn(async move { gather.ask(&place, one).await })
        }

        /// As [`come`](Self::come), when it has a transaction of its own.
        async fn begin(&mut self, one: u32) -> tokio::task::JoinHandle<Option<u32>> {
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
        for (at, one) in asked.into_iter().enumerate() {
            assert_eq!(one.await.unwrap(), Some(at as u32 + 1), "each has the answer of its own");
        }
        let next = house.begin(8).await;
        house.place.let_end.add_permits(1);
        assert_eq!(next.await.unwrap(), Some(8), "who comes later is served again");
    }

    #[tokio::test]
    async fn a_failure_and_a_panic_are_told_and_others_are_written_all_the_same() {
        let mut house = House::new();
        for bad in [FAILS, PANICS, PANICS] {
            let asked = [house.begin(bad).await, house.begin(1).await];
            house.place.let_end.add_permits(2);
            let [bad, good] = asked;
            assert_eq!((bad.await.unwrap(), good.await.unwrap()), (None, Some(1)));
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
            assert!(one.await.unwrap().is_some());
        }
    }
}
