//! Every answer against the table of `tests/entities.toml`: keys, types, and what may be null.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde_json::{Value, json};
use weir_community::instance;
use weir_community::statuses::Visibility;

use crate::place::{Place, Someone, places};

type Table = BTreeMap<String, BTreeMap<String, String>>;

fn table() -> Table {
    toml::from_str(include_str!("../entities.toml")).unwrap()
}

/// What in `value` is not as the table says of `kind`; several entities are joined by `+`.
fn faults(table: &Table, kind: &str, value: &Value, path: &str, found: &mut Vec<String>) {
    if let Some(inner) = kind.strip_suffix('?') {
        if !value.is_null() {
            faults(table, inner, value, path, found);
        }
        return;
    }
    if let Some(inner) = kind.strip_prefix('[').and_then(|kind| kind.strip_suffix(']')) {
        match value.as_array() {
            Some(list) => {
                for (at, one) in list.iter().enumerate() {
                    faults(table, inner, one, &format!("{path}[{at}]"), found);
                }
            }
            None => found.push(format!("{path}: {value} is no list")),
        }
        return;
    }
    let fits = match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "hash" => value.is_object(),
        "time" => value.as_str().is_some_and(|text| {
            text.len() == 24 && text.ends_with('Z') && text.parse::<weir_base::Timestamp>().is_ok()
        }),
        "date" => value.as_str().is_some_and(|text| {
            text.len() == 10 && format!("{text}T00:00:00Z").parse::<weir_base::Timestamp>().is_ok()
        }),
        _ => return entity(table, kind, value, path, found),
    };
    if !fits {
        found.push(format!("{path}: {value} is no {kind}"));
    }
}

fn entity(table: &Table, kinds: &str, value: &Value, path: &str, found: &mut Vec<String>) {
    let Some(object) = value.as_object() else {
        found.push(format!("{path}: {value} is no {kinds}"));
        return;
    };
    let mut known = BTreeSet::new();
    for kind in kinds.split('+') {
        let Some(fields) = table.get(kind) else {
            found.push(format!("{path}: the table has no {kind}"));
            return;
        };
        for (name, said) in fields {
            known.insert(name.as_str());
            let said_kind = said.trim_start_matches(['~', '+']);
            match object.get(name) {
                Some(value) => faults(table, said_kind, value, &format!("{path}.{name}"), found),
                None if said_kind == said => found.push(format!("{path}: {name} is missing")),
                None => {}
            }
        }
    }
    for name in object.keys().filter(|name| !known.contains(name.as_str())) {
        found.push(format!("{path}: {name} is not in the table"));
    }
}

/// A community in which every endpoint has something to show.
struct Scene {
    alice: Someone,
    bob: Someone,
    post: String,
    edited: String,
    poll: String,
}

async fn scene(place: &Place) -> Scene {
    let (alice, bob) = (place.person("alice").await, place.person("bob").await);
    let carol = place.person("carol").await;
    let form = json!({
        "display_name": "Alice :blob:", "note": "hello #there", "discoverable": true,
        "fields_attributes": [{"name": "web", "value": "https://a.test"}],
    });
    place.call(Method::PATCH, "/api/v1/accounts/update_credentials", Some(&alice), form).await;
    let (by, contact) = (alice.id, place.community.clone());
    place
        .write(move |tx, env| {
            tx.execute(
                "INSERT INTO custom_emojis (id, shortcode, remote_url, category, updated_at)
                 VALUES (1, 'blob', 'https://a.test/blob.png', NULL, 0)",
                &[],
            )?;
            tx.execute("INSERT INTO rules (id, position, content) VALUES (1, 1, 'Be kind')", &[])?;
            tx.execute(
                "INSERT INTO domain_blocks (id, domain, severity) VALUES (1, 'b.test', 'silence')",
                &[],
            )?;
            weir_community::tags::feature(tx, env, by, "fun")?;
            weir_community::lists::create(tx, env, by, "friends", "list", false)?;
            let settings = instance::Settings {
                contact_account: Some(by),
                terms_of_service: "<p>Terms</p>".into(),
                ..(*env.instance.settings()).clone()
            };
            instance::set(tx, contact.env(), settings)
        })
        .await;
    let form = json!({"status": "hi @bob :blob: #fun", "spoiler_text": "x", "language": "en"});
    let post = place.do_post("/api/v1/statuses", &alice, form).await;
    let post = post["id"].as_str().unwrap().to_owned();
    let form = json!({"status": "@alice yes", "in_reply_to_id": post});
    let edited = place.do_post("/api/v1/statuses", &bob, form).await;
    let edited = edited["id"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/statuses/{edited}");
    let edit = json!({"status": "@alice no", "poll": {"options": ["a", "b"], "expires_in": 600}});
    place.call(Method::PUT, &path, Some(&bob), edit).await;
    let poll =
        json!({"status": "?", "poll": {"options": ["a", "b"], "expires_in": 600, "multiple": 1}});
    let poll = place.do_post("/api/v1/statuses", &alice, poll).await;
    let poll = poll["poll"]["id"].as_str().unwrap().to_owned();
    for (by, path) in [
        (&bob, format!("/api/v1/accounts/{}/follow", alice.id)),
        (&alice, format!("/api/v1/accounts/{}/follow", bob.id)),
        (&carol, format!("/api/v1/accounts/{}/follow", bob.id)),
        (&alice, format!("/api/v1/accounts/{}/mute", carol.id)),
        (&bob, format!("/api/v1/statuses/{post}/favourite")),
        (&bob, format!("/api/v1/statuses/{post}/bookmark")),
        (&bob, format!("/api/v1/statuses/{post}/reblog")),
    ] {
        place.do_post(&path, by, Value::Null).await;
    }
    place.post(&alice, "later", Visibility::Unlisted).await;
    Scene { alice, bob, post, edited, poll }
}

/// What is asked for, by whom, and which entity comes. An endpoint that is added has a line here.
fn reads(scene: &Scene) -> Vec<(String, bool, &'static str)> {
    let (alice, bob) = (scene.alice.id, scene.bob.id);
    let Scene { post, edited, poll, .. } = scene;
    let line = |path: &str, kind| (path.to_owned(), true, kind);
    let open = |path: &str, kind| (path.to_owned(), false, kind);
    let account = |verb: &str| format!("/api/v1/accounts/{alice}{verb}");
    let status = |verb: &str| format!("/api/v1/statuses/{post}{verb}");
    vec![
        line("/api/v1/accounts/verify_credentials", "Account+Account.CredentialAccount"),
        line(&format!("/api/v1/accounts?id[]={alice}"), "[Account]"),
        line(&account(""), "Account"),
        line(&account("/statuses"), "[Status]"),
        open(&account("/statuses"), "[Status]"),
        line(&account("/followers"), "[Account]"),
        line(&account("/following"), "[Account]"),
        line(&account("/featured_tags"), "[FeaturedTag]"),
        line(&account("/lists"), "[List]"),
        line(&format!("/api/v1/accounts/relationships?id[]={bob}"), "[Relationship]"),
        line(&format!("/api/v1/accounts/familiar_followers?id[]={bob}"), "[FamiliarFollowers]"),
        line("/api/v1/accounts/search?q=bob", "[Account]"),
        open("/api/v1/accounts/lookup?acct=alice", "Account"),
        line("/api/v1/mutes", "[Account+Account.MutedAccount]"),
        line("/api/v1/blocks", "[Account]"),
        line("/api/v1/follow_requests", "[Account]"),
        line("/api/v1/endorsements", "[Account]"),
        line("/api/v1/domain_blocks", "[string]"),
        line(&status(""), "Status"),
        open(&status(""), "Status"),
        line(&format!("/api/v1/statuses?id[]={post}"), "[Status]"),
        line(&status("/context"), "Context"),
        line(&format!("/api/v1/statuses/{edited}/history"), "[StatusEdit]"),
        line(&status("/source"), "StatusSource"),
        line(&status("/reblogged_by"), "[Account]"),
        line(&status("/favourited_by"), "[Account]"),
        line(&status("/quotes"), "[Status]"),
        line(&format!("/api/v1/polls/{poll}"), "Poll"),
        open(&format!("/api/v1/polls/{poll}"), "Poll"),
        line("/api/v1/bookmarks", "[Status]"),
        line("/api/v1/favourites", "[Status]"),
        line("/api/v1/timelines/home", "[Status]"),
        open("/api/v1/timelines/public", "[Status]"),
        open("/api/v1/timelines/tag/fun", "[Status]"),
        line("/api/v1/timelines/direct", "[Status]"),
        line("/api/v1/preferences", "Preferences"),
        line("/api/v1/profile", "Profile"),
        open("/api/v2/instance", "Instance"),
        open("/api/v1/instance", "V1_Instance"),
        open("/api/v1/instance/peers", "[string]"),
        open("/api/v1/peers/search?q=a", "[string]"),
        open("/api/v1/instance/rules", "[Rule]"),
        open("/api/v1/instance/domain_blocks", "[DomainBlock]"),
        open("/api/v1/instance/extended_description", "ExtendedDescription"),
        open("/api/v1/instance/privacy_policy", "PrivacyPolicy"),
        open("/api/v1/instance/terms_of_service", "TermsOfService"),
        open("/api/v1/instance/translation_languages", "hash"),
        open("/api/v1/instance/languages", "[hash]"),
        open("/api/v1/instance/activity", "[hash]"),
        open("/api/v1/custom_emojis", "[CustomEmoji]"),
        open("/api/v1/directory", "[Account]"),
    ]
}

#[tokio::test]
async fn answers_have_the_keys_types_and_nulls_of_the_documents() {
    let table = table();
    let mut found = Vec::new();
    for place in places() {
        let scene = scene(&place).await;
        for (path, logged_in, kind) in reads(&scene) {
            for reader in [&scene.alice, &scene.bob] {
                let by = logged_in.then_some(reader);
                let answer = place.call(Method::GET, &path, by, Value::Null).await;
                let own = path.ends_with("/source") && reader.id == scene.bob.id;
                if answer.status != 200 && !own {
                    found.push(format!("{path}: {} {}", answer.status, answer.body));
                } else if answer.status == 200 {
                    faults(&table, kind, &answer.body, &path, &mut found);
                }
            }
        }
    }
    found.sort();
    found.dedup();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[tokio::test]
async fn what_writing_answers_is_as_documented_too() {
    let table = table();
    let mut found = Vec::new();
    for place in places() {
        let scene = scene(&place).await;
        let app =
            json!({"client_name": "x", "redirect_uris": "app://x", "website": "https://a.test"});
        let later = json!({"status": "later", "scheduled_at": "2023-11-15T22:13:20Z",
            "poll": {"options": ["a", "b"], "expires_in": 600}});
        for (path, form, kind) in [
            ("/api/v1/apps".to_owned(), app, "Application+Application.CredentialApplication"),
            ("/api/v1/statuses".to_owned(), json!({"status": "now"}), "Status"),
            ("/api/v1/statuses".to_owned(), later, "ScheduledStatus"),
            (format!("/api/v1/statuses/{}/favourite", scene.post), json!({}), "Status"),
            (format!("/api/v1/statuses/{}/reblog", scene.post), json!({}), "Status"),
            (format!("/api/v1/accounts/{}/mute", scene.bob.id), json!({}), "Relationship"),
        ] {
            let answer = place.do_post(&path, &scene.alice, form).await;
            faults(&table, kind, &answer, &path, &mut found);
        }
    }
    found.sort();
    found.dedup();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_comparison_finds_missing_wrong_null_and_surplus_keys() {
    let table: Table = toml::from_str(
        "[A]\nid = \"string\"\nbs = \"[B]?\"\nwhen = \"~time\"\n[B]\nn = \"+integer\"\n",
    )
    .unwrap();
    let look = |value: Value| {
        let mut found = Vec::new();
        faults(&table, "A", &value, "", &mut found);
        found.len()
    };
    assert_eq!(
        look(json!({"id": "1", "bs": [{"n": 1}, {}], "when": "2023-11-15T22:13:20.000Z"})),
        0
    );
    assert_eq!(look(json!({"id": "1", "bs": null})), 0);
    assert_eq!(look(json!({"id": null, "bs": [{"n": "1"}], "when": "2023-11-15T22:13:20Z"})), 3);
    assert_eq!(look(json!({"id": "1", "more": 1})), 2);
}
