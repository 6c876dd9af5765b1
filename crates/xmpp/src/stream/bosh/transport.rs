//! A session of BOSH as what carries a stream.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::session::Session;
use crate::stream::splice;
use crate::stream::transport::{Header, Received, Security, Transport};
use crate::wire::write;

/// Why a session ends after an error of its stream.
const STREAM_ERROR: &str = "remote-stream-error";

/// Carries a stream by requests and answers.
pub(super) struct Bosh {
    session: Arc<Session>,
    /// Elements that wait for a request; takes nothing while nothing does.
    out: Vec<u8>,
    /// What the first answer tells of the stream.
    created: String,
    end: Option<&'static str>,
    has_error: bool,
    security: Box<Security>,
}

impl Bosh {
    pub(super) fn new(session: Arc<Session>, security: Security) -> Self {
        Self {
            session,
            out: Vec::new(),
            created: String::new(),
            end: None,
            has_error: false,
            security: Box::new(security),
        }
    }
}

impl Transport for Bosh {
    fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Received> {
        self.session.poll_came(context)
    }

    fn queue(&mut self, parts: &[&[u8]]) {
        let element = parts.concat();
        self.has_error |= element.starts_with(b"<stream:error");
        for part in splice::declared(&element) {
            self.out.extend_from_slice(part);
        }
    }

    fn open(&mut self, header: &Header<'_>) {
        self.created.clear();
        write::attribute("from", header.from, &mut self.created);
        write::attribute("authid", header.id, &mut self.created);
    }

    fn close_stream(&mut self) {
        self.end = Some(if self.has_error { STREAM_ERROR } else { "" });
    }

    fn waiting_bytes(&self) -> usize {
        self.out.len() + usize::from(self.end.is_some())
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.waiting_bytes() == 0 {
            return Poll::Ready(Ok(()));
        }
        match self.session.poll_say(context, &self.out, &self.created, self.end) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(false) => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            Poll::Ready(true) => {
                (self.out, self.end) = (Vec::new(), None);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Answers that are due after a while do that.
    fn keep_alive(&mut self) {}

    fn poll_shutdown(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn security(&self) -> &Security {
        &self.security
    }

    fn restart(&mut self) {}

    fn set_element_bytes_max(&mut self, bytes: u32) {
        self.session.set_bytes_max(bytes as usize);
    }
}

impl Drop for Bosh {
    fn drop(&mut self) {
        self.session.end("item-not-found");
    }
}
