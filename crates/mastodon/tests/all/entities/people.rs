//! Accounts, and how people stand to each other.

use serde_json::{Value, json};

use super::scene::Scene;
use super::walk::Walk;

pub async fn profiles(walk: &mut Walk<'_>, scene: &Scene) {
    let Scene { alice, bob, .. } = scene;
    let me = "GET /api/v1/accounts/verify_credentials";
    walk.ask(me, alice, Value::Null).await;
    let proofs = format!("GET /api/v1/accounts/:id={}/identity_proofs", alice.id);
    walk.ask(&proofs, alice, Value::Null).await;
    let one = format!("/api/v1/accounts/:id={}", alice.id);
    for reader in [Some(alice), Some(bob), None] {
        for verb in ["", "/statuses", "/followers", "/following"] {
            walk.ask(&format!("GET {one}{verb}"), reader, Value::Null).await;
        }
        let both = format!("GET /api/v1/accounts?id[]={}&id[]={}", alice.id, bob.id);
        walk.ask(&both, reader, Value::Null).await;
        walk.ask("GET /api/v1/accounts/lookup?acct=alice", reader, Value::Null).await;
        walk.ask("GET /api/v1/directory", reader, Value::Null).await;
    }
    walk.ask("GET /api/v1/accounts/search?q=bob", alice, Value::Null).await;
    for q in ["alice", "%23fun", "https://weir.test/@alice", "hi"] {
        walk.ask(&format!("GET /api/v2/search?q={q}"), alice, Value::Null).await;
        walk.ask(&format!("GET /api/v1/search?q={q}"), alice, Value::Null).await;
    }
    walk.ask("GET /api/v2/search?q=%23fun", None, Value::Null).await;
    let familiar = format!("GET /api/v1/accounts/familiar_followers?id[]={}", alice.id);
    walk.ask(&familiar, &scene.carol, Value::Null).await;
    let form = json!({"display_name": "Alice", "source": {"privacy": "unlisted"}});
    walk.ask("PATCH /api/v1/accounts/update_credentials", alice, form).await;
    walk.ask("GET /api/v2/suggestions", &scene.carol, Value::Null).await;
    walk.ask("GET /api/v1/suggestions", &scene.carol, Value::Null).await;
    let dismissed = format!("DELETE /api/v1/suggestions/:account_id={}", alice.id);
    walk.ask(&dismissed, &scene.carol, Value::Null).await;
}

pub async fn bonds(walk: &mut Walk<'_>, scene: &Scene) {
    let Scene { alice, bob, carol, .. } = scene;
    let to = |verb: &str| format!("POST /api/v1/accounts/:id={}/{verb}", carol.id);
    walk.ask(&to("follow"), alice, json!({"languages": ["de"], "notify": true})).await;
    walk.ask(&to("note"), alice, json!({"comment": "a friend"})).await;
    for verb in ["pin", "unpin", "endorse"] {
        walk.ask(&to(verb), alice, Value::Null).await;
    }
    walk.ask("GET /api/v1/endorsements", alice, Value::Null).await;
    let shown = format!("GET /api/v1/accounts/:id={}/endorsements", alice.id);
    walk.ask(&shown, None, Value::Null).await;
    let bonds = "GET /api/v1/accounts/relationships";
    walk.ask(&format!("{bonds}?id[]={}&id[]={}", carol.id, bob.id), alice, Value::Null).await;
    for (verb, form) in
        [("unendorse", Value::Null), ("unfollow", Value::Null), ("mute", json!({"duration": 60}))]
    {
        walk.ask(&to(verb), alice, form).await;
    }
    walk.ask("GET /api/v1/mutes", alice, Value::Null).await;
    walk.ask(&to("unmute"), alice, Value::Null).await;
    walk.ask(&to("mute"), alice, Value::Null).await;
    walk.ask("GET /api/v1/mutes", alice, Value::Null).await;
    walk.ask(&to("unmute"), alice, Value::Null).await;
    walk.ask(&to("remove_from_followers"), bob, Value::Null).await;
    walk.ask(&to("block"), bob, Value::Null).await;
    walk.ask("GET /api/v1/blocks", bob, Value::Null).await;
    walk.ask(&to("unblock"), bob, Value::Null).await;
    let domains = "/api/v1/domain_blocks";
    walk.ask(&format!("POST {domains}"), alice, json!({"domain": "bad.test"})).await;
    walk.ask(&format!("GET {domains}"), alice, Value::Null).await;
    walk.ask(&format!("DELETE {domains}?domain=bad.test"), alice, Value::Null).await;
    let report = json!({"account_id": carol.id, "comment": "loud"});
    walk.ask("POST /api/v1/reports", alice, report).await;
}

pub async fn follow_requests(walk: &mut Walk<'_>, scene: &Scene) {
    let Scene { alice, carol, .. } = scene;
    let locked = "PATCH /api/v1/accounts/update_credentials";
    walk.ask(locked, carol, json!({"locked": true})).await;
    for answer in ["reject", "authorize"] {
        let follow = format!("POST /api/v1/accounts/:id={}/follow", carol.id);
        walk.ask(&follow, alice, Value::Null).await;
        walk.ask("GET /api/v1/follow_requests", carol, Value::Null).await;
        let line = format!("POST /api/v1/follow_requests/:account_id={}/{answer}", alice.id);
        walk.ask(&line, carol, Value::Null).await;
    }
}
