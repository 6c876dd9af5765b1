use proptest::prelude::*;
use weir_community::users::scram::{Hash, ScramKeys};

use super::*;
use crate::sasl::Bindings;

fn unbound() -> Offer {
    offer(Bindings::default())
}

fn offer(bindings: Bindings) -> Offer {
    Offer { is_private: true, bindings }
}

fn bound() -> Offer {
    offer(Bindings::default().with(Binding::Exporter, &[7; 32]))
}

/// A client of the specification.
struct Client<'p> {
    hash: Hash,
    password: &'p str,
    header: &'static str,
    data: &'static [u8],
}

impl Client<'_> {
    const BARE: &'static str = "n=alice,r=clientnonce";

    fn first(&self) -> Vec<u8> {
        format!("{}{}", self.header, Self::BARE).into_bytes()
    }

    /// Its proof, and the signature it expects.
    fn last(&self, challenge: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let challenge = std::str::from_utf8(challenge).unwrap();
        let field = |name: &str| {
            challenge.split(',').find_map(|part| part.strip_prefix(name)).unwrap().to_owned()
        };
        let salt = BASE64_STANDARD.decode(field("s=")).unwrap();
        let salted = self.hash.salted(self.password, &salt, field("i=").parse().unwrap());
        let bound = BASE64_STANDARD.encode([self.header.as_bytes(), self.data].concat());
        let without_proof = format!("c={bound},r={}", field("r="));
        let said = format!("{},{challenge},{without_proof}", Self::BARE);
        let client = self.hash.hmac(&salted, b"Client Key");
        let stored = self.hash.digest(client.as_ref());
        let signature = self.hash.hmac(stored.as_ref(), said.as_bytes());
        let proof: Vec<u8> =
            client.as_ref().iter().zip(signature.as_ref()).map(|(one, two)| one ^ two).collect();
        let server = self.hash.hmac(&salted, b"Server Key");
        let expected = self.hash.hmac(server.as_ref(), said.as_bytes());
        (
            format!("{without_proof},p={}", BASE64_STANDARD.encode(proof)).into_bytes(),
            format!("v={}", BASE64_STANDARD.encode(expected)).into_bytes(),
        )
    }

    fn log_in(&self, plus: bool, offer: &Offer) -> Result<bool, Failure> {
        let keys = ScramKeys::derive("pencil", [3; 16]);
        let first = ClientFirst::parse(self.hash, plus, offer, &self.first())?;
        assert_eq!(first.name, "alice");
        let (challenge, waiting) = first.challenge(keys, "servernonce", offer);
        let (last, expected) = self.last(&challenge);
        Ok(waiting.finish(&last)? == expected)
    }
}

fn client(hash: Hash) -> Client<'static> {
    Client { hash, password: "pencil", header: "n,,", data: b"" }
}

/// RFC 5802, 5: its exchange, byte for byte, but for our hash of what was offered, without which
/// the proof is another one. So the keys' own tests hold the vectors, and this the conversation.
#[test]
fn the_right_password_is_proven_by_every_hash() {
    for hash in Hash::ALL {
        assert_eq!(client(hash).log_in(false, &unbound()), Ok(true));
    }
}

#[test]
fn a_wrong_password_proves_nothing() {
    let wrong = Client { password: "pencils", ..client(Hash::Sha256) };
    assert_eq!(wrong.log_in(false, &unbound()), Err(Failure::wrong()));
}

#[test]
fn a_log_in_is_bound_to_its_connection() {
    let here = Client { header: "p=tls-exporter,,", data: &[7; 32], ..client(Hash::Sha1) };
    assert_eq!(here.log_in(true, &bound()), Ok(true));
    let elsewhere = Client { data: &[8; 32], ..here };
    assert_eq!(elsewhere.log_in(true, &bound()), Err(Failure::wrong()));
}

#[test]
fn a_client_from_which_bindings_were_hidden_is_refused() {
    let deceived = Client { header: "y,,", ..client(Hash::Sha1) };
    assert_eq!(deceived.log_in(false, &bound()), Err(Failure::wrong()));
    assert_eq!(deceived.log_in(false, &unbound()), Ok(true));
}

#[test]
fn bindings_and_mechanisms_go_together() {
    let with = Client { header: "p=tls-exporter,,", data: &[7; 32], ..client(Hash::Sha1) };
    assert_eq!(with.log_in(false, &bound()).unwrap_err().condition, "malformed-request");
    assert_eq!(
        client(Hash::Sha1).log_in(true, &bound()).unwrap_err().condition,
        "malformed-request"
    );
    let unknown = Client { header: "p=tls-unique,,", ..with };
    assert_eq!(unknown.log_in(true, &bound()).unwrap_err().condition, "malformed-request");
}

#[test]
fn the_challenge_tells_what_was_offered() {
    let first = client(Hash::Sha256).first();
    let first = ClientFirst::parse(Hash::Sha256, false, &bound(), &first).unwrap();
    let keys = ScramKeys::derive("pencil", [3; 16]);
    let (challenge, _) = first.challenge(keys, "server", &bound());
    let hash = BASE64_STANDARD.encode(Hash::Sha256.digest(bound().protected().as_bytes()));
    assert!(String::from_utf8(challenge).unwrap().ends_with(&format!(",h={hash}")));
}

#[test]
fn another_nonce_than_the_challenges_is_refused() {
    let keys = ScramKeys::derive("pencil", [3; 16]);
    let offer = unbound();
    let challenge = |nonce: &str| {
        let first = client(Hash::Sha1).first();
        let first = ClientFirst::parse(Hash::Sha1, false, &offer, &first).unwrap();
        first.challenge(keys.clone(), nonce, &offer)
    };
    let (replayed, _) = challenge("one");
    let (_, waiting) = challenge("two");
    let (last, _) = client(Hash::Sha1).last(&replayed);
    assert_eq!(waiting.finish(&last), Err(Failure::wrong()));
}

#[test]
fn names_with_commas_and_equals_signs_are_read() {
    assert_eq!(gs2_name("a=2Cb=3Dc").as_deref(), Some("a,b=c"));
    for wrong in ["a=", "a=2", "a=2c", "a=20b", "a\0"] {
        assert_eq!(gs2_name(wrong), None);
    }
}

#[test]
fn messages_of_another_form_are_refused() {
    let offer = unbound();
    for wrong in [
        "",
        "n",
        "n,",
        "n,,",
        "n,,n=,r=x",
        "n,,n=alice",
        "n,,n=alice,r=",
        "n,,m=x,n=alice,r=x",
        "x,,n=alice,r=x",
        "n,b=x,n=alice,r=x",
        "n,,n=al=ice,r=x",
        "n,,n=alice,r=a b",
    ] {
        let read = ClientFirst::parse(Hash::Sha1, false, &offer, wrong.as_bytes());
        assert_eq!(read.unwrap_err().condition, "malformed-request", "{wrong}");
    }
}

proptest! {
    #[test]
    fn nothing_a_client_sends_makes_it_panic(first: Vec<u8>, last: Vec<u8>, text in "[nyp=,a-r]*") {
        let offer = bound();
        let _ = ClientFirst::parse(Hash::Sha1, true, &offer, &first);
        let _ = ClientFirst::parse(Hash::Sha1, false, &offer, text.as_bytes());
        let good = ClientFirst::parse(Hash::Sha1, false, &offer, b"n,,n=alice,r=x").unwrap();
        let folder = ScramKeys::derive("x", [0; 16]);
        let (_, waiting) = good.challenge(folder, "nonce", &offer);
        prop_assert!(waiting.finish(&last).is_err());
        prop_assert!(waiting.finish(text.as_bytes()).is_err());
        let _ = super::super::parse_plain(&first);
        let _ = super::super::parse_oauth(&first);
        let _ = super::super::parse_ht(&first);
        let _ = super::super::endpoint(&first);
    }
}
