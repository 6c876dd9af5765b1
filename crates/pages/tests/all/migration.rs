//! Moving to another account.

use crate::browser::Browser;
use crate::site::{PASSWORD, Site};

async fn send(browser: &mut Browser, fields: &[(&str, &str)]) -> (u16, String) {
    browser.get("/settings/migration").await;
    let answer = browser.send(fields).await;
    if answer.status == 303 {
        assert!(answer.location.starts_with("/settings/migration?done="), "{}", answer.location);
        return (303, browser.get(&answer.location).await.body);
    }
    (answer.status, answer.body)
}

#[tokio::test]
async fn a_person_moves_to_an_account_that_names_this_one_and_back() {
    let site = Site::new();
    site.person("alice").await;
    site.person("alison").await;
    let mut old = site.log_in("alice").await;
    let mut new = site.log_in("alison").await;
    let wish = [("action", "move"), ("target", "@alison@weir.test"), ("password", PASSWORD)];
    let (status, body) = send(&mut old, &wish).await;
    assert_eq!(status, 422);
    assert!(body.contains("add an alias"), "{body}");
    assert!(body.contains("value=\"@alison@weir.test\""), "what was given stands there again");
    let wrong = [("action", "move"), ("target", "@alison@weir.test"), ("password", "guess")];
    assert!(send(&mut old, &wrong).await.1.contains("Is not your password"));

    let (status, body) = send(&mut new, &[("action", "add"), ("alias", "alice@weir.test")]).await;
    assert_eq!(status, 303);
    assert!(body.contains("<div>alice@weir.test</div>"), "{body}");
    let (status, body) = send(&mut old, &wish).await;
    assert_eq!(status, 303, "{body}");
    assert!(body.contains("This account has moved"), "{body}");
    assert!(body.contains("30 days must lie between two moves"), "{body}");
    let profile = site.browser().get("/@alice").await.body;
    assert!(profile.contains("/@alison"), "{profile}");

    let (_, body) = send(&mut old, &[("action", "back")]).await;
    assert!(!body.contains("This account has moved"), "{body}");
    let form = body.rsplit_once("<form").unwrap();
    assert!(form.1.contains("/settings/migration"));
    let (_, body) = send(&mut new, &[("action", "remove")]).await;
    assert!(!body.contains("<div>alice@weir.test</div>"), "{body}");
}

#[tokio::test]
async fn an_address_that_leads_nowhere_is_said_to() {
    let site = Site::new();
    site.person("alice").await;
    let mut browser = site.log_in("alice").await;
    for (given, said) in [
        ("not an address", "Is not an address"),
        ("nobody@weir.test", "Leads to nobody"),
        ("somebody@elsewhere.test", "Leads to nobody"),
        ("alice", "Is this very account"),
    ] {
        let (status, body) = send(&mut browser, &[("action", "add"), ("alias", given)]).await;
        assert_eq!(status, 422, "{given}");
        assert!(body.contains(said), "{given}: {body}");
    }
}
