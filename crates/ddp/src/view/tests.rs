use std::collections::BTreeMap;

use proptest::prelude::{
    Just, ProptestConfig, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use proptest::strategy::Strategy as Strategies;
use serde_json::{Map, Value, json};

use super::*;
use crate::document::Documents;
use crate::wire::payload_of;

/// A client as the protocol asks it to be: it panics where the server breaks a rule.
#[derive(Default)]
struct Client {
    documents: BTreeMap<(String, String), Map<String, Value>>,
    ready: Vec<String>,
    gone: Vec<String>,
}

impl Client {
    fn hear(&mut self, frames: &[Bytes]) {
        for frame in frames {
            let message: Value = serde_json::from_str(payload_of(frame)).unwrap();
            let text = |field: &str| message[field].as_str().unwrap_or_default().to_owned();
            let key = (text("collection"), text("id"));
            match message["msg"].as_str().unwrap() {
                "added" => {
                    let fields = message["fields"].as_object().unwrap().clone();
                    assert!(self.documents.insert(key, fields).is_none(), "added twice: {message}");
                }
                "changed" => {
                    let document = self.documents.get_mut(&key).expect("changed before added");
                    for name in message["cleared"].as_array().into_iter().flatten() {
                        document.remove(name.as_str().unwrap()).expect("cleared what is not there");
                    }
                    for (name, value) in message["fields"].as_object().into_iter().flatten() {
                        document.insert(name.clone(), value.clone());
                    }
                }
                "removed" => {
                    self.documents.remove(&key).expect("removed what is not there");
                }
                "ready" => {
                    let subs = message["subs"].as_array().unwrap().iter();
                    self.ready.extend(subs.map(|id| id.as_str().unwrap().to_owned()));
                }
                "nosub" => self.gone.push(text("id")),
                other => panic!("{other}"),
            }
        }
    }
}

/// What the client should have: of each field, the earliest subscription's value.
fn expected(
    results: &[Vec<(u8, Map<String, Value>)>],
) -> BTreeMap<(String, String), Map<String, Value>> {
    let mut all: BTreeMap<(String, String), Map<String, Value>> = BTreeMap::new();
    for (id, fields) in results.iter().flatten() {
        let document = all.entry(("c".into(), id.to_string())).or_default();
        for (name, value) in fields {
            document.entry(name).or_insert_with(|| value.clone());
        }
    }
    all
}

fn snapshot(documents: &Documents, result: &[(u8, Map<String, Value>)]) -> Arc<Snapshot> {
    let revisions =
        result.iter().map(|(id, fields)| documents.revision("c", &id.to_string(), fields));
    Snapshot::of(revisions.collect::<Result<_, _>>().unwrap())
}

#[derive(Debug, Clone)]
enum Step {
    Open,
    Show(usize, Vec<(u8, Map<String, Value>)>),
    Close(usize),
    Fill(usize),
}

fn any_result() -> impl Strategies<Value = Vec<(u8, Map<String, Value>)>> {
    let fields = prop::collection::btree_map("[a-d]", 0_u8..3, 0..4);
    let fields = fields.prop_map(|fields| {
        fields.into_iter().map(|(name, value)| (name, json!(value))).collect::<Map<_, _>>()
    });
    prop::collection::btree_map(0_u8..6, fields, 0..5).prop_map(|map| map.into_iter().collect())
}

fn any_step() -> impl Strategies<Value = Step> {
    prop_oneof![
        2 => Just(Step::Open),
        6 => (0_usize..6, any_result()).prop_map(|(at, result)| Step::Show(at, result)),
        2 => (0_usize..6).prop_map(Step::Close),
        6 => (1_usize..400).prop_map(Step::Fill),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn after_any_history_the_client_has_the_union_in_order_of_subscriptions(
        steps in prop::collection::vec(any_step(), 1..60)
    ) {
        let documents = Documents::new(&[]);
        let (mut view, mut client, mut token) = (View::default(), Client::default(), 0);
        let mut open: Vec<(u32, Vec<(u8, Map<String, Value>)>)> = Vec::new();
        for step in steps {
            match step {
                Step::Open => {
                    token += 1;
                    view.open(token, &token.to_string());
                    open.push((token, Vec::new()));
                }
                Step::Show(at, result) => if let Some((token, known)) = open.get_mut(at) {
                    view.show(*token, snapshot(&documents, &result));
                    *known = result;
                },
                Step::Close(at) => if at < open.len() {
                    view.close(open.remove(at).0, None);
                },
                Step::Fill(budget) => {
                    let mut out = Vec::new();
                    view.fill(budget, &mut out);
                    client.hear(&out);
                }
            }
        }
        while !view.is_settled() {
            let mut out = Vec::new();
            prop_assert!(view.fill(100, &mut out).bytes < 700, "a slice keeps to its budget");
            client.hear(&out);
        }
        let results: Vec<_> = open.iter().map(|(_, result)| result.clone()).collect();
        prop_assert_eq!(client.documents, expected(&results));
        prop_assert_eq!(view.len(), open.len());
    }
}

fn document(fields: Value) -> Map<String, Value> {
    fields.as_object().unwrap().clone()
}

fn filled(view: &mut View) -> Vec<String> {
    let mut out = Vec::new();
    view.fill(usize::MAX, &mut out);
    out.iter().map(|frame| payload_of(frame).to_owned()).collect()
}

#[test]
fn a_document_of_two_subscriptions_falls_back_to_the_later_ones_fields_when_the_first_ends() {
    let documents = Documents::new(&[]);
    let mut view = View::default();
    view.open(1, "one");
    view.open(2, "two");
    view.show(1, snapshot(&documents, &[(1, document(json!({ "a": 1, "b": 1 })))]));
    view.show(2, snapshot(&documents, &[(1, document(json!({ "a": 2, "c": 2 })))]));
    let mut client = Client::default();
    let mut out = Vec::new();
    view.fill(usize::MAX, &mut out);
    client.hear(&out);
    let key = ("c".to_owned(), "1".to_owned());
    assert_eq!(client.documents[&key], document(json!({ "a": 1, "b": 1, "c": 2 })));
    view.close(1, None);
    out.clear();
    view.fill(usize::MAX, &mut out);
    client.hear(&out);
    assert_eq!(client.documents[&key], document(json!({ "a": 2, "c": 2 })));
    assert_eq!(client.gone, ["one"]);
}

#[test]
fn subscriptions_with_the_same_revision_send_it_once() {
    let documents = Documents::new(&[]);
    let same = snapshot(&documents, &[(1, document(json!({ "a": 1 })))]);
    let mut view = View::default();
    for token in 1..=3 {
        view.open(token, &token.to_string());
        view.show(token, same.clone());
    }
    let said = filled(&mut view);
    assert_eq!(said.iter().filter(|text| text.contains("added")).count(), 1, "{said:?}");
    assert_eq!(said.last().unwrap(), r#"{"msg":"ready","subs":["1","2","3"]}"#);
}

#[test]
fn strategies_send_what_meteor_s_send() {
    let run = |strategy| {
        let documents = Documents::new(&[("c", strategy)]);
        let mut view = View::default();
        view.open(1, "1");
        view.open(2, "2");
        view.show(1, snapshot(&documents, &[(1, document(json!({ "a": 1 })))]));
        view.show(2, snapshot(&documents, &[(1, document(json!({ "a": 2 })))]));
        let mut said = filled(&mut view);
        view.close(2, None);
        said.extend(filled(&mut view));
        view.close(1, None);
        said.extend(filled(&mut view));
        let kind = |text: &String| {
            let message: Value = serde_json::from_str(text).unwrap();
            message["msg"].as_str().unwrap().to_owned()
        };
        said.iter().map(kind).filter(|kind| kind != "ready" && kind != "nosub").collect::<Vec<_>>()
    };
    assert_eq!(run(Strategy::ServerMerge), ["added", "removed"]);
    assert_eq!(run(Strategy::NoMerge), ["added", "added", "removed", "removed"]);
    assert_eq!(run(Strategy::NoMergeMulti), ["added", "changed", "removed"]);
    assert_eq!(run(Strategy::NoMergeNoHistory), ["added", "added"]);
}

#[test]
fn thousands_of_documents_go_in_slices() {
    let documents = Documents::new(&[]);
    let many = (0..5_000).map(|id| documents.revision("c", &format!("x{id}"), &json!({ "a": id })));
    let many = Snapshot::of(many.collect::<Result<_, _>>().unwrap());
    let mut view = View::default();
    view.open(1, "1");
    view.show(1, many);
    filled(&mut view);
    view.close(1, None);
    let (mut slices, mut removed) = (0, 0);
    while !view.is_settled() {
        let mut out = Vec::new();
        view.fill(64 * 1024, &mut out);
        removed += out.len();
        assert!(out.len() <= 1_025);
        slices += 1;
    }
    assert_eq!((slices >= 5, removed), (true, 5_001));
}
