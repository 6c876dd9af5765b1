//! How the threads of the process are let at the processor.

use std::mem::size_of;

/// The shortest turn that Linux gives, in ns.
const SHORT_TURN_NS: u64 = 100_000;

/// How long a thread is left at the processor while others want it too.
///
/// Its share stays what it is: a thread with shorter turns has more of them, and where it has
/// something to do it is let in at once, instead of when the turn of another ends, which is up to
/// 4 ms later. Only Linux 6.12 and later know of it; elsewhere nothing changes, nor where it is
/// refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turns {
    /// For threads that do little at a time, and that somebody waits for.
    Short,
    /// What the system gives to every thread.
    Usual,
    /// Before all others, as soon as there is something to do: for a thread that measures others
    /// on the same processors, and does next to nothing. Only for who may ask for real time.
    First,
}

impl Turns {
    /// Asks for such turns for this thread, and for those that it starts from now on.
    pub fn take(self) {
        #[cfg(target_os = "linux")]
        if let Some(mut now) = attributes() {
            match self {
                Self::Short => now.sched_runtime = SHORT_TURN_NS,
                Self::Usual => now.sched_runtime = 0,
                Self::First => {
                    now.sched_policy = libc::SCHED_RR as u32;
                    now.sched_priority = 1;
                }
            }
            // SAFETY: the structure is as long as it says, and outlives the call; 0 is this thread.
            unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const now, 0) };
        }
    }
}

/// What the scheduler has of this thread: set together, and so read before.
#[cfg(target_os = "linux")]
fn attributes() -> Option<libc::sched_attr> {
    const BYTES: u32 = size_of::<libc::sched_attr>() as u32;
    let mut now = libc::sched_attr {
        size: BYTES,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the system writes at most the `BYTES` that the structure has; 0 is this thread.
    let read = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut now, BYTES, 0) };
    (read == 0).then_some(now)
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    /// The turns, and all else.
    fn seen() -> (u64, (u32, i32, u64)) {
        let now = attributes().unwrap();
        (now.sched_runtime, (now.sched_policy, now.sched_nice, now.sched_flags))
    }

    #[test]
    fn short_turns_change_nothing_else_are_passed_on_and_can_be_given_up() {
        let seen = std::thread::spawn(|| {
            let before = seen();
            Turns::Short.take();
            let (short, passed_on) = (seen(), std::thread::spawn(seen).join().unwrap());
            Turns::Usual.take();
            [before, short, passed_on, seen()]
        });
        let [before, short, passed_on, after] = seen.join().unwrap();
        assert_eq!((short.1, passed_on, after), (before.1, short, before));
        // Older systems tell of no turns.
        if before.0 > 0 {
            assert_eq!(short.0, SHORT_TURN_NS);
        }
    }
}
