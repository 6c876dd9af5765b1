//! `markers`: how far the reader has read.

use weir_base::Id;
use weir_community::Error;
use weir_community::markers;
use weir_community::streams::{Event, Topic};

use super::person;
use crate::collections::MarkerDoc;
use crate::face::Face;
use crate::face::docs::Docs;
use crate::face::live::{Live, Query, Shown, in_one_unit};
use crate::observer::Work;
use crate::server::Opening;
use crate::wire::Failure;

struct Markers(Id);

/// `markers`
pub(crate) fn open(face: &Face, user: Option<Id>) -> Result<Opening, Failure> {
    let (face, query) = (face.clone(), Markers(person(user)?));
    Ok(Opening::own(&(), move || Live::new(&face, query)))
}

impl Query for Markers {
    fn topics(&self) -> Vec<Topic> {
        vec![Topic::Own(self.0)]
    }

    fn concerns(&self, event: &Event, _: &Shown) -> bool {
        matches!(event, Event::MarkersChanged)
    }

    fn reader(&self) -> Option<Id> {
        Some(self.0)
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let reader = self.0;
        in_one_unit(face, move |tx, _, docs| {
            for marker in markers::get(tx, reader, &markers::TIMELINES)? {
                let document = MarkerDoc {
                    last_read_id: marker.last_read_id,
                    version: marker.version,
                    updated_at: marker.updated_at.into(),
                };
                docs.put("markers", &marker.timeline, &document);
            }
            Ok(())
        })
    }
}
