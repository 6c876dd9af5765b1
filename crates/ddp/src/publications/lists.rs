//! `lists`: the lists of the reader.

use weir_base::Id;
use weir_community::Error;
use weir_community::lists;
use weir_community::streams::{Event, Topic};

use super::person;
use crate::collections::ListDoc;
use crate::face::Face;
use crate::face::docs::Docs;
use crate::face::live::{Live, Query, Shown, in_one_unit};
use crate::observer::Work;
use crate::server::Opening;
use crate::wire::Failure;

struct Lists(Id);

/// `lists`
pub(crate) fn open(face: &Face, user: Option<Id>) -> Result<Opening, Failure> {
    let (face, query) = (face.clone(), Lists(person(user)?));
    Ok(Opening::own(&(), move || Live::new(&face, query)))
}

impl Query for Lists {
    fn topics(&self) -> Vec<Topic> {
        vec![Topic::Own(self.0)]
    }

    fn concerns(&self, event: &Event, _: &Shown) -> bool {
        matches!(event, Event::ListsChanged)
    }

    fn reader(&self) -> Option<Id> {
        Some(self.0)
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let reader = self.0;
        in_one_unit(face, move |tx, _, docs| {
            for list in lists::all(tx, reader)? {
                let id = list.id.to_string();
                let document = ListDoc {
                    title: list.title,
                    replies_policy: list.replies_policy,
                    exclusive: list.exclusive,
                };
                docs.put("lists", &id, &document);
            }
            Ok(())
        })
    }
}
