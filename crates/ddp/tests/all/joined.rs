//! Publications as trees.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weir_ddp::document::Revision;
use weir_ddp::joined::{Joined, Level, Tree, Unread};
use weir_ddp::{Builder, Documents, Failure, Opening, Work, router};

use crate::client::Ddp;
use crate::memory::serve;

/// Boards by name with their owner; cards by name with their board and worker.
#[derive(Debug, Clone, Default)]
struct Store {
    boards: BTreeMap<u8, u8>,
    cards: BTreeMap<u8, (u8, u8)>,
    queries: usize,
}

fn people(store: &mut Store, names: impl Iterator<Item = u8>) -> Result<Vec<u8>, Infallible> {
    store.queries += 1;
    Ok(names.collect())
}

fn tree() -> Tree<'static, Store, (u8, u8), Infallible> {
    type Card = (u8, (u8, u8));
    let workers = Level::new(
        "people",
        |store: &mut Store, cards: &[Card]| people(store, cards.iter().map(|card| card.1.1)),
        |name: &u8| (name.to_string(), json!({ "works": true, "name": name, "secret": 1 })),
    )
    .fields(&["works", "name"]);
    let owners = Level::new(
        "people",
        |store: &mut Store, boards: &[(u8, u8)]| people(store, boards.iter().map(|one| one.1)),
        |name: &u8| (name.to_string(), json!({ "owns": true, "name": name })),
    );
    let cards = Level::new(
        "cards",
        |store: &mut Store, boards: &[(u8, u8)]| {
            store.queries += 1;
            let on_them = |card: &Card| boards.iter().any(|board| board.0 == card.1.0);
            Ok(store.cards.iter().map(|(name, at)| (*name, *at)).filter(on_them).collect())
        },
        |card: &Card| (card.0.to_string(), json!({ "board": card.1.0 })),
    );
    Level::new(
        "boards",
        |store: &mut Store, _: &[()]| {
            store.queries += 1;
            Ok(store.boards.iter().map(|(name, owner)| (*name, *owner)).collect())
        },
        |board: &(u8, u8)| (board.0.to_string(), json!({ "owner": board.1 })),
    )
    .with(cards.with(workers))
    .with(owners)
}

fn shown(revisions: &[Arc<Revision>]) -> BTreeMap<(String, String), Value> {
    let mut all = BTreeMap::new();
    for revision in revisions {
        let frame = revision.added(false);
        let from = frame.iter().position(|byte| *byte == b'{').unwrap();
        let message: Value = serde_json::from_slice(&frame[from..]).unwrap();
        let key = revision.key();
        let before = all
            .insert((key.collection().to_owned(), key.id().to_owned()), message["fields"].clone());
        assert!(before.is_none(), "a document is there once");
    }
    all
}

/// The same by one query a row.
fn row_by_row(store: &Store) -> BTreeMap<(String, String), Value> {
    let mut all = BTreeMap::new();
    let works: BTreeSet<u8> = (store.cards.values())
        .filter(|(board, _)| store.boards.contains_key(board))
        .map(|(_, worker)| *worker)
        .collect();
    for (name, owner) in &store.boards {
        all.insert(("boards".into(), name.to_string()), json!({ "owner": owner }));
        all.insert(("people".into(), owner.to_string()), json!({ "owns": true, "name": owner }));
    }
    for (name, (board, _)) in &store.cards {
        if store.boards.contains_key(board) {
            all.insert(("cards".into(), name.to_string()), json!({ "board": board }));
        }
    }
    for worker in works {
        let person = all.entry(("people".into(), worker.to_string())).or_insert(json!({}));
        person["works"] = json!(true);
        person["name"] = json!(worker);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_tree_is_what_one_query_a_row_would_give_with_one_query_a_level(
        boards in proptest::collection::btree_map(0..8_u8, 0..6_u8, 0..8),
        cards in proptest::collection::btree_map(any::<u8>(), (0..12_u8, 0..6_u8), 0..40),
    ) {
        let mut store = Store { boards, cards, queries: 0 };
        let documents = Documents::new(&[]);
        let read = tree().read(&mut store, &documents).unwrap();
        prop_assert_eq!(shown(&read), row_by_row(&store));
        prop_assert!(store.queries <= 4, "{} queries for four levels", store.queries);
    }
}

#[test]
fn what_is_no_document_is_said_and_what_a_query_fails_with_is_passed_on() {
    let documents = Documents::new(&[]);
    let rows = |(): &mut (), _: &[()]| Ok::<_, &str>(vec![7]);
    let bare: Tree<'_, (), i32, &str> = Level::new("things", rows, |row| (row.to_string(), *row));
    let unread = bare.read(&mut (), &documents).err().unwrap();
    assert_eq!(unread.to_string(), "a document of things is no JSON object");
    let fails = |(): &mut (), _: &[i32]| Err::<Vec<i32>, _>("the table is gone");
    let show = |row: &i32| (row.to_string(), json!({ "at": row }));
    let tree = Level::new("things", rows, show).with(Level::new("parts", fails, show));
    assert_eq!(tree.read(&mut (), &documents).err(), Some(Unread::Query("the table is gone")));
}

#[derive(Clone)]
struct App {
    store: Arc<Mutex<Store>>,
    changes: watch::Sender<u64>,
}

impl App {
    fn change(&self, change: impl FnOnce(&mut Store)) {
        change(&mut self.store.lock());
        self.changes.send_modify(|at| *at += 1);
    }
}

#[tokio::test]
async fn a_tree_follows_what_changes_on_each_of_its_levels() {
    let app = App { store: Arc::default(), changes: watch::channel(0).0 };
    app.change(|store| {
        store.boards.extend([(1, 1), (2, 2)]);
        store.cards.insert(9, (1, 3));
    });
    let made = app.clone();
    let server = Builder::<App>::new()
        .publication("boards", |app: &App, documents, _, _: Value| {
            let (app, documents, tree) = (app.clone(), documents.clone(), Arc::new(tree()));
            Ok(Opening::shared(&(), move || {
                Joined::new(app.changes.subscribe(), move || {
                    let read = tree.read(&mut app.store.lock(), &documents);
                    let read = read.map_err(|error| Failure::new(500, error.to_string()));
                    Box::pin(async { read }) as Work<'static, _>
                })
            }))
        })
        .build(move |_| made);
    let shutdown = CancellationToken::new();
    let mut ddp = Ddp::connect(serve(router(server), shutdown.clone()).await).await;
    ddp.sub("b", "boards", json!([])).await.unwrap();
    assert_eq!(ddp.of("people").len(), 3);
    assert_eq!(json!(ddp.of("people")["3"]), json!({ "works": true, "name": 3 }));
    // The card goes to nobody's board, and the one who worked on it with it.
    app.change(|store| store.cards.extend([(9, (7, 3))]));
    ddp.hear_until(|ddp| ddp.of("cards").is_empty() && ddp.of("people").len() == 2).await;
    app.change(|store| store.cards.extend([(9, (2, 1))]));
    let has_card = |ddp: &Ddp| ddp.of("cards").contains_key("9");
    ddp.hear_until(|ddp| has_card(ddp) && ddp.of("people")["1"].contains_key("works")).await;
    assert_eq!(ddp.of("cards")["9"]["board"], 2);
    app.change(|store| store.boards.clear());
    ddp.hear_until(|ddp| ddp.of("boards").is_empty() && ddp.of("people").is_empty()).await;
    shutdown.cancel();
}
