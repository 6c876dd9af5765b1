//! `relationships`: how the reader stands to some accounts, and those accounts.

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::streams::{Event, Topic};
use weir_community::{Error, accounts, relationships};

use super::person;
use crate::collections::RelationshipDoc;
use crate::face::Face;
use crate::face::docs::Docs;
use crate::face::live::{Live, Query, Shown, in_one_unit};
use crate::observer::Work;
use crate::server::Opening;
use crate::typed::typed;
use crate::wire::Failure;

/// Accounts of one subscription.
const ACCOUNTS_MAX: usize = 100;

typed! {
    /// To whom.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct RelationshipsParams {
        /// At most 100 accounts.
        pub account_ids: Vec<Id>,
    }
}

struct Relationships {
    reader: Id,
    others: Vec<Id>,
}

/// The ids in order, each once.
///
/// # Errors
/// 400 when there are too many.
pub(super) fn normalised(mut ids: Vec<Id>) -> Result<Vec<Id>, Failure> {
    ids.sort_unstable();
    ids.dedup();
    if ids.len() > ACCOUNTS_MAX {
        let reason = format!("Ask for no more than {ACCOUNTS_MAX} accounts.");
        return Err(Failure::bad_params(reason));
    }
    Ok(ids)
}

/// `relationships`
pub(crate) fn open(
    face: &Face,
    user: Option<Id>,
    asked: RelationshipsParams,
) -> Result<Opening, Failure> {
    let others = normalised(asked.account_ids)?;
    let query = Relationships { reader: person(user)?, others: others.clone() };
    let face = face.clone();
    Ok(Opening::own(&others, move || Live::new(&face, query)))
}

impl Query for Relationships {
    fn topics(&self) -> Vec<Topic> {
        vec![Topic::Own(self.reader)]
    }

    fn concerns(&self, event: &Event, _: &Shown) -> bool {
        match event {
            Event::BondsChanged => true,
            Event::FollowersChanged(by) => self.others.binary_search(by).is_ok(),
            _ => false,
        }
    }

    fn reader(&self) -> Option<Id> {
        Some(self.reader)
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let (reader, others) = (self.reader, self.others.clone());
        in_one_unit(face, move |tx, env, docs| {
            let now = env.clock.now();
            let known = accounts::by_ids(tx, &others)?;
            let ids: Vec<Id> = known.iter().map(|account| account.id).collect();
            for one in relationships::relationships(tx, reader, &ids, now)? {
                let document = RelationshipDoc {
                    following: one.following,
                    showing_reblogs: one.showing_reblogs,
                    notifying: one.notifying,
                    followed_by: one.followed_by,
                    blocking: one.blocking,
                    blocked_by: one.blocked_by,
                    muting: one.muting,
                    muting_notifications: one.muting_notifications,
                    requested: one.requested,
                    requested_by: one.requested_by,
                    domain_blocking: one.domain_blocking,
                    endorsed: one.endorsed,
                    note: one.note,
                };
                docs.put("relationships", &one.id.to_string(), &document);
            }
            known.iter().filter(|one| one.is_available()).for_each(|one| docs.account(env, one));
            docs.ends_at = relationships::next_mute_end(tx, reader, now)?;
            Ok(())
        })
    }
}
