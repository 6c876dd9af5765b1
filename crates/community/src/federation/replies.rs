//! What answers a post of another server, read from that server's own list of it: how much.
//!
//! A list is read when its post was fetched because somebody wanted it, and when somebody here
//! opens the thread. It is a stranger's word, so everything about it is limited: pages, answers,
//! answers to answers, and how much of one list leads to one other server.

use std::collections::HashMap;
use std::time::Duration;

use metrics::Gauge;
use moka::sync::Cache;
use weir_base::Id;
use weir_db::Tx;

use super::{Wanted, host_of, want};
use crate::{Env, Error, statuses};

/// Pages of one list that are read.
pub const REPLIES_PAGES_MAX: usize = 5;
/// Answers that are fetched of one list: of the post that was wanted, of its answers, and of
/// theirs. So one thread brings 1,250 answers at most; its lists are fetched besides.
const ANSWERS_MAX: [usize; 3] = [50, 8, 2];
/// Answers of one list that are fetched from one server which is not the list's own: who writes a
/// list cannot have this server ask a third for more.
const ELSEWHERE_MAX: usize = 5;
/// Threads that were opened lately, and how long their lists are not read again.
const OPENED_MAX: u64 = 10_000;
const OPENED_LIFE: Duration = Duration::from_secs(15 * 60);

/// The threads whose lists were read lately.
pub struct Opened {
    threads: Cache<Id, ()>,
    held: Gauge,
}

impl Default for Opened {
    fn default() -> Self {
        let threads = Cache::builder().max_capacity(OPENED_MAX).time_to_live(OPENED_LIFE).build();
        Self { threads, held: metrics::gauge!("weir_community_threads_held") }
    }
}

impl Opened {
    /// Whether thread `status` was not opened lately; it is from now on.
    pub fn is_due(&self, status: Id) -> bool {
        let mut due = false;
        self.threads.get_with(status, || due = true);
        self.held.set(self.threads.entry_count() as f64);
        due
    }
}

/// Somebody here opened the thread of post `status`: what answers it is looked for, if everybody
/// may see it and it is of another server.
///
/// # Errors
/// The database's.
pub fn opened(tx: &mut Tx, env: &Env, status: Id) -> Result<(), Error> {
    let status = statuses::by_id(tx, status)?;
    if status.local || !status.visibility.is_open() || status.boost_of_id.is_some() {
        return Ok(());
    }
    want_replies(tx, env, &status.uri, 0)
}

/// Whether the answers to a post at this level (0: the one that was wanted) are read at all.
pub fn wants_answers(level: u32) -> bool {
    (level as usize) < ANSWERS_MAX.len()
}

/// Asks for what answers the post at `uri`.
///
/// # Errors
/// The database's.
pub fn want_replies(tx: &mut Tx, env: &Env, uri: &str, level: u32) -> Result<(), Error> {
    if !wants_answers(level) || env.site.is_local(uri) {
        return Ok(());
    }
    want(tx, env, Wanted::Replies { uri: uri.to_owned(), level }, 0)
}

/// Asks for those of `listed`, the answers to the post at `to`, that are not known here and within
/// the limits of `level`.
///
/// # Errors
/// The database's.
pub fn choose(
    tx: &mut Tx,
    env: &Env,
    to: &str,
    level: u32,
    listed: &[String],
) -> Result<(), Error> {
    let most = ANSWERS_MAX.get(level as usize).copied().unwrap_or(0);
    let mut elsewhere: HashMap<&str, usize> = HashMap::new();
    let mut chosen = 0;
    for uri in listed {
        if chosen >= most {
            break;
        }
        let Some(host) = host_of(uri).filter(|_| !env.site.is_local(uri)) else { continue };
        if host_of(to) != Some(host) {
            let asked = elsewhere.entry(host).or_default();
            if *asked >= ELSEWHERE_MAX {
                continue;
            }
            *asked += 1;
        }
        chosen += 1;
        if statuses::by_uri(tx, uri)?.is_some() {
            // It may have answers that are not known.
            want_replies(tx, env, uri, level + 1)?;
            continue;
        }
        let wanted = Wanted::Reply { uri: uri.clone(), to: to.to_owned(), level: level + 1 };
        want(tx, env, wanted, 1)?;
    }
    Ok(())
}
