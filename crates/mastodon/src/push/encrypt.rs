//! Message encryption for Web Push: RFC 8291 over RFC 8188 (`aes128gcm`), and the draft before
//! it (`aesgcm`, draft-ietf-webpush-encryption-04) that older apps still expect.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};

/// The record size that is announced (RFC 8188, 2.1); a message is one record.
const RECORD_BYTES: u32 = 4_096;
/// The longest plain text: what push services accept (RFC 8030, 7.2) less the overhead.
pub const PLAINTEXT_BYTES_MAX: usize = 3_800;

/// Why a message could not be encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncryptError {
    /// The device's key is not a point on the curve.
    #[error("the device's key is not a point on P-256; it has to subscribe again")]
    Key,
    /// The text does not fit one record.
    #[error("the message is longer than {PLAINTEXT_BYTES_MAX} bytes")]
    TooLong,
}

/// A device's keys and this message's own: a fresh pair and salt for each message.
pub struct Keys<'k> {
    /// The device's public key, an uncompressed point.
    pub device: &'k [u8],
    /// The device's authentication secret.
    pub auth: &'k [u8],
    /// This message's private key.
    pub own: &'k PrivateKey,
    /// This message's salt.
    pub salt: [u8; 16],
}

/// A message of the draft, whose key and salt go into headers.
pub struct DraftMessage {
    /// The body.
    pub body: Vec<u8>,
    /// This message's public key, for `Crypto-Key: dh=`.
    pub own_public: Vec<u8>,
}

/// Encrypts by RFC 8291; the body carries salt and key (RFC 8188, 2.1).
///
/// # Errors
/// See [`EncryptError`].
pub fn aes128gcm(keys: &Keys<'_>, plaintext: &[u8]) -> Result<Vec<u8>, EncryptError> {
    let (shared, own_public) = agreed(keys, plaintext)?;
    // RFC 8291, 3.4: the device's secret and both keys go into the key material.
    let info = [b"WebPush: info\0", keys.device, &own_public].concat();
    let material = expand(&extract(keys.auth, &shared), &info);
    let secret = extract(&keys.salt, &material);
    let key = expand(&secret, b"Content-Encoding: aes128gcm\0");
    let nonce = expand(&secret, b"Content-Encoding: nonce\0");
    let mut record = plaintext.to_vec();
    // RFC 8188, 2: the delimiter of the last record.
    record.push(2);
    seal(&key, &nonce, &mut record)?;
    let mut body = keys.salt.to_vec();
    body.extend_from_slice(&RECORD_BYTES.to_be_bytes());
    body.push(u8::try_from(own_public.len()).map_err(|_| EncryptError::Key)?);
    body.extend_from_slice(&own_public);
    body.append(&mut record);
    Ok(body)
}

/// Encrypts by the draft.
///
/// # Errors
/// See [`EncryptError`].
pub fn aesgcm(keys: &Keys<'_>, plaintext: &[u8]) -> Result<DraftMessage, EncryptError> {
    let (shared, own_public) = agreed(keys, plaintext)?;
    let material = expand(&extract(keys.auth, &shared), b"Content-Encoding: auth\0");
    let secret = extract(&keys.salt, &material);
    let length = |key: &[u8]| u16::try_from(key.len()).unwrap_or_default().to_be_bytes();
    let context = [
        b"P-256\0".as_slice(),
        &length(keys.device),
        keys.device,
        &length(&own_public),
        &own_public,
    ]
    .concat();
    let key = expand(&secret, &[b"Content-Encoding: aesgcm\0", context.as_slice()].concat());
    let nonce = expand(&secret, &[b"Content-Encoding: nonce\0", context.as_slice()].concat());
    // Two bytes that say how much padding follows: none.
    let mut body = [&[0, 0], plaintext].concat();
    seal(&key, &nonce, &mut body)?;
    Ok(DraftMessage { body, own_public })
}

/// The secret shared with the device, and this message's public key.
fn agreed(keys: &Keys<'_>, plaintext: &[u8]) -> Result<(Vec<u8>, Vec<u8>), EncryptError> {
    if plaintext.len() > PLAINTEXT_BYTES_MAX {
        return Err(EncryptError::TooLong);
    }
    let own_public = keys.own.compute_public_key().map_err(|_| EncryptError::Key)?;
    let device = UnparsedPublicKey::new(&ECDH_P256, keys.device);
    let shared = agree(keys.own, device, EncryptError::Key, |secret| Ok(secret.to_vec()))?;
    Ok((shared, own_public.as_ref().to_vec()))
}

/// HKDF's first step (RFC 5869, 2.2).
fn extract(salt: &[u8], material: &[u8]) -> Vec<u8> {
    sign(&Key::new(HMAC_SHA256, salt), material).as_ref().to_vec()
}

/// HKDF's second step (RFC 5869, 2.3) for up to 32 bytes.
fn expand(secret: &[u8], info: &[u8]) -> Vec<u8> {
    sign(&Key::new(HMAC_SHA256, secret), &[info, &[1]].concat()).as_ref().to_vec()
}

fn seal(key: &[u8], nonce: &[u8], record: &mut Vec<u8>) -> Result<(), EncryptError> {
    let key = UnboundKey::new(&AES_128_GCM, &key[..16]).map_err(|_| EncryptError::Key)?;
    let nonce = Nonce::try_assume_unique_for_key(&nonce[..12]).map_err(|_| EncryptError::Key)?;
    LessSafeKey::new(key)
        .seal_in_place_append_tag(nonce, Aad::empty(), record)
        .map_err(|_| EncryptError::TooLong)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD as B64;

    use super::*;

    #[test]
    fn the_example_of_rfc_8291_appendix_a_comes_out() {
        let device = B64
            .decode(concat!(
                "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIA",
                "iw4"
            ))
            .unwrap();
        let auth = B64.decode("BTBZMqHH6r4Tts7J_aSIgg").unwrap();
        let own = B64.decode("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw").unwrap();
        let own = PrivateKey::from_private_key(&ECDH_P256, &own).unwrap();
        let salt = B64.decode("DGv6ra1nlYgDCS1FRnbzlw").unwrap().try_into().unwrap();
        let keys = Keys { device: &device, auth: &auth, own: &own, salt };
        let body = aes128gcm(&keys, b"When I grow up, I want to be a watermelon").unwrap();
        let expected = concat!(
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml",
            "mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT",
            "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
        );
        assert_eq!(B64.encode(body), expected);
    }

    #[test]
    fn a_key_that_is_no_point_and_a_long_text_are_refused() {
        let own = PrivateKey::generate(&ECDH_P256).unwrap();
        let keys = Keys { device: &[4; 65], auth: &[0; 16], own: &own, salt: [0; 16] };
        assert_eq!(aes128gcm(&keys, b"text").unwrap_err(), EncryptError::Key);
        let long = vec![0; PLAINTEXT_BYTES_MAX + 1];
        assert_eq!(aesgcm(&keys, &long).err(), Some(EncryptError::TooLong));
    }
}
