//! What `crate::sync` gives, made of what shuttle schedules.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use shuttle::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

#[derive(Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

#[derive(Default)]
pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap()
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap()
    }
}

/// As tokio's: one permit, which is kept while nobody waits.
pub(crate) struct Notify(Mutex<Waiters>);

#[derive(Default)]
struct Waiters {
    permit: bool,
    next: u64,
    waiting: VecDeque<(u64, Waker)>,
    /// Counts wake-ups of all.
    all: u64,
}

impl Notify {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Waiters::default()))
    }

    pub(crate) fn notify_one(&self) {
        let mut waiters = self.0.lock();
        match waiters.waiting.pop_front() {
            Some((_, waker)) => waker.wake(),
            None => waiters.permit = true,
        }
    }

    pub(crate) fn notify_waiters(&self) {
        let mut waiters = self.0.lock();
        waiters.all += 1;
        waiters.waiting.drain(..).for_each(|(_, waker)| waker.wake());
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        Notified { notify: self, all: self.0.lock().all, number: None }
    }
}

pub(crate) struct Notified<'n> {
    notify: &'n Notify,
    all: u64,
    number: Option<u64>,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let notify = self.notify;
        let mut waiters = notify.0.lock();
        if waiters.all != self.all {
            return Poll::Ready(());
        }
        if let Some(number) = self.number {
            let mine = waiters.waiting.iter_mut().find(|(waiting, _)| *waiting == number);
            let Some((_, waker)) = mine else { return Poll::Ready(()) };
            *waker = context.waker().clone();
            return Poll::Pending;
        }
        if std::mem::take(&mut waiters.permit) {
            return Poll::Ready(());
        }
        waiters.next += 1;
        let number = waiters.next;
        waiters.waiting.push_back((number, context.waker().clone()));
        self.number = Some(number);
        Poll::Pending
    }
}
