//! `filters`: the reader's filters, the words they look for and the posts they name.

use weir_base::Id;
use weir_community::Error;
use weir_community::filters::{self, Filter, Keyword, StatusEntry};
use weir_community::streams::{Event, Topic};
use weir_db::Tx;

use super::person;
use crate::collections::{FilterKeywordDoc, FilterStatusDoc};
use crate::face::Face;
use crate::face::docs::{Docs, filter};
use crate::face::live::{Live, Query, Shown, in_one_unit};
use crate::joined::Level;
use crate::observer::Work;
use crate::server::Opening;
use crate::wire::Failure;

struct Filters(Id);

/// `filters`
pub(crate) fn open(face: &Face, user: Option<Id>) -> Result<Opening, Failure> {
    let (face, query) = (face.clone(), Filters(person(user)?));
    Ok(Opening::own(&(), move || Live::new(&face, query)))
}

impl Query for Filters {
    fn topics(&self) -> Vec<Topic> {
        vec![Topic::Own(self.0)]
    }

    fn concerns(&self, event: &Event, _: &Shown) -> bool {
        matches!(event, Event::FiltersChanged)
    }

    fn reader(&self) -> Option<Id> {
        Some(self.0)
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let reader = self.0;
        in_one_unit(face, move |tx, _, docs| {
            let find = move |tx: &mut Tx<'_>, _: &[()]| filters::all(tx, reader);
            let words = |_: &mut Tx<'_>, parents: &[Filter]| {
                Ok(parents.iter().flat_map(|one| one.keywords.clone()).collect())
            };
            let word = |one: &Keyword| {
                let (filter_id, keyword) = (one.filter_id, one.keyword.clone());
                let whole_word = one.whole_word;
                (one.id.to_string(), FilterKeywordDoc { filter_id, keyword, whole_word })
            };
            let posts = |_: &mut Tx<'_>, parents: &[Filter]| {
                Ok(parents.iter().flat_map(|one| one.statuses.clone()).collect())
            };
            let post = |one: &StatusEntry| {
                let (filter_id, status_id) = (one.filter_id, one.status_id);
                (one.id.to_string(), FilterStatusDoc { filter_id, status_id })
            };
            let show = |one: &Filter| (one.id.to_string(), filter(one));
            let tree = Level::new("filters", find, show)
                .with(Level::new("filter_keywords", words, word))
                .with(Level::new("filter_statuses", posts, post));
            docs.join(tx, &tree)
        })
    }
}
