//! Votes of people of other servers in polls of this one.

use weir_base::{Id, Timestamp};
use weir_db::{Json, Tx, params};

use super::{Receipt, by_uri};
use crate::accounts::Account;
use crate::federation::{self, Message};
use crate::{Env, Error};

/// Remote account `by` votes for the option with the text `choice` of the poll in post `poll`;
/// `arrived` is when the vote came to the door, which must be before the poll's end.
///
/// # Errors
/// The database's.
pub fn receive_vote(
    tx: &mut Tx,
    env: &Env,
    by: &Account,
    poll: &str,
    choice: &str,
    arrived: Timestamp,
) -> Result<Receipt, Error> {
    let Some(post) = by_uri(tx, poll)?.filter(|post| post.local) else {
        return Ok(Receipt::Refused("unknown"));
    };
    let Some(id) = post.poll_id else { return Ok(Receipt::Refused("no poll")) };
    let row = tx.query_opt(
        "SELECT options, tallies, multiple, expires_at FROM polls WHERE id = ?1",
        params![id],
        |row| {
            let options: Json<Vec<String>> = row.get(0)?;
            let tallies: Json<Vec<i64>> = row.get(1)?;
            Ok((options.0, tallies.0, row.get::<bool>(2)?, row.get::<Option<Timestamp>>(3)?))
        },
    )?;
    let Some((options, mut tallies, multiple, expires_at)) = row else {
        return Ok(Receipt::Refused("no poll"));
    };
    let Some(chosen) = options.iter().position(|option| option == choice) else {
        return Ok(Receipt::Refused("no such option"));
    };
    if expires_at.is_some_and(|end| end <= arrived) {
        return Ok(Receipt::Refused("too late"));
    }
    let given: Vec<i64> = tx.column(
        "SELECT choice FROM poll_votes WHERE poll_id = ?1 AND account_id = ?2",
        params![id, by.id],
    )?;
    if given.contains(&(chosen as i64)) || (!multiple && !given.is_empty()) {
        return Ok(Receipt::Known(post.id));
    }
    tx.run(
        "INSERT INTO poll_votes (poll_id, account_id, choice) VALUES (?1, ?2, ?3)",
        params![id, by.id, chosen],
    )?;
    if let Some(tally) = tallies.get_mut(chosen) {
        *tally += 1;
    }
    let voters: Option<i64> = tx.value(
        "UPDATE polls SET tallies = ?2, voters_count = voters_count + ?3 WHERE id = ?1
         RETURNING voters_count",
        params![id, Json(tallies), i64::from(given.is_empty())],
    )?;
    tell(tx, env, post.account_id, post.id, voters.unwrap_or(0))?;
    Ok(Receipt::Known(post.id))
}

/// How long the numbers of a poll in which so many have voted wait for further votes before other
/// servers are told, in ms: soon while each vote is news, seldom where they come in masses.
fn quiet_ms(voters: i64) -> i64 {
    match voters {
        ..25 => 5_000,
        25..250 => 30_000,
        _ => 3 * 60_000,
    }
}

/// Tells those who are here that a poll's numbers changed, and other servers in a while, once for
/// many votes.
pub(super) fn tell(tx: &mut Tx, env: &Env, author: Id, post: Id, voters: i64) -> Result<(), Error> {
    env.streams.status_edited(tx, post);
    let at = env.clock.now().plus_ms(quiet_ms(voters));
    let job = federation::Distribute { by: author, message: Message::CountVotes { status: post } };
    env.jobs.enqueue_unique(tx, &format!("poll {post}"), at, &job)?;
    Ok(())
}
