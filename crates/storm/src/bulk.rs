//! Filling a database of Weir with people, follows and posts, far faster than by asking the
//! server: for benchmarks of what a big community feels like. The server must not run meanwhile.

use aws_lc_rs::digest::{SHA256, digest};
use weir_base::{Id, Timestamp};
use weir_db::{Class, Db, Dialect, Error, Tx, params};

use crate::fediverse::Fediverse;

/// Posts written by one statement: a good part of a second, and far from the longest log.
const CHUNK: usize = 20_000;

/// What was written.
#[derive(Debug, Clone)]
pub struct Filled {
    /// The reader who follows every author, with a token.
    pub reader: (Id, String),
    /// Others who follow some of the authors, with their tokens.
    pub returning: Vec<(Id, String)>,
    /// The authors, all on other servers.
    pub authors: Vec<Id>,
}

/// Sizes.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Posts in all, spread over the authors.
    pub statuses: usize,
    /// People here besides the reader.
    pub returning: usize,
    /// Authors each of them follows.
    pub follows_each: usize,
}

/// Writes accounts for the actors of `fediverse`, posts of theirs up to `now`, and local people;
/// `written` hears how many posts stand so far.
///
/// # Errors
/// The database's.
pub fn fill(
    db: &Db,
    fediverse: &Fediverse,
    plan: Plan,
    now: Timestamp,
    written: impl FnMut(usize),
) -> Result<Filled, Error> {
    let first_id = Id::first_at(now.plus_ms(-1_000 * plan.statuses as i64)).0;
    let authors: Vec<Id> = (0..fediverse.actors()).map(|n| Id(first_id + n as i64)).collect();
    let known: Vec<(String, String, String)> = (0..fediverse.actors())
        .map(|n| (fediverse.actor_uri(n), fediverse.host(n), fediverse.public_pem(n).to_owned()))
        .collect();
    let (ids, rows) = (authors.clone(), known);
    db.write_blocking(Class::Housekeeping, move |tx| {
        for (number, (uri, host, pem)) in rows.iter().enumerate() {
            author(tx, ids[number], number, uri, host, pem, now)?;
        }
        Ok::<_, Error>(())
    })?;
    statuses(db, &authors, plan.statuses, now, written)?;
    let people = people(db, &authors, plan, now)?;
    if db.dialect() == Dialect::Postgres {
        // What its own housekeeping does within a minute of so many new rows.
        db.write_blocking(Class::Housekeeping, |tx| tx.execute("ANALYZE", &[]).map(|_| ()))?;
    }
    let mut people = people.into_iter();
    // The first of the people is the reader; there is always one.
    let reader = people.next().ok_or(Error::Rows(0))?;
    Ok(Filled { reader, returning: people.collect(), authors })
}

fn author(
    tx: &mut Tx,
    id: Id,
    number: usize,
    uri: &str,
    host: &str,
    pem: &str,
    now: Timestamp,
) -> Result<(), Error> {
    tx.run(
        "INSERT INTO accounts (id, username, username_key, domain, uri, url, display_name, inbox,
           shared_inbox, followers_uri, created_at, fetched_at)
         VALUES (?1, ?2, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8, ?9, ?9)",
        params![
            id,
            format!("a{number}"),
            host,
            uri,
            format!("Author {number}"),
            format!("{uri}/inbox"),
            format!("https://{host}/inbox"),
            format!("{uri}/followers"),
            now
        ],
    )?;
    tx.run(
        "INSERT INTO account_keys (key_id, account_id, algorithm, public_pem, fetched_at)
         VALUES (?1, ?2, 'rsa', ?3, ?4)",
        params![format!("{uri}#main-key"), id, pem, now],
    )?;
    Ok(())
}

/// One a second, the last of them now, by the authors in turn.
fn statuses(
    db: &Db,
    authors: &[Id],
    count: usize,
    now: Timestamp,
    mut written: impl FnMut(usize),
) -> Result<(), Error> {
    let first_author = authors.first().copied().ok_or(Error::Rows(0))?;
    let authors = authors.len();
    for from in (0..count).step_by(CHUNK) {
        let to = (from + CHUNK).min(count);
        db.write_blocking(Class::Housekeeping, move |tx| {
            tx.execute(
                "INSERT INTO statuses (id, account_id, uri, url, created_at, visibility, content,
                   language, conversation_id)
                 WITH RECURSIVE posts (n) AS (
                   SELECT CAST(?1 AS BIGINT) UNION ALL SELECT n + 1 FROM posts WHERE n + 1 < ?2)
                 SELECT (?3 - 1000 * (?4 - n)) * 65536 + n % 1000, ?5 + n % ?6,
                   'https://storm.test/notes/' || n, 'https://storm.test/notes/' || n,
                   ?3 - 1000 * (?4 - n), 0,
                   '<p>Note ' || n || ' of many that people wrote over the years, long enough to '
                     || 'weigh something in a page of twenty.</p>',
                   'en', (?3 - 1000 * (?4 - n)) * 65536 + n % 1000
                 FROM posts",
                params![from, to, now, count, first_author, authors],
            )
        })?;
        written(to);
    }
    Ok(())
}

fn people(db: &Db, authors: &[Id], plan: Plan, now: Timestamp) -> Result<Vec<(Id, String)>, Error> {
    let mut people = Vec::new();
    for from in (0..=plan.returning).step_by(100) {
        let to = (from + 100).min(plan.returning + 1);
        let authors = authors.to_vec();
        let made = db.write_blocking(Class::Housekeeping, move |tx| {
            (from..to).map(|number| person(tx, number, &authors, plan, now)).collect()
        });
        let made: Vec<(Id, String)> = made.map_err(|error: Error| error)?;
        people.extend(made);
    }
    Ok(people)
}

/// A local person: number 0 follows every author.
fn person(
    tx: &mut Tx,
    number: usize,
    authors: &[Id],
    plan: Plan,
    now: Timestamp,
) -> Result<(Id, String), Error> {
    let id = Id(Id::first_at(now).0 + number as i64);
    let (name, token) = (format!("storm{number}"), format!("storm-token-{number}"));
    let uri = format!("http://localhost/ap/users/{id}");
    tx.run(
        "INSERT INTO accounts (id, username, username_key, domain, uri, url, created_at)
         VALUES (?1, ?2, ?2, '', ?3, ?3, ?4)",
        params![id, name, uri, now],
    )?;
    tx.run(
        "INSERT INTO users (account_id, email, email_key, password_hash, confirmed_at, approved,
           created_at) VALUES (?1, ?2, ?2, '', ?3, 1, ?3)",
        params![id, format!("{name}@storm.test"), now],
    )?;
    tx.run(
        "INSERT INTO oauth_tokens (id, token_hash, app_id, account_id, scopes, created_at,
           last_used_at) VALUES (?1, ?2, 0, ?1, 'read write follow push', ?3, ?3)",
        params![id, digest(&SHA256, token.as_bytes()).as_ref().to_vec(), now],
    )?;
    let follows = if number == 0 { authors.len() } else { plan.follows_each.min(authors.len()) };
    for step in 0..follows {
        let target = authors[(number * 7 + step) % authors.len()];
        tx.run(
            "INSERT INTO follows (account_id, target_id, id) VALUES (?1, ?2, ?3)
             ON CONFLICT DO NOTHING",
            params![id, target, Id(id.0 + ((step as i64 + 1) << 20))],
        )?;
    }
    Ok((id, token))
}

/// A local author and the people here who follow them.
#[derive(Debug, Clone)]
pub struct Followed {
    /// The author's token.
    pub author: String,
    /// Tokens of some of the followers.
    pub followers: Vec<String>,
}

/// Writes a local author with `count` local followers, of whom the first `with_tokens` can be
/// acted for.
///
/// # Errors
/// The database's.
pub fn followers(
    db: &Db,
    count: usize,
    with_tokens: usize,
    now: Timestamp,
) -> Result<Followed, Error> {
    let plan = Plan { statuses: 0, returning: 0, follows_each: 1 };
    let first = Id::first_at(now);
    let followed = db.write_blocking(Class::Housekeeping, move |tx| {
        let (author, token) = person(tx, 0, &[], plan, now)?;
        let follower = |number| person(tx, number, &[author], plan, now).map(|(_, token)| token);
        let followers: Vec<String> =
            (1..=with_tokens.min(count)).map(follower).collect::<Result<_, _>>()?;
        tx.run("UPDATE accounts SET followers_count = ?2 WHERE id = ?1", params![author, count])?;
        Ok::<_, Error>(Followed { author: token, followers })
    })?;
    for from in (with_tokens + 1..=count).step_by(CHUNK) {
        let to = (from + CHUNK).min(count + 1);
        db.write_blocking(Class::Housekeeping, move |tx| many_followers(tx, from, to, first, now))?;
    }
    if db.dialect() == Dialect::Postgres {
        db.write_blocking(Class::Housekeeping, |tx| tx.execute("ANALYZE", &[]).map(|_| ()))?;
    }
    Ok(followed)
}

/// Followers `from` up to, not including, `to` of the author whose id is `first`.
fn many_followers(
    tx: &mut Tx,
    from: usize,
    to: usize,
    first: Id,
    now: Timestamp,
) -> Result<(), Error> {
    let numbers = "WITH RECURSIVE people (n) AS (
        SELECT CAST(?1 AS BIGINT) UNION ALL SELECT n + 1 FROM people WHERE n + 1 < ?2)";
    for sql in [
        "INSERT INTO accounts (id, username, username_key, domain, uri, url, created_at) {}
         SELECT ?3 + n, 'storm' || n, 'storm' || n, '', 'http://localhost/ap/users/' || (?3 + n),
           'http://localhost/ap/users/' || (?3 + n), CAST(?4 AS BIGINT) FROM people",
        "INSERT INTO users (account_id, email, email_key, password_hash, confirmed_at, approved,
           created_at) {}
         SELECT ?3 + n, 'storm' || n || '@storm.test', 'storm' || n || '@storm.test', '',
           CAST(?4 AS BIGINT), 1, CAST(?4 AS BIGINT) FROM people",
    ] {
        tx.run(&sql.replace("{}", numbers), params![from, to, first, now])?;
    }
    tx.run(
        &format!(
            "INSERT INTO follows (account_id, target_id, id)
             {numbers} SELECT ?3 + n, CAST(?3 AS BIGINT), ?3 + n FROM people"
        ),
        params![from, to, first],
    )?;
    Ok(())
}
