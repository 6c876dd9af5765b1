//! Units that were enqueued here a moment ago, as they were: whoever takes them next need not read
//! their rows and parse what was only just written. The rows alone count. What is in hand may be
//! forgotten at any time, and a unit whose row is gone is found out when the row is to be removed.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::fmt;

use parking_lot::Mutex;

use crate::Job;
use crate::rows::Claim;
use crate::turns::Pick;

/// About the memory that all of it may take, in bytes. What came first is forgotten first.
const BYTES_MAX: usize = 16 << 20;
/// What one takes is about its payload, the job that it became and what that knows of it, …
const PARTS: usize = 3;
/// … and so much besides, in bytes: a payload may be packed, where what it became is not.
const ONE_BYTES: usize = 2 * 1_024;

/// A job in its own type, which is known to its handler.
pub(crate) trait InHand: Send + Sync {
    /// A copy, as the type it is.
    fn copy(&self) -> Box<dyn Any>;
}

impl<J: Job + Clone> InHand for J {
    fn copy(&self) -> Box<dyn Any> {
        Box::new(self.clone())
    }
}

impl fmt::Debug for dyn InHand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a job in hand")
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Hand(Mutex<Held>);

#[derive(Default)]
struct Held {
    claims: HashMap<i64, Claim>,
    /// In the order they came; some were taken since.
    order: VecDeque<i64>,
    bytes: usize,
}

impl Held {
    fn show(&self) {
        metrics::gauge!("weir_jobs_in_hand_bytes").set(self.bytes as f64);
    }

    fn take(&mut self, id: i64) -> Option<Claim> {
        let claim = self.claims.remove(&id)?;
        self.bytes -= bytes(&claim);
        Some(claim)
    }
}

fn bytes(claim: &Claim) -> usize {
    ONE_BYTES + PARTS * claim.payload.len()
}

impl Hand {
    /// These are being enqueued.
    pub(crate) fn hold(&self, claims: impl IntoIterator<Item = Claim>) {
        let mut held = self.0.lock();
        for claim in claims {
            held.bytes += bytes(&claim);
            held.order.push_back(claim.id.0);
            held.claims.insert(claim.id.0, claim);
        }
        while held.bytes > BYTES_MAX
            && let Some(first) = held.order.pop_front()
        {
            held.take(first);
        }
        if held.order.len() > 2 * held.claims.len() + 1_024 {
            let Held { claims, order, .. } = &mut *held;
            order.retain(|id| claims.contains_key(id));
        }
        held.show();
    }

    /// Other nodes may have worked on what is in hand.
    pub(crate) fn forget_all(&self) {
        let mut held = self.0.lock();
        *held = Held::default();
        held.show();
    }

    /// Takes what is in hand of `picks`: a list for each, in order of id, and the picks without
    /// them.
    pub(crate) fn take(&self, picks: &[Pick]) -> (Vec<Vec<Claim>>, Vec<Pick>) {
        let mut held = self.0.lock();
        let mut found = Vec::with_capacity(picks.len());
        let mut rest = Vec::with_capacity(picks.len());
        for pick in picks {
            let (mut claims, mut ids) = (Vec::new(), Vec::new());
            for id in &pick.ids {
                match held.take(*id) {
                    // One lane for all: the ends of neighbours are counted together.
                    Some(claim) => claims.push(Claim { lane: pick.lane.clone(), ..claim }),
                    None => ids.push(*id),
                }
            }
            claims.sort_unstable_by_key(|claim| claim.id);
            found.push(claims);
            rest.push(Pick { lane: pick.lane.clone(), ids });
        }
        held.show();
        (found, rest)
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::sync::Arc;

    use weir_base::{Id, Timestamp};

    use super::*;

    fn claim(id: i64, payload_bytes: usize) -> Claim {
        let at = Timestamp::from_ms(1);
        Claim {
            lane: Arc::from("lane"),
            id: Id(id),
            kind: Cow::Borrowed("kind"),
            attempt: 1,
            enqueued_at: at,
            ready_at: at,
            unique_key: None,
            payload: "x".repeat(payload_bytes),
            batch_id: None,
            expires_at: None,
            postponed_since: None,
            jid: None,
            in_hand: None,
        }
    }

    fn pick(ids: &[i64]) -> Vec<Pick> {
        vec![Pick { lane: Arc::from("lane"), ids: ids.to_vec() }]
    }

    #[test]
    fn what_is_in_hand_is_had_once() {
        let hand = Hand::default();
        hand.hold([claim(1, 10), claim(3, 10)]);
        let (found, rest) = hand.take(&pick(&[1, 2]));
        assert_eq!(found[0].iter().map(|claim| claim.id.0).collect::<Vec<_>>(), [1]);
        assert_eq!(rest[0].ids, [2]);
        let (found, rest) = hand.take(&pick(&[1, 2]));
        assert!(found[0].is_empty(), "it was taken");
        assert_eq!(rest[0].ids, [1, 2]);
    }

    #[test]
    fn what_is_taken_is_in_order_of_id_and_of_the_lane_that_was_picked() {
        let hand = Hand::default();
        hand.hold([claim(1, 10), claim(2, 10), claim(3, 10)]);
        let picks = pick(&[3, 2, 1]);
        let (found, _) = hand.take(&picks);
        assert_eq!(found[0].iter().map(|claim| claim.id.0).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(found[0].iter().all(|claim| Arc::ptr_eq(&claim.lane, &picks[0].lane)));
    }

    #[test]
    fn what_came_first_is_forgotten_first_and_nothing_grows_without_bound() {
        let hand = Hand::default();
        let large = BYTES_MAX / PARTS / 4;
        hand.hold((1..=10).map(|id| claim(id, large)));
        let bytes_held = hand.0.lock().bytes;
        assert!(bytes_held <= BYTES_MAX, "{bytes_held}");
        let (found, _) = hand.take(&pick(&[1, 10]));
        assert_eq!(found[0].iter().map(|claim| claim.id.0).collect::<Vec<_>>(), [10]);
        hand.hold([claim(11, 1)]);
        for id in 100..20_000 {
            hand.hold([claim(id, 1)]);
            hand.take(&pick(&[id]));
        }
        assert!(hand.0.lock().order.len() < 2_000, "one that stays holds up none of the others");
        let (found, _) = hand.take(&pick(&[11]));
        assert_eq!(found[0].len(), 1);
    }
}
