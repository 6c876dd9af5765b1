//! Media of other servers through us.

use std::io::Read;
use std::time::Duration;

use tokio::time::timeout;
use weir_base::Id;
use weir_community::media::{self, Media, Opened, Proxy, Wanted};
use weir_community::{Error, accounts};
use weir_db::params;
use weir_fetch::{Fetch, Options};

use crate::origin::{HANGS, Origin, fetch, remote_person};
use crate::place::{Place, places};

pub fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let image = image::RgbImage::from_fn(width, height, |x, y| {
        image::Rgb([(x % 256) as u8, (y % 256) as u8, (x * y % 256) as u8])
    });
    image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

async fn attachment(place: &Place, by: Id, kind: &'static str, url: String) -> Media {
    let insert = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
        let id = env.ids.next();
        tx.execute(
            "INSERT INTO media (id, account_id, status_id, kind, state, remote_url, created_at)
             VALUES (?1, ?2, 1, ?3, 'ready', ?4, 0)",
            params![id, by, kind, url],
        )?;
        media::get(tx, by, id)
    };
    place.write(insert).await.unwrap()
}

/// The key in an address we gave out.
fn key(url: Option<String>) -> String {
    url.unwrap().split_once("?key=").unwrap().1.to_owned()
}

fn size(opened: &Opened) -> (u32, u32) {
    let mut bytes = Vec::new();
    (&opened.file).read_to_end(&mut bytes).unwrap();
    let image = image::load_from_memory(&bytes).unwrap();
    (image.width(), image.height())
}

const CACHE_BYTES: u64 = 1 << 30;

#[tokio::test]
async fn a_picture_is_fetched_once_however_many_look_at_it() {
    let origin = Origin::serve([("/a.png", "text/html", png(1_000, 1_000))]).await;
    for (place, before) in places().into_iter().zip([0, 1]) {
        let bob = remote_person(&place, "bob", "b.example").await;
        let media = attachment(&place, bob, "image", format!("{}/a.png", origin.base)).await;
        let env = place.community.env().clone();
        let key = key(media::url(&env, &media));
        let proxy = Proxy::new(place.community.clone(), fetch(), CACHE_BYTES);
        let looks: Vec<_> = (0..20)
            .map(|_| {
                let (proxy, key, id) = (proxy.clone(), key.clone(), media.id);
                tokio::spawn(async move { proxy.open(Wanted::Attachment(id), &key).await })
            })
            .collect();
        for look in looks {
            let opened = look.await.unwrap().unwrap();
            assert_eq!(opened.content_type, "image/png", "by its bytes, not by its word");
        }
        let small = proxy.open(Wanted::Small(media.id), &key).await.unwrap();
        let (width, height) = size(&small);
        assert!(width * height <= 230_400 && width > 400, "{width}x{height}");
        assert_eq!(origin.asked(), before + 1);
        let again = Proxy::new(place.community.clone(), fetch(), CACHE_BYTES);
        assert_eq!(size(&again.open(Wanted::Attachment(media.id), &key).await.unwrap()).0, 1_000);
        assert_eq!(origin.asked(), before + 1, "kept over a restart");
    }
}

#[tokio::test]
async fn what_is_no_media_or_too_large_is_not_shown() {
    let mut large = png(10, 10);
    large.resize(9 << 20, 0);
    let origin = Origin::serve([
        ("/page", "image/png", b"<html><script>alert(1)</script>".to_vec()),
        ("/svg", "image/svg+xml", b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>".to_vec()),
        ("/large", "image/png", large),
    ])
    .await;
    for place in places() {
        let bob = remote_person(&place, "bob", "b.example").await;
        let mut settings = (*place.community.env().instance.settings()).clone();
        settings.image_bytes_max = 1 << 20;
        let env = place.community.env().clone();
        let set = env.clone();
        place
            .write(move |tx, _| weir_community::instance::set(tx, &set, settings.clone()))
            .await
            .unwrap();
        let proxy = Proxy::new(place.community.clone(), fetch(), CACHE_BYTES);
        for path in ["/page", "/svg", "/large", "/gone"] {
            let media = attachment(&place, bob, "image", format!("{}{path}", origin.base)).await;
            let key = key(media::url(&env, &media));
            let refused = proxy.open(Wanted::Attachment(media.id), &key).await.unwrap_err();
            let expected = matches!(refused, Error::NotFound(_) | Error::Upstream(_));
            assert!(expected, "{path}: {refused}");
            let asked = origin.asked();
            proxy.open(Wanted::Attachment(media.id), &key).await.unwrap_err();
            assert_eq!(origin.asked(), asked, "{path}: a failure is remembered");
        }
        assert_eq!(proxy.cached_bytes(), 0);
    }
}

#[tokio::test]
async fn nothing_is_fetched_without_the_key_from_rejected_servers_or_from_inside() {
    let origin = Origin::serve([("/a.png", "image/png", png(10, 10))]).await;
    for place in places() {
        let env = place.community.env().clone();
        let bob = remote_person(&place, "bob", "pics.b.example").await;
        let url = format!("{}/a.png", origin.base);
        let avatar = url.clone();
        place
            .write(move |tx, _| {
                let sql = "UPDATE accounts SET avatar = ?2 WHERE id = ?1";
                Ok(tx.execute(sql, params![bob, avatar])?)
            })
            .await
            .unwrap();
        let media = attachment(&place, bob, "image", url).await;
        let (wanted, media_key) = (Wanted::Attachment(media.id), key(media::url(&env, &media)));
        let proxy = Proxy::new(place.community.clone(), fetch(), CACHE_BYTES);
        for wrong in ["", "0000000000000000"] {
            let refused = proxy.open(wanted, wrong).await;
            assert!(matches!(refused, Err(Error::NotFound(_))));
        }
        let guarded = Fetch::new(Options::default()).unwrap();
        let guarded = Proxy::new(place.community.clone(), guarded, CACHE_BYTES);
        guarded.open(wanted, &media_key).await.unwrap_err();
        let block = "INSERT INTO domain_blocks (id, domain, severity, reject_media)
                     VALUES (1, 'b.example', 'noop', 1)";
        place.write(move |tx, _| Ok(tx.execute(block, &[])?)).await.unwrap();
        let account = place.read(move |tx, _| accounts::by_id(tx, bob)).await.unwrap();
        let avatar_key = key(media::avatar_url(&env, &account));
        for (wanted, key) in [(wanted, &media_key), (Wanted::Avatar(bob), &avatar_key)] {
            assert!(matches!(proxy.open(wanted, key).await, Err(Error::NotFound(_))));
        }
        let asked = origin.asked();
        let lift = "DELETE FROM domain_blocks";
        place.write(move |tx, _| Ok(tx.execute(lift, &[])?)).await.unwrap();
        proxy.open(Wanted::Avatar(bob), &avatar_key).await.unwrap();
        assert_eq!(origin.asked(), asked + 1);
    }
    assert_eq!(origin.asked(), 2, "only what was allowed, once for each community");
}

/// Looks at `count` pictures of bob's at `base` that never come.
async fn looks_at_what_never_comes(
    place: &Place,
    proxy: &Proxy,
    bob: Id,
    base: &str,
    count: usize,
) -> tokio::task::JoinSet<()> {
    let env = place.community.env().clone();
    let mut looks = tokio::task::JoinSet::new();
    for number in 0..count {
        let media = attachment(place, bob, "image", format!("{base}/hangs?{number}")).await;
        let (proxy, key) = (proxy.clone(), key(media::url(&env, &media)));
        looks.spawn(async move {
            let _ = proxy.open(Wanted::Attachment(media.id), &key).await;
        });
    }
    looks
}

fn hanging(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("/hangs?{number}")).collect()
}

#[tokio::test]
async fn a_host_whose_pictures_never_come_leaves_places_for_others() {
    let paths = hanging(60);
    let slow = paths.iter().map(|path| (path.as_str(), HANGS, Vec::new()));
    let slow = Origin::serve_at("127.0.0.2", slow).await;
    let origin = Origin::serve([("/a.png", "image/png", png(10, 10))]).await;
    for place in places() {
        let bob = remote_person(&place, "bob", "b.example").await;
        let proxy = Proxy::new(place.community.clone(), fetch(), CACHE_BYTES);
        let before = slow.asked();
        let _looks = looks_at_what_never_comes(&place, &proxy, bob, &slow.base, paths.len()).await;
        while slow.asked() == before {
            tokio::task::yield_now().await;
        }
        let env = place.community.env().clone();
        let media = attachment(&place, bob, "image", format!("{}/a.png", origin.base)).await;
        let key = key(media::url(&env, &media));
        let look = proxy.open(Wanted::Attachment(media.id), &key);
        let opened = timeout(Duration::from_secs(10), look).await;
        assert_eq!(size(&opened.unwrap().unwrap()), (10, 10));
    }
}
