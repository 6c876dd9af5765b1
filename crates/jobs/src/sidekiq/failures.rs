//! What becomes of a job whose attempt failed, by Sidekiq's fields. Pure.

use weir_base::{Random, Timestamp};

use super::wire::{Fields, POSTPONED_SINCE, Times, seconds};
use crate::retry::{bounded_ms, postponed_ms};
use crate::{Last, Outcome, Retry};

/// A message is cut to so many characters, as Sidekiq does.
const MESSAGE_CHARS_MAX: usize = 10_000;

/// Where a job goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is over.
    Gone(&'static str),
    /// Into the sorted set, with this score.
    Retry {
        score: String,
        job: Vec<u8>,
    },
    Dead {
        score: String,
        job: Vec<u8>,
    },
    /// Into the schedule, as if it had not been taken.
    Later {
        score: String,
        job: Vec<u8>,
    },
}

impl Next {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Gone(name) => name,
            Self::Retry { .. } => "retry",
            Self::Dead { .. } => "dead",
            Self::Later { .. } => "postponed",
        }
    }
}

/// What a failure is judged by.
pub(crate) struct Judge<'a> {
    pub(crate) retry: Retry,
    pub(crate) now: Timestamp,
    pub(crate) random: &'a Random,
    pub(crate) times: Times,
}

/// What follows when `raw`, taken from `queue`, ended with `outcome`.
pub(crate) fn next(raw: &[u8], queue: &str, outcome: &Outcome, judge: &Judge<'_>) -> Next {
    let (reason, after_ms, class) = match outcome {
        Outcome::Postponed { reason, after_ms } => {
            if let Some(later) = postponed(raw, *after_ms, judge) {
                return later;
            }
            (reason, None, "Weir::PutOff")
        }
        Outcome::Dead(reason) => (reason, None, "Weir::GivenUp"),
        Outcome::Retry { reason, after_ms } | Outcome::Down { reason, after_ms } => {
            (reason, *after_ms, error_class(reason))
        }
        _ => return Next::Gone(outcome.name()),
    };
    let Some(mut job) = Fields::parse(raw) else {
        return Next::Dead { score: seconds(judge.now), job: raw.to_vec() };
    };
    let given_up = matches!(outcome, Outcome::Dead(_));
    let retries_max = retries_max(&job, &judge.retry);
    if !given_up && retries_max.is_none() {
        return Next::Gone("discard");
    }
    let count = mark(&mut job, queue, reason, class, judge);
    let too_old = job
        .get::<f64>("retry_for")
        .zip(job.time("failed_at"))
        .is_some_and(|(for_s, failed_at)| (judge.now.since_ms(failed_at) as f64) > for_s * 1_000.0);
    let left = job.has("retry_for") || count < retries_max.unwrap_or(0);
    if !given_up && left && !too_old {
        let policy = judge.retry.attempts(u32::MAX);
        let delay_ms = policy.delay_ms(count.saturating_add(1), judge.random).unwrap_or(0);
        let due_at = judge.now.plus_ms(after_ms.map_or(delay_ms, bounded_ms));
        return Next::Retry { score: seconds(due_at), job: job.write() };
    }
    let keep = job.get::<bool>("dead").unwrap_or(judge.retry.last == Last::Dead);
    if given_up || keep {
        Next::Dead { score: seconds(judge.now), job: job.write() }
    } else {
        Next::Gone("discard")
    }
}

/// The job put off, as if it had not been taken, but for the mark of when it was ready first; none
/// if that was too long ago.
fn postponed(raw: &[u8], after_ms: i64, judge: &Judge<'_>) -> Option<Next> {
    let mut job = Fields::parse(raw)?;
    let ready_at = job.time("enqueued_at").or_else(|| job.time("created_at")).unwrap_or(judge.now);
    let since = job.time(POSTPONED_SINCE).unwrap_or(ready_at);
    let delay_ms = postponed_ms(after_ms, judge.now.since_ms(since), judge.random)?;
    job.set_time(POSTPONED_SINCE, since, judge.times);
    Some(Next::Later { score: seconds(judge.now.plus_ms(delay_ms)), job: job.write() })
}

/// How often the job may be retried; none when a failure ends it without a trace.
fn retries_max(job: &Fields, retry: &Retry) -> Option<u32> {
    match job.raw("retry") {
        Some("false") => None,
        Some(other) => Some(other.parse().unwrap_or(retry.attempts_max.max(1) - 1)),
        None => Some(retry.attempts_max.max(1) - 1),
    }
}

/// Writes down the failure, and tells how many there were before it.
fn mark(job: &mut Fields, queue: &str, reason: &str, class: &str, judge: &Judge<'_>) -> u32 {
    let queue = job.get::<String>("retry_queue").unwrap_or_else(|| queue.to_owned());
    job.set("queue", queue);
    job.remove(POSTPONED_SINCE);
    let message: String = reason.chars().take(MESSAGE_CHARS_MAX).collect();
    job.set("error_message", message);
    job.set("error_class", class);
    match job.get::<i64>("retry_count") {
        Some(before) => {
            let count = u32::try_from(before.saturating_add(1).max(0)).unwrap_or(u32::MAX);
            job.set("retry_count", count);
            job.set_time("retried_at", judge.now, judge.times);
            count
        }
        None => {
            job.set("retry_count", 0);
            job.set_time("failed_at", judge.now, judge.times);
            0
        }
    }
}

/// A name for the kind of failure, where Ruby has the class of the exception.
fn error_class(reason: &str) -> &'static str {
    if reason.starts_with("its handler panicked") {
        "Weir::Panicked"
    } else if reason.starts_with("not done within") || reason.starts_with("not prepared within") {
        "Weir::TimedOut"
    } else if reason.starts_with("no handler") {
        "Weir::NoHandler"
    } else {
        "Weir::Failed"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_ms(1_700_000_000_000);

    fn after(raw: &str, outcome: Outcome, times: Times) -> Next {
        let random = Random::seeded(1);
        let judge = Judge { retry: Retry::DEFAULT, now: NOW, random: &random, times };
        next(raw.as_bytes(), "mail", &outcome, &judge)
    }

    fn failed(raw: &str) -> Next {
        after(raw, Outcome::retry("it broke"), Times::Seconds)
    }

    fn fields(next: &Next) -> (f64, serde_json::Value) {
        let (Next::Retry { score, job } | Next::Dead { score, job }) = next else {
            panic!("{next:?}")
        };
        (score.parse().unwrap(), serde_json::from_slice(job).unwrap())
    }

    #[test]
    fn the_first_failure_is_marked_as_sidekiq_marks_it() {
        let next =
            failed(r#"{"class":"A","args":[12345678901234567890123],"retry":true,"x":1.50}"#);
        assert_eq!(next.name(), "retry");
        let (score, job) = fields(&next);
        assert!((1_700_000_015.0..1_700_000_025.0).contains(&score), "{score}");
        assert_eq!(job["retry_count"], 0);
        assert_eq!(job["failed_at"], 1_700_000_000.0);
        assert_eq!(
            (&job["error_message"], &job["error_class"]),
            (&"it broke".into(), &"Weir::Failed".into())
        );
        assert!(job.get("retried_at").is_none());
        let Next::Retry { job, .. } = next else { panic!() };
        let text = String::from_utf8(job).unwrap();
        assert!(text.contains("12345678901234567890123") && text.contains("1.50"), "{text}");
    }

    #[test]
    fn a_later_failure_counts_on_and_goes_to_its_retry_queue() {
        let next = failed(
            r#"{"class":"A","args":[],"retry":5,"retry_count":1,"failed_at":1699999999.5,
                "retry_queue":"slow"}"#,
        );
        let (_, job) = fields(&next);
        assert_eq!((&job["retry_count"], &job["queue"]), (&2.into(), &"slow".into()));
        assert_eq!(
            (&job["failed_at"], &job["retried_at"]),
            (&1_699_999_999.5.into(), &1_700_000_000.0.into())
        );
    }

    #[test]
    fn the_job_says_how_often_it_is_retried_and_whether_it_is_kept() {
        for (raw, name) in [
            (r#"{"retry":false}"#, "discard"),
            (r#"{"retry":0}"#, "dead"),
            (r#"{"retry":0,"dead":false}"#, "discard"),
            (r#"{"retry":2,"retry_count":0}"#, "retry"),
            (r#"{"retry":2,"retry_count":1}"#, "dead"),
            (r#"{"retry":true,"retry_count":23}"#, "retry"),
            (r#"{"retry":true,"retry_count":24}"#, "dead"),
            (r#"{"retry":1,"retry_count":-1}"#, "retry"),
            (r#"{"retry_count":3}"#, "retry"),
            (r#"{"retry":0,"retry_for":60,"retry_count":9,"failed_at":1699999970.0}"#, "retry"),
            (r#"{"retry_for":60,"retry_count":9,"failed_at":1699999939000}"#, "dead"),
            ("{", "dead"),
        ] {
            assert_eq!(failed(raw).name(), name, "{raw}");
        }
    }

    #[test]
    fn what_is_put_off_waits_as_it_was_and_fails_when_it_was_put_off_for_a_day() {
        let young = r#"{"created_at":1699900000.0,"enqueued_at":1699999999.0,"retry":0,"x":1.50}"#;
        let Next::Later { score, job } =
            after(young, Outcome::postpone("no place", 2_000), Times::Seconds)
        else {
            panic!()
        };
        let score: f64 = score.parse().unwrap();
        assert!((1_700_000_002.0..=1_700_000_003.0).contains(&score), "{score}");
        let job: serde_json::Value = serde_json::from_slice(&job).unwrap();
        let mut expected: serde_json::Value = serde_json::from_str(young).unwrap();
        expected["postponed_since"] = 1_699_999_999.0.into();
        assert_eq!(job, expected);
        let old = r#"{"retry":5,"enqueued_at":1699999999.0,"postponed_since":1699900000.0}"#;
        let (_, job) = fields(&after(old, Outcome::postpone("no place", 2_000), Times::Seconds));
        assert_eq!((&job["retry_count"], &job["error_message"]), (&0.into(), &"no place".into()));
        assert!(job.get("postponed_since").is_none(), "its next day begins with its retry: {job}");
    }

    #[test]
    fn what_the_handler_decides_wins() {
        let raw = r#"{"retry":false,"dead":false}"#;
        let outcomes = [
            (Outcome::Done, "done"),
            (Outcome::Discard("no".into()), "discard"),
            (Outcome::Dead("never".into()), "dead"),
        ];
        for (outcome, name) in outcomes {
            assert_eq!(after(raw, outcome, Times::Seconds).name(), name);
        }
        let outcome = Outcome::Retry { reason: "busy".into(), after_ms: Some(90_000) };
        let (score, job) = fields(&after(r#"{"retry":9}"#, outcome, Times::Millis));
        assert_eq!(score, 1_700_000_090.0);
        assert_eq!(job["failed_at"], 1_700_000_000_000_i64);
    }
}
