//! The HT mechanisms (draft-schmaus-kitten-sasl-ht), by which a token of an earlier log-in is
//! proven in one message.

use aws_lc_rs::constant_time;
use weir_community::users::scram::Hash;

use super::{Binding, Failure};

/// By what a token is bound to the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ht {
    /// By keying material of TLS 1.3.
    Exporter,
    /// By the server's certificate.
    Endpoint,
    /// By nothing.
    Unbound,
}

impl Ht {
    /// The binding it goes with.
    pub fn binding(self) -> Option<Binding> {
        match self {
            Self::Exporter => Some(Binding::Exporter),
            Self::Endpoint => Some(Binding::Endpoint),
            Self::Unbound => None,
        }
    }
}

/// Reads the only message: a name, and the proof that goes with it.
///
/// # Errors
/// [`Failure`] when it is not of the form.
pub fn parse(message: &[u8]) -> Result<(String, Vec<u8>), Failure> {
    let wrong = || Failure::malformed("HT takes a name, U+0000 and 32 bytes.");
    let end = message.iter().position(|byte| *byte == 0).ok_or_else(wrong)?;
    let (name, proof) = (&message[..end], &message[end + 1..]);
    let name = std::str::from_utf8(name).map_err(|_| wrong())?;
    if name.is_empty() || proof.len() != Hash::Sha256.bytes() {
        return Err(wrong());
    }
    Ok((name.to_owned(), proof.to_vec()))
}

/// Whether `proof` shows that the client has the token, on a connection with this binding.
pub fn proves(token: &str, binding: &[u8], proof: &[u8]) -> bool {
    let expected = said(token, b"Initiator", binding);
    constant_time::verify_slices_are_equal(&expected, proof).is_ok()
}

/// By what the server shows that it has the token too.
pub fn answer(token: &str, binding: &[u8]) -> Vec<u8> {
    said(token, b"Responder", binding)
}

fn said(token: &str, by: &[u8], binding: &[u8]) -> Vec<u8> {
    Hash::Sha256.hmac(token.as_bytes(), &[by, binding].concat()).as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_good_for_its_token_and_its_connection_only() {
        let proof = said("token", b"Initiator", b"this connection");
        assert!(proves("token", b"this connection", &proof));
        assert!(!proves("token", b"another connection", &proof));
        assert!(!proves("other", b"this connection", &proof));
        assert!(!proves("token", b"this connection", &answer("token", b"this connection")));
    }

    #[test]
    fn a_message_is_a_name_and_a_proof() {
        let message = [&b"alice\0"[..], &[0; 32]].concat();
        assert_eq!(parse(&message).unwrap(), ("alice".to_owned(), vec![0; 32]));
        for wrong in [&b""[..], b"alice", &message[5..], &message[..37]] {
            assert_eq!(parse(wrong).unwrap_err().condition, "malformed-request");
        }
    }
}
