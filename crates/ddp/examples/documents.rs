//! A DDP server of documents in memory: 19 publications, 654 documents, 674 KB. What a burst of
//! log-ins costs without a database is measured on it: `weir storm logins --target ws://…`.
//!
//! `cargo run --release -p weir-ddp --example documents -- 127.0.0.1:8090`
#![allow(clippy::print_stdout)]

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weir_base::{Random, Turns};
use weir_ddp::{
    Answer, Builder, Documents, Failure, Opening, Revision, Source, Trouble, Update, Work, router,
};

const PUBLICATIONS: [&str; 19] = [
    "pub1", "pub2", "pub3", "pub4", "pub5", "pub6", "pub7", "pub8", "pub9", "pub10", "pub11",
    "pub12", "pub13", "pub14", "pub15", "pub16", "pub17", "pub18", "pub19",
];
/// Documents in all.
const DOCUMENTS: usize = 654;
/// The text in each, so that all take 674 KB on the wire.
const TEXT_BYTES: usize = 820;

/// A publication's documents, made when somebody asks.
struct Fixed {
    documents: Documents,
    at: usize,
}

impl Source for Fixed {
    fn wait(&mut self) -> Work<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn update(&mut self) -> Work<'_, Result<Update, Trouble>> {
        let mine = (0..DOCUMENTS).filter(|number| number % PUBLICATIONS.len() == self.at);
        let made: Result<Vec<Arc<Revision>>, _> = mine
            .map(|number| {
                let document = document(number);
                let id = format!("doc{number:05}");
                self.documents.revision(&format!("coll{}", self.at), &id, &document)
            })
            .collect();
        let update = made.map(Update::Whole);
        let trouble = |error: weir_ddp::document::NoDocument| {
            Trouble::Over(Failure::new(500, error.to_string()))
        };
        Box::pin(async move { update.map_err(trouble) })
    }
}

fn document(number: usize) -> Value {
    let words = ["river", "weir", "flood", "bank", "lock", "mill", "reed", "heron"];
    let mut text = String::with_capacity(TEXT_BYTES + 8);
    let mut state = number as u64 * 2_654_435_761 + 1;
    while text.len() < TEXT_BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        text.push_str(words[(state >> 33) as usize % words.len()]);
        text.push(' ');
    }
    text.truncate(TEXT_BYTES);
    json!({
        "title": format!("Document {number}"), "text": text, "number": number,
        "createdAt": { "$date": 1_700_000_000_000_i64 + number as i64 }, "tags": ["a", "b"],
        "owner": format!("user{}", number % 50), "done": number.is_multiple_of(2),
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // As `weir serve` has it: somebody waits for what these threads do.
    let threads = tokio::runtime::Builder::new_multi_thread()
        .on_thread_start(|| Turns::Short.take())
        .enable_all()
        .build()?;
    threads.block_on(serve())
}

async fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let address: SocketAddr =
        std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8090".into()).parse()?;
    let mut builder = Builder::<()>::new()
        .reading_method::<Value, Value, _>("echo", async |_, value: Value| Ok(Answer::of(&value)));
    for (at, name) in PUBLICATIONS.into_iter().enumerate() {
        builder = builder.publication(name, move |(): &(), documents, _, _: Value| {
            let documents = documents.clone();
            Ok(Opening::shared(&(), move || Fixed { documents, at }))
        });
    }
    let server = builder.build(|_| ());
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let serving = weir_http::Serving {
        router: router(server),
        tls: None,
        limits: weir_http::Limits { connections_max: 20_000, ..weir_http::Limits::default() },
        trusted_proxies: Arc::from([]),
        random: Random::system(),
    };
    weir_http::serve(listener, serving, CancellationToken::new()).await;
    Ok(())
}
