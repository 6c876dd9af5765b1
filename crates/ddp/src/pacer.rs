//! Whose turn it is to be handed initial data.
//!
//! A few arriving sessions take turns, a slice each; the others stand in line, first come first
//! served. So the first are done soon, a crowd slows only the crowd, and between two slices
//! whoever is here already gets the processor.

use std::sync::Arc;

use metrics::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The line. Clones are the same.
#[derive(Clone)]
pub(crate) struct Pacer {
    places: Arc<Semaphore>,
    slices: Arc<Semaphore>,
    waiting: Gauge,
}

/// A place among those who take turns; given back when dropped.
pub(crate) struct Place(#[allow(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

/// The right to one slice; given back when dropped.
pub(crate) struct Turn(#[allow(dead_code, reason = "held, not read")] OwnedSemaphorePermit);

impl Pacer {
    /// Turns for `arrivals_max` sessions at once. One processor is left to those who are here.
    pub(crate) fn new(arrivals_max: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            places: Arc::new(Semaphore::new(arrivals_max.clamp(1, Semaphore::MAX_PERMITS))),
            slices: Arc::new(Semaphore::new(processors.saturating_sub(1).max(1))),
            waiting: metrics::gauge!("weir_ddp_arrivals_waiting"),
        }
    }

    /// Waits for a turn; who has no place yet stands in line for one first.
    pub(crate) async fn turn(self, place: Option<Place>) -> Option<(Place, Turn)> {
        let place = match place {
            Some(place) => place,
            None => {
                let _waiting = Waiting::new(&self.waiting);
                Place(self.places.acquire_owned().await.ok()?)
            }
        };
        Some((place, Turn(self.slices.acquire_owned().await.ok()?)))
    }
}

struct Waiting<'g>(&'g Gauge);

impl<'g> Waiting<'g> {
    fn new(gauge: &'g Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn those_with_a_place_take_turns_and_the_next_comes_when_one_leaves() {
        let pacer = Pacer { slices: Arc::new(Semaphore::new(1)), ..Pacer::new(2) };
        let (first, turn) = pacer.clone().turn(None).await.unwrap();
        let mut second = Box::pin(pacer.clone().turn(None));
        let mut third = Box::pin(pacer.clone().turn(None));
        assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
        let mut again = Box::pin(pacer.clone().turn(Some(first)));
        assert!((&mut again).now_or_never().is_none(), "behind the second");
        drop(turn);
        let (second, turn) = second.now_or_never().flatten().unwrap();
        assert!((&mut third).now_or_never().is_none(), "no place");
        drop((second, turn));
        assert!((&mut again).now_or_never().is_some());
        assert!((&mut third).now_or_never().is_some());
    }
}
