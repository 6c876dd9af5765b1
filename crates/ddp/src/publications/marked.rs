//! `bookmarks` and `favourites`: posts the reader kept or liked, the newest mark first.

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::Error;
use weir_community::statuses::{self, Mark};
use weir_community::streams::{Event, Topic};
use weir_community::timelines::Range;

use super::{limit, person};
use crate::collections::MarkDoc;
use crate::face::Face;
use crate::face::docs::Docs;
use crate::face::live::{Live, Query, Shown, in_one_unit};
use crate::observer::Work;
use crate::server::Opening;
use crate::typed::typed;
use crate::wire::Failure;

typed! {
    /// How many posts.
    #[derive(Debug, Clone, Default, Serialize, Deserialize)]
    pub struct MarkedParams {
        /// 40 unless said, at most 200.
        #[serde(default)]
        pub limit: Option<usize>,
    }
}

struct Marked {
    reader: Id,
    mark: Mark,
    limit: usize,
}

/// `bookmarks` and `favourites`
pub(crate) fn open(
    face: &Face,
    user: Option<Id>,
    mark: Mark,
    asked: Option<MarkedParams>,
) -> Result<Opening, Failure> {
    let limit = limit(asked.unwrap_or_default().limit);
    let (face, query) = (face.clone(), Marked { reader: person(user)?, mark, limit });
    Ok(Opening::own(&limit, move || Live::new(&face, query)))
}

impl Query for Marked {
    fn topics(&self) -> Vec<Topic> {
        vec![Topic::Own(self.reader)]
    }

    fn concerns(&self, event: &Event, _: &Shown) -> bool {
        matches!(
            event,
            Event::Marked(_)
                | Event::BondsChanged
                | Event::FiltersChanged
                | Event::ConversationMuted
        )
    }

    fn reader(&self) -> Option<Id> {
        Some(self.reader)
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let Self { reader, mark, limit } = *self;
        in_one_unit(face, move |tx, env, docs| {
            docs.filter_for(tx, env, reader)?;
            let range = Range { limit, ..Range::default() };
            let rows = statuses::marked(tx, reader, mark, range)?;
            let ids: Vec<Id> = rows.iter().map(|(_, status)| *status).collect();
            let views = statuses::load(tx, env, Some(reader), &ids)?;
            docs.posts(env, &views);
            let collection = match mark {
                Mark::Bookmark => "bookmarks",
                Mark::Favourite => "favourites",
            };
            for (marked, status_id) in rows {
                if views.iter().any(|view| view.status.id == status_id) {
                    let document = MarkDoc { status_id, created_at: marked.time().into() };
                    docs.put(collection, &marked.to_string(), &document);
                }
            }
            Ok(())
        })
    }
}
