//! What the community is, apps and their tokens, and streams.

use serde_json::{Value, json};

use super::scene::Scene;
use super::walk::Walk;
use crate::place::Someone;

pub async fn instance(walk: &mut Walk<'_>, _: &Scene) {
    for path in [
        "/api/v2/instance",
        "/api/v1/instance",
        "/api/v1/instance/peers",
        "/api/v1/peers/search?q=a",
        "/api/v1/instance/rules",
        "/api/v1/instance/domain_blocks",
        "/api/v1/instance/extended_description",
        "/api/v1/instance/privacy_policy",
        "/api/v1/instance/terms_of_service",
        "/api/v1/instance/translation_languages",
        "/api/v1/instance/languages",
        "/api/v1/instance/activity",
        "/api/v1/custom_emojis",
        "/.well-known/oauth-authorization-server",
    ] {
        walk.ask(&format!("GET {path}"), None, Value::Null).await;
    }
    let terms = walk.place.get("/api/v1/instance/terms_of_service", None).await;
    let date = terms["effective_date"].as_str().unwrap();
    let dated = format!("GET /api/v1/instance/terms_of_service/:date={date}");
    walk.ask(&dated, None, Value::Null).await;
}

pub async fn apps(walk: &mut Walk<'_>, scene: &Scene) {
    let form = json!({"client_name": "x", "redirect_uris": "app://x",
        "website": "https://a.test", "scopes": "read write profile"});
    let app = walk.ask("POST /api/v1/apps", None, form).await;
    let client = json!({"client_id": app["client_id"], "client_secret": app["client_secret"]});
    let mut grant = client.clone();
    grant["grant_type"] = "client_credentials".into();
    grant["scope"] = "read write".into();
    let issued = walk.ask("POST /oauth/token", None, grant).await;
    let token = issued["access_token"].as_str().unwrap().to_owned();
    let holder = Someone { id: scene.alice.id, token };
    walk.ask("GET /api/v1/apps/verify_credentials", &holder, Value::Null).await;
    let person = json!({"username": "heidi", "email": "heidi@mail.test", "agreement": true,
        "password": "correct horse battery", "locale": "en"});
    walk.ask("POST /api/v1/accounts", &holder, person).await;
    let mut revoked = client;
    revoked["token"] = holder.token.into();
    walk.ask("POST /oauth/revoke", None, revoked).await;
    let alice = scene.alice.id;
    let token = walk.place.token(Some(alice), "profile read write").await;
    let holder = Someone { id: alice, token };
    walk.ask("GET /oauth/userinfo", &holder, Value::Null).await;
    walk.place
        .write(move |tx, _| {
            let sql = "UPDATE users SET confirmed_at = NULL WHERE account_id = ?1";
            Ok(tx.execute(sql, &[weir_db::ToValue::to_value(&alice)])?)
        })
        .await;
    walk.ask("POST /api/v1/emails/confirmations", &holder, Value::Null).await;
    walk.place
        .write(move |tx, _| {
            let sql = "UPDATE users SET confirmed_at = 1 WHERE account_id = ?1";
            Ok(tx.execute(sql, &[weir_db::ToValue::to_value(&alice)])?)
        })
        .await;
}

pub async fn streams(walk: &mut Walk<'_>, scene: &Scene) {
    for path in [
        "health",
        "user",
        "user/notification",
        "public",
        "public/local",
        "public/remote",
        "hashtag?tag=fun",
        "hashtag/local?tag=fun",
        "direct",
    ] {
        walk.ask(&format!("GET /api/v1/streaming/{path}"), &scene.alice, Value::Null).await;
    }
}
