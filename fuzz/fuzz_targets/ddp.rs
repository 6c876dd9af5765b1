//! DDP messages, EJSON and SockJS frames: any text gives a message or an error, in bounded time and
//! memory, and what is read is written as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_ddp::wire::{Ejson, parse, parse_json, sockjs};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let _ = parse(text);
    let _ = sockjs::messages(text);
    if let Ok(json) = parse_json(text)
        && let Ok(value) = Ejson::read(&json)
    {
        assert_eq!(Ejson::read(&value.write()), Ok(value));
    }
});
