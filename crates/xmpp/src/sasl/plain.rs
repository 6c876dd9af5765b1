//! PLAIN (RFC 4616).

use weir_base::Secret;

use super::Failure;

/// Who says to be who, by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain {
    /// Whom to act as; empty: whose password it is.
    pub authzid: String,
    /// Whose password it is.
    pub name: String,
    /// The password.
    pub password: Secret<String>,
}

/// Reads the only message.
///
/// # Errors
/// [`Failure`] when it is not of the form.
pub fn parse(message: &[u8]) -> Result<Plain, Failure> {
    let wrong = || Failure::malformed("PLAIN takes three texts with U+0000 between them.");
    let text = std::str::from_utf8(message).map_err(|_| wrong())?;
    let mut parts = text.split('\0');
    let (Some(authzid), Some(name), Some(password), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    if name.is_empty() || password.is_empty() {
        return Err(wrong());
    }
    let (authzid, name) = (authzid.to_owned(), name.to_owned());
    Ok(Plain { authzid, name, password: Secret::new(password.to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_parts_are_told_apart() {
        let read = parse(b"Ursel\0Kurt\0xipj3plmq").unwrap();
        assert_eq!((read.authzid.as_str(), read.name.as_str()), ("Ursel", "Kurt"));
        assert_eq!(read.password.expose(), "xipj3plmq");
    }

    #[test]
    fn anything_else_is_refused() {
        for message in [&b""[..], b"alice", b"\0alice\0", b"\0\0pw", b"\0alice\0pw\0", b"\0a\0\xff"]
        {
            assert_eq!(parse(message).unwrap_err().condition, "malformed-request");
        }
    }
}
