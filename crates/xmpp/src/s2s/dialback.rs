//! Keys of dialback (XEP-0220), made as XEP-0185 says: nothing is kept, whoever is asked whether a
//! key is ours makes it again.

use aws_lc_rs::{constant_time, digest, hmac};
use weir_base::Random;

/// Makes and knows our keys.
pub(crate) struct Keys(hmac::Key);

impl Keys {
    /// Keys of this run of the server.
    pub(crate) fn new(random: &Random) -> Self {
        let mut secret = [0; 32];
        random.fill(&mut secret);
        let digest = hex(digest::digest(&digest::SHA256, &secret).as_ref());
        Self(hmac::Key::new(hmac::HMAC_SHA256, digest.as_bytes()))
    }

    /// The key by which `from`, who is here, shows `to` that the stream `id` is theirs.
    pub(crate) fn make(&self, to: &str, from: &str, id: &str) -> String {
        hex(hmac::sign(&self.0, format!("{to} {from} {id}").as_bytes()).as_ref())
    }

    /// Whether `key` is of us.
    pub(crate) fn knows(&self, to: &str, from: &str, id: &str, key: &str) -> bool {
        let made = self.make(to, from, id);
        constant_time::verify_slices_are_equal(made.as_bytes(), key.as_bytes()).is_ok()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_good_for_its_stream_only() {
        let keys = Keys::new(&Random::seeded(1));
        let key = keys.make("there.test", "here.test", "D60000229F");
        assert!(keys.knows("there.test", "here.test", "D60000229F", &key));
        assert!(!keys.knows("there.test", "here.test", "D60000229E", &key));
        assert!(!keys.knows("here.test", "there.test", "D60000229F", &key));
        assert!(!Keys::new(&Random::seeded(2)).knows(
            "there.test",
            "here.test",
            "D60000229F",
            &key
        ));
    }

    /// XEP-0185, 3.
    #[test]
    fn a_key_is_made_as_specified() {
        let secret = hex(digest::digest(&digest::SHA256, b"s3cr3tf0rd14lb4ck").as_ref());
        let keys = Keys(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()));
        assert_eq!(
            keys.make("xmpp.example.com", "example.org", "D60000229F"),
            "37c69b1cf07a3f67c04a5ef5902fa5114f2c76fe4a2686482ba5b89323075643"
        );
    }
}
