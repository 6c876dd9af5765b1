//! The parsers meet a corpus of messages, whole, cut off and damaged: they may refuse them, they
//! may not panic, loop, or read what they write as something else. Whatever once broke them
//! belongs into `tests/corpus/messages`.

use std::path::Path;

use weir_base::Random;
use weir_ddp::wire::{Ejson, parse, parse_json, sockjs};

const DAMAGES: usize = 500;

fn read(text: &str) {
    let _ = parse(text);
    let _ = sockjs::messages(text);
    if let Ok(json) = parse_json(text)
        && let Ok(value) = Ejson::read(&json)
    {
        assert_eq!(Ejson::read(&value.write()), Ok(value), "{text}");
    }
}

#[test]
fn messages_whole_cut_off_and_damaged_are_read_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/messages");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        files += 1;
        for end in 0..=bytes.len() {
            read(&String::from_utf8_lossy(&bytes[..end]));
        }
        let random = Random::seeded(files);
        for _ in 0..DAMAGES {
            let mut damaged = bytes.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(damaged.len() as u64) as usize;
                damaged[at] = random.below(256) as u8;
            }
            read(&String::from_utf8_lossy(&damaged));
        }
    }
    assert!(files >= 5);
}
