//! `followRequests`: who asks to follow the reader, the newest first.

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::Error;
use weir_community::relationships::{self, Relation};
use weir_community::streams::{Event, Topic};
use weir_community::timelines::Range;
use weir_db::Tx;

use super::{limit, person};
use crate::collections::FollowRequestDoc;
use crate::face::Face;
use crate::face::docs::{Docs, named_accounts};
use crate::face::live::{Live, Query, Shown, in_one_unit};
use crate::joined::Level;
use crate::observer::Work;
use crate::server::Opening;
use crate::typed::typed;
use crate::wire::Failure;

typed! {
    /// How many who ask.
    #[derive(Debug, Clone, Default, Serialize, Deserialize)]
    pub struct FollowRequestsParams {
        /// 40 unless said, at most 200.
        #[serde(default)]
        pub limit: Option<usize>,
    }
}

struct FollowRequests {
    reader: Id,
    limit: usize,
}

/// `followRequests`
pub(crate) fn open(
    face: &Face,
    user: Option<Id>,
    asked: Option<FollowRequestsParams>,
) -> Result<Opening, Failure> {
    let limit = limit(asked.unwrap_or_default().limit);
    let (face, query) = (face.clone(), FollowRequests { reader: person(user)?, limit });
    Ok(Opening::own(&limit, move || Live::new(&face, query)))
}

impl Query for FollowRequests {
    fn topics(&self) -> Vec<Topic> {
        vec![Topic::Own(self.reader)]
    }

    fn concerns(&self, event: &Event, _: &Shown) -> bool {
        matches!(event, Event::FollowersChanged(_))
    }

    fn reader(&self) -> Option<Id> {
        Some(self.reader)
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let Self { reader, limit } = *self;
        in_one_unit(face, move |tx, env, docs| {
            let (range, now) = (Range { limit, ..Range::default() }, env.clock.now());
            let find = move |tx: &mut Tx<'_>, _: &[()]| {
                relationships::page(tx, Some(reader), Relation::Asking(reader), range, now)
            };
            let show = |(id, account_id): &(Id, Id)| {
                let document =
                    FollowRequestDoc { account_id: *account_id, created_at: id.time().into() };
                (account_id.to_string(), document)
            };
            let people = named_accounts(env, |(_, account): &(Id, Id)| *account);
            docs.join(tx, &Level::new("follow_requests", find, show).with(people))
        })
    }
}
