//! Attachments: nothing hidden is kept, nothing harmful is taken, nothing is lost or left over.

use std::io::Cursor;
use std::path::PathBuf;
use std::process::Command;

use image::codecs::gif::GifEncoder;
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::codecs::webp::WebPEncoder;
use image::{Frame, ImageEncoder, RgbImage, Rgba, RgbaImage};
use weir_base::Id;
use weir_community::media::{self, Body, Media, MediaChange, NewMedia};
use weir_community::statuses::{self, Draft};
use weir_community::{Error, accounts, instance};
use weir_db::params;

use crate::place::{Place, places, until};

/// EXIF (TIFF 6.0): turned by 90 degrees, a maker, and a place on Earth.
fn exif() -> Vec<u8> {
    let mut tiff = b"II*\0\x08\0\0\0".to_vec();
    tiff.extend(3u16.to_le_bytes());
    let mut entry = |tag: u16, kind: u16, count: u32, value: u32| {
        tiff.extend(tag.to_le_bytes());
        tiff.extend(kind.to_le_bytes());
        tiff.extend(count.to_le_bytes());
        tiff.extend(value.to_le_bytes());
    };
    entry(0x010F, 2, 8, 0x44);
    entry(0x0112, 3, 1, 6);
    entry(0x8825, 4, 1, 0x32);
    tiff.extend(0u32.to_le_bytes());
    tiff.extend(1u16.to_le_bytes());
    tiff.extend(*b"\x01\0\x02\0\x02\0\0\0N\0\0\0");
    tiff.extend(0u32.to_le_bytes());
    assert_eq!(tiff.len(), 0x44);
    tiff.extend(b"SPYCAM1\0");
    tiff
}

fn picture(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| image::Rgb([(x % 256) as u8, (y % 256) as u8, 90]))
}

fn with_exif<E: ImageEncoder>(mut encoder: E) {
    encoder.set_exif_metadata(exif()).unwrap();
    let image = picture(60, 30);
    encoder.write_image(image.as_raw(), 60, 30, image::ExtendedColorType::Rgb8).unwrap();
}

fn jpeg(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    JpegEncoder::new(&mut bytes).encode_image(&picture(width, height)).unwrap();
    bytes
}

fn gif(frames: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = GifEncoder::new(&mut bytes);
    for frame in 0..frames {
        let image = RgbaImage::from_pixel(20, 10, Rgba([frame * 100, 20, 30, 255]));
        encoder.encode_frame(Frame::new(image)).unwrap();
    }
    drop(encoder);
    bytes
}

fn new(bytes: Vec<u8>) -> NewMedia {
    NewMedia { body: Body::Bytes(bytes), description: None, focus: None, thumbnail: None }
}

async fn upload(place: &Place, by: Id, bytes: Vec<u8>) -> Result<Media, Error> {
    media::upload(&place.community, by, new(bytes)).await
}

fn path(place: &Place, file: &str) -> PathBuf {
    place.community.env().media.store.path(file).unwrap()
}

async fn rows(place: &Place) -> i64 {
    let count =
        |tx: &mut weir_db::Tx| tx.query_one("SELECT count(*) FROM media", &[], |r| r.get(0));
    place.read(move |tx, _| Ok(count(tx)?)).await.unwrap()
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test]
async fn pictures_lose_camera_and_place_and_stand_upright() {
    for place in places() {
        let alice = place.person("alice").await;
        let (mut jpeg, mut png, mut webp) = (Vec::new(), Vec::new(), Vec::new());
        with_exif(JpegEncoder::new(&mut jpeg));
        with_exif(PngEncoder::new(&mut png));
        with_exif(WebPEncoder::new_lossless(&mut webp));
        for (bytes, content_type) in
            [(jpeg, "image/jpeg"), (png, "image/png"), (webp, "image/jpeg")]
        {
            assert!(holds(&bytes, b"SPYCAM1"));
            let media = upload(&place, alice, bytes).await.unwrap();
            assert_eq!((media.kind.as_str(), media.state.as_str()), ("image", "ready"));
            assert_eq!(media.content_type, content_type);
            for file in [&media.file, &media.thumbnail] {
                let stored = std::fs::read(path(&place, file)).unwrap();
                assert!(!holds(&stored, b"SPYCAM1"), "{content_type}");
                assert!(!holds(&stored, b"II*\0"), "{content_type}");
                let image = image::load_from_memory(&stored).unwrap();
                assert_eq!((image.width(), image.height()), (30, 60), "{content_type}");
            }
            assert_eq!(media.meta.0["original"]["size"], "30x60");
            assert_eq!(media.meta.0["original"]["aspect"], 0.5);
            assert!((20..=30).contains(&media.blurhash.unwrap().len()));
        }
    }
}

#[tokio::test]
async fn large_pictures_are_scaled_down_and_have_small_copies() {
    for place in places() {
        let alice = place.person("alice").await;
        let media = upload(&place, alice, jpeg(5_000, 2_000)).await.unwrap();
        let size = |name: &str, side: &str| media.meta.0[name][side].as_u64().unwrap();
        let original = (size("original", "width"), size("original", "height"));
        assert!(original.0 * original.1 <= 8_294_400 && original.0 > 4_500, "{original:?}");
        let small = (size("small", "width"), size("small", "height"));
        assert!(small.0 * small.1 <= 230_400 && small.0 > 700, "{small:?}");
    }
}

#[tokio::test]
async fn bombs_and_wrong_media_are_refused_and_leave_nothing() {
    for place in places() {
        let alice = place.person("alice").await;
        let mut many_pixels = Vec::new();
        let zeros = vec![0; 6_000 * 6_000];
        PngEncoder::new(&mut many_pixels)
            .write_image(&zeros, 6_000, 6_000, image::ExtendedColorType::L8)
            .unwrap();
        assert!(many_pixels.len() < 1_000_000, "it is a bomb");
        let mut announced = jpeg(16, 16);
        let frame = announced.windows(2).position(|pair| pair == [0xFF, 0xC0]).unwrap();
        announced[frame + 5..frame + 9].fill(0xFF);
        let mut wide = gif(1);
        wide[6..10].fill(0xFF);
        let mut cut = jpeg(100, 100);
        cut.truncate(300);
        for (what, bytes) in [
            ("many pixels", many_pixels),
            ("announced pixels", announced),
            ("a wide screen", wide),
            ("a broken head", cut),
            ("a page", b"<html><script>alert(1)</script></html>".to_vec()),
            ("svg", b"<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>".to_vec()),
            ("a playlist", b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n".to_vec()),
            ("nothing", Vec::new()),
        ] {
            let refused = upload(&place, alice, bytes).await.unwrap_err();
            assert!(matches!(refused, Error::Invalid(_)), "{what}: {refused}");
        }
        assert_eq!(rows(&place).await, 0);
    }
}

#[tokio::test]
async fn what_is_larger_than_the_settings_allow_is_refused() {
    for place in places() {
        let alice = place.person("alice").await;
        let mut settings = (*place.community.env().instance.settings()).clone();
        settings.image_bytes_max = 1_000;
        let env = place.community.env().clone();
        place.write(move |tx, _| instance::set(tx, &env, settings.clone())).await.unwrap();
        assert!(matches!(upload(&place, alice, jpeg(200, 200)).await, Err(Error::Invalid(_))));
        upload(&place, alice, gif(1)).await.unwrap();
    }
}

#[tokio::test]
async fn a_row_is_never_written_for_a_file_that_could_not_be_stored() {
    for place in places() {
        let alice = place.person("alice").await;
        std::fs::write(place.data.path().join("media"), b"in the way").unwrap();
        let failed = upload(&place, alice, jpeg(20, 20)).await.unwrap_err();
        assert!(matches!(failed, Error::Upstream(_)), "{failed}");
        assert_eq!(rows(&place).await, 0);
    }
}

#[tokio::test]
async fn description_and_focus_can_be_changed_until_a_post_uses_it() {
    for place in places() {
        let [alice, bob] = [place.person("alice").await, place.person("bob").await];
        let media = upload(&place, alice, jpeg(20, 20)).await.unwrap();
        let id = media.id;
        let change = MediaChange { description: Some("A hill".into()), focus: Some((0.5, -7.0)) };
        let of = change.clone();
        let changed = place.write(move |tx, _| media::update(tx, alice, id, &of)).await.unwrap();
        assert_eq!(changed.description.as_deref(), Some("A hill"));
        assert_eq!(changed.meta.0["focus"], serde_json::json!({ "x": 0.5, "y": -1.0 }));
        let of = change.clone();
        let others = place.write(move |tx, _| media::update(tx, bob, id, &of)).await;
        assert!(matches!(others, Err(Error::NotFound(_))));
        let draft = Draft { media: vec![id], ..Draft::default() };
        place.write(move |tx, env| statuses::publish(tx, env, alice, &draft)).await.unwrap();
        let late = place.write(move |tx, _| media::update(tx, alice, id, &change)).await;
        assert!(matches!(late, Err(Error::NotFound(_))));
        let deleted = place.write(move |tx, env| media::delete(tx, env, alice, id)).await;
        assert!(matches!(deleted, Err(Error::Invalid(_))));
    }
}

#[tokio::test]
async fn what_no_post_uses_for_a_day_is_removed_with_its_files_and_nothing_else() {
    for place in places() {
        let alice = place.person("alice").await;
        let forgotten = upload(&place, alice, jpeg(20, 20)).await.unwrap();
        let used = upload(&place, alice, jpeg(21, 20)).await.unwrap();
        let deleted = upload(&place, alice, jpeg(22, 20)).await.unwrap();
        let scheduled = upload(&place, alice, jpeg(23, 20)).await.unwrap();
        let mut posts = Vec::new();
        for id in [used.id, deleted.id] {
            let draft = Draft { media: vec![id], ..Draft::default() };
            let publish = move |tx: &mut weir_db::Tx, env: &weir_community::Env| {
                statuses::publish(tx, env, alice, &draft)
            };
            posts.push(place.write(publish).await.unwrap());
        }
        let (gone, waiting) = (posts[1], scheduled.id);
        place.write(move |tx, env| statuses::delete(tx, env, alice, gone)).await.unwrap();
        place
            .write(move |tx, _| {
                let draft = Draft { media: vec![waiting], ..Draft::default() };
                tx.execute(
                    "INSERT INTO scheduled_statuses (id, account_id, scheduled_at, draft, job_id)
                     VALUES (1, ?1, 0, ?2, 0)",
                    params![alice, weir_db::Json(draft)],
                )?;
                Ok(())
            })
            .await
            .unwrap();
        place.clock.advance(23 * 3_600_000);
        let young = upload(&place, alice, jpeg(24, 20)).await.unwrap();
        place.clock.advance(2 * 3_600_000);
        let running = place.start(media::register);
        let (forgotten, deleted) =
            (path(&place, &forgotten.file), path(&place, &deleted.thumbnail));
        until("the files are gone", async || !forgotten.exists() && !deleted.exists()).await;
        running.stop().await;
        assert_eq!(rows(&place).await, 3);
        for media in [used, scheduled, young] {
            assert!(path(&place, &media.file).exists() && path(&place, &media.thumbnail).exists());
        }
    }
}

#[tokio::test]
async fn avatars_are_cut_to_shape() {
    for place in places() {
        let avatar = media::store_avatar(&place.community, Body::Bytes(jpeg(900, 600)));
        let avatar = image::open(path(&place, &avatar.await.unwrap())).unwrap();
        assert_eq!((avatar.width(), avatar.height()), (400, 400));
        let header = media::store_header(&place.community, Body::Bytes(jpeg(300, 300)));
        let header = image::open(path(&place, &header.await.unwrap())).unwrap();
        assert_eq!((header.width(), header.height()), (300, 100));
        let page = Body::Bytes(b"<html>".to_vec());
        assert!(matches!(
            media::store_avatar(&place.community, page).await,
            Err(Error::Invalid(_))
        ));
    }
}

#[tokio::test]
async fn avatars_that_move_keep_moving_and_have_a_copy_that_stands_still() {
    for place in places() {
        let alice = place.person("alice").await;
        let moving = film(&["-an", "-f", "apng"], "moving.apng");
        let store = async |bytes: Vec<u8>| {
            media::store_avatar(&place.community, Body::Bytes(bytes)).await.unwrap()
        };
        let proxy = media::Proxy::new(place.community.clone(), crate::origin::fetch(), 1 << 20);
        for (bytes, end, moves) in
            [(moving, ".apng", true), (gif(3), ".gif", true), (gif(1), ".png", false)]
        {
            let name = store(bytes).await;
            assert!(name.ends_with(end), "{name}");
            let kept = std::fs::read(path(&place, &name)).unwrap();
            assert!(!holds(&kept, b"SPYCAM1"));
            let account = place
                .write(move |tx, env| {
                    let avatar = Some(name.clone());
                    let change = accounts::ProfileChange { avatar, ..Default::default() };
                    accounts::update_profile(tx, env, alice, &change)
                })
                .await
                .unwrap();
            let env = place.community.env();
            let still = media::avatar_static_url(env, &account).unwrap();
            assert_eq!(still == media::avatar_url(env, &account).unwrap(), !moves, "{still}");
            let Some((_, key)) = still.split_once("/static?key=") else { continue };
            let opened = proxy.open(media::Wanted::StillAvatar(alice), key).await.unwrap();
            assert_eq!(opened.content_type, "image/png");
            assert!(!opened.name.ends_with(end));
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut &opened.file, &mut bytes).unwrap();
            assert!(
                image::load_from_memory(&bytes).unwrap().width() > 9 && !holds(&bytes, b"fcTL")
            );
            assert!(proxy.open(media::Wanted::StillAvatar(alice), "x").await.is_err());
            assert!(
                proxy.open(media::Wanted::Avatar(alice), key).await.is_err(),
                "ours is not proxied"
            );
        }
    }
}

/// A film of half a second, made by ffmpeg, which `make test` installs.
fn film(arguments: &[&str], name: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-f", "lavfi", "-i", "testsrc=size=64x48:rate=10:duration=0.5"])
        .args(["-f", "lavfi", "-i", "sine=frequency=440:duration=0.5"])
        .args(["-metadata", "title=SPYCAM1", "-metadata", "location=+48.1+011.5/"])
        .args(["-metadata:s:v:0", "handler_name=SPYCAM1"])
        .args(arguments)
        .arg(&path)
        .status()
        .expect("ffmpeg is not installed: apt install ffmpeg");
    assert!(status.success());
    std::fs::read(path).unwrap()
}

async fn ready(place: &Place, by: Id, id: Id) -> Media {
    let get = async || place.read(move |tx, _| media::get(tx, by, id)).await.unwrap();
    until("the film is ready", async || get().await.state != "processing").await;
    get().await
}

#[tokio::test]
async fn films_are_made_anew_without_what_was_hidden_in_them() {
    let h264 = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-c:a", "aac"];
    let mp4 = film(&h264, "a.mp4");
    let old = film(&["-c:v", "mpeg4", "-c:a", "aac"], "a.mov");
    let sound = film(&["-map", "1:a"], "a.mp3");
    for place in places() {
        let alice = place.person("alice").await;
        let running = place.start(media::register);
        for (bytes, kind, content_type) in [
            (mp4.clone(), "video", "video/mp4"),
            (old.clone(), "video", "video/mp4"),
            (sound.clone(), "audio", "audio/mpeg"),
            (gif(3), "gifv", "video/mp4"),
        ] {
            let media = upload(&place, alice, bytes).await.unwrap();
            assert_eq!(media.state, "processing");
            assert_eq!(media::url(place.community.env(), &media), None);
            let media = ready(&place, alice, media.id).await;
            assert_eq!(media.state, "ready");
            assert_eq!((media.kind.as_str(), media.content_type.as_str()), (kind, content_type));
            let stored = std::fs::read(path(&place, &media.file)).unwrap();
            assert!(!holds(&stored, b"SPYCAM1") && !holds(&stored, b"+48.1"));
            assert!(media.meta.0["original"]["duration"].as_f64().unwrap() > 0.1);
            assert_eq!(media.thumbnail.is_empty(), kind == "audio");
        }
        let broken = [&mp4[..60], &[7; 500]].concat();
        let media = upload(&place, alice, broken).await.unwrap();
        assert_eq!(ready(&place, alice, media.id).await.state, "failed");
        // What is waiting is removed by a job of its own, after the film is ready.
        let waiting = place.data.path().join("media/waiting");
        let left = async || std::fs::read_dir(&waiting).unwrap().count();
        until("nothing is left over", async || left().await == 0).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn without_ffmpeg_films_are_kept_as_they_came_and_the_row_says_so() {
    for place in places() {
        place.community.env().media.forgo_tools();
        let alice = place.person("alice").await;
        let bytes = b"\0\0\0\x20ftypisom and so on".to_vec();
        let new = NewMedia { thumbnail: Some(Body::Bytes(jpeg(50, 40))), ..new(bytes.clone()) };
        let media = media::upload(&place.community, alice, new).await.unwrap();
        assert_eq!((media.kind.as_str(), media.state.as_str()), ("video", "ready"));
        assert_eq!(media.meta.0["metadata_removed"], false);
        assert_eq!(media.meta.0["small"]["size"], "50x40");
        assert_eq!(std::fs::read(path(&place, &media.file)).unwrap(), bytes);
        let moving = upload(&place, alice, gif(2)).await.unwrap();
        assert_eq!((moving.kind.as_str(), moving.content_type.as_str()), ("image", "image/gif"));
        let stored = std::fs::read(path(&place, &moving.file)).unwrap();
        let frames = image::AnimationDecoder::into_frames(
            image::codecs::gif::GifDecoder::new(Cursor::new(stored)).unwrap(),
        );
        assert_eq!(frames.count(), 2);
    }
}

#[tokio::test]
async fn files_that_no_row_names_go_after_a_day_and_all_others_stay() {
    for place in places() {
        let alice = place.person("alice").await;
        let kept = upload(&place, alice, jpeg(9, 9)).await.unwrap();
        let avatar = media::store_avatar(&place.community, Body::Bytes(jpeg(9, 9))).await.unwrap();
        let used = avatar.clone();
        place
            .write(move |tx, env| {
                let change =
                    accounts::ProfileChange { avatar: Some(used.clone()), ..Default::default() };
                accounts::update_profile(tx, env, alice, &change)?;
                // Nothing else than what is looked at here removes files meanwhile.
                Ok(tx.execute("UPDATE media SET status_id = 1", &[])?)
            })
            .await
            .unwrap();
        let lost = media::store_header(&place.community, Body::Bytes(jpeg(9, 9))).await.unwrap();
        let fresh = media::store_header(&place.community, Body::Bytes(jpeg(9, 9))).await.unwrap();
        let day = std::time::Duration::from_secs(24 * 3_600 + 60);
        let now = u64::try_from(place.clock.now().as_ms()).unwrap();
        let now = std::time::UNIX_EPOCH + std::time::Duration::from_millis(now);
        for (name, at) in [
            (&kept.file, now - day),
            (&kept.thumbnail, now - day),
            (&avatar, now - day),
            (&lost, now - day),
            (&fresh, now),
        ] {
            let file = std::fs::File::options().write(true).open(path(&place, name)).unwrap();
            file.set_modified(at).unwrap();
        }
        let running = place.start(media::register);
        until("the lost file's end", async || !path(&place, &lost).exists()).await;
        running.stop().await;
        for name in [&kept.file, &kept.thumbnail, &avatar, &fresh] {
            assert!(path(&place, name).exists(), "{name}");
        }
    }
}

/// A file that no row names, of long ago.
fn lose(place: &Place, name: &str) -> PathBuf {
    let lost = path(place, name);
    std::fs::create_dir_all(lost.parent().unwrap()).unwrap();
    std::fs::write(&lost, b"lost").unwrap();
    let file = std::fs::File::options().write(true).open(&lost).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    lost
}

/// Up to where lost files were looked for.
async fn looked_up_to(place: &Place) -> Option<String> {
    let sql = "SELECT place FROM chores WHERE name = 'files'";
    place.read(move |tx, _| Ok(tx.value(sql, &[])?)).await.unwrap()
}

async fn look_for_lost_files(place: &Place) {
    let enqueue = |tx: &mut weir_db::Tx, env: &weir_community::Env| {
        env.jobs.enqueue(tx, &media::SweepFiles {})?;
        Ok(())
    };
    place.write(enqueue).await.unwrap();
}

#[tokio::test]
async fn lost_files_are_looked_for_over_many_folders_at_once_and_from_where_it_was_cut_off() {
    for place in places() {
        let name = |number: usize| {
            let folder = number / 2;
            format!("{:02x}/{:02x}/lost{number:03}.png", folder / 256, folder % 256)
        };
        let lost: Vec<PathBuf> = (0..600).map(|number| lose(&place, &name(number))).collect();
        // One that cannot be removed keeps no other: a folder is not, as a file is.
        let stays = path(&place, "00/00/a.png");
        std::fs::create_dir_all(&stays).unwrap();
        let folder = std::fs::File::open(&stays).unwrap();
        folder.set_modified(std::time::UNIX_EPOCH).unwrap();
        // So far a run had come that was cut off.
        let came = name(99);
        let cut_off = move |tx: &mut weir_db::Tx, _: &weir_community::Env| {
            let sql = "INSERT INTO chores (name, place) VALUES ('files', ?1)";
            Ok(tx.run(sql, weir_db::params![came])?)
        };
        place.write(cut_off).await.unwrap();
        let running = place.start(media::register);
        until("its end", async || looked_up_to(&place).await.as_deref() == Some("")).await;
        let there = lost.iter().filter(|path| path.exists()).count();
        assert_eq!(there, 100, "it went on where it was");
        look_for_lost_files(&place).await;
        until("the end of all", async || lost.iter().all(|path| !path.exists())).await;
        assert!(stays.exists());
        running.stop().await;
    }
}
