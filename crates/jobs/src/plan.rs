//! When a periodic job runs, and what becomes of runs that were missed. No I/O, no clock.

use std::fmt;

use weir_base::Timestamp;

use crate::cron::Cron;

/// A run that is later than this was missed, in ms.
const LATE_MS: i64 = 60_000;

/// What becomes of the runs of a periodic job that nobody started in their time, since the
/// program was down or the clock was set forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    /// One run stands for all of them.
    One,
    /// Each has its run, the oldest first, but never more than so many.
    All(u32),
    /// Those that are more than a minute late have none.
    Skip,
}

/// When a periodic job runs.
#[derive(Clone)]
pub(crate) enum Plan {
    /// Each so many ms, at first at once.
    Every(i64),
    Cron(Cron),
}

/// What a look at a periodic job found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// The planned moments of the runs to start now.
    pub(crate) runs: Vec<Timestamp>,
    pub(crate) next: Timestamp,
}

impl Plan {
    /// What is due at `now`, when `next` was planned; none when nothing is known of this plan.
    ///
    /// A clock that was set back begins the plan anew: moments that come again have their runs
    /// again.
    pub(crate) fn due(&self, next: Option<Timestamp>, missed: Missed, now: Timestamp) -> Due {
        let horizon = self.after(now, now);
        match (next, self) {
            (Some(next), _) if next <= now => {
                let runs = self.missed(next, missed, now);
                Due { runs, next: self.after(next, now) }
            }
            (Some(next), _) if next <= horizon => Due { runs: Vec::new(), next },
            // Never yet, or an interval that was shortened, which holds at once.
            (_, Self::Every(_)) => Due { runs: vec![now], next: horizon },
            (_, Self::Cron(_)) => Due { runs: Vec::new(), next: horizon },
        }
    }

    pub(crate) fn is_interval(&self) -> bool {
        matches!(self, Self::Every(_))
    }

    /// The first run after `now`, counted from the run at `planned`.
    fn after(&self, planned: Timestamp, now: Timestamp) -> Timestamp {
        match self {
            Self::Cron(cron) => cron.next_after(now).unwrap_or(Timestamp::from_ms(i64::MAX)),
            Self::Every(every_ms) => {
                let late_ms = now.since_ms(planned).max(0);
                planned.plus_ms((late_ms / every_ms).saturating_add(1).saturating_mul(*every_ms))
            }
        }
    }

    /// Of the runs from `first`, which is past, until `now` those that are started.
    fn missed(&self, first: Timestamp, missed: Missed, now: Timestamp) -> Vec<Timestamp> {
        match missed {
            Missed::One => vec![first],
            Missed::Skip if now.since_ms(first) <= LATE_MS => vec![first],
            Missed::Skip => {
                let late = now.plus_ms(-LATE_MS - 1);
                let fresh = self.after(first, late);
                if fresh <= now { vec![fresh] } else { Vec::new() }
            }
            Missed::All(limit) => {
                let next = |at: &Timestamp| Some(self.after(*at, *at));
                let all = std::iter::successors(Some(first), next);
                let limit = usize::try_from(limit).unwrap_or(usize::MAX);
                all.take_while(|at| *at <= now).take(limit).collect()
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(every_ms) => write!(f, "every {every_ms} ms"),
            Self::Cron(cron) => cron.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn due(runs: &[i64], next: i64) -> Due {
        Due { runs: runs.iter().map(|ms| at(*ms)).collect(), next: at(next) }
    }

    fn hourly() -> Plan {
        Plan::Cron(Cron::parse("0 * * * *", "UTC").unwrap())
    }

    #[test]
    fn missed_runs_of_an_interval_collapse_into_one() {
        let plan = Plan::Every(100);
        assert_eq!(plan.due(None, Missed::One, at(1_000)), due(&[1_000], 1_100));
        assert_eq!(plan.due(Some(at(1_000)), Missed::One, at(1_950)), due(&[1_000], 2_000));
        assert_eq!(plan.due(Some(at(1_100)), Missed::One, at(1_050)), due(&[], 1_100));
        assert!(plan.due(Some(at(0)), Missed::One, at(i64::MAX)).next > at(0));
    }

    #[test]
    fn a_shortened_interval_and_a_clock_set_back_hold_at_once() {
        assert_eq!(
            Plan::Every(100).due(Some(at(9_000)), Missed::One, at(1_000)),
            due(&[1_000], 1_100)
        );
        let planned = Some(at(9 * HOUR_MS));
        assert_eq!(hourly().due(planned, Missed::One, at(HOUR_MS + 5)), due(&[], 2 * HOUR_MS));
    }

    #[test]
    fn a_new_cron_job_waits_for_its_time() {
        assert_eq!(hourly().due(None, Missed::One, at(5)), due(&[], HOUR_MS));
    }

    #[test]
    fn each_policy_does_with_missed_runs_what_it_says() {
        let (planned, now) = (Some(at(HOUR_MS)), at(4 * HOUR_MS + 120_000));
        let next = 5 * HOUR_MS;
        let plan = hourly();
        assert_eq!(plan.due(planned, Missed::One, now), due(&[HOUR_MS], next));
        assert_eq!(plan.due(planned, Missed::Skip, now), due(&[], next));
        let all = [HOUR_MS, 2 * HOUR_MS, 3 * HOUR_MS, 4 * HOUR_MS];
        assert_eq!(plan.due(planned, Missed::All(9), now), due(&all, next));
        assert_eq!(plan.due(planned, Missed::All(2), now), due(&all[..2], next));
        let on_time = at(4 * HOUR_MS + 1_000);
        assert_eq!(plan.due(planned, Missed::Skip, on_time), due(&all[3..], next));
    }

    #[test]
    fn a_clock_that_jumps_far_ahead_costs_no_more_than_its_limit() {
        let years = at(50 * 366 * 24 * HOUR_MS);
        let plan = Plan::Cron(Cron::parse("* * * * *", "UTC").unwrap());
        assert_eq!(plan.due(Some(at(0)), Missed::All(1_000), years).runs.len(), 1_000);
        assert_eq!(Plan::Every(1).due(Some(at(0)), Missed::All(10), years).runs.len(), 10);
    }
}
