//! `presence`: which of those who follow the reader are here. That somebody left is told once they
//! stayed away for a while, for everybody comes and goes all the time.

use weir_base::Id;
use weir_community::streams::{Event, Topic};
use weir_community::{Error, relationships};

use super::person;
use super::relationships::{RelationshipsParams, normalised};
use crate::collections::PresenceDoc;
use crate::face::Face;
use crate::face::docs::Docs;
use crate::face::live::{Live, Query, Shown, in_one_unit};
use crate::observer::Work;
use crate::server::Opening;
use crate::wire::Failure;

struct Presence {
    reader: Id,
    others: Vec<Id>,
}

/// `presence`
pub(crate) fn open(
    face: &Face,
    user: Option<Id>,
    asked: RelationshipsParams,
) -> Result<Opening, Failure> {
    let others = normalised(asked.account_ids)?;
    let query = Presence { reader: person(user)?, others: others.clone() };
    let face = face.clone();
    Ok(Opening::own(&others, move || Live::new(&face, query)))
}

impl Query for Presence {
    fn topics(&self) -> Vec<Topic> {
        let others = self.others.iter().map(|id| Topic::Presence(*id));
        std::iter::once(Topic::Own(self.reader)).chain(others).collect()
    }

    fn concerns(&self, event: &Event, _: &Shown) -> bool {
        match event {
            Event::BondsChanged | Event::Moved => true,
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
            for one in relationships::relationships(tx, reader, &others, env.clock.now())? {
                if one.followed_by && !one.blocking && !one.blocked_by {
                    let online = env.streams.is_present(one.id);
                    docs.put("presence", &one.id.to_string(), &PresenceDoc { online });
                }
            }
            Ok(())
        })
    }
}
