//! What may stand in an answer more than once: most of a list of posts and notifications are the
//! accounts of a few people, and many notifications are about few posts.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// Shared by all places of an answer where it stands, and written once for them. It cannot be
/// flattened into what it stands in.
#[derive(Debug)]
pub struct Shared<T>(Arc<Written<T>>);

#[derive(Debug)]
struct Written<T> {
    what: T,
    /// As JSON, once it was written; none inside when that failed.
    json: OnceLock<Option<Box<RawValue>>>,
}

impl<T> Shared<T> {
    /// Has `what` shared.
    pub fn new(what: T) -> Self {
        Self(Arc::new(Written { what, json: OnceLock::new() }))
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.what
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Written { what, json } = &*self.0;
        // What stands nowhere else is not worth a copy.
        if Arc::strong_count(&self.0) == 1 {
            return what.serialize(serializer);
        }
        match json.get_or_init(|| to_raw_value(what).ok()) {
            Some(json) => json.serialize(serializer),
            None => what.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Serialize)]
    struct Place {
        by: Shared<Vec<&'static str>>,
        #[serde(flatten)]
        more: Option<Vec<(&'static str, i64)>>,
    }

    #[test]
    fn it_reads_the_same_however_often_it_stands_there() {
        let name = Shared::new(vec!["<a>", "\"b\""]);
        let one = serde_json::to_string(&Place { by: name.clone(), more: None }).unwrap();
        assert_eq!(one, r#"{"by":["<a>","\"b\""]}"#);
        assert!(name.0.json.get().is_some(), "it stands elsewhere too");
        let two: Vec<Place> = (0..2).map(|_| Place { by: name.clone(), more: None }).collect();
        assert_eq!(serde_json::to_string(&two).unwrap(), format!("[{one},{one}]"));
        assert_eq!(serde_json::to_value(&two).unwrap()[1]["by"][0], "<a>");
    }

    #[test]
    fn what_stands_once_is_not_written_twice() {
        let alone = Shared::new("a");
        assert_eq!(serde_json::to_string(&alone).unwrap(), "\"a\"");
        assert!(alone.0.json.get().is_none());
    }
}
