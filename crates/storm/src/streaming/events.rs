//! Server-sent events as they come: in pieces, and in the chunks of HTTP/1.1 (RFC 9112, 7.1) where
//! the server says so.

use memchr::memmem;

/// The longest line that says how long a chunk is, in bytes.
const SIZE_BYTES_MAX: usize = 64;

/// The longest event, in bytes: one that does not end ends the connection.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// What has only begun.
pub(super) struct Events {
    chunks: Option<Chunks>,
    event: Vec<u8>,
}

/// Where in its chunks an answer is.
#[derive(Default)]
struct Chunks {
    /// Of the chunk that is read: what is still to come, with the end of its line.
    left: usize,
    /// The line that says how long the next is, as far as it came.
    size: Vec<u8>,
    is_over: bool,
}

impl Events {
    /// Those behind the headers of an answer, of which `begun` came already.
    pub(super) fn after(headers: &[u8], begun: Vec<u8>) -> Self {
        let headers = headers.to_ascii_lowercase();
        let is_chunked = memmem::find(&headers, b"transfer-encoding: chunked").is_some();
        let mut events = Self { chunks: is_chunked.then(Chunks::default), event: Vec::new() };
        // Nobody listens to what came with the headers: it is looked at with what comes next.
        match &mut events.chunks {
            Some(chunks) => chunks.take(&begun, &mut events.event),
            None => events.event = begun,
        }
        events
    }

    /// Takes what came, and hands each whole event to `see`. Whether the answer is over.
    pub(super) fn take(&mut self, came: &[u8], see: &mut impl FnMut(&[u8])) -> bool {
        match &mut self.chunks {
            Some(chunks) => chunks.take(came, &mut self.event),
            None => self.event.extend_from_slice(came),
        }
        let mut at = 0;
        while let Some(length) = memmem::find(&self.event[at..], b"\n\n") {
            see(&self.event[at..at + length]);
            at += length + 2;
        }
        self.event.drain(..at);
        let is_over = self.chunks.as_ref().is_some_and(|chunks| chunks.is_over);
        is_over || self.event.len() > EVENT_BYTES_MAX
    }
}

impl Chunks {
    /// Puts what of `came` lies in chunks behind `to`.
    fn take(&mut self, mut came: &[u8], to: &mut Vec<u8>) {
        while !came.is_empty() && !self.is_over {
            if self.left > 0 {
                let (piece, rest) = came.split_at(came.len().min(self.left));
                // The last two bytes end the line.
                let inside = piece.len().min(self.left.saturating_sub(2));
                to.extend_from_slice(&piece[..inside]);
                self.left -= piece.len();
                came = rest;
                continue;
            }
            let (byte, rest) = (came[0], &came[1..]);
            came = rest;
            if byte != b'\n' {
                self.size.push(byte);
                self.is_over = self.size.len() > SIZE_BYTES_MAX;
                continue;
            }
            let line = String::from_utf8_lossy(&self.size);
            let size = line.trim_end().split(';').next().unwrap_or_default();
            match usize::from_str_radix(size, 16) {
                // What is no number ends it as the last chunk does.
                Ok(0) | Err(_) => self.is_over = true,
                Ok(length) => self.left = length.saturating_add(2),
            }
            self.size.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

    fn read(headers: &[u8], bytes: &[u8], piece: usize) -> (Vec<String>, bool) {
        let (begun, rest) = bytes.split_at(bytes.len().min(piece));
        let mut events = Events::after(headers, begun.to_vec());
        let (mut seen, mut is_over) = (Vec::new(), false);
        for came in rest.chunks(piece) {
            let see = &mut |event: &[u8]| seen.push(String::from_utf8(event.to_vec()).unwrap());
            is_over = events.take(came, see);
        }
        (seen, is_over)
    }

    #[test]
    fn events_are_found_however_they_are_cut() {
        let plain = b":)\n\nevent: update\ndata: one\n\ndata: two\n\ndata: beg";
        let chunked = b"4\r\n:)\n\n\r\n10;x=y\r\nevent: update\nda\r\n\
                        10\r\nta: one\n\ndata: t\r\n4\r\nwo\n\n\r\n9\r\ndata: beg\r\n";
        for piece in 1..20 {
            let expected = [":)", "event: update\ndata: one", "data: two"];
            assert_eq!(read(b"HTTP/1.1 200 OK\r\n\r\n", plain, piece).0, expected, "{piece}");
            assert_eq!(read(CHUNKED, chunked, piece), (expected.map(String::from).to_vec(), false));
        }
    }

    #[test]
    fn the_last_chunk_ends_it_and_so_does_what_is_none() {
        assert!(read(CHUNKED, b"3\r\na\n\n\r\n0\r\n\r\n", 2).1);
        assert!(read(CHUNKED, b"no chunk\r\n", 2).1);
        assert!(read(CHUNKED, &[b'1'; 2 * SIZE_BYTES_MAX], 2).1);
        assert!(!read(CHUNKED, b"ffffffffffffffff\r\ndata", 2).1, "it has not come yet");
        let endless = vec![b'x'; EVENT_BYTES_MAX + 2];
        assert!(read(b"HTTP/1.1 200 OK\r\n\r\n", &endless, 4_096).1);
    }
}
