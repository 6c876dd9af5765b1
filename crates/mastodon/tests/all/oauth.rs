use axum::body::Body;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use weir_base::Id;
use weir_community::oauth::{self, NewGrant};

use crate::place::{Answer, Place, Someone, places};

async fn app(place: &Place) -> Value {
    let form = json!({
        "client_name": "Test", "redirect_uris": "urn:ietf:wg:oauth:2.0:oob app://x",
        "scopes": "read write",
    });
    place.do_post("/api/v1/apps", None, form).await
}

async fn token(place: &Place, app: &Value, mut form: Value) -> Answer {
    form["client_id"] = app["client_id"].clone();
    form["client_secret"] = app["client_secret"].clone();
    place.call(Method::POST, "/oauth/token", None, form).await
}

async fn code(place: &Place, app: &Value, account: Id, challenge: Option<&str>) -> String {
    let new = NewGrant {
        app_id: app["id"].as_str().unwrap().parse().unwrap(),
        account_id: account,
        scopes: "read".parse().unwrap(),
        redirect_uri: "app://x".into(),
        challenge: challenge.map(str::to_owned),
    };
    place.write(move |tx, env| oauth::grant(tx, env, &new)).await.expose().clone()
}

#[tokio::test]
async fn a_code_becomes_a_token_that_works_until_it_is_revoked() {
    for place in places() {
        let alice = place.person("alice").await;
        let app = app(&place).await;
        assert_eq!(app["redirect_uris"], json!(["urn:ietf:wg:oauth:2.0:oob", "app://x"]));
        let code = code(&place, &app, alice.id, None).await;
        let form =
            json!({"grant_type": "authorization_code", "code": code, "redirect_uri": "app://x"});
        let issued = token(&place, &app, form.clone()).await;
        assert_eq!(issued.status, StatusCode::OK, "{}", issued.body);
        assert_eq!(issued.body["token_type"], "Bearer");
        assert_eq!(issued.body["scope"], "read");
        let text = issued.body["access_token"].as_str().unwrap().to_owned();
        let holder = Someone { id: alice.id, token: text.clone() };
        assert_eq!(place.get("/oauth/userinfo", &holder).await["preferred_username"], "alice");
        let name = place.get("/api/v1/apps/verify_credentials", &holder).await;
        assert_eq!(name["name"], "Test");
        let again = token(&place, &app, form).await;
        assert_eq!((again.status.as_u16(), &again.body["error"]), (400, &json!("invalid_grant")));
        let revoke = json!({
            "client_id": app["client_id"], "client_secret": app["client_secret"], "token": text,
        });
        place.do_post("/oauth/revoke", None, revoke.clone()).await;
        place.do_post("/oauth/revoke", None, revoke).await;
        let path = "/oauth/userinfo";
        assert_eq!(place.refused(Method::GET, path, &holder, Value::Null).await.0, 401);
    }
}

#[tokio::test]
async fn a_code_with_a_challenge_needs_its_verifier() {
    for place in places() {
        let alice = place.person("alice").await;
        let app = app(&place).await;
        // The example of RFC 7636, appendix B.
        let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let code = code(&place, &app, alice.id, Some(challenge)).await;
        let mut form =
            json!({"grant_type": "authorization_code", "code": code, "redirect_uri": "app://x"});
        assert_eq!(token(&place, &app, form.clone()).await.status, 400);
        form["code_verifier"] = json!(verifier);
        assert_eq!(token(&place, &app, form).await.status, 200);
    }
}

#[tokio::test]
async fn an_app_gets_a_token_of_its_own_by_basic_authentication() {
    for place in places() {
        let app = app(&place).await;
        use base64::Engine as _;
        let pair = format!(
            "{}:{}",
            app["client_id"].as_str().unwrap(),
            app["client_secret"].as_str().unwrap()
        );
        let basic = base64::prelude::BASE64_STANDARD.encode(pair);
        let request = Request::post("/oauth/token")
            .header("authorization", format!("Basic {basic}"))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from("grant_type=client_credentials&scope=read"))
            .unwrap();
        let issued = place.send(request).await;
        assert_eq!(issued.status, 200, "{}", issued.body);
        let form = json!({"grant_type": "client_credentials", "scope": "push"});
        let refused = token(&place, &app, form).await;
        assert_eq!(refused.body["error"], "invalid_scope");
        let form = json!({"grant_type": "magic"});
        assert_eq!(token(&place, &app, form).await.body["error"], "unsupported_grant_type");
        let stranger = json!({"client_id": "x", "client_secret": "y"});
        let refused = token(&place, &stranger, json!({"grant_type": "client_credentials"})).await;
        assert_eq!(
            (refused.status.as_u16(), &refused.body["error"]),
            (401, &json!("invalid_client"))
        );
    }
}

#[tokio::test]
async fn apps_need_a_name_and_good_addresses() {
    for place in places() {
        let form = json!({"client_name": "", "redirect_uris": ["app://x"]});
        let refused = place.call(Method::POST, "/api/v1/apps", None, form).await;
        assert_eq!(refused.status, 422);
        assert_eq!(refused.body["details"]["client_name"][0]["error"], "ERR_BLANK");
        let form = json!({"client_name": "x", "redirect_uris": ["javascript:alert(1)"]});
        assert_eq!(place.refused(Method::POST, "/api/v1/apps", None, form).await.0, 422);
        let form = json!({"client_name": "x", "redirect_uris": ["app://x"], "scopes": "all"});
        assert_eq!(place.refused(Method::POST, "/api/v1/apps", None, form).await.0, 422);
    }
}

#[tokio::test]
async fn what_oauth_can_do_is_told() {
    for place in places() {
        let told = place.get("/.well-known/oauth-authorization-server", None).await;
        assert_eq!(told["issuer"], "https://weir.test/");
        assert_eq!(told["code_challenge_methods_supported"], json!(["S256"]));
    }
}
