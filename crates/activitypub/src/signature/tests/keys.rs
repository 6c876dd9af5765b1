use crate::signature::key::{KeyError, PrivateKey, PublicKey};
use crate::signature::tests::keys;
use crate::signature::tests::vectors::{RFC_ED25519_PRIVATE, RFC_ED25519_PUBLIC, RFC_RSA_PUBLIC};

#[test]
fn keys_come_back_from_their_text() {
    for key in keys() {
        let public = key.public().unwrap();
        let again = PrivateKey::from_pem(key.to_pem().unwrap().expose()).unwrap();
        assert_eq!(again.public().unwrap(), public);
        assert_eq!(PublicKey::from_pem(&public.to_pem()).unwrap(), public);
        assert!(public.to_pem().lines().all(|line| line.len() <= 64));
    }
}

#[test]
fn a_private_key_does_not_print() {
    assert_eq!(format!("{:?}", keys()[0]), "PrivateKey(***)");
    assert_eq!(format!("{:?}", keys()[0].to_pem().unwrap()), "***");
}

#[test]
fn an_old_form_of_rsa_key_is_the_same_key() {
    let old = PublicKey::from_pem(RFC_RSA_PUBLIC).unwrap();
    assert!(old.to_pem().starts_with("-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOC"));
    assert_eq!(PublicKey::from_pem(&old.to_pem()).unwrap(), old);
}

#[test]
fn an_ed25519_key_has_a_multibase_form() {
    let public = keys()[1].public().unwrap();
    let text = public.to_multibase().unwrap();
    assert!(text.starts_with("z6Mk"), "{text}");
    assert_eq!(PublicKey::from_multibase(&text).unwrap(), public);
    assert_eq!(keys()[0].public().unwrap().to_multibase(), None);
    for bad in ["", "z", "z6Mk", "6Mkfoo", "z11111111111111111111111111111111111111111111111"] {
        assert_eq!(PublicKey::from_multibase(bad), Err(KeyError::Multibase), "{bad}");
    }
}

#[test]
fn published_keys_belong_together() {
    let private = PrivateKey::from_pem(RFC_ED25519_PRIVATE).unwrap();
    assert_eq!(private.public().unwrap(), PublicKey::from_pem(RFC_ED25519_PUBLIC).unwrap());
}

#[test]
fn texts_that_are_no_keys_are_refused() {
    let short = "-----BEGIN PUBLIC KEY-----\n\
        MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDCFENGw33yGihy92pDjZQhl0C3\n\
        6rPJj+CvfSC8+q28hxA161QFNUd13wuCTUcq0Qd2qsBe/2hFyc2DCJJg0h1L78+6\n\
        Z4UMR7EOcpfdUE9Hf3m/hs+FUR45uBJeDK1HSFHD8bHKD6kv8FPGfJTotc+2xjJw\n\
        oYi+1hqp1fIekaxsyQIDAQAB\n-----END PUBLIC KEY-----";
    assert_eq!(PublicKey::from_pem(short), Err(KeyError::Kind));
    let long = format!("-----BEGIN PUBLIC KEY-----\n{}", "A".repeat(20_000));
    for bad in ["", "hello", "-----BEGIN PUBLIC KEY-----", long.as_str()] {
        assert_eq!(PublicKey::from_pem(bad), Err(KeyError::Pem));
    }
    for bad in ["", "AAAA", "MCowBQYDK2VwAyEA"] {
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{bad}\n-----END PUBLIC KEY-----");
        assert_eq!(PublicKey::from_pem(&pem), Err(KeyError::Kind), "{bad}");
    }
    assert!(PrivateKey::from_pem(RFC_ED25519_PUBLIC).is_err());
}
