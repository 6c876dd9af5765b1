//! Channel bindings: what ties a log-in to the TLS connection it goes over (RFC 5929, RFC 9266).

use weir_community::users::scram::Hash;

/// A kind of channel binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Binding {
    /// Keying material of TLS 1.3 (RFC 9266).
    Exporter,
    /// The digest of the server's certificate (RFC 5929, 4).
    Endpoint,
}

impl Binding {
    /// Its registered name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exporter => "tls-exporter",
            Self::Endpoint => "tls-server-end-point",
        }
    }

    /// The binding of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Exporter, Self::Endpoint].into_iter().find(|binding| binding.name() == name)
    }
}

/// The longest data of a binding, in bytes: a SHA-512.
const DATA_BYTES_MAX: usize = 64;

/// What a connection can be bound by, with the data of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bindings {
    exporter: Option<Data>,
    endpoint: Option<Data>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Data {
    bytes: [u8; DATA_BYTES_MAX],
    length: u8,
}

impl Bindings {
    /// None.
    pub const NONE: Self = Self { exporter: None, endpoint: None };

    /// With `data` for `binding` too; without it where it is too long.
    pub fn with(mut self, binding: Binding, data: &[u8]) -> Self {
        let mut bytes = [0; DATA_BYTES_MAX];
        let Some(place) = bytes.get_mut(..data.len()) else { return self };
        place.copy_from_slice(data);
        let data = Some(Data { bytes, length: data.len() as u8 });
        match binding {
            Binding::Exporter => self.exporter = data,
            Binding::Endpoint => self.endpoint = data,
        }
        self
    }

    /// The data of `binding`.
    pub fn data(&self, binding: Binding) -> Option<&[u8]> {
        let data = match binding {
            Binding::Exporter => self.exporter.as_ref(),
            Binding::Endpoint => self.endpoint.as_ref(),
        }?;
        Some(&data.bytes[..usize::from(data.length)])
    }

    /// Whether there is `binding`.
    pub fn has(&self, binding: Binding) -> bool {
        self.data(binding).is_some()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    /// The kinds there are, best first.
    pub fn iter(&self) -> impl Iterator<Item = Binding> + '_ {
        [Binding::Exporter, Binding::Endpoint].into_iter().filter(|binding| self.has(*binding))
    }
}

/// The data of `tls-server-end-point` for a certificate (DER): its digest by the hash of its
/// signature, or SHA-256 in the place of MD5 and SHA-1. Nothing for signatures without such a hash.
pub fn endpoint(certificate: &[u8]) -> Option<Vec<u8>> {
    let hash = match signature_algorithm(certificate)? {
        // 1.2.840.113549.1.1.{4,5,11,14}: MD5, SHA-1, SHA-256, SHA-224 with RSA.
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 4 | 5 | 11] => Hash::Sha256,
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 12] => return Some(sha384(certificate)),
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 13] => Hash::Sha512,
        // 1.2.840.10045.4.1, .4.3.{2,3,4}: ECDSA with SHA-1, SHA-256, SHA-384, SHA-512.
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01] => Hash::Sha256,
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 2] => Hash::Sha256,
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 3] => return Some(sha384(certificate)),
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 4] => Hash::Sha512,
        _ => return None,
    };
    Some(hash.digest(certificate).as_ref().to_vec())
}

fn sha384(bytes: &[u8]) -> Vec<u8> {
    aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA384, bytes).as_ref().to_vec()
}

/// The object identifier of `signatureAlgorithm` (RFC 5280, 4.1).
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    const SEQUENCE: u8 = 0x30;
    const OBJECT_IDENTIFIER: u8 = 0x06;
    let (whole, _) = value(SEQUENCE, certificate)?;
    let (_, after) = value(SEQUENCE, whole)?;
    let (algorithm, _) = value(SEQUENCE, after)?;
    Some(value(OBJECT_IDENTIFIER, algorithm)?.0)
}

/// A value of DER with this tag, and what comes after it.
fn value(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = der.split_at_checked(2)?;
    if head[0] != tag {
        return None;
    }
    let (length, rest) = match head[1] {
        short @ 0..=0x7f => (usize::from(short), rest),
        long @ 0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_signature() {
        let made = rcgen::generate_simple_self_signed(vec!["weir.test".into()]).unwrap();
        // rcgen signs by ECDSA on P-256 with SHA-256.
        let der = made.cert.der();
        assert_eq!(endpoint(der).unwrap(), Hash::Sha256.digest(der).as_ref());
    }

    #[test]
    fn what_is_no_certificate_gives_nothing() {
        for der in [&b""[..], &[0x30], &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff], &[0x30, 0x80]] {
            assert_eq!(endpoint(der), None);
        }
    }
}
