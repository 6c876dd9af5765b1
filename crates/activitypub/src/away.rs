//! Jobs for which the database could not be asked.

use weir_community::Error;
use weir_jobs::Outcome;

/// When to ask again a database that is away, in ms.
const AWAY_MS: i64 = 1_000;

/// What becomes of a job that could not be read up on: that the database is away is no failure of
/// its own, and what comes after it in its order overtakes it by as little as can be.
pub(crate) fn unread(error: &Error) -> Outcome {
    match error {
        Error::Db(away) if away.is_away() => Outcome::postpone(away, AWAY_MS),
        other => Outcome::retry(other),
    }
}
