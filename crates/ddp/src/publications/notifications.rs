//! `notifications`: the reader's newest notifications, with whom and what they name.

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::Error;
use weir_community::notifications::{self, Page};
use weir_community::streams::{Event, Topic};
use weir_community::timelines::Range;

use super::{limit, person};
use crate::collections::NotificationDoc;
use crate::face::Face;
use crate::face::docs::Docs;
use crate::face::live::{Live, Query, Shown, in_one_unit};
use crate::observer::Work;
use crate::server::Opening;
use crate::typed::typed;
use crate::wire::Failure;

typed! {
    /// How many notifications.
    #[derive(Debug, Clone, Default, Serialize, Deserialize)]
    pub struct NotificationsParams {
        /// 40 unless said, at most 200.
        #[serde(default)]
        pub limit: Option<usize>,
    }
}

#[derive(Debug, Clone, Serialize)]
struct Notifications {
    reader: Id,
    limit: usize,
}

/// `notifications`
pub(crate) fn open(
    face: &Face,
    user: Option<Id>,
    asked: Option<NotificationsParams>,
) -> Result<Opening, Failure> {
    let limit = limit(asked.unwrap_or_default().limit);
    let query = Notifications { reader: person(user)?, limit };
    let face = face.clone();
    Ok(Opening::own(&limit, move || Live::new(&face, query)))
}

impl Query for Notifications {
    fn topics(&self) -> Vec<Topic> {
        vec![Topic::Own(self.reader)]
    }

    fn concerns(&self, event: &Event, shown: &Shown) -> bool {
        match event {
            Event::Notification { .. }
            | Event::NotificationsChanged
            | Event::NotificationsMerged
            | Event::BondsChanged
            | Event::ConversationMuted
            | Event::FiltersChanged => true,
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
            let page = Page { range, ..Page::default() };
            for one in notifications::list(tx, env, reader, &page)? {
                let document = NotificationDoc {
                    kind: one.kind.name(),
                    group_key: one.group_key.clone(),
                    account_id: one.account.id,
                    status_id: one.status.as_ref().map(|view| view.status.id),
                    created_at: one.id.time().into(),
                };
                docs.put("notifications", &one.id.to_string(), &document);
                docs.account(env, &one.account);
                docs.posts(env, one.status.as_deref());
            }
            Ok(())
        })
    }
}
