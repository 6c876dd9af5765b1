//! What the system knows of this process: its descriptors and its memory.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Raises the limit of open descriptors as far as the system allows, and answers it.
pub fn raise_descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a live `rlimit`, which the call fills.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return 1024;
    }
    let wanted = libc::rlimit { rlim_cur: limit.rlim_max, rlim_max: limit.rlim_max };
    // SAFETY: the pointer is to a live `rlimit`, which the call only reads.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &wanted) } == 0 {
        wanted.rlim_cur
    } else {
        limit.rlim_cur
    }
}

/// The memory that is resident, in bytes; 0 where the system does not tell.
pub fn resident_bytes() -> u64 {
    // SAFETY: the call takes no pointer.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(0) as u64;
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0_u64) * page_bytes
}

/// What is free on the disk that holds `path`, in bytes; 0 where the system does not tell.
pub fn free_disk_bytes(path: &Path) -> u64 {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return 0 };
    let mut about = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: both pointers are to live memory: a text that ends in zero, and room for what the
    // call fills; all zeros is a valid `statvfs` should it fail.
    let about = unsafe {
        libc::statvfs(path.as_ptr(), about.as_mut_ptr());
        about.assume_init()
    };
    about.f_bavail * about.f_frsize
}

/// The descriptors that are open; 0 where the system does not tell.
pub fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// The processor time used so far, in seconds.
pub fn cpu_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to memory of the right size, which the call fills; all zeros is a
    // valid `rusage` should it fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
