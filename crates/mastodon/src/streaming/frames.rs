//! The bytes that tell an event, made once for all who get them in the same form.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use weir_live::socket::SharedFrame;

use super::template::escaped;
use super::wire::{self, Head, Wire};
use crate::Error;

/// Streams for which the message of one event is kept.
const STREAMS_MAX: usize = 64;

/// What of an event was made so far.
#[derive(Default)]
pub(super) struct Frames {
    sse: OnceLock<Bytes>,
    // By what the stream is called, and whether with ids.
    messages: Mutex<BTreeMap<(Arc<[String]>, bool), Arc<SharedFrame>>>,
}

impl Frames {
    /// The server-sent event.
    pub(super) fn sse(&self, make: impl FnOnce() -> Bytes) -> Bytes {
        self.sse.get_or_init(make).clone()
    }

    /// The message of the stream with this label.
    pub(super) fn message(
        &self,
        label: &Arc<[String]>,
        (deflating, ids): (bool, bool),
        make: impl FnOnce() -> Result<SharedFrame, Error>,
    ) -> Result<Bytes, Error> {
        let key = (label.clone(), ids);
        if let Some(message) = self.messages.lock().get(&key) {
            return Ok(message.bytes(deflating));
        }
        let message = Arc::new(make()?);
        let mut messages = self.messages.lock();
        if messages.len() < STREAMS_MAX {
            messages.insert(key, message.clone());
        }
        Ok(message.bytes(deflating))
    }

    /// What says `payload` to all who listen to a stream with this label.
    pub(super) fn saying(
        &self,
        wire: Wire,
        label: &Arc<[String]>,
        head: &Head<'_>,
        payload: Option<&str>,
    ) -> Result<Bytes, Error> {
        let Wire::Socket { deflating, ids } = wire else {
            return Ok(self.sse(|| wire::sse(head, payload)));
        };
        self.message(label, (deflating, ids), || {
            let payload = payload.map(escaped).transpose()?;
            Ok(wire::message(head, payload.as_deref()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(frames: &Frames, wire: Wire, name: &str) -> Bytes {
        let label: Arc<[String]> = Arc::from([name.to_owned()]);
        let head = Head { label: &label, event: "announcement", id: None };
        frames.saying(wire, &label, &head, Some(&"\"again\"".repeat(100))).unwrap()
    }

    #[test]
    fn all_who_get_the_same_form_share_the_same_bytes() {
        let frames = Frames::default();
        let forms = [
            Wire::Sse,
            Wire::Socket { deflating: false, ids: false },
            Wire::Socket { deflating: true, ids: false },
            Wire::Socket { deflating: false, ids: true },
        ];
        let once: Vec<Bytes> = forms.iter().map(|wire| said(&frames, *wire, "user")).collect();
        for (wire, first) in forms.iter().zip(&once) {
            assert_eq!(said(&frames, *wire, "user").as_ptr(), first.as_ptr());
        }
        assert!(once[2].len() * 4 < once[1].len(), "compressed, for who takes that");
        assert_ne!(said(&frames, forms[1], "public"), once[1], "another stream says its name");
    }

    #[test]
    fn of_more_streams_than_are_kept_each_is_told_all_the_same() {
        let frames = Frames::default();
        let wire = Wire::Socket { deflating: false, ids: false };
        for at in 0..STREAMS_MAX * 2 {
            assert!(!said(&frames, wire, &format!("list{at}")).is_empty());
        }
        assert_eq!(frames.messages.lock().len(), STREAMS_MAX);
    }
}
