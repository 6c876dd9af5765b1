//! What one is told: notifications in both forms, what waits, and devices.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as B64;
use serde_json::{Value, json};
use weir_community::notifications::{self, Cause};
use weir_community::statuses::Visibility;

use super::scene::Scene;
use super::walk::Walk;

const V1: &str = "/api/v1/notifications";
const V2: &str = "/api/v2/notifications";

pub async fn notifications(walk: &mut Walk<'_>, scene: &Scene) {
    let Scene { alice, bob, carol, .. } = scene;
    let to = alice.id;
    let staff = walk.place.person("mallory").await;
    let by = staff.id;
    walk.place
        .write(move |tx, env| {
            notifications::warn(tx, env, by, to, "none", "Be kind", &[])?;
            let at = env.clock.now();
            let cause = Cause { kind: "domain_block", target: "bad.test", at };
            notifications::notify_severed(tx, env, to, cause, 1, 2)
        })
        .await;
    walk.place.post(bob, "@alice hello", Visibility::Public).await;
    walk.place.post(carol, "@alice hello", Visibility::Public).await;
    let all = walk.ask(&format!("GET {V1}"), alice, Value::Null).await;
    let kinds: Vec<&str> =
        all.as_array().unwrap().iter().filter_map(|one| one["type"].as_str()).collect();
    for kind in ["mention", "favourite", "reblog", "follow", "admin.report", "moderation_warning"] {
        assert!(kinds.contains(&kind), "{kind} among {kinds:?}");
    }
    assert!(kinds.contains(&"severed_relationships"), "{kinds:?}");
    walk.ask(&format!("GET {V2}?expand_accounts=partial_avatars"), alice, Value::Null).await;
    let groups = walk.ask(&format!("GET {V2}"), alice, Value::Null).await;
    for path in [V1, V2] {
        walk.ask(&format!("GET {path}/unread_count"), alice, Value::Null).await;
    }
    for one in groups["notification_groups"].as_array().unwrap() {
        let group = format!("{V2}/:group_key={}", one["group_key"].as_str().unwrap());
        walk.ask(&format!("GET {group}"), alice, Value::Null).await;
        walk.ask(&format!("GET {group}/accounts"), alice, Value::Null).await;
    }
    let id = |at: usize| all[at]["id"].as_str().unwrap();
    walk.ask(&format!("GET {V1}/:id={}", id(0)), alice, Value::Null).await;
    walk.ask(&format!("POST {V1}/:id={}/dismiss", id(0)), alice, Value::Null).await;
    walk.ask(&format!("POST {V1}/dismiss"), alice, json!({"id": id(1)})).await;
    let some = format!("DELETE {V1}/destroy_multiple?ids[]={}", id(2));
    walk.ask(&some, alice, Value::Null).await;
    let left = walk.ask(&format!("GET {V2}"), alice, Value::Null).await;
    let key = left["notification_groups"][0]["group_key"].as_str().unwrap();
    walk.ask(&format!("POST {V2}/:group_key={key}/dismiss"), alice, Value::Null).await;
    walk.ask(&format!("POST {V1}/clear"), alice, Value::Null).await;
}

pub async fn requests(walk: &mut Walk<'_>, scene: &Scene) {
    let alice = &scene.alice;
    walk.ask(&format!("GET {V1}/policy"), alice, Value::Null).await;
    walk.ask(&format!("GET {V2}/policy"), alice, Value::Null).await;
    let change = json!({"for_new_accounts": "accept"});
    walk.ask(&format!("PATCH {V2}/policy"), alice, change).await;
    for name in ["dave", "erin", "frank", "grace"] {
        let stranger = walk.place.person(name).await;
        walk.place.post(&stranger, "@alice psst", Visibility::Direct).await;
    }
    let waiting = walk.ask(&format!("GET {V1}/requests"), alice, Value::Null).await;
    let id = |at: usize| waiting[at]["id"].as_str().unwrap();
    walk.ask(&format!("GET {V1}/requests/:id={}", id(0)), alice, Value::Null).await;
    for (at, verb) in ["accept", "dismiss"].into_iter().enumerate() {
        let one = format!("POST {V1}/requests/:id={}/{verb}", id(at));
        walk.ask(&one, alice, Value::Null).await;
        let many = format!("POST {V1}/requests/{verb}");
        walk.ask(&many, alice, json!({"id": [id(at + 2)]})).await;
    }
    walk.ask(&format!("GET {V1}/requests/merged"), alice, Value::Null).await;
}

pub async fn push(walk: &mut Walk<'_>, scene: &Scene) {
    let bob = &scene.bob;
    let path = "/api/v1/push/subscription";
    let form = json!({
        "subscription": {
            "endpoint": "https://push.test/1",
            "keys": {"p256dh": B64.encode([4; 65]), "auth": B64.encode([7; 16])},
        },
        "data": {"alerts": {"follow": true}},
    });
    walk.ask(&format!("POST {path}"), bob, form).await;
    let change = json!({"data": {"alerts": {"mention": true}, "policy": "followed"}});
    walk.ask(&format!("PUT {path}"), bob, change).await;
    walk.ask(&format!("GET {path}"), bob, Value::Null).await;
    walk.ask(&format!("DELETE {path}"), bob, Value::Null).await;
}
