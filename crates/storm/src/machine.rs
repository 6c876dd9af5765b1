//! What a measurement was made on.

use std::fs;

use serde_json::{Value, json};

/// The processor, its cores and the memory.
pub fn machine() -> Value {
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find_map(|line| line.strip_prefix("model name")?.split(':').nth(1));
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    json!({
        "processor": model.map(str::trim),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory_bytes": kib_of(&memory, "MemTotal:"),
        "system": fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim(),
    })
}

/// The memory of this process that is resident, in bytes; 0 where the system does not tell.
pub fn resident_bytes() -> u64 {
    kib_of(&fs::read_to_string("/proc/self/status").unwrap_or_default(), "VmRSS:")
}

/// The memory of process `pid` that is resident, in bytes; 0 where there is none.
pub fn resident_bytes_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    kib_of(&status.unwrap_or_default(), "VmRSS:")
}

/// The most memory of process `pid` that was ever resident, in bytes, or since
/// [`forget_peak_of`]; 0 where there is none.
pub fn peak_bytes_of(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    kib_of(&status.unwrap_or_default(), "VmHWM:")
}

/// Has [`peak_bytes_of`] begin anew; where that is not allowed it goes on as before.
pub fn forget_peak_of(pid: u32) {
    let _ = fs::write(format!("/proc/{pid}/clear_refs"), "5");
}

/// The memory of this process that is resident and no file's, in bytes; 0 where the system does
/// not tell.
pub fn anonymous_bytes() -> u64 {
    kib_of(&fs::read_to_string("/proc/self/status").unwrap_or_default(), "RssAnon:")
}

/// The process on this machine that listens on `port`, of those that this one may look at.
pub fn listener(port: u16) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let tables: String = tables.into_iter().flatten().collect();
    let ends = format!(":{port:04X}");
    let sockets: Vec<String> = tables
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            // The state of one that listens is 0A; the tenth field is the number of its socket.
            let fits = fields.get(1)?.ends_with(&ends) && *fields.get(3)? == "0A";
            fits.then(|| format!("socket:[{}]", fields.get(9).unwrap_or(&"")))
        })
        .collect();
    let is_held = |pid: u32| {
        let held = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut names = held.filter_map(|entry| fs::read_link(entry.path()).ok());
        names.any(|name| sockets.iter().any(|socket| name.as_os_str() == socket.as_str()))
    };
    let all = fs::read_dir("/proc").ok()?.flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    if sockets.is_empty() { None } else { pids.find(|pid| is_held(*pid)) }
}

/// The processor time of this process so far, in seconds; 0 where the system does not tell.
pub fn processor_s() -> f64 {
    processor_s_of(std::process::id())
}

/// The processor time of process `pid` so far, in seconds; 0 where the system does not tell.
pub fn processor_s_of(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    let ticks = |at| after_name.split(' ').nth(at).and_then(|text: &str| text.parse::<f64>().ok());
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}

fn kib_of(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1_024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_holds_memory_and_a_machine_has_some() {
        assert!(resident_bytes() > 100_000);
        assert!(machine()["memory_bytes"].as_u64().unwrap() > resident_bytes());
        let own = std::process::id();
        assert!(resident_bytes_of(own) > 100_000 && peak_bytes_of(own) > 100_000);
    }

    #[test]
    fn whoever_listens_on_a_port_is_found() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert_eq!(listener(port), Some(std::process::id()));
        drop(socket);
        assert_eq!(listener(port), None);
    }
}
