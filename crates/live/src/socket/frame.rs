//! Frames as bytes (RFC 6455, section 5.2), ready to be written and shared.

use bytes::{Bytes, BytesMut};

/// The longest payload of a control frame, in bytes (section 5.5).
pub const CONTROL_BYTES_MAX: usize = 125;
/// The longest frame header, in bytes: two, eight of length, four of mask.
pub(super) const HEADER_BYTES_MAX: usize = 14;

/// Close codes (section 7.4.1) that a server has reason to send.
pub mod close_code {
    /// The conversation is over.
    pub const NORMAL: u16 = 1000;
    /// The server goes down, or the page is left.
    pub const GOING_AWAY: u16 = 1001;
    /// The peer broke the protocol.
    pub const PROTOCOL: u16 = 1002;
    /// A kind of message that is not taken here (binary where text is meant).
    pub const UNSUPPORTED: u16 = 1003;
    /// Text that is not UTF-8.
    pub const INVALID_DATA: u16 = 1007;
    /// The peer did what is not allowed here, such as being too slow.
    pub const POLICY: u16 = 1008;
    /// A message longer than is taken here.
    pub const TOO_BIG: u16 = 1009;
    /// The server met an error of its own.
    pub const INTERNAL: u16 = 1011;
    /// The server restarts: come back soon.
    pub const RESTART: u16 = 1012;
    /// The server is overloaded: come back later.
    pub const TRY_LATER: u16 = 1013;
}

/// What a frame is (section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl Opcode {
    pub(super) fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    pub(super) fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// A whole text message from a server, header included.
pub fn text(payload: &str) -> Bytes {
    encode(Opcode::Text, &[payload.as_bytes()], None)
}

/// A whole text message from a server, its payload put together from `parts`: what all share,
/// with what one session adds.
pub fn text_of(parts: &[&str]) -> Bytes {
    let mut frame = BytesMut::new();
    let payload_bytes = parts.iter().map(|part| part.len()).sum();
    put_header(&mut frame, Opcode::Text, payload_bytes, None);
    parts.iter().for_each(|part| frame.extend_from_slice(part.as_bytes()));
    frame.freeze()
}

/// A whole binary message from a server, header included.
pub fn binary(payload: &[u8]) -> Bytes {
    encode(Opcode::Binary, &[payload], None)
}

/// A ping; of `payload`, at most [`CONTROL_BYTES_MAX`] bytes are sent.
pub fn ping(payload: &[u8]) -> Bytes {
    control(Opcode::Ping, payload, None)
}

/// A close frame; `reason` is cut to what fits, between characters.
pub fn close(code: u16, reason: &str) -> Bytes {
    close_masked(code, reason, None)
}

pub(super) fn close_masked(code: u16, reason: &str, mask: Option<[u8; 4]>) -> Bytes {
    let reason = &reason[..reason.floor_char_boundary(CONTROL_BYTES_MAX - 2)];
    encode(Opcode::Close, &[&code.to_be_bytes(), reason.as_bytes()], mask)
}

pub(super) fn control(opcode: Opcode, payload: &[u8], mask: Option<[u8; 4]>) -> Bytes {
    encode(opcode, &[&payload[..payload.len().min(CONTROL_BYTES_MAX)]], mask)
}

/// The reserved bit that says that a message is compressed (RFC 7692, section 6).
pub(super) const DEFLATED: u8 = 0x40;

/// One unfragmented frame whose payload is compressed.
pub(super) fn encode_deflated(opcode: Opcode, deflated: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    put_header(&mut frame, opcode, deflated.len(), None);
    frame[0] |= DEFLATED;
    frame.extend_from_slice(deflated);
    frame.freeze()
}

/// One unfragmented frame.
pub(super) fn encode(opcode: Opcode, parts: &[&[u8]], mask: Option<[u8; 4]>) -> Bytes {
    let payload_bytes: usize = parts.iter().map(|part| part.len()).sum();
    let mut frame = BytesMut::with_capacity(HEADER_BYTES_MAX + payload_bytes);
    put_header(&mut frame, opcode, payload_bytes, mask);
    let header_bytes = frame.len();
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    if let Some(key) = mask {
        apply_mask(&mut frame[header_bytes..], key, 0);
    }
    frame.freeze()
}

fn put_header(frame: &mut BytesMut, opcode: Opcode, payload_bytes: usize, mask: Option<[u8; 4]>) {
    frame.reserve(HEADER_BYTES_MAX + payload_bytes);
    let masked = if mask.is_some() { 0x80 } else { 0 };
    frame.extend_from_slice(&[0x80 | opcode as u8]);
    match payload_bytes {
        0..=125 => frame.extend_from_slice(&[masked | payload_bytes as u8]),
        126..=0xFFFF => {
            frame.extend_from_slice(&[masked | 126]);
            frame.extend_from_slice(&(payload_bytes as u16).to_be_bytes());
        }
        _ => {
            frame.extend_from_slice(&[masked | 127]);
            frame.extend_from_slice(&(payload_bytes as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(&mask.unwrap_or_default()[..if mask.is_some() { 4 } else { 0 }]);
}

/// Masks or unmasks (section 5.3) a stretch of payload that begins `offset` bytes into it.
pub(super) fn apply_mask(payload: &mut [u8], key: [u8; 4], offset: usize) {
    let mut turned = key;
    turned.rotate_left(offset % 4);
    let (words, rest) = payload.as_chunks_mut::<4>();
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ u32::from_ne_bytes(turned)).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(turned) {
        *byte ^= key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_those_of_section_5_7() {
        assert_eq!(&text("Hello")[..], b"\x81\x05Hello");
        let key = [0x37, 0xfa, 0x21, 0x3d];
        let masked = encode(Opcode::Text, &[b"Hello"], Some(key));
        assert_eq!(&masked[..], b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
        assert_eq!(&ping(b"Hello")[..], b"\x89\x05Hello");
        assert_eq!(&binary(&[7; 256])[..4], b"\x82\x7e\x01\x00");
        assert_eq!(&binary(&[7; 65536])[..10], b"\x82\x7f\0\0\0\0\0\x01\0\0");
    }

    #[test]
    fn a_payload_in_parts_makes_the_same_frame_as_in_one() {
        let long = "é".repeat(300);
        assert_eq!(text_of(&["{", &long, "}"]), text(&format!("{{{long}}}")));
        assert_eq!(text_of(&[]), text(""));
    }

    #[test]
    fn a_long_close_reason_is_cut_between_characters() {
        let frame = close(close_code::NORMAL, &"é".repeat(100));
        assert_eq!(frame.len(), 2 + 2 + 122);
        assert!(std::str::from_utf8(&frame[4..]).is_ok());
    }

    #[test]
    fn masking_piece_by_piece_is_masking_whole() {
        let key = [1, 2, 3, 4];
        let mut whole: Vec<u8> = (0..100).collect();
        let mut pieces = whole.clone();
        apply_mask(&mut whole, key, 0);
        for (at, length) in [(0, 3), (3, 50), (53, 1), (54, 46)] {
            apply_mask(&mut pieces[at..at + length], key, at);
        }
        assert_eq!(whole, pieces);
    }
}
