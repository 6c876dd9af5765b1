//! Keys: made, written, read. RSA of 2048 bits and more, and Ed25519.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{self, KeySize};
use aws_lc_rs::signature::{
    ED25519, Ed25519KeyPair, KeyPair, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA512, RSA_PKCS1_SHA256, RSA_PSS_2048_8192_SHA512, RsaKeyPair,
    RsaParameters, UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, general_purpose::STANDARD};
use weir_base::Secret;

use super::{Algorithm, base58};

/// The longest PEM text that is read, in bytes.
const PEM_BYTES_MAX: usize = 16 * 1024;
/// What stands before the 32 bytes of an Ed25519 key in SPKI (RFC 8410).
const ED25519_SPKI: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// How long an RSA key may be, in bits.
const RSA_BITS: RangeInclusive<u32> = 2048..=8192;
/// Multicodec's mark of an Ed25519 public key.
const ED25519_MULTICODEC: [u8; 2] = [0xed, 0x01];

/// Why a key cannot be read, made or used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is not a PEM block of a known kind.
    #[error("the key is not PEM: give a BEGIN PUBLIC KEY or BEGIN PRIVATE KEY block")]
    Pem,
    /// The text is not the multibase form of an Ed25519 key.
    #[error("the key is not an Ed25519 key in multibase: it begins with z6Mk")]
    Multibase,
    /// The key is of another kind or too short.
    #[error("the key is not accepted: use RSA of 2048 to 8192 bits, or Ed25519")]
    Kind,
    /// A key could not be made.
    #[error("a key could not be made: check the system's random source")]
    Generate,
    /// The key cannot sign.
    #[error("the key cannot sign: make a new one")]
    Sign,
    /// The key's id or a header cannot stand in a signature.
    #[error("the key's id cannot stand in a header: use a plain URL")]
    Id,
}

/// A key to sign with. Cheap to clone; it does not print.
#[derive(Clone)]
pub enum PrivateKey {
    /// RSA, which signs with PKCS #1 v1.5 and SHA-256.
    Rsa(Arc<RsaKeyPair>),
    /// Ed25519.
    Ed25519(Arc<Ed25519KeyPair>),
}

/// A key to verify with, parsed. Cheap to clone.
#[derive(Clone)]
pub struct PublicKey {
    kind: Kind,
    spki: Arc<[u8]>,
    parsed: Arc<ParsedPublicKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rsa,
    Ed25519,
}

impl PrivateKey {
    /// A new RSA key of 2048 bits, as all servers accept them. Takes up to a second.
    ///
    /// # Errors
    /// The system's random source fails.
    pub fn generate_rsa() -> Result<Self, KeyError> {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(|_| KeyError::Generate)?;
        Ok(Self::Rsa(Arc::new(pair)))
    }

    /// A new Ed25519 key.
    ///
    /// # Errors
    /// The system's random source fails.
    pub fn generate_ed25519() -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::generate().map_err(|_| KeyError::Generate)?;
        Ok(Self::Ed25519(Arc::new(pair)))
    }

    /// Reads a PKCS #8 key (`PRIVATE KEY`) or a PKCS #1 one (`RSA PRIVATE KEY`).
    ///
    /// # Errors
    /// The text is not such a key.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let (label, der) = from_pem(pem)?;
        let rsa = |pair: RsaKeyPair| Self::Rsa(Arc::new(pair));
        match label {
            "RSA PRIVATE KEY" => RsaKeyPair::from_der(&der).map(rsa).map_err(|_| KeyError::Kind),
            "PRIVATE KEY" => match Ed25519KeyPair::from_pkcs8(&der) {
                Ok(pair) => Ok(Self::Ed25519(Arc::new(pair))),
                Err(_) => RsaKeyPair::from_pkcs8(&der).map(rsa).map_err(|_| KeyError::Kind),
            },
            _ => Err(KeyError::Pem),
        }
    }

    /// The key as a PKCS #8 PEM text (`PRIVATE KEY`).
    ///
    /// # Errors
    /// The key cannot be written.
    pub fn to_pem(&self) -> Result<Secret<String>, KeyError> {
        let der: Pkcs8V1Der<'static> = match self {
            Self::Rsa(pair) => pair.as_der(),
            Self::Ed25519(pair) => pair.as_der(),
        }
        .map_err(|_| KeyError::Kind)?;
        Ok(Secret::new(to_pem("PRIVATE KEY", der.as_ref())))
    }

    /// The public half.
    ///
    /// # Errors
    /// The key cannot be written.
    pub fn public(&self) -> Result<PublicKey, KeyError> {
        let der: PublicKeyX509Der<'static> = match self {
            Self::Rsa(pair) => pair.public_key().as_der(),
            Self::Ed25519(pair) => pair.public_key().as_der(),
        }
        .map_err(|_| KeyError::Kind)?;
        PublicKey::from_der(der.as_ref())
    }

    /// Signs a message.
    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        match self {
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)
                    .map_err(|_| KeyError::Sign)?;
                Ok(signature)
            }
            Self::Ed25519(pair) => {
                let signature = pair.try_sign(message).map_err(|_| KeyError::Sign)?;
                Ok(signature.as_ref().to_vec())
            }
        }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(***)")
    }
}

impl PublicKey {
    /// Reads a SPKI key (`PUBLIC KEY`) or a PKCS #1 one (`RSA PUBLIC KEY`).
    ///
    /// # Errors
    /// The text is not such a key, or the key is too short.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let (label, der) = from_pem(pem)?;
        match label {
            "PUBLIC KEY" | "RSA PUBLIC KEY" => Self::from_der(&der),
            _ => Err(KeyError::Pem),
        }
    }

    /// Reads an Ed25519 key in the form of `publicKeyMultibase` (FEP-521a).
    ///
    /// # Errors
    /// The text is not such a key.
    pub fn from_multibase(text: &str) -> Result<Self, KeyError> {
        let decoded = text.trim().strip_prefix('z').and_then(base58::decode);
        let bytes = decoded.ok_or(KeyError::Multibase)?;
        let raw = bytes.strip_prefix(&ED25519_MULTICODEC).ok_or(KeyError::Multibase)?;
        if raw.len() != 32 {
            return Err(KeyError::Multibase);
        }
        Self::from_der(&[&ED25519_SPKI, raw].concat())
    }

    /// The key as a SPKI PEM text (`PUBLIC KEY`).
    pub fn to_pem(&self) -> String {
        to_pem("PUBLIC KEY", &self.spki)
    }

    /// The key in the form of `publicKeyMultibase`, if it is an Ed25519 key.
    pub fn to_multibase(&self) -> Option<String> {
        let raw = self.spki.strip_prefix(&ED25519_SPKI)?;
        Some(format!("z{}", base58::encode(&[&ED25519_MULTICODEC, raw].concat())))
    }

    /// Whether `signature` is this key's over `message`.
    pub(super) fn verifies(&self, by: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let own = || self.parsed.verify_sig(message, signature).is_ok();
        let other = |algorithm: &'static dyn VerificationAlgorithm| {
            UnparsedPublicKey::new(algorithm, &*self.spki).verify(message, signature).is_ok()
        };
        match (self.kind, by) {
            (Kind::Rsa, Algorithm::RsaSha256) => own(),
            (Kind::Rsa, Algorithm::RsaSha512) => other(&RSA_PKCS1_2048_8192_SHA512),
            (Kind::Rsa, Algorithm::RsaPssSha512) => other(&RSA_PSS_2048_8192_SHA512),
            (Kind::Rsa, Algorithm::OfKey) => {
                own() || other(&RSA_PKCS1_2048_8192_SHA512) || other(&RSA_PSS_2048_8192_SHA512)
            }
            (Kind::Ed25519, Algorithm::Ed25519 | Algorithm::OfKey) => own(),
            (Kind::Rsa, Algorithm::Ed25519) | (Kind::Ed25519, _) => false,
        }
    }

    /// Reads SPKI, or for RSA also PKCS #1.
    fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        let refused = |_| KeyError::Kind;
        if der.starts_with(&ED25519_SPKI) {
            let parsed = ParsedPublicKey::new(&ED25519, der).map_err(refused)?;
            return Ok(Self { kind: Kind::Ed25519, spki: der.into(), parsed: Arc::new(parsed) });
        }
        let key = rsa::PublicKey::from_der(der).map_err(refused)?;
        let bits = RsaParameters::public_modulus_len(key.as_ref()).map_err(|_| KeyError::Kind)?;
        if !RSA_BITS.contains(&bits) {
            return Err(KeyError::Kind);
        }
        let spki: PublicKeyX509Der<'static> = key.as_der().map_err(|_| KeyError::Kind)?;
        let spki: Arc<[u8]> = spki.as_ref().into();
        let parsed = ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &*spki).map_err(refused)?;
        Ok(Self { kind: Kind::Rsa, spki, parsed: Arc::new(parsed) })
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({:?}, {} bytes)", self.kind, self.spki.len())
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.spki == other.spki
    }
}

impl Eq for PublicKey {}

/// The label and content of the first PEM block.
fn from_pem(pem: &str) -> Result<(&str, Vec<u8>), KeyError> {
    if pem.len() > PEM_BYTES_MAX {
        return Err(KeyError::Pem);
    }
    // Some servers leave the padding away.
    let lenient =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let after = pem.split_once("-----BEGIN ").ok_or(KeyError::Pem)?.1;
    let (label, after) = after.split_once("-----").ok_or(KeyError::Pem)?;
    let (content, _) = after.split_once("-----END ").ok_or(KeyError::Pem)?;
    let content: String = content.split_ascii_whitespace().collect();
    let der = GeneralPurpose::new(&ALPHABET, lenient).decode(content);
    der.map(|der| (label, der)).map_err(|_| KeyError::Pem)
}

fn to_pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        // Base64 is ASCII, so any position is a boundary.
        let (line, after) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = after;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}
