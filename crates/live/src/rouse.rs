//! Waking many sessions by and by, so that whoever else has something to do gets in between.
//!
//! An event for thousands makes thousands of tasks ready. Woken all at once they would all stand
//! in the executor's queue before the one task of somebody who asks for something now. So a few
//! are woken at a time; between them the executor looks after everything else that is ready. Those
//! who wait gather what is published meanwhile and write it all at once.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use metrics::Gauge;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// Sessions woken at a time: one or two milliseconds' work of a processor. Fewer cost more, since
/// the executor goes round once for each slice.
const SLICE: usize = 256;

/// The line of those to be woken.
pub(crate) struct Rouse {
    line: Mutex<Line>,
    // In the line at once: who does not fit is woken without standing in it.
    line_max: usize,
    // Where the sessions live.
    runtime: OnceLock<Handle>,
    some_woken: Notify,
    waiting: Gauge,
}

#[derive(Default)]
struct Line {
    wakers: VecDeque<Waker>,
    is_served: bool,
    // Since the start.
    woken: u64,
}

impl Rouse {
    pub(crate) fn new(line_max: usize) -> Self {
        Self {
            line: Mutex::default(),
            line_max,
            runtime: OnceLock::new(),
            some_woken: Notify::new(),
            waiting: metrics::gauge!("weir_live_sessions_to_wake"),
        }
    }

    /// A session was made here.
    pub(crate) fn lives_here(&self) {
        if self.runtime.get().is_none()
            && let Ok(here) = Handle::try_current()
        {
            let _ = self.runtime.set(here);
        }
    }

    /// Wakes few at once, many by and by.
    pub(crate) fn wake(self: &Arc<Self>, wakers: Vec<Waker>) {
        let Some(runtime) = self.runtime.get().filter(|_| wakers.len() > SLICE) else {
            return wakers.into_iter().for_each(Waker::wake);
        };
        let mut line = self.line.lock();
        let room = self.line_max.saturating_sub(line.wakers.len());
        let mut wakers = wakers.into_iter();
        line.wakers.extend(wakers.by_ref().take(room));
        self.waiting.set(line.wakers.len() as f64);
        let begins = !std::mem::replace(&mut line.is_served, true);
        drop(line);
        wakers.for_each(Waker::wake);
        if begins {
            let mut serving = Serving { rouse: self.clone(), is_over: false };
            runtime.spawn(async move {
                while serving.slice() {
                    // The task goes on after what the woken do, and what else came meanwhile.
                    tokio::task::yield_now().await;
                }
            });
        }
    }

    /// Waits until everybody was woken who stands in the line now; who comes later is not waited
    /// for.
    pub(crate) async fn caught_up(&self) {
        let last = {
            let line = self.line.lock();
            line.woken + line.wakers.len() as u64
        };
        loop {
            let mut told = std::pin::pin!(self.some_woken.notified());
            // Listens before it looks: they may be woken in between.
            told.as_mut().enable();
            if self.line.lock().woken >= last {
                return;
            }
            told.await;
        }
    }
}

/// The task that serves the line. Dropped before its end, with its runtime, it wakes all at once.
struct Serving {
    rouse: Arc<Rouse>,
    is_over: bool,
}

impl Serving {
    /// Wakes some; false when nobody is left.
    fn slice(&mut self) -> bool {
        let mut line = self.rouse.line.lock();
        let count = line.wakers.len().min(SLICE);
        let some: Vec<Waker> = line.wakers.drain(..count).collect();
        line.woken += count as u64;
        self.rouse.waiting.set(line.wakers.len() as f64);
        if some.is_empty() {
            // Without the memory that thousands took.
            line.wakers = VecDeque::new();
            line.is_served = false;
            self.is_over = true;
            return false;
        }
        drop(line);
        some.into_iter().for_each(Waker::wake);
        self.rouse.some_woken.notify_waiters();
        true
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if !self.is_over {
            let mut line = self.rouse.line.lock();
            let left = std::mem::take(&mut line.wakers);
            line.woken += left.len() as u64;
            line.is_served = false;
            drop(line);
            left.into_iter().for_each(Waker::wake);
            self.rouse.some_woken.notify_waiters();
        }
    }
}
