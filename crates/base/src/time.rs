//! Moments, in milliseconds since 1970.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A moment: milliseconds since 1970-01-01T00:00:00Z. As text it is RFC 3339 with milliseconds.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since 1970.
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970.
    pub const fn as_ms(self) -> i64 {
        self.0
    }

    /// This moment moved by `ms` milliseconds, without overflow.
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this moment; negative when `earlier` is later.
    pub const fn since_ms(self, earlier: Timestamp) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The date alone in UTC: `2024-05-01`.
    pub fn date(self) -> String {
        self.jiff().strftime("%Y-%m-%d").to_string()
    }

    /// The form of HTTP's `Date` header (RFC 9110, 5.6.7): `Wed, 01 May 2024 10:00:00 GMT`.
    pub fn http_date(self) -> String {
        self.jiff().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
    }

    /// Reads HTTP's `Date` form (RFC 9110, 5.6.7) and what mail writes (RFC 2822).
    pub fn parse_http_date(text: &str) -> Result<Self, ParseTimeError> {
        let zoned = jiff::fmt::rfc2822::DateTimeParser::new()
            .relaxed_weekday(true)
            .parse_timestamp(text)
            .map_err(|_| ParseTimeError)?;
        Ok(Self(zoned.as_millisecond()))
    }

    fn jiff(self) -> jiff::Timestamp {
        let limit = jiff::Timestamp::MAX.as_millisecond();
        jiff::Timestamp::from_millisecond(self.0.clamp(-limit / 2, limit)).unwrap_or_default()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.jiff())
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not a moment in RFC 3339 (or, where asked for, RFC 9110) form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a time: write it as 2024-05-01T10:00:00Z")]
pub struct ParseTimeError;

impl FromStr for Timestamp {
    type Err = ParseTimeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let at: jiff::Timestamp = text.trim().parse().map_err(|_| ParseTimeError)?;
        Ok(Self(at.as_millisecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_and_write_the_forms_of_the_field() {
        let at = Timestamp::from_ms(1_714_557_600_120);
        assert_eq!(at.to_string(), "2024-05-01T10:00:00.120Z");
        assert_eq!("2024-05-01T12:00:00.12+02:00".parse(), Ok(at));
        assert_eq!(at.http_date(), "Wed, 01 May 2024 10:00:00 GMT");
        assert_eq!(
            Timestamp::parse_http_date("Wed, 01 May 2024 10:00:00 GMT"),
            Ok(Timestamp::from_ms(1_714_557_600_000))
        );
        assert!("yesterday".parse::<Timestamp>().is_err());
    }
}
