//! What grows by what other servers send, and is bounded.

use weir_community::emojis::{self, RemoteEmoji};
use weir_community::housekeeping::{self, Keep};
use weir_community::{Env, hosts};
use weir_db::{Tx, params};

use crate::housekeeping::{DAY_MS, KEEP, actor, chore, count, run};
use crate::place::places;

#[tokio::test]
async fn emoji_go_with_the_last_account_of_their_server_unless_staff_decided_about_them() {
    for place in places() {
        actor(&place, "known").await;
        let bring = |domain: &'static str| {
            move |tx: &mut Tx, env: &Env| {
                let brought = ["blob", "party"].map(|shortcode| RemoteEmoji {
                    shortcode: shortcode.into(),
                    uri: String::new(),
                    image_url: format!("https://{domain}/{shortcode}.png"),
                    updated_at: None,
                });
                emojis::upsert_remote(tx, env, domain, &brought)
            }
        };
        place.write(bring("known.example")).await.unwrap();
        place.write(bring("gone.example")).await.unwrap();
        let sql = "UPDATE custom_emojis SET disabled = 1
                   WHERE domain = 'gone.example' AND shortcode = 'party'";
        place.write(move |tx, _| Ok(tx.execute(sql, &[])?)).await.unwrap();
        place.clock.advance(29 * DAY_MS);
        assert_eq!(run(&place, "emojis").await.removed, 0, "they are too new");
        place.clock.advance(2 * DAY_MS);
        assert_eq!(run(&place, "emojis").await.removed, 1);
        assert_eq!(count(&place, "SELECT count(*) FROM custom_emojis").await, 3);
    }
}

#[tokio::test]
async fn what_is_noted_of_a_server_goes_when_nobody_there_is_known_and_nothing_was_sent_lately() {
    for place in places() {
        actor(&place, "known").await;
        let note = |domain: &'static str| {
            move |tx: &mut Tx, env: &Env| hosts::delivered(tx, domain, "cavage", env.clock.now())
        };
        for domain in ["known.example", "silent.example", "waited.example"] {
            place.write(note(domain)).await.unwrap();
        }
        let sql = "INSERT INTO deliveries (host, payload_id, inbox, domain)
                   VALUES ('waited.example', 1, 'https://waited.example/inbox', '')";
        place.write(move |tx, _| Ok(tx.execute(sql, &[])?)).await.unwrap();
        place.clock.advance(31 * DAY_MS);
        place.write(note("lively.example")).await.unwrap();
        assert_eq!(run(&place, "hosts").await.removed, 1);
        let silent = "SELECT count(*) FROM hosts WHERE domain = 'silent.example'";
        assert_eq!(count(&place, silent).await, 0);
        assert_eq!(count(&place, "SELECT count(*) FROM hosts").await, 3);
    }
}

#[tokio::test]
async fn notifications_go_when_they_are_old_however_many_they_are() {
    for place in places() {
        let alice = place.person("alice").await;
        let old = move |tx: &mut Tx, env: &Env| {
            for _ in 0..1_000 {
                let id = env.ids.next();
                tx.execute(
                    "INSERT INTO notifications (id, account_id, kind, from_account_id, status_id,
                       group_key) VALUES (?1, ?2, 'favourite', 7, ?1, '')",
                    params![id, alice],
                )?;
            }
            Ok(())
        };
        place.write(old).await.unwrap();
        place.clock.advance(181 * DAY_MS);
        let new = "INSERT INTO notifications (id, account_id, kind, from_account_id, group_key)
                   VALUES (?1, 1, 'mention', 7, '')";
        place.write(move |tx, env| Ok(tx.execute(new, params![env.ids.next()])?)).await.unwrap();
        let kept = Keep { notification_days: 0, ..KEEP };
        let chore = chore("notifications");
        housekeeping::run(&place.community, chore, kept, |_| ()).await.unwrap();
        assert_eq!(count(&place, "SELECT count(*) FROM notifications").await, 1_001);
        place.clock.advance(DAY_MS);
        assert_eq!(run(&place, "notifications").await.removed, 1_000);
        assert_eq!(count(&place, "SELECT count(*) FROM notifications").await, 1);
    }
}
