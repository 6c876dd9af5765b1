//! Avatar and header, chosen on the settings page.

use image::{ImageFormat, Rgb, RgbImage};

use crate::browser::Browser;
use crate::site::Site;

const PATH: &str = "/settings/pictures";

/// A picture that hardly shrinks when it is encoded: `side`² x 3 bytes.
fn noise(side: u32) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let picture = RgbImage::from_fn(side, side, |_, _| Rgb([next(), next(), next()]));
    let mut bytes = std::io::Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Png).unwrap();
    bytes.into_inner()
}

fn described(browser: &Browser, more: &[(&str, &str)]) -> Vec<(String, String)> {
    let more: Vec<(String, String)> =
        more.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    browser.form_fields(&more)
}

#[tokio::test]
async fn pictures_are_put_up_with_their_words_and_taken_down_again() {
    let site = Site::new();
    let id = site.person("alice").await;
    let mut browser = site.log_in("alice").await;
    browser.get("/settings/profile").await;
    let words = [("avatar_description", "A <heron> & me"), ("header_description", "The old weir")];
    let (avatar, header) = (noise(300), noise(200));
    let files: [(&str, &[u8]); 2] = [("avatar", &avatar), ("header", &header)];
    let fields = described(&browser, &words);
    let answer = browser.upload(PATH, &fields, &files).await;
    assert_eq!((answer.status, answer.location.as_str()), (303, "/settings/profile?done=saved"));

    let account = site.write(move |tx, _| weir_community::accounts::by_id(tx, id)).await;
    assert!(!account.avatar.is_empty() && !account.header.is_empty());
    assert_eq!(account.avatar_description, "A <heron> & me");
    let body = browser.get("/@alice").await.body;
    assert!(body.contains(&account.header) && body.contains("alt=\"The old weir\""), "{body}");
    assert!(body.contains(&account.avatar), "{body}");

    // What is left alone stays; what is ticked goes.
    browser.get("/settings/profile").await;
    let fields = described(&browser, &[("remove_header", "1"), words[0]]);
    assert_eq!(browser.upload(PATH, &fields, &[("avatar", b"")]).await.status, 303);
    let after = site.write(move |tx, _| weir_community::accounts::by_id(tx, id)).await;
    assert_eq!((after.avatar, after.header), (account.avatar, String::new()));
}

#[tokio::test]
async fn what_is_no_picture_or_too_large_is_refused_beside_its_field() {
    let site = Site::new();
    let id = site.person("alice").await;
    let mut browser = site.log_in("alice").await;
    browser.get("/settings/profile").await;
    let fields = described(&browser, &[]);
    let beside = |field: &str, body: &str| {
        let start = body.find(&format!("id=\"{field}-wrong\"")).unwrap_or_else(|| panic!("{body}"));
        body[start..].split("</span>").next().unwrap_or_default().to_owned()
    };
    let text = browser.upload(PATH, &fields, &[("header", b"<svg onload=alert(1)>")]).await;
    assert_eq!(text.status, 422);
    beside("header", &text.body);
    let before = text.body.split("<h1>").next().unwrap_or_default();
    assert!(before.contains("role=\"alert\""), "it says so at the top: {}", text.body);
    // It begins as a picture does, and is none.
    let broken = browser.upload(PATH, &fields, &[("avatar", b"\x89PNG\r\n\x1a\nnothing")]).await;
    assert_eq!(broken.status, 422);
    beside("avatar", &broken.body);
    for bytes in [9, 17] {
        let mut large = b"\x89PNG\r\n\x1a\n".to_vec();
        large.resize(bytes << 20, 0);
        let answer = browser.upload(PATH, &fields, &[("avatar", &large)]).await;
        assert_eq!(answer.status, 422, "{bytes} MiB");
        assert!(beside("avatar", &answer.body).contains("8 MiB"), "{}", answer.body);
    }
    let account = site.write(move |tx, _| weir_community::accounts::by_id(tx, id)).await;
    assert_eq!((account.avatar, account.header), (String::new(), String::new()));
}

#[tokio::test]
async fn pictures_from_a_page_of_another_site_are_refused() {
    let site = Site::new();
    site.person("alice").await;
    let mut browser = site.log_in("alice").await;
    let picture = noise(20);
    let fields = [("form_token".to_owned(), "forged".to_owned())];
    assert_eq!(browser.upload(PATH, &fields, &[("avatar", &picture)]).await.status, 403);
}
