//! A DDP server of boards with cards on them, in memory: one publication is a tree, read with one
//! query a level, and read again when something changed.
//!
//! `cargo run -p weir-ddp --example boards -- 127.0.0.1:8091`, then subscribe to `boards` and call
//! `cards.move` with `{ card, board }`.
#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weir_base::Random;
use weir_ddp::joined::{Joined, Level, Tree};
use weir_ddp::{Answer, Builder, Call, Documents, Failure, Opening, Work, router};

#[derive(Clone)]
struct Board {
    name: &'static str,
    owner: &'static str,
}

#[derive(Clone)]
struct Card {
    name: &'static str,
    board: String,
    worked_on_by: &'static str,
}

/// What a database would hold.
struct Store {
    boards: Vec<Board>,
    cards: Vec<Card>,
    people: BTreeMap<&'static str, &'static str>,
}

impl Store {
    fn new() -> Self {
        let card =
            |name, board: &str, worked_on_by| Card { name, board: board.to_owned(), worked_on_by };
        Self {
            boards: vec![
                Board { name: "garden", owner: "alice" },
                Board { name: "house", owner: "bob" },
            ],
            cards: vec![
                card("sow", "garden", "bob"),
                card("paint", "house", "alice"),
                card("sweep", "house", "bob"),
            ],
            people: BTreeMap::from([("alice", "Alice"), ("bob", "Bob")]),
        }
    }

    fn people_named(&self, names: &[&'static str]) -> Vec<(&'static str, &'static str)> {
        names.iter().filter_map(|name| Some((*name, *self.people.get(name)?))).collect()
    }
}

/// Boards, the cards on them, and the people of both.
fn tree() -> Tree<'static, Store, Board, Infallible> {
    type Person = (&'static str, &'static str);
    let person = |(id, name): &Person| (String::from(*id), json!({ "name": name }));
    let workers = Level::new(
        "people",
        |store: &mut Store, cards: &[Card]| {
            Ok(store.people_named(&cards.iter().map(|card| card.worked_on_by).collect::<Vec<_>>()))
        },
        person,
    );
    let owners = Level::new(
        "people",
        |store: &mut Store, boards: &[Board]| {
            Ok(store.people_named(&boards.iter().map(|board| board.owner).collect::<Vec<_>>()))
        },
        person,
    );
    let cards = Level::new(
        "cards",
        |store: &mut Store, boards: &[Board]| {
            let on_them = |card: &&Card| boards.iter().any(|board| board.name == card.board);
            Ok(store.cards.iter().filter(on_them).cloned().collect())
        },
        |card: &Card| {
            let person = card.worked_on_by;
            (card.name.to_owned(), json!({ "board": card.board, "worked_on_by": person }))
        },
    );
    Level::new(
        "boards",
        |store: &mut Store, _: &[()]| Ok(store.boards.clone()),
        |board: &Board| (board.name.to_owned(), json!({ "owner": board.owner })),
    )
    .with(cards.with(workers))
    .with(owners)
}

/// What the server works with.
#[derive(Clone)]
struct App {
    store: Arc<Mutex<Store>>,
    changes: watch::Sender<u64>,
}

fn boards(app: &App, documents: &Documents) -> Opening {
    let (app, documents, tree) = (app.clone(), documents.clone(), Arc::new(tree()));
    Opening::shared(&(), move || {
        Joined::new(app.changes.subscribe(), move || {
            let read = tree.read(&mut app.store.lock(), &documents);
            let read = read.map_err(|error| Failure::new(500, error.to_string()));
            Box::pin(async { read }) as Work<'static, _>
        })
    })
}

async fn move_card(call: Call<App>, params: Value) -> Result<Answer, Failure> {
    let (Some(card), Some(board)) = (params["card"].as_str(), params["board"].as_str()) else {
        return Err(Failure::bad_params("Say which card goes to which board."));
    };
    {
        let mut store = call.app.store.lock();
        if !store.boards.iter().any(|one| one.name == board) {
            return Err(Failure::new(404, format!("There is no board {board}.")));
        }
        let found = store.cards.iter_mut().find(|one| one.name == card);
        let no_card = || Failure::new(404, format!("There is no card {card}."));
        found.ok_or_else(no_card)?.board = board.to_owned();
    }
    call.app.changes.send_modify(|at| *at += 1);
    Ok(Answer::default())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address: SocketAddr =
        std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8091".into()).parse()?;
    let server = Builder::<App>::new()
        .publication("boards", |app, documents, _, _: Value| Ok(boards(app, documents)))
        .method::<Value, (), _>("cards.move", move_card)
        .build(|_| App { store: Arc::new(Mutex::new(Store::new())), changes: watch::channel(0).0 });
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    let serving = weir_http::Serving {
        router: router(server),
        tls: None,
        limits: weir_http::Limits::default(),
        trusted_proxies: Arc::from([]),
        random: Random::system(),
    };
    weir_http::serve(listener, serving, CancellationToken::new()).await;
    Ok(())
}
