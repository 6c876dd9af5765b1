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

/// The processor time of this process so far, in seconds; 0 where the system does not tell.
pub fn processor_s() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
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
    }
}
