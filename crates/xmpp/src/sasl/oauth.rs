//! OAUTHBEARER (RFC 7628): an app's token.

use weir_base::Secret;

use super::Failure;
use super::scram::gs2_name;

/// A token, and whom its app says to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearer {
    /// Whom to act as; empty: whose token it is.
    pub authzid: String,
    /// The token.
    pub token: Secret<String>,
}

/// Reads the first message; nothing where it asks only what is needed (RFC 7628, 4.3).
///
/// # Errors
/// [`Failure`] when it is not of the form.
pub fn parse(message: &[u8]) -> Result<Option<Bearer>, Failure> {
    let wrong = || Failure::malformed("OAUTHBEARER begins with n,a=USER,^Aauth=Bearer TOKEN^A^A.");
    let text = std::str::from_utf8(message).map_err(|_| wrong())?;
    let (header, pairs) = text.split_once('\u{1}').ok_or_else(wrong)?;
    let mut parts = header.splitn(3, ',');
    let (flag, name) = (parts.next(), parts.next().unwrap_or_default());
    // There is no channel binding in OAUTHBEARER itself.
    if !matches!(flag, Some("n" | "y")) || !parts.next().unwrap_or_default().is_empty() {
        return Err(wrong());
    }
    let authzid = match name.strip_prefix("a=") {
        Some(name) => gs2_name(name).ok_or_else(wrong)?,
        None if name.is_empty() => String::new(),
        None => return Err(wrong()),
    };
    let pairs = pairs.strip_suffix('\u{1}').ok_or_else(wrong)?;
    let auth = pairs.split('\u{1}').find_map(|pair| pair.strip_prefix("auth="));
    let Some(auth) = auth.filter(|auth| !auth.is_empty()) else { return Ok(None) };
    let (scheme, token) = auth.split_once(' ').ok_or_else(wrong)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(wrong());
    }
    Ok(Some(Bearer { authzid, token: Secret::new(token.trim().to_owned()) }))
}

/// What is sent before the failure (RFC 7628, 3.2.2); the client answers with one byte.
pub fn refusal(is_known: bool, scopes: &str, configuration: &str) -> Vec<u8> {
    let status = if is_known { "insufficient_scope" } else { "invalid_token" };
    let told = serde_json::json!({
        "status": status, "scope": scopes, "openid-configuration": configuration,
    });
    told.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_with_its_owner() {
        let message = b"n,a=alice@weir.test,\x01host=weir.test\x01port=5222\x01\
            auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01\x01";
        let read = parse(message).unwrap().unwrap();
        assert_eq!(read.authzid, "alice@weir.test");
        assert_eq!(read.token.expose(), "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==");
    }

    #[test]
    fn an_empty_token_asks_what_is_needed() {
        assert_eq!(parse(b"n,,\x01auth=\x01\x01").unwrap(), None);
        assert_eq!(parse(b"n,,\x01\x01").unwrap(), None);
    }

    #[test]
    fn anything_else_is_refused() {
        let messages = [
            &b""[..],
            b"n,,",
            b"p=tls-exporter,,\x01auth=Bearer x\x01\x01",
            b"n,alice,\x01auth=Bearer x\x01\x01",
            b"n,a=x=2,\x01auth=Bearer x\x01\x01",
            b"n,,\x01auth=Basic x\x01\x01",
            b"n,,\x01auth=Bearer x",
        ];
        for message in messages {
            assert_eq!(parse(message).unwrap_err().condition, "malformed-request");
        }
    }
}
