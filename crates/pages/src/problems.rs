//! What is wrong with a form, beside its fields.

use weir_community::{Error, Invalid, text};

use crate::fault::Fault;

/// The fields that are not acceptable.
#[derive(Debug, Clone, Default)]
pub struct Problems(Invalid);

impl Problems {
    /// The problems of `error`, for the form to be shown again.
    ///
    /// # Errors
    /// The fault of any other error.
    pub fn from_error(error: Error) -> Result<Self, Fault> {
        match error {
            Error::Invalid(invalid) => Ok(Self(invalid)),
            other => Err(other.into()),
        }
    }

    /// One field that is not acceptable.
    pub fn one(field: &'static str, message: &str) -> Self {
        match Error::invalid(field, "ERR_INVALID", message) {
            Error::Invalid(invalid) => Self(invalid),
            _ => Self::default(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.problems.is_empty()
    }

    /// What stands beside `field`, as HTML; nothing when it is fine.
    pub fn beside(&self, field: &str) -> String {
        let found = self.0.problems.iter().find(|problem| problem.field == field);
        let Some(problem) = found else { return String::new() };
        let mut message = problem.message.clone();
        if let Some(first) = message.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let end = if message.ends_with(['.', '!', '?']) { "" } else { "." };
        let message = text::escape(&message);
        format!("<span class=\"wrong\" id=\"{field}-wrong\">{message}{end}</span>")
    }

    /// The attributes by which the input of `field` says that it is wrong.
    pub fn mark(&self, field: &str) -> String {
        if self.beside(field).is_empty() {
            return String::new();
        }
        format!(" aria-invalid=\"true\" aria-describedby=\"{field}-wrong\"")
    }
}
