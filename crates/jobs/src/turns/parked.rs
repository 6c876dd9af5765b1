//! Lanes that wait for their gates: rates and breakers.

use std::sync::Arc;

use super::Turns;
use crate::gates::{Breaker, End, Gates};

/// While a probe runs, jobs of its lane that were taken already look again after so long, in ms.
const PROBE_LOOK_MS: i64 = 1_000;

impl Turns {
    /// Sets how many jobs of a lane may start in a second and how many failures in a row open its
    /// breaker; 0 is no limit.
    pub(crate) fn set_gates(&mut self, rate: u32, failures_max: u32) {
        if rate > 0 || failures_max > 0 {
            self.gates = Some(Box::new(Gates::new(rate, failures_max)));
        }
    }

    /// Whether lanes have gates, so that it matters what time it is.
    pub(crate) fn has_gates(&self) -> bool {
        self.gates.is_some()
    }

    /// It is `now_ms`: lanes whose gates have opened come back.
    pub(crate) fn at(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        while let Some((opens_ms, _)) = self.parked.first()
            && *opens_ms <= now_ms
            && let Some((_, name)) = self.parked.pop_first()
        {
            if let Some(lane) = self.lanes.get_mut(&name) {
                lane.parked_ms = None;
            }
            self.line_up(&name);
        }
    }

    /// When the next gate opens.
    pub(crate) fn next_opens_ms(&self) -> Option<i64> {
        self.parked.first().map(|(opens_ms, _)| *opens_ms)
    }

    /// How a job of `lane` ended, to be told before that it [`finished`](Self::finished); true
    /// when that opened its breaker.
    pub(crate) fn ended(&mut self, lane: &Arc<str>, end: End) -> bool {
        let now_ms = self.now_ms;
        self.gates.as_mut().is_some_and(|gates| gates.ended(lane, end, now_ms))
    }

    /// A job of `lane` may start that was taken out of turn, or not before a time, in ms. One of
    /// those whose breaker is open is its probe, and so is one while a probe is out that does not
    /// run here (`is_running`).
    pub(crate) fn start_now(&mut self, lane: &Arc<str>, is_running: bool) -> Result<(), i64> {
        let (breaker, opens_ms) = self.gate(lane);
        let now_ms = self.now_ms;
        let Some(gates) = &mut self.gates else { return Ok(()) };
        match (breaker, opens_ms) {
            (Breaker::Closed, _) => Ok(()),
            (Breaker::Open, Some(opens_ms)) => Err(opens_ms),
            (Breaker::Probing, _) if is_running => Err(now_ms.saturating_add(PROBE_LOOK_MS)),
            (Breaker::Open | Breaker::Probing, _) => {
                gates.started(lane, 1, now_ms);
                Ok(())
            }
        }
    }

    /// What stands before `lane`, and when it opens, in ms.
    pub(crate) fn gate(&self, lane: &str) -> (Breaker, Option<i64>) {
        let Some(gates) = &self.gates else { return (Breaker::Closed, None) };
        let closed = gates.open_for(lane, self.now_ms) == 0;
        (gates.breaker(lane), gates.opens_ms(lane, self.now_ms).filter(|_| closed))
    }

    /// Lanes whose breaker is not closed.
    pub(crate) fn open_breakers(&self) -> usize {
        self.gates.as_ref().map_or(0, |gates| gates.open_breakers())
    }

    /// Lets a lane wait for its gate, if that is what it waits for.
    pub(super) fn park(&mut self, name: &Arc<str>) {
        let Some(gates) = &self.gates else { return };
        let Some(lane) = self.lanes.get_mut(name) else { return };
        if lane.ids.is_empty() || gates.open_for(name, self.now_ms) > 0 {
            return;
        }
        let opens_ms = gates.opens_ms(name, self.now_ms);
        if lane.parked_ms != opens_ms {
            if let Some(before_ms) = lane.parked_ms {
                self.parked.remove(&(before_ms, name.clone()));
            }
            lane.parked_ms = opens_ms;
            self.parked.extend(opens_ms.map(|opens_ms| (opens_ms, name.clone())));
        }
    }
}
