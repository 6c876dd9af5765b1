//! Logging in and out.

use http::Method;

use crate::site::{PASSWORD, Site};

#[tokio::test]
async fn a_person_logs_in_by_name_or_address_and_out_again() {
    let site = Site::new();
    site.person("alice").await;
    for login in ["alice", "@Alice", "alice@mail.test"] {
        let mut browser = site.browser();
        let page = browser.get("/auth/sign_in?return_to=/auth/sign_in").await;
        assert_eq!(page.status, 200);
        let answer = browser.send(&[("login", login), ("password", PASSWORD)]).await;
        assert_eq!((answer.status, answer.location.as_str()), (303, "/"));
        let cookie = answer.set_cookies.first().unwrap();
        for part in ["__Host-weir_session=", "HttpOnly", "SameSite=Lax", "Secure", "Path=/"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        assert_eq!(browser.get("/auth/sign_in").await.status, 303);
    }
    let mut browser = site.log_in("alice").await;
    let page = browser.get("/nowhere").await;
    assert_eq!(page.status, 404);
    let token = browser.get("/oauth/authorize/native?code=abc").await.body;
    let token = token.split_once("form_token\" value=\"").unwrap().1.split('"').next().unwrap();
    let cookies = browser.cookies.clone();
    let field = ("form_token".to_owned(), token.to_owned());
    assert_eq!(browser.post("/auth/sign_out", &[field]).await.status, 303);
    assert!(!browser.cookies.contains_key("__Host-weir_session"));
    browser.cookies = cookies;
    let page = browser.get("/auth/sign_in").await;
    assert_eq!(page.status, 200, "the session is gone here, not just the cookie");
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_name_get_the_same_words() {
    let site = Site::new();
    site.person("alice").await;
    let mut bodies = Vec::new();
    for (login, password) in [("alice", "wrong horse"), ("nobody", PASSWORD)] {
        let mut browser = site.browser();
        browser.get("/auth/sign_in").await;
        let answer = browser.send(&[("login", login), ("password", password)]).await;
        assert_eq!(answer.status, 422);
        bodies.push(answer.body.split_once("role=\"alert\"").unwrap().1[..80].to_owned());
        assert!(!browser.cookies.contains_key("__Host-weir_session"));
    }
    assert_eq!(bodies[0], bodies[1]);
}

#[tokio::test]
async fn guessing_is_slowed_down_for_each_name_and_time_makes_it_good_again() {
    let site = Site::new();
    site.person("alice").await;
    let mut browser = site.browser();
    browser.get("/auth/sign_in").await;
    let wrong = [("login", "alice"), ("password", "wrong horse")];
    for _ in 0..10 {
        assert_eq!(browser.send(&wrong).await.status, 422);
    }
    let answer = browser.send(&[("login", "@ALICE"), ("password", PASSWORD)]).await;
    assert_eq!(answer.status, 429);
    assert!(answer.body.contains("60 seconds"), "{}", answer.body);
    site.clock.advance(60_000);
    browser.get("/auth/sign_in").await;
    let answer = browser.send(&[("login", "alice"), ("password", PASSWORD)]).await;
    assert_eq!(answer.status, 303);
}

#[tokio::test]
async fn a_form_without_our_token_or_from_another_site_is_refused() {
    let site = Site::new();
    site.person("alice").await;
    let good = [("login".to_owned(), "alice".to_owned()), ("password".into(), PASSWORD.into())];
    let mut browser = site.browser();
    assert_eq!(browser.post("/auth/sign_in", &good).await.status, 403, "no page was loaded");
    browser.get("/auth/sign_in").await;
    assert_eq!(browser.post("/auth/sign_in", &good).await.status, 403, "no token was sent");
    let mut other = site.browser();
    other.get("/auth/sign_in").await;
    let foreign = other.form_fields(&good);
    assert_eq!(browser.post("/auth/sign_in", &foreign).await.status, 403, "another's token");
    let own = browser.form_fields(&good);
    let origin = Some("https://evil.example");
    let answer = browser.request(Method::POST, "/auth/sign_in", &own, origin).await;
    assert_eq!(answer.status, 403, "another site");
    assert_eq!(browser.post("/auth/sign_in", &own).await.status, 303);
}

#[tokio::test]
async fn every_page_forbids_scripts_and_frames() {
    let site = Site::new();
    let mut browser = site.browser();
    for path in ["/auth/sign_in", "/nowhere", "/assets/weir.css"] {
        let policy = browser.get(path).await.policy;
        assert!(policy.contains("default-src 'none'"), "{path}: {policy}");
        assert!(policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
        assert!(!policy.contains("script-src") && !policy.contains("unsafe"), "{policy}");
    }
}
