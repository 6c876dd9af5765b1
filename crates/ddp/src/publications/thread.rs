//! `statuses.thread`: a post with what it answers and what answers it.

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::streams::{Event, Topic};
use weir_community::{Error, statuses};

use crate::face::Face;
use crate::face::docs::Docs;
use crate::face::live::{Live, Query, Shown, in_one_unit};
use crate::observer::Work;
use crate::server::Opening;
use crate::typed::typed;
use crate::wire::Failure;

typed! {
    /// Around which post.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct ThreadParams {
        /// Its id.
        pub status_id: Id,
    }
}

struct Thread {
    reader: Option<Id>,
    of: Id,
}

/// `statuses.thread`
pub(crate) fn open(face: &Face, user: Option<Id>, asked: ThreadParams) -> Result<Opening, Failure> {
    let (face, query) = (face.clone(), Thread { reader: user, of: asked.status_id });
    Ok(Opening::own(&asked, move || Live::new(&face, query)))
}

impl Query for Thread {
    fn topics(&self) -> Vec<Topic> {
        let own = self.reader.map(Topic::Own);
        own.into_iter().chain([Topic::Answers]).collect()
    }

    fn concerns(&self, event: &Event, shown: &Shown) -> bool {
        match event {
            Event::Answered(to) | Event::Marked(to) => shown.has_post(*to),
            Event::BondsChanged | Event::FiltersChanged | Event::ConversationMuted => true,
            _ => false,
        }
    }

    fn reader(&self) -> Option<Id> {
        self.reader
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let (reader, of) = (self.reader, self.of);
        in_one_unit(face, move |tx, env, docs| {
            if let Some(reader) = reader {
                docs.filter_for(tx, env, reader)?;
            }
            let post = statuses::load_one(tx, env, reader, of)?;
            let thread = statuses::thread(tx, env, reader, of)?;
            let name = format!("thread:{of}");
            for part in [&thread.ancestors[..], std::slice::from_ref(&post), &thread.descendants] {
                docs.posts(env, part);
                docs.entries(&name, part);
            }
            Ok(())
        })
    }
}
