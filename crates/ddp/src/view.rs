//! What one session has been told: for each subscription the result it was shown, and what is on
//! its way to the newest. Revisions are named, never copied, so a view takes a few bytes for each
//! subscription, whatever its documents weigh.
//!
//! A document is the union of what the subscriptions say of it, in their order. That union is
//! never stored: it is looked up in the results when one of them moves on.

use std::sync::Arc;

use bytes::Bytes;

use crate::document::{self, DocKey, Revision, Snapshot, Strategy};
use crate::wire::{self, Failure};

/// What one document's change counts for at least, in bytes: it takes time, however short.
const STEP_BYTES_MIN: usize = 64;

/// The subscriptions of a session, in their order.
#[derive(Default)]
pub struct View {
    subs: Vec<Sub>,
    // Whether the client takes compressed messages.
    deflating: bool,
}

struct Sub {
    token: u32,
    id: Box<str>,
    shown: Arc<Snapshot>,
    next: Option<Next>,
    ready: bool,
    // The client did not ask for it and hears neither `ready` nor `nosub`.
    silent: bool,
    ends: Option<Box<End>>,
}

/// A result on its way: documents below the cursor are as in `to`, the others as shown before.
struct Next {
    to: Arc<Snapshot>,
    cursor: u64,
}

/// Why a subscription ends.
struct End(Option<Failure>);

/// What a slice did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Bytes it filled.
    pub bytes: usize,
    /// Tokens of subscriptions that are over.
    pub ended: Vec<u32>,
}

impl Sub {
    /// The revision of a document as it was last shown.
    fn now(&self, number: u64) -> Option<&Arc<Revision>> {
        match &self.next {
            Some(next) if number < next.cursor => next.to.find(number),
            _ => self.shown.find(number),
        }
    }

    fn mask(&self) -> u64 {
        self.shown.mask() | self.next.as_ref().map_or(0, |next| next.to.mask())
    }

    /// Whatever was under way stays as far as it has come.
    fn halt(&mut self) {
        if let Some(next) = self.next.take()
            && next.cursor > 0
        {
            self.shown = Snapshot::spliced(&next.to, &self.shown, next.cursor);
        }
    }

    fn move_to(&mut self, to: Arc<Snapshot>) {
        self.halt();
        self.next = Some(Next { to, cursor: 0 });
    }
}

impl View {
    /// Whether documents go out compressed from now on.
    pub fn deflate(&mut self, deflating: bool) {
        self.deflating = deflating;
    }

    /// Whether documents go out compressed.
    pub fn is_deflating(&self) -> bool {
        self.deflating
    }

    /// One more subscription, with nothing shown yet. `token` is the session's name for it.
    pub fn open(&mut self, token: u32, id: &str) {
        self.push(token, id, false);
    }

    /// A subscription that every session has without asking: nothing is said of itself.
    pub fn open_silent(&mut self, token: u32) {
        self.push(token, "", true);
    }

    fn push(&mut self, token: u32, id: &str, silent: bool) {
        let (id, shown) = (id.into(), Snapshot::empty());
        self.subs.push(Sub { token, id, shown, next: None, ready: false, silent, ends: None });
    }

    /// A subscription has a new result.
    pub fn show(&mut self, token: u32, to: Arc<Snapshot>) {
        if let Some(sub) = self.subs.iter_mut().find(|sub| sub.token == token && sub.ends.is_none())
        {
            sub.move_to(to);
        }
    }

    /// A subscription ends: its documents go, then `nosub` says so.
    pub fn close(&mut self, token: u32, failure: Option<Failure>) {
        if let Some(sub) = self.subs.iter_mut().find(|sub| sub.token == token && sub.ends.is_none())
        {
            sub.ends = Some(Box::new(End(failure)));
            sub.move_to(Snapshot::empty());
        }
    }

    /// Whether there is a subscription that the client names so.
    pub fn token_of(&self, id: &str) -> Option<u32> {
        let open = |sub: &&Sub| &*sub.id == id && !sub.silent && sub.ends.is_none();
        self.subs.iter().find(open).map(|sub| sub.token)
    }

    /// How many subscriptions there are, those that are ending too.
    pub fn len(&self) -> usize {
        self.subs.len()
    }

    /// Whether the client asked for any.
    pub fn has_asked(&self) -> bool {
        self.subs.iter().any(|sub| !sub.silent)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.subs.is_empty()
    }

    /// Whether everything was shown.
    pub fn is_settled(&self) -> bool {
        self.subs.iter().all(|sub| sub.next.is_none())
    }

    /// Whether the client waits for its first sight of something it asked for.
    pub fn is_awaited(&self) -> bool {
        self.subs.iter().any(|sub| !sub.ready)
    }

    /// About how much is still to be shown, in bytes.
    pub fn waiting_bytes(&self) -> usize {
        let of = |sub: &Sub| {
            let next = sub.next.as_ref()?;
            // Where much was shown already, most of it stays.
            let both = sub.shown.revisions().len().min(next.to.revisions().len());
            let all = next.to.size_bytes().max(sub.shown.revisions().len() * STEP_BYTES_MIN);
            let share = next.to.revisions().len().max(1);
            Some(if sub.ready && both * 2 > share { all / share } else { all })
        };
        self.subs.iter().filter_map(of).sum()
    }

    /// Writes about `budget_bytes` of what is to be shown into `out`, the earliest subscription
    /// first, and says which of them are ready or over by that.
    pub fn fill(&mut self, budget_bytes: usize, out: &mut Vec<Bytes>) -> Slice {
        let mut slice = Slice::default();
        let (mut ready, mut at) = (Vec::new(), 0);
        while at < self.subs.len() && slice.bytes < budget_bytes {
            if self.subs[at].next.is_none() {
                at += 1;
                continue;
            }
            if !self.step(at, budget_bytes, out, &mut slice.bytes) {
                break;
            }
            let sub = &mut self.subs[at];
            if let Some(next) = sub.next.take() {
                sub.shown = next.to;
            }
            if let Some(end) = sub.ends.take() {
                if !sub.silent {
                    out.push(wire::nosub(&sub.id, end.0.as_ref()));
                }
                slice.ended.push(sub.token);
                self.subs.remove(at);
            } else if !std::mem::replace(&mut sub.ready, true) && !sub.silent {
                ready.push(sub.id.to_string());
            }
        }
        if !ready.is_empty() {
            out.push(wire::ready(&ready));
        }
        slice
    }

    /// Moves one subscription on; true once it has arrived.
    fn step(&mut self, at: usize, budget: usize, out: &mut Vec<Bytes>, bytes: &mut usize) -> bool {
        let Some(Next { to, mut cursor }) = self.subs[at].next.take() else { return true };
        let shown = self.subs[at].shown.clone();
        let ends = self.subs[at].ends.is_some();
        let mask = shown.mask() | to.mask();
        let shared = self.subs.iter().enumerate().any(|(i, sub)| i != at && sub.mask() & mask != 0);
        let (mut old, mut new) = (shown.position(cursor), to.position(cursor));
        let arrived = loop {
            let (before, after) = (shown.revisions().get(old), to.revisions().get(new));
            let number = match (before, after) {
                (None, None) => break true,
                (Some(one), None) | (None, Some(one)) => one.key().number(),
                (Some(one), Some(other)) => one.key().number().min(other.key().number()),
            };
            if *bytes >= budget {
                break false;
            }
            let before = before.filter(|one| one.key().number() == number);
            let after = after.filter(|one| one.key().number() == number);
            old += usize::from(before.is_some());
            new += usize::from(after.is_some());
            cursor = number + 1;
            let same =
                matches!((before, after), (Some(one), Some(other)) if Arc::ptr_eq(one, other));
            let frame = match same {
                true => None,
                false if shared => self.merged(at, number, before, after, ends),
                false => self.alone(before, after, ends),
            };
            if let Some(frame) = frame {
                *bytes += frame.len().max(STEP_BYTES_MIN);
                out.push(frame);
            }
        };
        self.subs[at].next = Some(Next { to, cursor });
        arrived
    }

    /// What a document's change in one subscription changes for the client, among the others.
    fn merged(
        &self,
        at: usize,
        number: u64,
        before: Option<&Arc<Revision>>,
        after: Option<&Arc<Revision>>,
        ends: bool,
    ) -> Option<Bytes> {
        let key = before.or(after)?.key();
        let others = |from: usize, to: usize| {
            self.subs[from..to].iter().filter_map(move |sub| sub.now(number))
        };
        let with = |own| {
            let all = others(0, at).chain(own).chain(others(at + 1, self.subs.len()));
            let mut list: Vec<&Arc<Revision>> = Vec::new();
            for one in all {
                if !list.iter().any(|known| Arc::ptr_eq(known, one)) {
                    list.push(one);
                }
            }
            list
        };
        match key.strategy() {
            Strategy::ServerMerge => self.merge(key, &with(before), &with(after)),
            Strategy::NoMergeMulti => {
                let shared = others(0, at).chain(others(at + 1, self.subs.len())).next().is_some();
                match (before, after) {
                    (Some(_), None) if shared => None,
                    (None, Some(after)) if shared => {
                        document::changed(key, &Default::default(), &document::union(&[after]))
                    }
                    _ => self.alone(before, after, ends),
                }
            }
            Strategy::NoMerge | Strategy::NoMergeNoHistory => self.alone(before, after, ends),
        }
    }

    /// What a document's change is where no other subscription has a say.
    fn alone(
        &self,
        before: Option<&Arc<Revision>>,
        after: Option<&Arc<Revision>>,
        ends: bool,
    ) -> Option<Bytes> {
        match (before, after) {
            (None, Some(after)) => Some(after.added(self.deflating)),
            (Some(before), Some(after)) => after.changed_from(before),
            (Some(before), None) => {
                let kept = ends && before.key().strategy() == Strategy::NoMergeNoHistory;
                (!kept).then(|| before.key().removed())
            }
            (None, None) => None,
        }
    }

    fn merge(
        &self,
        key: &DocKey,
        before: &[&Arc<Revision>],
        after: &[&Arc<Revision>],
    ) -> Option<Bytes> {
        let union = document::union;
        match (before, after) {
            ([], []) => None,
            ([], [one]) => Some(one.added(self.deflating)),
            ([], many) => Some(document::added(key, &union(many))),
            (_, []) => Some(key.removed()),
            ([one], [other]) if Arc::ptr_eq(one, other) => None,
            ([one], [other]) => other.changed_from(one),
            (some, others) => document::changed(key, &union(some), &union(others)),
        }
    }
}

#[cfg(test)]
mod tests;
