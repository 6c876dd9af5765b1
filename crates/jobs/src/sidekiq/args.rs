//! Payloads as arrays of arguments, and back.
//!
//! A type that serialises to an array (a tuple, a tuple struct) is its list of arguments; any
//! other is one argument. So Ruby's `perform(hash)` gets what a struct with names holds, and
//! `perform(a, b)` what a tuple holds.

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

/// The arguments of a job whose type serialised to `payload`.
pub(crate) fn write(payload: &str) -> String {
    match payload.trim_start().as_bytes().first() {
        Some(b'[') => payload.to_owned(),
        _ if payload == "null" => "[]".to_owned(),
        _ => format!("[{payload}]"),
    }
}

/// The job of the array `args`: from its one argument if that fits, else from the whole array.
pub(crate) fn read<J: DeserializeOwned>(args: &str) -> Result<J, serde_json::Error> {
    let list: Vec<&RawValue> = serde_json::from_str(args)?;
    match list.as_slice() {
        [] => serde_json::from_str("null").or_else(|_| serde_json::from_str(args)),
        [one] => serde_json::from_str(one.get())
            .or_else(|error| serde_json::from_str(args).map_err(|_| error)),
        _ => serde_json::from_str(args),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Named {
        to: String,
        count: i64,
    }
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Tuple(String, i64);
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct One(i64);
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Many(Vec<i64>);
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Unit;

    fn round<J: Serialize + DeserializeOwned + PartialEq + Debug>(job: J, args: &str) {
        let written = write(&serde_json::to_string(&job).unwrap());
        assert_eq!(written, args);
        assert_eq!(read::<J>(&written).unwrap(), job);
    }

    #[test]
    fn jobs_become_arguments_and_arguments_jobs() {
        round(Named { to: "bob".into(), count: 2 }, r#"[{"to":"bob","count":2}]"#);
        round(Tuple("bob".into(), 2), r#"["bob",2]"#);
        round(One(5), "[5]");
        round(Many(vec![5]), "[5]");
        round(Many(vec![]), "[]");
        round(Unit, "[]");
    }

    #[test]
    fn a_struct_with_names_takes_arguments_in_their_order() {
        let job = read::<Named>(r#"["bob", 2]"#).unwrap();
        assert_eq!(job, Named { to: "bob".into(), count: 2 });
        assert!(read::<Named>(r#"["bob"]"#).is_err());
        assert!(read::<Named>("{}").is_err());
    }
}
