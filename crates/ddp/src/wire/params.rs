//! The parameters of a `sub` or a `method`, kept as text.

use serde_json::Value;

/// Parameters as they came, without blanks. Parsed they may take a hundred times as much room, so
/// that is done when they are worked with, and not before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params(Box<str>);

impl Params {
    /// These values.
    pub fn of(values: &[Value]) -> Self {
        // Values are always JSON; none at all take no room.
        let text = (!values.is_empty()).then(|| serde_json::to_string(values).unwrap_or_default());
        Self(text.unwrap_or_default().into())
    }

    /// The values, in order.
    pub fn values(&self) -> Vec<Value> {
        // The text was written by `of`.
        serde_json::from_str(&self.0).unwrap_or_default()
    }

    /// How much room they take.
    pub fn size_bytes(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_what_they_were_and_take_no_more_room_than_they_had() {
        let values = vec![json!({ "a": [1, -2.5, null, "ü\n\""] }), json!([[], {}])];
        let params = Params::of(&values);
        assert_eq!(params.values(), values);
        assert_eq!(params.size_bytes(), Value::Array(values).to_string().len());
        assert_eq!(Params::of(&[]).values(), Vec::<Value>::new());
        let many = vec![json!({ "": 0 }); 5_000];
        assert!(Params::of(&many).size_bytes() < 40_000);
    }
}
