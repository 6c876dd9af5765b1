//! Bytes to messages: pure, without input or output, for any chunking of the stream.

use bytes::Bytes;

use super::deflate;
use super::frame::{CONTROL_BYTES_MAX, DEFLATED, HEADER_BYTES_MAX, Opcode, apply_mask, close_code};

/// What a peer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Text, put together from its fragments.
    Text(String),
    /// Bytes, put together from their fragments.
    Binary(Bytes),
    /// A ping; the socket has answered it already.
    Ping(Bytes),
    /// An answer to a ping of ours, or a sign of life.
    Pong(Bytes),
    /// The peer ends the conversation; the socket has answered it already.
    Close(Option<CloseReason>),
}

/// Why a peer closes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseReason {
    /// One of the codes of section 7.4, such as [`close_code::NORMAL`].
    pub code: u16,
    /// For people who debug.
    pub reason: String,
}

/// How the peer broke RFC 6455; the connection can't go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A reserved bit stands without an extension that was agreed on (section 5.2).
    #[error("a reserved bit is set: no extension was agreed on")]
    ReservedBits,
    /// An opcode that means nothing (section 5.2).
    #[error("opcode {0} is unknown")]
    UnknownOpcode(u8),
    /// A client must mask its frames (section 5.1).
    #[error("a client's frame is not masked")]
    Unmasked,
    /// A server must not mask its frames (section 5.1).
    #[error("a server's frame is masked")]
    Masked,
    /// A control frame in fragments (section 5.5).
    #[error("a control frame is fragmented")]
    FragmentedControl,
    /// A control frame above 125 bytes (section 5.5).
    #[error("a control frame is longer than {CONTROL_BYTES_MAX} bytes")]
    LongControl,
    /// A length that is not in its shortest form, or beyond 63 bits (section 5.2).
    #[error("a frame's length is not in its shortest form")]
    BadLength,
    /// A continuation of nothing (section 5.4).
    #[error("a continuation frame continues nothing")]
    NothingToContinue,
    /// A new message within another's fragments (section 5.4).
    #[error("a message begins within another one's fragments")]
    Interleaved,
    /// Longer than the limit.
    #[error("a message is longer than {message_bytes_max} bytes")]
    TooBig {
        /// The limit, in bytes.
        message_bytes_max: usize,
    },
    /// Text or a close reason that is not UTF-8 (section 8.1).
    #[error("text is not UTF-8")]
    NotUtf8,
    /// A compressed message that cannot be inflated (RFC 7692, section 7.2.2).
    #[error("a compressed message cannot be inflated")]
    BadDeflate,
    /// A close frame with half a code, or a code that may not be sent (section 7.4).
    #[error("a close frame's code is not one that may be sent")]
    BadClose,
}

impl ProtocolError {
    /// The close code that tells the peer.
    pub fn close_code(self) -> u16 {
        match self {
            Self::NotUtf8 | Self::BadDeflate => close_code::INVALID_DATA,
            Self::TooBig { .. } => close_code::TOO_BIG,
            _ => close_code::PROTOCOL,
        }
    }
}

/// Whose frames are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// A client's: all masked.
    Client,
    /// A server's: none masked.
    Server,
}

/// Puts messages together from a stream of bytes. Holds what has come of the message under way,
/// at most its limit, and nothing between messages.
pub struct Decoder {
    peer: Peer,
    deflates: bool,
    message_bytes_max: usize,
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: u8,
    frame: Option<Frame>,
    // The data message whose fragments come: Text or Binary.
    begun: Option<Opcode>,
    is_deflated: bool,
    data: Vec<u8>,
    control: Vec<u8>,
    failed: Option<ProtocolError>,
}

/// The frame whose payload is being read.
#[derive(Clone, Copy)]
struct Frame {
    opcode: Opcode,
    fin: bool,
    deflated: bool,
    mask: Option<[u8; 4]>,
    taken: usize,
    payload_bytes: usize,
}

impl Decoder {
    /// Reads what `peer` sends, messages up to `message_bytes_max` bytes.
    pub fn new(peer: Peer, message_bytes_max: usize) -> Self {
        Self {
            peer,
            deflates: false,
            message_bytes_max,
            header: [0; HEADER_BYTES_MAX],
            header_bytes: 0,
            frame: None,
            begun: None,
            is_deflated: false,
            data: Vec::new(),
            control: Vec::new(),
            failed: None,
        }
    }

    /// Takes compressed messages: permessage-deflate was agreed on, without context takeover. What
    /// they hold is bounded as the others are.
    pub fn deflating(mut self) -> Self {
        self.deflates = true;
        self
    }

    /// Whether compressed messages are taken.
    pub fn is_deflating(&self) -> bool {
        self.deflates
    }

    /// Whether a message has begun and not ended.
    pub fn is_amid_message(&self) -> bool {
        self.header_bytes > 0 || self.frame.is_some() || self.begun.is_some()
    }

    /// Takes bytes from the front of `input` until a message is whole or `input` is empty. After
    /// an error the stream makes no sense any more: the same error comes again.
    pub fn decode(&mut self, input: &mut &[u8]) -> Result<Option<Message>, ProtocolError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let decoded = self.decode_frames(input);
        if let Err(error) = decoded {
            self.failed = Some(error);
            self.data = Vec::new();
        }
        decoded
    }

    fn decode_frames(&mut self, input: &mut &[u8]) -> Result<Option<Message>, ProtocolError> {
        loop {
            let mut frame = match self.frame.take() {
                Some(frame) => frame,
                None => match self.read_header(input)? {
                    Some(frame) => frame,
                    None => return Ok(None),
                },
            };
            self.read_payload(&mut frame, input);
            if frame.taken < frame.payload_bytes {
                self.frame = Some(frame);
                return Ok(None);
            }
            if let Some(message) = self.finish(frame)? {
                return Ok(Some(message));
            }
        }
    }

    /// The next frame's header once all of it is there, checked as early as it can be.
    fn read_header(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, ProtocolError> {
        if !self.fill_header(2, input) {
            return Ok(None);
        }
        let (first, second) = (self.header[0], self.header[1]);
        let deflated = first & DEFLATED != 0;
        // Only a message's first frame says that it is compressed (RFC 7692, section 6).
        let may_deflate = self.deflates && matches!(first & 0x0F, 1 | 2);
        if first & 0x30 != 0 || (deflated && !may_deflate) {
            return Err(ProtocolError::ReservedBits);
        }
        let bits = first & 0x0F;
        let opcode = Opcode::from_bits(bits).ok_or(ProtocolError::UnknownOpcode(bits))?;
        let fin = first & 0x80 != 0;
        let masked = second & 0x80 != 0;
        let short = second & 0x7F;
        match self.peer {
            Peer::Client if !masked => return Err(ProtocolError::Unmasked),
            Peer::Server if masked => return Err(ProtocolError::Masked),
            _ => {}
        }
        self.check_sequence(opcode, fin, short)?;
        let length_bytes = match short {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mask_bytes = if masked { 4 } else { 0 };
        if !self.fill_header(2 + length_bytes, input) {
            return Ok(None);
        }
        let payload_bytes = self.payload_bytes(short)?;
        if !opcode.is_control() && payload_bytes > self.message_bytes_max - self.data.len() {
            return Err(ProtocolError::TooBig { message_bytes_max: self.message_bytes_max });
        }
        if !self.fill_header(2 + length_bytes + mask_bytes, input) {
            return Ok(None);
        }
        let mask = self.header[2 + length_bytes..].first_chunk().copied().filter(|_| masked);
        self.header_bytes = 0;
        Ok(Some(Frame { opcode, fin, deflated, mask, taken: 0, payload_bytes }))
    }

    /// Fills the header up to `wanted` bytes; tells whether they are there.
    fn fill_header(&mut self, wanted: usize, input: &mut &[u8]) -> bool {
        let have = usize::from(self.header_bytes);
        if have < wanted {
            let (now, later) = input.split_at(input.len().min(wanted - have));
            self.header[have..have + now.len()].copy_from_slice(now);
            self.header_bytes += now.len() as u8;
            *input = later;
        }
        usize::from(self.header_bytes) >= wanted
    }

    fn check_sequence(&self, opcode: Opcode, fin: bool, short: u8) -> Result<(), ProtocolError> {
        if opcode.is_control() {
            if !fin {
                return Err(ProtocolError::FragmentedControl);
            }
            if usize::from(short) > CONTROL_BYTES_MAX {
                return Err(ProtocolError::LongControl);
            }
            return Ok(());
        }
        match (opcode, self.begun) {
            (Opcode::Continuation, None) => Err(ProtocolError::NothingToContinue),
            (Opcode::Text | Opcode::Binary, Some(_)) => Err(ProtocolError::Interleaved),
            _ => Ok(()),
        }
    }

    fn payload_bytes(&self, short: u8) -> Result<usize, ProtocolError> {
        let (length, shortest) = match (short, &self.header) {
            (126, &[_, _, a, b, ..]) => (u64::from(u16::from_be_bytes([a, b])), 126),
            (127, &[_, _, a, b, c, d, e, f, g, h, ..]) => {
                (u64::from_be_bytes([a, b, c, d, e, f, g, h]), 0x1_0000)
            }
            _ => (u64::from(short), 0),
        };
        if length < shortest || length > i64::MAX as u64 {
            return Err(ProtocolError::BadLength);
        }
        // Where it doesn't fit, it is above every limit.
        Ok(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// Memory grows with what has come, never with what a header announces.
    fn read_payload(&mut self, frame: &mut Frame, input: &mut &[u8]) {
        let missing = frame.payload_bytes - frame.taken;
        let (now, later) = input.split_at(input.len().min(missing));
        let target = if frame.opcode.is_control() { &mut self.control } else { &mut self.data };
        let begin = target.len();
        target.extend_from_slice(now);
        if let Some(key) = frame.mask {
            apply_mask(&mut target[begin..], key, frame.taken);
        }
        frame.taken += now.len();
        *input = later;
    }

    fn finish(&mut self, frame: Frame) -> Result<Option<Message>, ProtocolError> {
        match frame.opcode {
            Opcode::Ping => Ok(Some(Message::Ping(std::mem::take(&mut self.control).into()))),
            Opcode::Pong => Ok(Some(Message::Pong(std::mem::take(&mut self.control).into()))),
            Opcode::Close => close_message(&std::mem::take(&mut self.control)).map(Some),
            Opcode::Text | Opcode::Binary | Opcode::Continuation => {
                let kind = self.begun.unwrap_or(frame.opcode);
                self.is_deflated |= frame.deflated;
                if !frame.fin {
                    self.begun = Some(kind);
                    return Ok(None);
                }
                self.begun = None;
                let mut data = std::mem::take(&mut self.data);
                if std::mem::take(&mut self.is_deflated) {
                    data = deflate::inflate(&data, self.message_bytes_max)?;
                }
                if kind == Opcode::Binary {
                    return Ok(Some(Message::Binary(data.into())));
                }
                let text = String::from_utf8(data).map_err(|_| ProtocolError::NotUtf8)?;
                Ok(Some(Message::Text(text)))
            }
        }
    }
}

fn close_message(payload: &[u8]) -> Result<Message, ProtocolError> {
    let (code, reason) = match payload {
        [] => return Ok(Message::Close(None)),
        [high, low, reason @ ..] => (u16::from_be_bytes([*high, *low]), reason),
        _ => return Err(ProtocolError::BadClose),
    };
    // Section 7.4: 1004 to 1006 and 1015 are never sent; 3000 to 4999 are free to use.
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(ProtocolError::BadClose);
    }
    let reason = std::str::from_utf8(reason).map_err(|_| ProtocolError::NotUtf8)?.to_owned();
    Ok(Message::Close(Some(CloseReason { code, reason })))
}
