//! Which jobs run at this moment, in a small file that outlives the process: a job is written
//! down by one store to memory, which the system keeps in the file when the process dies.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use parking_lot::Mutex;
use weir_base::Id;

/// Jobs that are written down at once; more than these run without.
const SLOTS: usize = 32_768;
const BYTES: usize = SLOTS * size_of::<AtomicI64>();

/// The file in memory.
pub(crate) struct Journal {
    slots: &'static [AtomicI64; SLOTS],
    /// Holds the lock of the file.
    _file: File,
    free: Mutex<Vec<usize>>,
    /// One job runs and no other.
    pub(crate) alone: AtomicBool,
}

/// Room for one job.
pub(crate) struct Slot {
    journal: Arc<Journal>,
    at: usize,
}

/// Room for the jobs of a batch.
pub(crate) struct Slots {
    journal: Arc<Journal>,
    at: Vec<usize>,
}

/// A job that ran when the process before this one died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Suspect {
    pub(crate) id: Id,
    /// No other ran beside it.
    pub(crate) alone: bool,
}

impl Journal {
    /// Opens the file at `path`, made when it is missing, and gives what it holds. The file is
    /// mapped until the process ends.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, Vec<Suspect>)> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        file.try_lock()?;
        if file.metadata()?.len() != BYTES as u64 {
            // Written, and not only made so long: a store has its place on a disk that is full.
            file.set_len(0)?;
            (&file).write_all(&[0; BYTES])?;
        }
        let (protection, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let descriptor = file.as_raw_fd();
        // SAFETY: a new mapping at an address of the system's choice; the descriptor is open.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, shared, descriptor, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is as long as the array, aligned to a page, readable and writable,
        // and never unmapped. The file is locked, and as long as the mapping. Any bits are valid.
        let slots = unsafe { &*start.cast::<[AtomicI64; SLOTS]>() };
        let held = slots.iter().map(|slot| slot.load(Ordering::Relaxed)).filter(|id| *id != 0);
        let suspect = |id: i64| Suspect { id: Id(id.saturating_abs()), alone: id < 0 };
        let suspects = held.map(suspect).collect();
        let free = Mutex::new((0..SLOTS).rev().collect());
        Ok((Self { slots, _file: file, free, alone: AtomicBool::new(false) }, suspects))
    }

    /// Forgets what the process before held.
    pub(crate) fn clear(&self) {
        self.slots.iter().for_each(|slot| slot.store(0, Ordering::Relaxed));
    }

    /// Room for a job, if there is some.
    pub(crate) fn slot(self: &Arc<Self>) -> Option<Slot> {
        let at = self.free.lock().pop()?;
        Some(Slot { journal: self.clone(), at })
    }

    /// `ids` run from now on, as far as there is room.
    pub(crate) fn hold(self: &Arc<Self>, ids: impl ExactSizeIterator<Item = Id>) -> Slots {
        let mut free = self.free.lock();
        let fits = free.len().saturating_sub(ids.len());
        let at = free.split_off(fits);
        drop(free);
        at.iter().zip(ids).for_each(|(at, id)| self.set(*at, id));
        Slots { journal: self.clone(), at }
    }

    fn set(&self, at: usize, id: Id) {
        let id = if self.alone.load(Ordering::Relaxed) { -id.0 } else { id.0 };
        self.slots[at].store(id, Ordering::Relaxed);
    }
}

impl Slot {
    /// Job `id` runs from now on.
    pub(crate) fn set(&self, id: Id) {
        self.journal.set(self.at, id);
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        for at in &self.at {
            self.journal.slots[*at].store(0, Ordering::Relaxed);
        }
        self.journal.free.lock().append(&mut self.at);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.journal.slots[self.at].store(0, Ordering::Relaxed);
        self.journal.free.lock().push(self.at);
    }
}
