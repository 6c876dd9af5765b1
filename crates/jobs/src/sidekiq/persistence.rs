//! What Redis's configuration keeps over a crash of Redis. Pure.

/// What is lost, in a sentence for the log; none when each write is synced before its answer.
pub(crate) fn lost(
    appendonly: Option<&str>,
    appendfsync: Option<&str>,
    save: Option<&str>,
) -> Option<String> {
    let what = match (appendonly, appendfsync) {
        (None, _) => {
            return Some(
                "Redis does not tell what it keeps: if it does not sync each write (appendonly \
                 yes, appendfsync always), a crash of Redis loses jobs that were handed over"
                    .into(),
            );
        }
        (Some("yes"), Some("always")) => return None,
        (Some("yes"), Some("no")) => {
            "what the system has not written yet, often 30 seconds (appendfsync no)".to_owned()
        }
        (Some("yes"), _) => "up to about two seconds (appendfsync everysec)".to_owned(),
        _ => match save.unwrap_or("") {
            "" => "all jobs in it: it writes nothing to disk (appendonly no, no save)".to_owned(),
            save => format!("what came since its last snapshot (appendonly no, save \"{save}\")"),
        },
    };
    Some(format!(
        "a crash of Redis loses {what}; with appendonly yes and appendfsync always it loses \
         nothing. Jobs that were not handed over yet are safe in the database"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_told_for_what_it_is() {
        assert_eq!(lost(Some("yes"), Some("always"), Some("")), None);
        for (appendonly, fsync, save, word) in [
            (Some("yes"), Some("everysec"), Some(""), "two seconds"),
            (Some("yes"), Some("no"), Some(""), "30 seconds"),
            (Some("no"), Some("everysec"), Some("3600 1"), "snapshot (appendonly no, save \"36"),
            (Some("no"), Some("always"), Some(""), "all jobs"),
            (None, None, None, "does not tell"),
        ] {
            let said = lost(appendonly, fsync, save).unwrap();
            assert!(said.contains(word), "{said}");
        }
    }
}
