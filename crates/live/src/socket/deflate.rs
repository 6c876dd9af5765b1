//! permessage-deflate (RFC 7692) without a window for each socket.
//!
//! Neither side keeps its window from one message to the next (`server_no_context_takeover`,
//! `client_no_context_takeover`), so a message that many get is compressed once, and a socket that
//! agreed on it holds nothing more than one that did not. Compressors belong to the threads.

use std::cell::RefCell;
use std::sync::OnceLock;

use bytes::{Bytes, BytesMut};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use http::HeaderMap;
use http::header::SEC_WEBSOCKET_EXTENSIONS;

use super::decode::ProtocolError;
use super::frame::{self, Opcode};

/// What is answered to an offer that is taken, and offered by a client of ours.
pub(super) const AGREED: &str =
    "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
/// Shorter payloads are sent as they are, in bytes: there is nothing to gain.
pub const DEFLATED_BYTES_MIN: usize = 256;
/// What a message ends with before it is cut off (section 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xFF, 0xFF];
/// Inflated at once, in bytes.
const PIECE_BYTES: usize = 8 * 1024;

thread_local! {
    static COMPRESS: RefCell<Compress> =
        RefCell::new(Compress::new(Compression::new(3), false));
    static INFLATE: RefCell<Decompress> = RefCell::new(Decompress::new(false));
}

/// A message for many sockets: its frame, and the compressed one for those who agreed on it, made
/// when the first of them gets it.
#[derive(Debug)]
pub struct SharedFrame {
    plain: Bytes,
    header_bytes: usize,
    opcode: Opcode,
    deflated: OnceLock<Option<Bytes>>,
}

impl SharedFrame {
    /// A text message, its payload put together from `parts`.
    pub fn text_of(parts: &[&str]) -> Self {
        let plain = frame::text_of(parts);
        let payload_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let header_bytes = plain.len() - payload_bytes;
        Self { plain, header_bytes, opcode: Opcode::Text, deflated: OnceLock::new() }
    }

    /// The frame for a socket, by whether it [deflates](super::Socket::is_deflating).
    pub fn bytes(&self, deflating: bool) -> Bytes {
        if !deflating {
            return self.plain.clone();
        }
        let made = self.deflated.get_or_init(|| self.deflate());
        made.as_ref().unwrap_or(&self.plain).clone()
    }

    /// The frame as it is for a socket that does not deflate.
    pub fn plain(&self) -> &Bytes {
        &self.plain
    }

    /// The length of the plain frame, in bytes.
    pub fn plain_bytes(&self) -> usize {
        self.plain.len()
    }

    /// The compressed frame, where it is shorter by an eighth at least.
    fn deflate(&self) -> Option<Bytes> {
        let payload = &self.plain[self.header_bytes..];
        if payload.len() < DEFLATED_BYTES_MIN {
            return None;
        }
        let deflated = deflate(payload)?;
        metrics::counter!("weir_live_messages_deflated_total").increment(1);
        let gains = deflated.len() < payload.len() - payload.len() / 8;
        gains.then(|| frame::encode_deflated(self.opcode, &deflated))
    }
}

fn deflate(payload: &[u8]) -> Option<Vec<u8>> {
    COMPRESS.with_borrow_mut(|compress| {
        compress.reset();
        let mut out = Vec::with_capacity(payload.len() / 2 + 64);
        loop {
            let at = usize::try_from(compress.total_in()).ok()?;
            let before = out.len();
            compress.compress_vec(&payload[at..], &mut out, FlushCompress::Sync).ok()?;
            // All is out once it did not need all the room it had.
            if compress.total_in() as usize == payload.len() && out.len() < out.capacity() {
                break;
            }
            if out.len() == before && out.len() < out.capacity() {
                return None;
            }
            out.reserve(PIECE_BYTES);
        }
        out.ends_with(&TAIL).then(|| {
            out.truncate(out.len() - TAIL.len());
            out
        })
    })
}

/// What a message holds that was sent compressed; `bytes_max` bounds what it may grow to.
pub(super) fn inflate(deflated: &[u8], bytes_max: usize) -> Result<Vec<u8>, ProtocolError> {
    INFLATE.with_borrow_mut(|inflate| {
        inflate.reset(false);
        let mut out = Vec::new();
        let mut piece = [0; PIECE_BYTES];
        for mut input in [deflated, &TAIL] {
            loop {
                let (read, written) = (inflate.total_in(), inflate.total_out());
                let status = inflate
                    .decompress(input, &mut piece, FlushDecompress::Sync)
                    .map_err(|_| ProtocolError::BadDeflate)?;
                let read = (inflate.total_in() - read) as usize;
                let written = (inflate.total_out() - written) as usize;
                if out.len() + written > bytes_max {
                    return Err(ProtocolError::TooBig { message_bytes_max: bytes_max });
                }
                out.extend_from_slice(&piece[..written]);
                input = &input[read..];
                match status {
                    // A last block: what follows it is not of this message.
                    Status::StreamEnd => return Ok(out),
                    _ if read == 0 && written == 0 => break,
                    _ => {}
                }
            }
            if !input.is_empty() {
                return Err(ProtocolError::BadDeflate);
            }
        }
        Ok(out)
    })
}

/// Whether a client's offers (section 7.1) hold one that is taken here.
pub(super) fn is_offered(headers: &HeaderMap) -> bool {
    let values = headers.get_all(SEC_WEBSOCKET_EXTENSIONS).into_iter();
    let mut offers = values.filter_map(|value| value.to_str().ok()).flat_map(|it| it.split(','));
    offers.any(|offer| {
        let mut words = offer.split(';').map(str::trim);
        words.next().is_some_and(|name| name.eq_ignore_ascii_case("permessage-deflate"))
            && words.all(|parameter| match parameter.split_once('=') {
                // How far back a client's own compressor looks is its affair.
                None => matches!(
                    parameter,
                    "client_max_window_bits"
                        | "server_no_context_takeover"
                        | "client_no_context_takeover"
                ),
                Some((name, bits)) => match (name.trim(), bits.trim().trim_matches('"')) {
                    ("client_max_window_bits", bits) => {
                        matches!(bits.parse(), Ok(8_u8..=15))
                    }
                    // Ours looks back as far as there is.
                    ("server_max_window_bits", bits) => bits == "15",
                    _ => false,
                },
            })
    })
}

/// Whether a server's answer agrees on what [`AGREED`] offers.
pub(super) fn is_agreed(headers: &HeaderMap) -> bool {
    let answer = headers.get(SEC_WEBSOCKET_EXTENSIONS).and_then(|value| value.to_str().ok());
    answer.is_some_and(|answer| {
        let mut words = answer.split(';').map(str::trim);
        words.next() == Some("permessage-deflate")
            && words.any(|word| word == "server_no_context_takeover")
    })
}

/// A frame as a client with a compressor would send it, masked by `key`: for tests.
pub fn deflated_from_client(payload: &[u8], key: [u8; 4]) -> Option<Bytes> {
    let deflated = deflate(payload)?;
    let plain = frame::encode(Opcode::Text, &[&deflated], Some(key));
    let mut bytes = BytesMut::from(&plain[..]);
    bytes[0] |= frame::DEFLATED;
    Some(bytes.freeze())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn offered(offer: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(SEC_WEBSOCKET_EXTENSIONS, HeaderValue::from_static(offer));
        is_offered(&headers)
    }

    #[test]
    fn offers_of_browsers_are_taken_and_those_that_ask_for_too_much_are_not() {
        assert!(offered("permessage-deflate; client_max_window_bits"));
        assert!(offered("permessage-deflate; server_no_context_takeover"));
        assert!(offered("permessage-deflate; server_max_window_bits=10, permessage-deflate"));
        assert!(offered("x-webkit-deflate-frame, permessage-deflate; client_max_window_bits=12"));
        assert!(!offered("permessage-deflate; server_max_window_bits=10"));
        assert!(!offered("permessage-deflate; something_else"));
        assert!(!offered("permessage-bzip2"));
        assert!(!is_offered(&HeaderMap::new()));
    }

    #[test]
    fn short_messages_and_noise_go_out_as_they_are() {
        let short = SharedFrame::text_of(&["hello"]);
        assert_eq!(short.bytes(true), short.bytes(false));
        let long = SharedFrame::text_of(&[&"the same words again ".repeat(100)]);
        assert!(long.bytes(true).len() * 5 < long.bytes(false).len());
        assert_eq!(long.bytes(true)[0], 0xC1);
        // Compressed once: the same bytes, not equal ones.
        assert_eq!(long.bytes(true).as_ptr(), long.bytes(true).as_ptr());
    }

    #[test]
    fn a_bomb_is_stopped_at_the_limit() {
        let bomb = deflate(&vec![0; 50_000_000]).unwrap();
        assert!(bomb.len() < 100_000);
        let stopped = inflate(&bomb, 65_536);
        assert_eq!(stopped, Err(ProtocolError::TooBig { message_bytes_max: 65_536 }));
        assert_eq!(inflate(&deflate(&vec![7; 65_536]).unwrap(), 65_536).unwrap().len(), 65_536);
    }

    proptest! {
        #[test]
        fn what_is_deflated_comes_back(
            payload in proptest::collection::vec(0_u8..4, 0..40_000),
        ) {
            let deflated = deflate(&payload).unwrap();
            prop_assert_eq!(inflate(&deflated, payload.len()).unwrap(), payload);
        }

        #[test]
        fn noise_is_refused_or_bounded(noise in proptest::collection::vec(any::<u8>(), 0..2_000)) {
            if let Ok(out) = inflate(&noise, 10_000) {
                prop_assert!(out.len() <= 10_000);
            }
        }
    }
}
