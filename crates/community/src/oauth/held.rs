//! Tokens by which something is open, so that all of them can be looked at again together: after
//! what another node said of them may have been missed.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_base::Id;

use super::Bearer;

/// Tokens in use now. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Held(Arc<Mutex<BTreeMap<Id, Uses>>>);

#[derive(Debug)]
struct Uses {
    account: Id,
    count: usize,
}

/// Something is open by a token, until this is dropped.
#[derive(Debug)]
pub struct Hold {
    held: Held,
    token: Id,
}

impl Held {
    /// Something is opened by the token of `bearer`; none for tokens without a person. As many are
    /// held as sessions are open, which those who open them bound.
    pub fn hold(&self, bearer: &Bearer) -> Option<Hold> {
        let (account, token) = (bearer.account_id?, bearer.token_id);
        let mut held = self.0.lock();
        held.entry(token).or_insert(Uses { account, count: 0 }).count += 1;
        metrics::gauge!("weir_community_tokens_held").set(held.len() as f64);
        drop(held);
        Some(Hold { held: self.clone(), token })
    }

    /// All that are held behind `after`, in order, at most `most`: token and person.
    pub(crate) fn behind(&self, after: Id, most: usize) -> Vec<(Id, Id)> {
        let held = self.0.lock();
        let behind = held.range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded));
        behind.take(most).map(|(token, uses)| (*token, uses.account)).collect()
    }
}

impl Hold {
    /// The id of the token.
    pub fn token(&self) -> Id {
        self.token
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = self.held.0.lock();
        let Some(uses) = held.get_mut(&self.token) else { return };
        uses.count -= 1;
        if uses.count == 0 {
            held.remove(&self.token);
            metrics::gauge!("weir_community_tokens_held").set(held.len() as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Scopes;
    use super::*;

    fn bearer(token: i64, account: Option<i64>) -> Bearer {
        Bearer {
            token_id: Id(token),
            app_id: Id(1),
            account_id: account.map(Id),
            scopes: Scopes::default(),
            stale: false,
            generation: 0,
        }
    }

    #[test]
    fn a_token_is_held_as_long_as_anything_is_open_by_it() {
        let held = Held::default();
        let one = held.hold(&bearer(5, Some(7)));
        let other = held.hold(&bearer(5, Some(7)));
        let next = held.hold(&bearer(6, Some(8)));
        assert!(held.hold(&bearer(7, None)).is_none());
        drop(one);
        assert_eq!(held.behind(Id(0), 1), [(Id(5), Id(7))]);
        assert_eq!(held.behind(Id(5), 9), [(Id(6), Id(8))]);
        drop((other, next));
        assert_eq!(held.behind(Id(0), 9), []);
    }
}
