//! What a session says to its client.

use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use weir_live::admission::Slice;

use super::Session;
use crate::transport::Gone;
use crate::wire;

impl<A: Clone + Send + Sync + 'static> Session<A> {
    /// Sends what waits, and what is to be shown: all of it where that is little, or one slice
    /// where it is this session's turn.
    pub(super) async fn say(&mut self, mut turn: Option<Slice>) -> Result<(), Gone> {
        if self.wire.is_none() {
            return Ok(());
        }
        let limits = &self.server.0.limits;
        if turn.is_some() {
            self.server.0.meters.slices.increment(1);
        }
        if turn.is_some() || !self.is_much() {
            let slice = self.view.fill(limits.slice_bytes, &mut self.out);
            if let Some(turn) = &mut turn {
                turn.spend(slice.bytes);
            }
            self.subs.retain(|sub| !slice.ended.contains(&sub.token()));
        }
        if self.view.is_settled() && !self.settled.is_empty() {
            self.out.push(wire::updated(&std::mem::take(&mut self.settled)));
        }
        let pongs = std::mem::take(&mut self.answers);
        if self.out.is_empty() && pongs.is_empty() {
            self.place = turn.map(Slice::end);
            return Ok(());
        }
        let counted = std::mem::take(&mut self.out);
        self.server.0.meters.sent.increment(counted.len() as u64);
        self.ring.push(&counted);
        let mut frames = pongs;
        frames.extend(counted);
        self.send(&frames, turn).await
    }

    /// Sends what does not count for a resumption.
    pub(super) async fn say_uncounted(&mut self, frame: Bytes) -> Result<(), Gone> {
        self.send(&[frame], None).await
    }

    /// A client that does not take what is sent gives up its turn and its place: nobody waits for
    /// it.
    async fn send(&mut self, frames: &[Bytes], turn: Option<Slice>) -> Result<(), Gone> {
        let Some(wire) = &mut self.wire else { return Ok(()) };
        let mut sending = pin!(wire.send(frames));
        let first = std::future::poll_fn(|context| Poll::Ready(sending.as_mut().poll(context)));
        let sent = first.await;
        if let Some(turn) = turn {
            self.place = Some(turn.end());
        }
        match sent {
            Poll::Ready(sent) => sent,
            Poll::Pending => {
                self.place = None;
                let sent = loop {
                    tokio::select! {
                        sent = &mut sending => break sent,
                        // Its client is back on another connection.
                        () = self.door.bell.heard() => if self.door.back.lock().is_some() {
                            break Err(Gone);
                        }
                    }
                };
                self.door.bell.wake();
                sent
            }
        }
    }
}
