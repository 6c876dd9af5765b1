//! `lists.members`: who is in one of the reader's lists, the newest first.

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::streams::{Event, Topic};
use weir_community::timelines::Range;
use weir_community::{Error, lists};
use weir_db::Tx;

use super::{limit, person};
use crate::collections::ListMemberDoc;
use crate::face::Face;
use crate::face::docs::{Docs, named_accounts};
use crate::face::live::{Live, Query, Shown, in_one_unit};
use crate::joined::Level;
use crate::observer::Work;
use crate::server::Opening;
use crate::typed::typed;
use crate::wire::Failure;

typed! {
    /// Of which list.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct ListMembersParams {
        /// Its id.
        pub list_id: Id,
        /// How many: 40 unless said, at most 200.
        #[serde(default)]
        pub limit: Option<usize>,
    }
}

struct ListMembers {
    reader: Id,
    list: Id,
    limit: usize,
}

/// `lists.members`
pub(crate) fn open(
    face: &Face,
    user: Option<Id>,
    asked: ListMembersParams,
) -> Result<Opening, Failure> {
    let (reader, limit) = (person(user)?, limit(asked.limit));
    let (face, query) = (face.clone(), ListMembers { reader, list: asked.list_id, limit });
    Ok(Opening::own(&(asked.list_id, limit), move || Live::new(&face, query)))
}

impl Query for ListMembers {
    fn topics(&self) -> Vec<Topic> {
        vec![Topic::Own(self.reader)]
    }

    fn concerns(&self, event: &Event, _: &Shown) -> bool {
        // Who is not followed any more leaves the lists.
        matches!(event, Event::ListsChanged | Event::BondsChanged)
    }

    fn reader(&self) -> Option<Id> {
        Some(self.reader)
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let Self { reader, list, limit } = *self;
        in_one_unit(face, move |tx, env, docs| {
            let range = Range { limit, ..Range::default() };
            let find = move |tx: &mut Tx<'_>, _: &[()]| lists::members(tx, reader, list, range);
            let show = move |(_, account_id): &(Id, Id)| {
                let document = ListMemberDoc { list_id: list, account_id: *account_id };
                (format!("{list}/{account_id}"), document)
            };
            let people = named_accounts(env, |(_, account): &(Id, Id)| *account);
            docs.join(tx, &Level::new("list_members", find, show).with(people))
        })
    }
}
