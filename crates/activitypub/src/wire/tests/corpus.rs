//! The kept corpus of hostile activities: each gives an activity or an error, and none panics.

use std::path::Path;

use crate::wire::{parse_activity, parse_object};

#[test]
fn hostile_activities_of_the_corpus_are_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/activity");
    let mut refused = 0;
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        count += 1;
        let (activity, object) = (parse_activity(&bytes), parse_object(&bytes));
        refused += usize::from(activity.is_err() && object.is_err());
    }
    assert!(count >= 20, "only {count} files of the corpus were found");
    assert!(refused >= 10, "only {refused} of {count} were refused");
}
