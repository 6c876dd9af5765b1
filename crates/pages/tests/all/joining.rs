//! Networks and mail domains from which nobody joins.

use weir_community::moderation::{self, Access};

use crate::browser::Browser;
use crate::site::Site;

async fn act(staff: &mut Browser, fields: &[(&str, &str)]) -> crate::browser::Answer {
    staff.get("/admin/joining").await;
    let token = staff.form_fields(&[])[0].clone();
    let given = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let all: Vec<(String, String)> = std::iter::once(token).chain(given).collect();
    staff.post("/admin/joining", &all).await
}

#[tokio::test]
async fn staff_blocks_a_network_for_a_while_and_lifts_it() {
    let site = Site::new();
    let (_, mut staff) = site.staff("alice").await;
    let block = [
        ("action", "block_network"),
        ("network", "192.0.2.0/24"),
        ("access", "approval"),
        ("days", "7"),
        ("comment", "many at once"),
    ];
    assert_eq!(act(&mut staff, &block).await.status, 303);
    let body = staff.get("/admin/joining").await.body;
    assert!(body.contains("192.0.2.0/24") && body.contains("many at once"), "{body}");
    assert!(body.contains("by approval") && body.contains("until 21 Nov 2023"), "{body}");
    let access = |site: &Site| {
        let community = site.community.clone();
        async move {
            let ip = "192.0.2.77".parse().unwrap();
            let unit = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
                moderation::access_from(tx, env, ip)
            };
            community.read(weir_db::Class::Interactive, unit).await.unwrap()
        }
    };
    assert_eq!(access(&site).await, Access::SignUpByApproval);
    let lift = [("action", "allow_network"), ("network", "192.0.2.0/24")];
    assert_eq!(act(&mut staff, &lift).await.status, 303);
    assert_eq!(access(&site).await, Access::Free);
    let wrong = act(&mut staff, &[("action", "block_network"), ("network", "not <one>")]).await;
    assert_eq!(wrong.status, 422);
    assert!(wrong.body.contains("network-wrong") && wrong.body.contains("not &#60;one&#62;"));
}

#[tokio::test]
async fn staff_blocks_a_mail_domain_and_allows_it_again() {
    let site = Site::new();
    let (_, mut staff) = site.staff("alice").await;
    let block = [("action", "block_mail"), ("mail_domain", "Throwaway.test ")];
    assert_eq!(act(&mut staff, &block).await.status, 303);
    assert!(staff.get("/admin/joining").await.body.contains("Allow throwaway.test"));
    let mut guest = site.browser();
    guest.get("/auth/sign_up").await;
    let card = [
        ("username", "carol"),
        ("email", "carol@mail.throwaway.test"),
        ("password", crate::site::PASSWORD),
        ("password_again", crate::site::PASSWORD),
        ("agreement", "1"),
    ];
    let refused = guest.send(&card).await;
    assert!(refused.status == 422 && refused.body.contains("email-wrong"), "{}", refused.body);
    let allow = [("action", "allow_mail"), ("mail_domain", "throwaway.test")];
    assert_eq!(act(&mut staff, &allow).await.status, 303);
    assert!(!staff.get("/admin/joining").await.body.contains("throwaway.test</div>"));
    let wrong = act(&mut staff, &[("action", "block_mail"), ("mail_domain", "a@b")]).await;
    assert!(wrong.status == 422 && wrong.body.contains("domain-wrong"), "{}", wrong.body);
}
