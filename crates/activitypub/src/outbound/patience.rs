//! How many deliveries of a queue may wait for answers that do not come: of all its places only a
//! part, so that whoever answers never waits behind those who do not.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::peers::Peer;

/// What is not answered by then is waited for only where there is a place for that.
const PATIENCE: Duration = Duration::from_secs(1);

/// The places for those that wait long.
pub struct Patience {
    places: Arc<Semaphore>,
    soon: Duration,
}

/// The right to wait as long as it takes.
pub struct Place(
    #[expect(dead_code, reason = "held, and given back when dropped")] OwnedSemaphorePermit,
);

impl Patience {
    /// With so many places.
    pub fn new(places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), soon: PATIENCE }
    }

    /// A place, if one is free.
    pub fn place(&self) -> Option<Place> {
        self.places.clone().try_acquire_owned().ok().map(Place)
    }

    /// Waits for what `peer` was asked; none when it takes long, and either all places for that are
    /// in use or another one waits for this peer already.
    pub async fn bear<T>(&self, peer: &Peer, asked: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(asked);
        if let Ok(answer) = tokio::time::timeout(self.soon, &mut asked).await {
            return Some(answer);
        }
        let _alone = peer.wait_for()?;
        let _place = self.place()?;
        Some(asked.await)
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Pending, pending, ready};

    use futures_util::FutureExt;

    use super::*;

    /// With `places`, and out of patience at once.
    fn short(places: usize) -> Patience {
        Patience { places: Arc::new(Semaphore::new(places)), soon: Duration::ZERO }
    }

    fn silence() -> Pending<()> {
        pending()
    }

    #[tokio::test]
    async fn of_those_that_do_not_answer_no_more_are_waited_for_than_there_are_places() {
        let patience = short(2);
        let [one, two, three] = [Peer::new(), Peer::new(), Peer::new()];
        let mut first = patience.bear(&one, silence()).boxed_local();
        let mut second = patience.bear(&two, silence()).boxed_local();
        while !(one.is_waited_for() && two.is_waited_for()) {
            assert_eq!((&mut first).now_or_never(), None);
            assert_eq!((&mut second).now_or_never(), None);
            tokio::task::yield_now().await;
        }
        assert_eq!(patience.bear(&three, silence()).await, None, "there is no place for a third");
        assert_eq!(patience.bear(&three, ready(7)).await, Some(7), "whoever answers is heard");
        drop(first);
        let mut third = patience.bear(&three, silence()).boxed_local();
        while !three.is_waited_for() {
            assert_eq!((&mut third).now_or_never(), None, "now there is one");
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn one_peer_is_waited_for_once() {
        let (patience, peer) = (short(5), Peer::new());
        let mut first = patience.bear(&peer, silence()).boxed_local();
        while !peer.is_waited_for() {
            assert_eq!((&mut first).now_or_never(), None);
            tokio::task::yield_now().await;
        }
        assert_eq!(patience.bear(&peer, silence()).await, None);
        drop(first);
        assert!(!peer.is_waited_for());
    }
}
