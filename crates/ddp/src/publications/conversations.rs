//! `conversations`: the reader's newest conversations, with who is in them and the newest post.

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::streams::{Event, Topic};
use weir_community::timelines::Range;
use weir_community::{Error, conversations};

use super::{limit, person};
use crate::collections::ConversationDoc;
use crate::face::Face;
use crate::face::docs::Docs;
use crate::face::live::{Live, Query, Shown, in_one_unit};
use crate::observer::Work;
use crate::server::Opening;
use crate::typed::typed;
use crate::wire::Failure;

typed! {
    /// How many conversations.
    #[derive(Debug, Clone, Default, Serialize, Deserialize)]
    pub struct ConversationsParams {
        /// 40 unless said, at most 200.
        #[serde(default)]
        pub limit: Option<usize>,
    }
}

struct Conversations {
    reader: Id,
    limit: usize,
}

/// `conversations`
pub(crate) fn open(
    face: &Face,
    user: Option<Id>,
    asked: Option<ConversationsParams>,
) -> Result<Opening, Failure> {
    let limit = limit(asked.unwrap_or_default().limit);
    let query = Conversations { reader: person(user)?, limit };
    let face = face.clone();
    Ok(Opening::own(&limit, move || Live::new(&face, query)))
}

impl Query for Conversations {
    fn topics(&self) -> Vec<Topic> {
        vec![Topic::Own(self.reader), Topic::Direct(self.reader)]
    }

    fn concerns(&self, event: &Event, shown: &Shown) -> bool {
        match event {
            Event::Conversation { .. }
            | Event::ConversationsChanged
            | Event::BondsChanged
            | Event::FiltersChanged => true,
            Event::ConversationMuted => true,
            Event::Marked(id) => shown.has_post(*id),
            _ => false,
        }
    }

    fn reader(&self) -> Option<Id> {
        Some(self.reader)
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let Self { reader, limit } = *self;
        in_one_unit(face, move |tx, env, docs| {
            docs.filter_for(tx, env, reader)?;
            let range = Range { limit, ..Range::default() };
            for one in conversations::list(tx, env, reader, range)? {
                let document = ConversationDoc {
                    unread: one.unread,
                    account_ids: one.accounts.iter().map(|account| account.id).collect(),
                    last_status_id: one.last_status_id,
                };
                docs.put("conversations", &one.id.to_string(), &document);
                one.accounts.iter().for_each(|account| docs.account(env, account));
                docs.posts(env, one.last_status.as_slice());
            }
            Ok(())
        })
    }
}
