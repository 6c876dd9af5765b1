//! Letting apps in.

use url::form_urlencoded::Serializer;
use weir_community::oauth;

use crate::site::{PASSWORD, Site, app};

/// The challenge of `VERIFIER` (RFC 7636, appendix B).
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

fn authorize(client: &str, redirect: &str, more: &[(&str, &str)]) -> String {
    let mut query = Serializer::new(String::new());
    query.append_pair("response_type", "code").append_pair("client_id", client);
    query.append_pair("redirect_uri", redirect);
    query.extend_pairs(more);
    format!("/oauth/authorize?{}", query.finish())
}

#[tokio::test]
async fn a_person_logs_in_allows_an_app_and_its_code_makes_a_token() {
    let site = Site::new();
    let alice = site.person("alice").await;
    let redirect = "icecubesapp://";
    let (client, _) = app(&site, redirect).await;
    let more = [
        ("scope", "read write:statuses"),
        ("state", "a b&c"),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
    ];
    let path = authorize(&client, redirect, &more);
    let mut browser = site.browser();
    let page = browser.get(&path).await;
    assert!(page.body.contains("Test &#60;App&#62;"), "{}", page.body);
    let answer = browser.send(&[("login", "alice"), ("password", PASSWORD)]).await;
    assert_eq!(answer.status, 303);
    let page = browser.get(&answer.location).await;
    assert!(page.body.contains("@alice@weir.test") && page.body.contains("write, edit"));
    assert!(page.policy.contains("form-action 'self' icecubesapp:;"), "{}", page.policy);
    let answer = browser.send(&[("decision", "allow")]).await;
    assert_eq!(answer.status, 303);
    let query = answer.location.strip_prefix("icecubesapp://?").expect("the app's address");
    let fields: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).into_owned().collect();
    assert_eq!(fields[1], ("state".into(), "a b&c".into()));
    let code = fields[0].1.clone();
    let bearer = site
        .write(move |tx, env| {
            let app = oauth::app_by_client_id(tx, &client)?.unwrap();
            let made = oauth::exchange(tx, env, &app, &code, redirect, Some(VERIFIER))?;
            oauth::bearer(tx, env, made.token.expose())
        })
        .await;
    assert_eq!(bearer.account_id, Some(alice));
    assert_eq!(bearer.scopes.to_string(), "read write:statuses");
}

#[tokio::test]
async fn an_unknown_app_or_address_never_redirects() {
    let site = Site::new();
    site.person("alice").await;
    let (client, _) = app(&site, "https://app.example/cb").await;
    let mut browser = site.log_in("alice").await;
    for path in [
        authorize("unknown", "https://app.example/cb", &[]),
        authorize(&client, "https://evil.example/cb", &[]),
        authorize(&client, "https://app.example/cb/../x", &[]),
    ] {
        let answer = browser.get(&path).await;
        assert_eq!((answer.status, answer.location.as_str()), (400, ""), "{path}");
    }
}

#[tokio::test]
async fn what_the_app_asked_wrongly_is_told_to_the_app() {
    let site = Site::new();
    site.person("alice").await;
    let redirect = "https://app.example/cb?x=1";
    let (client, _) = app(&site, redirect).await;
    let mut browser = site.log_in("alice").await;
    for (more, error) in [
        (vec![("scope", "nonsense")], "invalid_scope"),
        (vec![("scope", "admin:read")], "invalid_scope"),
        (vec![("code_challenge", CHALLENGE)], "invalid_request"),
        (
            vec![("code_challenge", CHALLENGE), ("code_challenge_method", "plain")],
            "invalid_request",
        ),
        (vec![("code_challenge", "short"), ("code_challenge_method", "S256")], "invalid_request"),
    ] {
        let mut more = more.clone();
        more.push(("state", "s"));
        let answer = browser.get(&authorize(&client, redirect, &more)).await;
        let begin = format!("{redirect}&error={error}&");
        assert_eq!(answer.status, 303);
        assert!(answer.location.starts_with(&begin), "{}", answer.location);
        assert!(answer.location.ends_with("&state=s"));
    }
    browser.get(&authorize(&client, redirect, &[])).await;
    let answer = browser.send(&[("decision", "deny")]).await;
    assert!(answer.location.contains("&error=access_denied&"), "{}", answer.location);
}

#[tokio::test]
async fn out_of_band_shows_the_code() {
    let site = Site::new();
    site.person("alice").await;
    let (client, _) = app(&site, oauth::OUT_OF_BAND).await;
    let mut browser = site.log_in("alice").await;
    browser.get(&authorize(&client, oauth::OUT_OF_BAND, &[])).await;
    let answer = browser.send(&[("decision", "allow")]).await;
    let code = answer.location.strip_prefix("/oauth/authorize/native?code=").unwrap().to_owned();
    assert!(browser.get(&answer.location).await.body.contains(&format!(">{code}<")));
    browser.get(&authorize(&client, oauth::OUT_OF_BAND, &[])).await;
    assert_eq!(browser.send(&[("decision", "deny")]).await.status, 403);
    assert_eq!(browser.get("/oauth/authorize/native?code=%3Cb%3E").await.status, 400);
}

#[tokio::test]
async fn force_login_asks_for_the_password_once_more() {
    let site = Site::new();
    site.person("alice").await;
    site.person("bob").await;
    let redirect = "https://app.example/cb";
    let (client, _) = app(&site, redirect).await;
    let mut browser = site.log_in("alice").await;
    let path = authorize(&client, redirect, &[("force_login", "true")]);
    assert!(browser.get(&path).await.body.contains("type=\"password\""));
    let answer = browser.send(&[("login", "bob"), ("password", PASSWORD)]).await;
    assert!(!answer.location.contains("force_login"));
    assert!(browser.get(&answer.location).await.body.contains("@bob@weir.test"));
}
