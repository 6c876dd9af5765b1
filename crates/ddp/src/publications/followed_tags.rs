//! `followed_tags`: the hashtags the reader follows, the newest 200.

use weir_base::Id;
use weir_community::Error;
use weir_community::streams::{Event, Topic};
use weir_community::tags;
use weir_community::timelines::Range;

use super::person;
use crate::collections::TagDoc;
use crate::face::Face;
use crate::face::docs::Docs;
use crate::face::live::{Live, Query, Shown, in_one_unit};
use crate::observer::Work;
use crate::server::Opening;
use crate::wire::Failure;

/// Hashtags shown.
const TAGS_MAX: usize = 200;

struct FollowedTags(Id);

/// `followed_tags`
pub(crate) fn open(face: &Face, user: Option<Id>) -> Result<Opening, Failure> {
    let (face, query) = (face.clone(), FollowedTags(person(user)?));
    Ok(Opening::own(&(), move || Live::new(&face, query)))
}

impl Query for FollowedTags {
    fn topics(&self) -> Vec<Topic> {
        vec![Topic::Own(self.0)]
    }

    fn concerns(&self, event: &Event, _: &Shown) -> bool {
        matches!(event, Event::BondsChanged)
    }

    fn reader(&self) -> Option<Id> {
        Some(self.0)
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let reader = self.0;
        in_one_unit(face, move |tx, _, docs| {
            let range = Range { limit: TAGS_MAX, ..Range::default() };
            for (_, tag) in tags::followed(tx, reader, range)? {
                docs.put("followed_tags", &tag.id.to_string(), &TagDoc { name: tag.name });
            }
            Ok(())
        })
    }
}
