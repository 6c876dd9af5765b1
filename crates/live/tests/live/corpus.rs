//! The frame parser meets a corpus of streams, whole, cut off and damaged: it may refuse them, it
//! may not panic, loop or hold more than its limit.
//!
//! A file in `tests/corpus/frames` is a stream in hexadecimal, with `#` before comments. Whatever
//! once broke the parser belongs there.

use std::path::Path;

use weir_base::Random;
use weir_live::socket::{Decoder, Message, Peer};

const LIMIT: usize = 512;
const DAMAGES: usize = 300;

fn corpus() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/frames");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.map(|path| (path.display().to_string(), parse(&path))).collect()
}

fn parse(path: &Path) -> Vec<u8> {
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let bytes = lines.flat_map(str::split_whitespace).map(|hex| u8::from_str_radix(hex, 16));
    bytes.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Decodes what can be; tells how many messages came.
fn decode(stream: &[u8], chunk: usize) -> usize {
    let mut count = 0;
    for peer in [Peer::Client, Peer::Server] {
        let mut decoder = Decoder::new(peer, LIMIT);
        for mut input in stream.chunks(chunk) {
            loop {
                let before = input.len();
                match decoder.decode(&mut input) {
                    Ok(Some(message)) => {
                        assert!(input.len() < before, "a message out of nothing");
                        assert!(held_bytes(&message) <= LIMIT);
                        count += 1;
                    }
                    Ok(None) => {
                        assert!(input.is_empty(), "input was left without a message");
                        break;
                    }
                    Err(_) => break,
                }
            }
        }
    }
    count
}

fn held_bytes(message: &Message) -> usize {
    match message {
        Message::Text(text) => text.len(),
        Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len(),
        Message::Close(reason) => reason.as_ref().map_or(0, |reason| reason.reason.len()),
    }
}

#[test]
fn no_stream_makes_the_parser_panic_or_hold_too_much() {
    let (corpus, random) = (corpus(), Random::seeded(42));
    let mut messages = 0;
    for (_, stream) in &corpus {
        messages += decode(stream, usize::MAX);
        for end in 0..stream.len() {
            decode(&stream[..end], 1 + end % 7);
        }
        for _ in 0..DAMAGES {
            let mut damaged = stream.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(damaged.len() as u64) as usize;
                damaged[at] = random.below(256) as u8;
            }
            decode(&damaged, 1 + random.below(20) as usize);
        }
    }
    assert!(corpus.len() >= 10 && messages >= 10, "{} files, {messages}", corpus.len());
}

#[test]
fn noise_makes_no_difference_to_that() {
    let random = Random::seeded(7);
    for _ in 0..2_000 {
        let mut noise = vec![0; random.below(300) as usize];
        random.fill(&mut noise);
        decode(&noise, 1 + random.below(50) as usize);
    }
}
