//! What chat keeps of people who log in.

use weir_community::Error;
use weir_community::users::{self, KeptPassword, Standing, UserChange, hash_password};

use crate::place::{Place, places};

async fn app_tokens(place: &Place, of: weir_base::Id, app: &'static [u8]) -> Vec<(String, bool)> {
    let found = place.read(move |tx, env| users::chat_tokens(tx, env, of, &app.to_vec())).await;
    found.unwrap().into_iter().map(|token| (token.secret.expose().clone(), token.is_new)).collect()
}

async fn make(place: &Place, of: weir_base::Id, app: &'static [u8]) -> String {
    let made = place
        .write(move |tx, env| users::keep_chat_token(tx, env, of, &app.to_vec(), "HT", None))
        .await;
    made.unwrap().secret.expose().clone()
}

#[tokio::test]
async fn keys_are_kept_with_a_password_and_go_with_it() {
    for place in places() {
        let alice = place.person("alice").await;
        let known = async || {
            let found = place.read(|tx, env| users::chat_user(tx, env, "ALICE")).await.unwrap();
            found.unwrap()
        };
        assert!(known().await.lacks_keys);
        let password = hash_password("correct horse").await.unwrap();
        let change = UserChange { password: Some(password), ..UserChange::default() };
        place.write(move |tx, env| users::change(tx, env, alice, &change)).await.unwrap();
        let keys = known().await.scram.unwrap();
        assert!(keys.fits("correct horse"));
        let change = UserChange { disabled: Some(true), ..UserChange::default() };
        place.write(move |tx, env| users::change(tx, env, alice, &change)).await.unwrap();
        assert_eq!(known().await.scram, Some(keys), "{}", place.name());
        assert_eq!(known().await.standing, Standing::Disabled);
        let other = KeptPassword::of_hash("taken over");
        place
            .write(move |tx, env| users::change_password(tx, env, alice, &other, None))
            .await
            .unwrap();
        assert!(known().await.lacks_keys);
    }
}

#[tokio::test]
async fn keys_are_learnt_only_of_the_password_that_was_checked() {
    for place in places() {
        let alice = place.person("alice").await;
        let keys = users::scram_keys("correct horse").await.unwrap();
        let learn = |hash: &'static str| {
            let keys = keys.clone();
            place.write(move |tx, env| users::learn_scram_keys(tx, env, alice, hash, &keys))
        };
        let lacks = async || {
            let found = place.read(|tx, env| users::chat_user(tx, env, "alice")).await.unwrap();
            found.unwrap().lacks_keys
        };
        learn("another hash").await.unwrap();
        assert!(lacks().await);
        learn("").await.unwrap();
        assert!(!lacks().await);
    }
}

#[tokio::test]
async fn a_new_token_takes_the_place_of_the_old_one_when_it_is_used() {
    for place in places() {
        let alice = place.person("alice").await;
        let app = b"app";
        let first = make(&place, alice, app).await;
        place.write(move |tx, _| users::used_chat_token(tx, alice, &app.to_vec())).await.unwrap();
        let second = make(&place, alice, app).await;
        let expected = vec![(second.clone(), true), (first, false)];
        assert_eq!(app_tokens(&place, alice, app).await, expected);
        place.write(move |tx, _| users::used_chat_token(tx, alice, &app.to_vec())).await.unwrap();
        assert_eq!(app_tokens(&place, alice, app).await, [(second, false)]);
    }
}

#[tokio::test]
async fn tokens_expire_and_end_with_the_password() {
    for place in places() {
        let alice = place.person("alice").await;
        make(&place, alice, b"one").await;
        let password = KeptPassword::of_hash("new");
        place
            .write(move |tx, env| users::change_password(tx, env, alice, &password, None))
            .await
            .unwrap();
        assert!(app_tokens(&place, alice, b"one").await.is_empty());
        make(&place, alice, b"two").await;
        place.clock.advance(users::CHAT_TOKEN_LIFE_MS + 20);
        assert!(app_tokens(&place, alice, b"two").await.is_empty());
    }
}

#[tokio::test]
async fn an_account_has_a_limited_number_of_tokens() {
    for place in places() {
        let alice = place.person("alice").await;
        place
            .write(move |tx, env| {
                for number in 0..80_u8 {
                    users::keep_chat_token(tx, env, alice, &vec![number], "HT", None)?;
                }
                Ok::<(), Error>(())
            })
            .await
            .unwrap();
        let count = place
            .read(move |tx, _| {
                let sql = "SELECT count(*) FROM chat_tokens WHERE account_id = ?1";
                Ok(tx.value::<i64>(sql, weir_db::params![alice])?.unwrap_or_default())
            })
            .await
            .unwrap();
        assert_eq!(count, 64, "{}", place.name());
        assert_eq!(app_tokens(&place, alice, &[79]).await.len(), 1);
    }
}
