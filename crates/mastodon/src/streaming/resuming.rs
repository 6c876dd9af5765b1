//! What somebody missed who comes back, told in slices: nothing of it lies in a buffer, and others
//! get their turn between.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use weir_community::streams::{Event, Topic};
use weir_live::admission::Busy;
use weir_live::{Cursor, Resumed, Shared};

use super::events::Events;
use super::stream::Stream;

/// What one slice tells: so many events, or about so many bytes.
const SLICE_EVENTS: usize = 64;
const SLICE_BYTES: usize = 64 * weir_base::KIB;

/// Where a stream begins, and what is told before.
pub(crate) struct Resuming {
    stream: Stream,
    missed: VecDeque<Missed>,
    complete: bool,
    /// The place it goes on from where not all was told. None within a connection that listens to
    /// other streams: these may still owe what is before it.
    at: Option<Cursor>,
    over: bool,
}

/// An event, and for whom of one connection.
struct Missed {
    topic: Topic,
    shared: Arc<Shared<Event>>,
    to_new: bool,
    to_others: bool,
}

/// To which streams of a connection an event goes.
pub(super) struct To<'s> {
    new: &'s Stream,
    to_new: bool,
    to_others: bool,
}

impl To<'_> {
    pub(super) fn takes(&self, stream: &Stream) -> bool {
        if stream == self.new { self.to_new } else { self.to_others }
    }
}

impl Resuming {
    /// `stream` gets all that was missed; other streams that share its topics listened already, and
    /// get what still waited for them.
    pub(super) fn after(stream: Stream, resumed: Resumed<Topic, Event>) -> Self {
        let place = |topic: &Topic, shared: &Shared<Event>| (shared.offset(), topic.clone());
        let waited = resumed.withdrawn.iter().map(|(topic, shared)| place(topic, shared));
        let mut waited: HashSet<_> = waited.collect();
        let new = resumed.missed.into_iter().map(|(topic, shared)| {
            let to_others = waited.remove(&place(&topic, &shared));
            Missed { topic, shared, to_new: true, to_others }
        });
        let mut missed: Vec<Missed> = new.collect();
        // Older than the client's place: the others alone lack it.
        let older = resumed.withdrawn.into_iter();
        let older = older.filter(|(topic, shared)| waited.contains(&place(topic, shared)));
        missed.extend(older.map(|(topic, shared)| Missed {
            topic,
            shared,
            to_new: false,
            to_others: true,
        }));
        missed.sort_by_key(|one| one.shared.offset());
        Self { stream, missed: missed.into(), complete: true, at: None, over: false }
    }

    /// What was missed is not known; `at` is the place from which all is told.
    pub(super) fn anew(stream: Stream, at: Option<Cursor>) -> Self {
        Self { stream, missed: VecDeque::new(), complete: false, at, over: false }
    }

    /// Whether all was told.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// The next slice, for who was let in; with the last one that this was all, or that it is not
    /// known.
    pub(crate) async fn slice(&mut self, events: &Events) -> Vec<Bytes> {
        let (mut out, mut told) = (Vec::new(), 0);
        while told < SLICE_EVENTS && out.iter().map(Bytes::len).sum::<usize>() < SLICE_BYTES {
            let Some(one) = self.missed.pop_front() else {
                self.over = true;
                out.push(events.resumed(&self.stream, self.complete, self.at));
                break;
            };
            let (to_new, to_others) = (one.to_new, one.to_others);
            let to = To { new: &self.stream, to_new, to_others };
            events.tell(&one.topic, &one.shared, Some(&to), &mut out).await;
            told += 1;
        }
        if self.missed.is_empty() {
            self.missed = VecDeque::new();
        }
        out
    }

    /// The next slice, after standing in line with those who arrive; none where all was told.
    ///
    /// # Errors
    /// When the line is full: the client comes again, and resumes.
    pub(crate) async fn next(&mut self, events: &Events) -> Result<Option<Vec<Bytes>>, Busy> {
        if self.over {
            return Ok(None);
        }
        let _place = events.admission().enter().await?;
        Ok(Some(self.slice(events).await))
    }
}

#[cfg(test)]
mod tests {
    use weir_live::Hub;

    use super::*;
    use crate::streaming::stream::Kind;

    fn stream(name: &str) -> Stream {
        Stream {
            topics: [Topic::Public].into(),
            fixed: None,
            label: Arc::from([name.to_owned()]),
            kind: Kind::Public,
            only_media: false,
            notifications: false,
        }
    }

    fn told(resuming: &Resuming) -> Vec<(u64, bool, bool)> {
        let one = |one: &Missed| (one.shared.offset(), one.to_new, one.to_others);
        resuming.missed.iter().map(one).collect()
    }

    #[test]
    fn the_new_stream_gets_what_it_missed_and_the_others_what_waited() {
        let hub: Hub<Topic, Event> = Hub::new(weir_live::Limits::default());
        let session = hub.session(0).unwrap();
        let tell = || hub.publish(&Topic::Public, Shared::sized(Event::PeopleChanged, 10));
        let start = hub.cursor();
        (0..2).for_each(|_| assert!(tell() <= 1));
        session.subscribe(Topic::Public).unwrap();
        (0..2).for_each(|_| assert!(tell() <= 1));
        let resumed = session.resume(&[Topic::Public], start).unwrap();
        let resuming = Resuming::after(stream("new"), resumed);
        let all = [(1, true, false), (2, true, false), (3, true, true), (4, true, true)];
        assert_eq!(told(&resuming), all);
        tell();
        let at = hub.cursor();
        tell();
        let resumed = session.resume(&[Topic::Public], at).unwrap();
        let resuming = Resuming::after(stream("new"), resumed);
        assert_eq!(told(&resuming), [(5, false, true), (6, true, true)]);
        let to = To { new: &stream("new"), to_new: true, to_others: false };
        assert!(to.takes(&stream("new")) && !to.takes(&stream("old")));
    }
}
