//! Activities and objects: any bytes give an activity or an error, in bounded time and memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_activitypub::wire::{parse_activity, parse_object};

fuzz_target!(|data: &[u8]| {
    let _ = parse_activity(data);
    let _ = parse_object(data);
});
