//! Base58 with Bitcoin's alphabet: how multibase (`z…`) writes keys.

const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/// The longest text that is read: its cost grows with the square of it.
const TEXT_BYTES_MAX: usize = 128;

pub(super) fn encode(bytes: &[u8]) -> String {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    // Digits of the number, the least first.
    let mut digits: Vec<u8> = Vec::new();
    for byte in bytes {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    let leading = std::iter::repeat_n(ALPHABET[0], zeros);
    let rest = digits.iter().rev().map(|digit| ALPHABET[usize::from(*digit)]);
    leading.chain(rest).map(char::from).collect()
}

pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    if text.len() > TEXT_BYTES_MAX {
        return None;
    }
    let zeros = text.bytes().take_while(|byte| *byte == ALPHABET[0]).count();
    let mut bytes: Vec<u8> = Vec::new();
    for char in text.bytes() {
        let mut carry = ALPHABET.iter().position(|of| *of == char)? as u32;
        for byte in &mut bytes {
            carry += u32::from(*byte) * 58;
            *byte = (carry & 0xff) as u8;
            carry >>= 8;
        }
        while carry > 0 {
            bytes.push((carry & 0xff) as u8);
            carry >>= 8;
        }
    }
    bytes.extend(std::iter::repeat_n(0, zeros));
    bytes.reverse();
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_texts_decode() {
        assert_eq!(encode(b"hello world"), "StV1DL6CwTryKyV");
        assert_eq!(decode("StV1DL6CwTryKyV").unwrap(), b"hello world");
        assert_eq!(encode(&[0, 0, 1]), "112");
        assert_eq!(decode("0OIl"), None);
        assert_eq!(decode(&"z".repeat(129)), None);
    }

    proptest! {
        #[test]
        fn what_is_encoded_decodes_to_itself(
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
        ) {
            prop_assert_eq!(decode(&encode(&bytes)), Some(bytes));
        }
    }
}
