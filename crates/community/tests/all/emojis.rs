//! Custom emoji: brought by other servers within bounds, and kept by staff.

use std::io::Cursor;

use image::{ImageFormat, RgbaImage};
use weir_base::{Id, Timestamp};
use weir_community::Error;
use weir_community::emojis::{self, Emoji, EmojiChange, NewEmoji, RemoteEmoji};
use weir_community::media::Body;
use weir_db::params;

use crate::place::{Place, places};

fn remote(shortcode: &str, image_url: &str, updated_at_ms: Option<i64>) -> RemoteEmoji {
    RemoteEmoji {
        shortcode: shortcode.into(),
        uri: String::new(),
        image_url: image_url.into(),
        updated_at: updated_at_ms.map(Timestamp::from_ms),
    }
}

async fn bring(place: &Place, domain: &'static str, brought: Vec<RemoteEmoji>) {
    let bring = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
        emojis::upsert_remote(tx, env, domain, &brought)
    };
    place.write(bring).await.unwrap();
}

async fn named(place: &Place, domain: &'static str, shortcode: &'static str) -> Option<Emoji> {
    let read = move |tx: &mut weir_db::Tx, _: &weir_community::Env| {
        emojis::named(tx, [domain], [shortcode])
    };
    place.read(read).await.unwrap().pop()
}

#[tokio::test]
async fn the_newest_picture_of_a_remote_emoji_counts_whatever_the_order() {
    for place in places() {
        let [old, new] = ["https://b.example/1.png", "https://b.example/2.png"];
        bring(&place, "b.example", vec![remote(":blob:", new, Some(2_000))]).await;
        bring(&place, "b.example", vec![remote("blob", old, Some(1_000))]).await;
        let blob = named(&place, "b.example", "blob").await.unwrap();
        assert_eq!(blob.remote_url, new);
        let url = emojis::url(place.community.env(), &blob);
        assert!(url.starts_with("https://weir.test/media_proxy/emoji/"), "{url}");
        assert_ne!(emojis::static_url(place.community.env(), &blob), url);
        bring(&place, "b.example", vec![remote("blob", old, Some(3_000))]).await;
        let changed = named(&place, "b.example", "blob").await.unwrap();
        assert_eq!(changed.remote_url, old);
        assert_ne!(emojis::url(place.community.env(), &changed), url, "caches see the change");
        assert_eq!(named(&place, "c.example", "blob").await, None);
    }
}

#[tokio::test]
async fn bad_names_and_addresses_are_left_out() {
    for place in places() {
        let url = "https://b.example/1.png";
        let long = "x".repeat(200);
        bring(
            &place,
            "b.example",
            vec![
                remote("a", url, None),
                remote("a b", url, None),
                remote("<b>", url, None),
                remote(&long, url, None),
                remote("script", "javascript:alert(1)", None),
                remote("good", url, None),
            ],
        )
        .await;
        let count =
            |tx: &mut weir_db::Tx| tx.column::<String>("SELECT shortcode FROM custom_emojis", &[]);
        let kept = place.read(move |tx, _| Ok(count(tx)?)).await.unwrap();
        assert_eq!(kept, ["good"]);
    }
}

#[tokio::test]
async fn only_staff_adds_changes_and_removes_emoji() {
    let mut png = Cursor::new(Vec::new());
    RgbaImage::new(600, 600).write_to(&mut png, ImageFormat::Png).unwrap();
    let png = png.into_inner();
    let new = |shortcode: &str| NewEmoji {
        shortcode: shortcode.into(),
        category: Some("Blobs".into()),
        picture: Body::Bytes(png.clone()),
    };
    for place in places() {
        let [staff, alice] = [place.person("staff").await, place.person("alice").await];
        let promote = "UPDATE users SET role = 'moderator' WHERE account_id = ?1";
        place.write(move |tx, _| Ok(tx.execute(promote, params![staff])?)).await.unwrap();
        let refused = emojis::add(&place.community, alice, new("blob")).await;
        assert!(matches!(refused, Err(Error::Forbidden(_))));
        let refused = emojis::add(&place.community, staff, new("b b")).await;
        assert!(matches!(refused, Err(Error::Invalid(_))));
        let blob = emojis::add(&place.community, staff, new("blob")).await.unwrap();
        let path = place.community.env().media.store.path(&blob.image).unwrap();
        assert_eq!(image::open(&path).unwrap().width(), 256);
        let again = emojis::add(&place.community, staff, new("blob")).await.unwrap();
        assert_eq!((again.id, again.image == blob.image), (blob.id, false));
        let listed = async || place.read(|tx, _| emojis::listed(tx)).await.unwrap().len();
        assert_eq!(listed().await, 1);
        let id: Id = blob.id;
        let hide = EmojiChange { listed: Some(false), ..EmojiChange::default() };
        place.write(move |tx, _| emojis::change(tx, staff, id, &hide)).await.unwrap();
        assert_eq!(listed().await, 0);
        assert!(named(&place, "", "blob").await.is_some());
        let refused = place.write(move |tx, env| emojis::remove(tx, env, alice, id)).await;
        assert!(matches!(refused, Err(Error::Forbidden(_))));
        place.write(move |tx, env| emojis::remove(tx, env, staff, id)).await.unwrap();
        assert_eq!(named(&place, "", "blob").await, None);
    }
}
