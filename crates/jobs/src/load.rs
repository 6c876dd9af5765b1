//! What the machine, the process and the database have left: the controller's senses.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_db::Db;

use crate::controller::Machine;

/// The part of the memory that may be used which is the budget when none is set.
const MEMORY_SHARE: (u64, u64) = (3, 4);
/// Memory is taken to be so much where the system does not tell: 1 GiB.
const MEMORY_BYTES: u64 = 1 << 30;
/// Descriptors where the system does not tell.
const DESCRIPTORS: u64 = 1_024;

/// How long the engine's own reads and writes take: smoothed, in µs.
#[derive(Default)]
pub(crate) struct DatabaseTimes {
    us: AtomicU64,
}

impl DatabaseTimes {
    /// A read or write took `took`.
    pub(crate) fn took(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let before = self.us.load(Ordering::Relaxed);
        self.us.store(before - before / 8 + us / 8, Ordering::Relaxed);
    }

    /// In ms. What was measured long ago counts less each time it is asked for.
    fn ms(&self) -> u32 {
        let us = self.us.load(Ordering::Relaxed);
        self.us.store(us - us / 16, Ordering::Relaxed);
        u32::try_from(us / 1_000).unwrap_or(u32::MAX)
    }
}

/// Reads the system's numbers, each time for the time since the last.
pub(crate) struct Load {
    cores: usize,
    process: Share,
    machine: Share,
}

/// A part of a growing whole, smoothed.
#[derive(Default)]
struct Share {
    last: Option<(u64, u64)>,
    permille: u32,
}

impl Share {
    /// `part` of `whole` since the beginning; the answer is for the last second or so.
    fn now(&mut self, part: u64, whole: u64) -> u32 {
        if let Some((last_part, last_whole)) = self.last.replace((part, whole)) {
            let whole = whole.saturating_sub(last_whole).max(1);
            let now = part.saturating_sub(last_part).saturating_mul(1_000) / whole;
            let now = u32::try_from(now).unwrap_or(u32::MAX).min(1_000);
            self.permille = (3 * self.permille).midpoint(now) / 2;
        }
        self.permille
    }
}

impl Load {
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { cores, process: Share::default(), machine: Share::default() }
    }

    /// Threads that can run at once.
    pub(crate) fn cores(&self) -> usize {
        self.cores
    }

    pub(crate) fn read(&mut self, db: &Db, times: &DatabaseTimes, memory_bytes: u64) -> Machine {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let (busy, all, machine_cores) = machine_ticks(&stat);
        // The ticks of all cores, of which this process may have those of some.
        let ours = all / machine_cores.max(1) * self.cores as u64;
        let waiting = db.waiting();
        Machine {
            process: self.process.now(process_ticks(&own), ours),
            machine: self.machine.now(busy, all),
            database_waiting: waiting.0.max(waiting.1),
            database_ms: times.ms(),
            memory: permille(resident_bytes(), memory_bytes),
        }
    }
}

fn permille(part: u64, whole: u64) -> u32 {
    let permille = part.saturating_mul(1_000) / whole.max(1);
    u32::try_from(permille).unwrap_or(u32::MAX)
}

/// Of the first line of `/proc/stat`: busy, all; and how many cores the machine has.
fn machine_ticks(stat: &str) -> (u64, u64, u64) {
    let mut lines = stat.lines();
    let first = lines.next().unwrap_or_default();
    // user nice system idle iowait irq softirq steal; what guests take is in user already.
    let ticks: Vec<u64> =
        first.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
    let all: u64 = ticks.iter().sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    let cores = lines.take_while(|line| line.starts_with("cpu")).count() as u64;
    (all - idle, all, cores.max(1))
}

/// User and system time of `/proc/self/stat`.
fn process_ticks(stat: &str) -> u64 {
    // The name, in brackets, may hold anything.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// The memory that is resident, in bytes; 0 where the system does not tell.
pub(crate) fn resident_bytes() -> u64 {
    kib_of(&fs::read_to_string("/proc/self/status").unwrap_or_default(), "VmRSS:")
        .map_or(0, |kib| kib.saturating_mul(1_024))
}

/// Descriptors that the process may open.
pub(crate) fn descriptors_max() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    soft.map_or(DESCRIPTORS, |soft| soft.parse().unwrap_or(u64::MAX))
}

/// The memory that the process should stay within when nobody says: three quarters of what its
/// control group or the machine has, in bytes.
pub(crate) fn memory_budget() -> u64 {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let machine = kib_of(&info, "MemTotal:").map_or(MEMORY_BYTES, |kib| kib.saturating_mul(1_024));
    let most = group_limit().map_or(machine, |limit| limit.min(machine));
    most / MEMORY_SHARE.1 * MEMORY_SHARE.0
}

/// The least limit of the control groups that the process is in.
fn group_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let root = Path::new("/sys/fs/cgroup");
    let own = root.join(group);
    let unified = own.ancestors().take_while(|path| path.starts_with(root));
    let files = unified.map(|path| path.join("memory.max"));
    let files = files.chain([root.join("memory/memory.limit_in_bytes")]);
    files.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()).min()
}

fn kib_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_numbers_are_read_as_they_are_written() {
        let stat = "cpu  100 1 50 800 40 5 4 0 7 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n";
        assert_eq!(machine_ticks(stat), (160, 1_000, 2));
        assert_eq!(machine_ticks(""), (0, 0, 1));
        let own = "7 (a ) b) S 1 7 7 0 -1 4194304 500 0 0 0 120 30 0 0 20 0 9 0 1 1 1";
        assert_eq!(process_ticks(own), 150);
        assert_eq!(process_ticks(""), 0);
        let status = "Name:\tweir\nVmRSS:\t  2048 kB\n";
        assert_eq!(kib_of(status, "VmRSS:"), Some(2_048));
    }

    #[test]
    fn a_share_is_of_the_time_since_it_was_last_asked_for() {
        let mut share = Share::default();
        assert_eq!(share.now(500, 1_000), 0);
        for step in 1..40 {
            share.now(500 + step * 90, 1_000 + step * 100);
        }
        let now = share.now(500 + 3_600, 5_000);
        assert!((850..=900).contains(&now), "{now}");
        assert!(share.now(0, 0) < now, "a counter that went back is no load");
    }

    #[test]
    fn this_process_is_measured() {
        assert!(resident_bytes() > 1 << 20);
        assert!(memory_budget() > resident_bytes());
        assert!(descriptors_max() > 3);
    }
}
