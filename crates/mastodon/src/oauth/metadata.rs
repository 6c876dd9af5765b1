//! `GET /.well-known/oauth-authorization-server`: what OAuth can do here (RFC 8414).

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use weir_community::oauth::Scopes;

use crate::Face;

/// The document.
pub async fn get(State(face): State<Face>) -> Json<Value> {
    let base = &face.env().site.base;
    let mut grants = vec!["authorization_code", "client_credentials"];
    grants.extend(face.dev.then_some("password"));
    Json(json!({
        "issuer": format!("{base}/"),
        "authorization_endpoint": format!("{base}/oauth/authorize"),
        "token_endpoint": format!("{base}/oauth/token"),
        "revocation_endpoint": format!("{base}/oauth/revoke"),
        "userinfo_endpoint": format!("{base}/oauth/userinfo"),
        "app_registration_endpoint": format!("{base}/api/v1/apps"),
        "scopes_supported": Scopes::known(),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": grants,
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "code_challenge_methods_supported": ["S256"],
    }))
}
