//! Joining, the links that come by mail, settings, and what staff does.

use weir_base::Id;
use weir_community::accounts;
use weir_community::instance::Registrations;
use weir_community::mail::{self, Mailer};
use weir_community::reports::{self, NewReport};
use weir_community::statuses::{self, Draft};
use weir_community::users::{self, Door, Purpose, Role, UserChange};
use weir_jobs::Registry;
use weir_pages::Options;

use crate::browser::Browser;
use crate::site::{PASSWORD, Site};

const CARD: [(&str, &str); 5] = [
    ("username", "carol"),
    ("email", "carol@mail.test"),
    ("password", PASSWORD),
    ("password_again", PASSWORD),
    ("agreement", "1"),
];

fn site(registrations: Registrations, confirm_email: bool) -> Site {
    let door = Door { registrations, confirm_email };
    Site::with("https://weir.test", Options { door, throttle: true })
}

impl Site {
    pub async fn staff(&self, name: &str) -> (Id, Browser) {
        let id = self.person(name).await;
        let change = UserChange { role: Some(Role::Admin), ..UserChange::default() };
        self.write(move |tx, env| users::change(tx, env, id, &change)).await;
        (id, self.log_in(name).await)
    }
}

#[tokio::test]
async fn where_the_door_is_open_one_is_in_at_once() {
    let site = site(Registrations::Open, false);
    let mut browser = site.browser();
    browser.get("/auth/sign_up").await;
    let answer = browser.send(&CARD).await;
    assert_eq!((answer.status, answer.location.as_str()), (303, "/"), "{}", answer.body);
    assert!(browser.get("/").await.body.contains("@carol"));
}

#[tokio::test]
async fn a_sign_up_waits_for_the_mail_and_then_for_staff() {
    let site = site(Registrations::Approval, true);
    let (_, mut staff) = site.staff("alice").await;
    let mut browser = site.browser();
    browser.get("/auth/sign_up").await;
    let answer = browser.send(&CARD).await;
    assert_eq!(answer.status, 422);
    assert!(answer.body.contains("id=\"reason-wrong\">Can&#39;t be blank."), "{}", answer.body);
    let mut card = CARD.to_vec();
    card.push(("reason", "I like rivers"));
    let answer = browser.send(&card).await;
    assert!(answer.body.contains("Look into your mail"), "{}", answer.body);
    let log_in = [("login", "carol"), ("password", PASSWORD)];
    browser.get("/auth/sign_in").await;
    assert!(browser.send(&log_in).await.body.contains("confirms your address"));
    let token = site
        .write(|tx, env| {
            let user = users::by_login(tx, "carol")?.unwrap();
            users::new_token(tx, env, &user, Purpose::Confirm, &user.email)
        })
        .await;
    let link = format!("/auth/confirmation?token={}", token.expose());
    assert_eq!(browser.get(&link).await.status, 200);
    assert_eq!(browser.get(&link).await.status, 404, "a link works once");
    browser.get("/auth/sign_in").await;
    assert!(browser.send(&log_in).await.body.contains("waits for the staff"));
    assert_eq!(browser.get("/@carol").await.status, 404, "nobody sees who waits");
    let page = staff.get("/admin/pending").await;
    assert!(page.body.contains("I like rivers"), "{}", page.body);
    let id = page.body.split_once("name=\"approve\" value=\"").unwrap().1;
    let id = id.split('"').next().unwrap().to_owned();
    assert_eq!(staff.send(&[("approve", &id)]).await.status, 303);
    browser.get("/auth/sign_in").await;
    assert_eq!(browser.send(&log_in).await.status, 303);
}

#[tokio::test]
async fn an_invitation_opens_a_door_that_is_by_invitation() {
    let site = site(Registrations::Invite, false);
    site.person("bob").await;
    let mut bob = site.log_in("bob").await;
    bob.get("/settings/invites").await;
    let made = bob.send(&[("uses", "1"), ("days", "7"), ("autofollow", "1")]).await;
    assert_eq!(made.status, 303, "{}", made.body);
    let body = bob.get("/settings/invites").await.body;
    let code = body.split_once("/invite/").unwrap().1.split('<').next().unwrap().to_owned();
    let mut browser = site.browser();
    assert!(
        !browser
            .get("/auth/sign_up")
            .await
            .body
            .contains("<form method=\"post\" action=\"/auth/sign_up")
    );
    browser.get(&format!("/invite/{code}")).await;
    assert_eq!(browser.send(&CARD).await.status, 303);
    let mut other = site.browser();
    assert_eq!(other.get(&format!("/invite/{code}")).await.status, 410);
}

#[tokio::test]
async fn a_new_password_by_mail_or_in_the_settings_ends_other_log_ins() {
    let site = Site::new();
    site.person("alice").await;
    let mut other = site.log_in("alice").await;
    let mut here = site.log_in("alice").await;
    here.get("/settings/account").await;
    let change = [
        ("current_password", "wrong"),
        ("password", "another horse"),
        ("password_again", "another horse"),
    ];
    let token = here.form_fields(&[]);
    let send = |fields: &[(&str, &str)]| {
        let mut all = token.clone();
        all.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        all
    };
    assert_eq!(here.post("/settings/password", &send(&change)).await.status, 422);
    let change = [("current_password", PASSWORD), change[1], change[2]];
    assert_eq!(here.post("/settings/password", &send(&change)).await.status, 303);
    assert_eq!(here.get("/settings/account").await.status, 200);
    assert_eq!(other.get("/settings/account").await.status, 303, "to the log-in");
    let link = site
        .write(|tx, env| {
            let user = users::by_login(tx, "alice")?.unwrap();
            users::new_token(tx, env, &user, Purpose::Reset, &user.email)
        })
        .await;
    let mut mail = site.browser();
    mail.get(&format!("/auth/password/edit?token={}", link.expose())).await;
    let answer = mail.send(&[("password", PASSWORD), ("password_again", PASSWORD)]).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(here.get("/settings/account").await.status, 303);
    site.log_in("alice").await;
}

#[tokio::test]
async fn one_leaves_only_with_the_password() {
    let site = Site::new();
    site.person("alice").await;
    let mut browser = site.log_in("alice").await;
    browser.get("/settings/delete").await;
    assert_eq!(browser.send(&[("password", "wrong horse")]).await.status, 422);
    assert_eq!(browser.send(&[("password", PASSWORD)]).await.status, 303);
    assert_eq!(browser.get("/@alice").await.status, 410);
    assert_eq!(browser.get("/settings/profile").await.status, 303);
}

#[tokio::test]
async fn the_last_admin_is_told_in_place_what_to_do_before_leaving() {
    let site = Site::new();
    let (_, mut browser) = site.staff("olga").await;
    browser.get("/settings/delete").await;
    let refused = browser.send(&[("password", PASSWORD)]).await;
    assert_eq!(refused.status, 422);
    assert!(refused.body.contains("weir account set NAME --role admin"), "{}", refused.body);
    site.staff("alice").await;
    assert_eq!(browser.send(&[("password", PASSWORD)]).await.status, 303);
    assert_eq!(browser.get("/@olga").await.status, 410);
}

#[tokio::test]
async fn the_settings_are_there_and_the_profile_is_changed() {
    let site = Site::new();
    site.person("alice").await;
    let mut browser = site.log_in("alice").await;
    for page in ["profile", "account", "preferences", "apps", "sessions", "invites", "delete"] {
        let path = format!("/settings/{page}");
        assert_eq!(browser.get(&path).await.status, 200, "{path}");
        let answer = site.browser().get(&path).await;
        let to = format!("/auth/sign_in?return_to=%2Fsettings%2F{page}");
        assert_eq!((answer.status, answer.location), (303, to));
    }
    browser.get("/settings/profile").await;
    let mut fields = browser.form_fields(&[]);
    fields.push(("display_name".into(), "Alice \u{202E}A".into()));
    fields.push(("note".into(), "I am #here".into()));
    fields.push(("field_name".into(), "Site".into()));
    fields.push(("field_value".into(), "https://a.example/".into()));
    assert_eq!(browser.post("/settings/profile", &fields).await.status, 303);
    let body = browser.get("/@alice").await.body;
    assert!(body.contains("rel=\"me nofollow"), "{body}");
    assert!(body.contains("<bdi>Alice \u{202E}A</bdi>"), "kept within its own direction");
}

#[tokio::test]
async fn staff_works_off_a_report_and_nobody_else_sees_it() {
    let site = Site::new();
    let (_, mut staff) = site.staff("alice").await;
    let (bob, carol) = (site.person("bob").await, site.person("carol").await);
    let draft = Draft { text: "buy things".into(), ..Draft::default() };
    let post = site.write(move |tx, env| statuses::publish(tx, env, bob, &draft)).await;
    let new = NewReport {
        target_id: bob,
        status_ids: vec![post],
        comment: "spam".into(),
        ..NewReport::default()
    };
    let report = site.write(move |tx, env| reports::create(tx, env, carol, &new, "")).await.id;
    let page = format!("/admin/reports/{report}");
    let mut bobs = site.log_in("bob").await;
    for path in ["/admin/reports", &page, "/admin/people", "/admin/instance", "/admin/joining"] {
        assert_eq!(bobs.get(path).await.status, 403, "{path}");
        assert_eq!(staff.get(path).await.status, 200, "{path}");
    }
    let body = staff.get(&page).await.body;
    assert!(body.contains("buy things") && body.contains("spam"), "{body}");
    let deletion = [("status", post.to_string()), ("action", "delete".into())];
    let deletion: Vec<(&str, &str)> = deletion.iter().map(|(n, v)| (*n, v.as_str())).collect();
    assert_eq!(staff.send(&deletion).await.status, 303);
    assert_eq!(bobs.get(&format!("/@bob/{post}")).await.status, 410);
    staff.get(&page).await;
    assert_eq!(staff.send(&[("action", "suspend")]).await.status, 303);
    assert_eq!(bobs.get("/@bob").await.status, 403);
    assert!(staff.get("/admin/reports?state=closed").await.body.contains("@bob"));
}

#[tokio::test]
async fn staff_finds_people_by_the_beginning_of_a_name_by_address_and_by_mail() {
    let site = Site::new();
    let (_, mut staff) = site.staff("alice").await;
    for name in ["bert", "Bertha", "carl"] {
        site.person(name).await;
    }
    for (asked, found) in [
        ("BERT", vec!["bert", "Bertha"]),
        ("@bertha", vec!["Bertha"]),
        ("bert%40weir.test", vec!["bert"]),
        ("Carl%40mail.test", vec!["carl"]),
        ("ert", vec![]),
        ("arl%40mail.test", vec![]),
    ] {
        let body = staff.get(&format!("/admin/people?name={asked}")).await.body;
        let names = ["alice", "bert", "Bertha", "carl"].into_iter();
        let shown = names.filter(|name| body.contains(&format!("address\">@{name}<")));
        assert_eq!(shown.collect::<Vec<_>>(), found, "{asked}: {body}");
        assert_eq!(body.contains("Nobody is found"), found.is_empty(), "{asked}");
    }
}

#[tokio::test]
async fn the_console_offers_only_what_its_reader_may_do() {
    let site = Site::new();
    let (alice, mut staff) = site.staff("alice").await;
    let (other, _) = site.staff("olga").await;
    let (bob, gone) = (site.person("bob").await, site.person("gone").await);
    site.write(move |tx, env| accounts::delete(tx, env, gone)).await;
    for (id, says) in [
        (alice, "cannot act on themselves"),
        (other, "below their own rank"),
        (gone, "is deleted"),
        (bob, "name=\"action\" value=\"suspend\""),
    ] {
        let body = staff.get(&format!("/admin/people/{id}")).await.body;
        assert!(body.contains(says), "{body}");
        assert_eq!(body.contains("name=\"action\""), id == bob, "{body}");
    }
}

#[tokio::test]
async fn a_report_offers_only_what_its_reader_may_do() {
    let site = Site::new();
    let (_, mut staff) = site.staff("alice").await;
    let (olga, mut other) = site.staff("olga").await;
    let carol = site.person("carol").await;
    let draft = Draft { text: "by staff".into(), ..Draft::default() };
    let post = site.write(move |tx, env| statuses::publish(tx, env, olga, &draft)).await;
    let new = NewReport { target_id: olga, status_ids: vec![post], ..NewReport::default() };
    let report = site.write(move |tx, env| reports::create(tx, env, carol, &new, "")).await.id;
    let page = format!("/admin/reports/{report}");
    for (browser, says) in
        [(&mut staff, "below their own rank"), (&mut other, "cannot act on themselves")]
    {
        let body = browser.get(&page).await.body;
        assert!(body.contains("by staff") && body.contains(says), "{body}");
        assert_eq!(body.matches("name=\"action\"").count(), 1, "{body}");
        assert_eq!(browser.send(&[("action", "suspend")]).await.status, 403);
    }
    assert_eq!(staff.send(&[("action", "resolve")]).await.status, 303);
    assert!(staff.get(&page).await.body.contains("value=\"reopen\""));
}

#[tokio::test]
async fn who_gets_no_mail_is_told_whom_to_ask() {
    for (sends, confirm_email) in [(false, true), (false, false), (true, false)] {
        let site = site(Registrations::Approval, confirm_email);
        let folder = site.community.env().data.clone();
        let mailer = match sends {
            true => Mailer::to_files(folder, "weir@weir.test"),
            false => Mailer::to_log("weir@weir.test"),
        };
        mail::register(&mut Registry::new(), &site.community, &mailer.unwrap());
        let mut browser = site.browser();
        browser.get("/auth/sign_up").await;
        let mut card = CARD.to_vec();
        card.push(("reason", "I like rivers"));
        let mut said = vec![browser.send(&card).await.body];
        browser.get("/auth/sign_in").await;
        said.push(browser.send(&[("login", "carol"), ("password", PASSWORD)]).await.body);
        for path in ["/auth/password/new", "/auth/confirmation/new"] {
            browser.get(path).await;
            said.push(browser.send(&[("email", "carol@mail.test")]).await.body);
        }
        for body in said {
            let promised = ["get a mail", "sent you", "on its way"];
            let promises = promised.iter().any(|words| body.contains(words));
            assert_eq!(promises, sends, "{body}");
        }
    }
}

#[tokio::test]
async fn an_admin_says_what_the_server_is_and_asks() {
    let site = Site::new();
    let (_, mut staff) = site.staff("alice").await;
    staff.get("/admin/instance").await;
    let token = staff.form_fields(&[])[0].clone();
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let fields = [
        token.clone(),
        field("title", "The River"),
        field("short", "By the water"),
        field("extended", "<p onclick=x>Hi<script>x</script></p>"),
        field("registrations", "closed"),
        field("contact", "alice"),
    ];
    assert_eq!(staff.post("/admin/instance", &fields).await.status, 303);
    let rule = [token, field("rule", "Be <kind>")];
    assert_eq!(staff.post("/admin/rules", &rule).await.status, 303);
    let body = site.browser().get("/about").await.body;
    assert!(body.contains("The River") && body.contains("<p>Hi</p>"), "{body}");
    assert!(body.contains("Be &#60;kind&#62;"), "{body}");
    assert!(site.browser().get("/auth/sign_up").await.body.contains("not accepted"));
}
