//! Moving out to another account.

use weir_base::Id;
use weir_community::accounts::{self, COOL_DOWN_MS};
use weir_community::federation::chores;
use weir_community::relationships::{self, FollowWish};
use weir_community::{Error, accounts::ALIASES_MAX};

use crate::place::{Place, places, until};

impl Place {
    async fn moves(&self, by: Id, to: Id) -> Result<(), Error> {
        self.write(move |tx, env| accounts::move_out(tx, env, by, to)).await
    }

    async fn alias(&self, by: Id, other: Id) -> Result<(), Error> {
        self.write(move |tx, env| accounts::add_alias(tx, env, by, other)).await
    }

    async fn followers(&self, of: Id) -> Vec<Id> {
        let list = self.read(move |tx, _| relationships::follower_ids(tx, of, Id::MAX, 10)).await;
        list.unwrap().into_iter().map(|(_, follower)| follower).collect()
    }
}

fn why(refused: Result<(), Error>) -> String {
    let Err(Error::Invalid(invalid)) = refused else { panic!("{refused:?}") };
    invalid.problems[0].message.clone()
}

#[tokio::test]
async fn followers_here_follow_the_new_account_once_it_names_the_old_one() {
    for place in places() {
        let old = place.person("alice").await;
        let new = place.person("alison").await;
        let bob = place.person("bob").await;
        let wish = FollowWish::default();
        place.write(move |tx, env| relationships::follow(tx, env, bob, old, &wish)).await.unwrap();
        let running = place.start(chores::register);
        assert!(why(place.moves(old, new).await).contains("alias"));
        assert!(why(place.moves(old, old).await).contains("this very account"));
        place.alias(new, old).await.unwrap();
        place.moves(old, new).await.unwrap();
        until("the move", async || place.followers(new).await == [bob]).await;
        assert!(place.followers(old).await.is_empty());
        let migration = place.read(move |tx, env| accounts::migration(tx, env, old)).await.unwrap();
        assert_eq!(migration.moved_to.map(|target| target.id), Some(new));
        let wish = FollowWish::default();
        let again =
            place.write(move |tx, env| relationships::follow(tx, env, bob, old, &wish)).await;
        assert!(matches!(again, Err(Error::Forbidden(_))), "{again:?}");
        running.stop().await;
    }
}

#[tokio::test]
async fn thirty_days_lie_between_two_moves_even_if_the_first_is_taken_back() {
    for place in places() {
        let alice = place.person("alice").await;
        let targets = [place.person("bob").await, place.person("carol").await];
        for target in targets {
            place.alias(target, alice).await.unwrap();
        }
        place.moves(alice, targets[0]).await.unwrap();
        place.write(move |tx, env| accounts::move_back(tx, env, alice)).await.unwrap();
        assert!(why(place.moves(alice, targets[1]).await).contains("30 days"));
        let migration = place.read(move |tx, env| accounts::migration(tx, env, alice)).await;
        let migration = migration.unwrap();
        assert!(migration.moved_to.is_none() && migration.next_at.is_some());
        place.clock.advance(COOL_DOWN_MS);
        place.moves(alice, targets[1]).await.unwrap();
    }
}

#[tokio::test]
async fn aliases_are_few_and_can_be_removed() {
    for place in places() {
        let alice = place.person("alice").await;
        let mut others = Vec::new();
        for n in 0..=ALIASES_MAX {
            others.push(place.person(&format!("other{n}")).await);
        }
        for other in &others[..ALIASES_MAX] {
            place.alias(alice, *other).await.unwrap();
        }
        place.alias(alice, others[0]).await.unwrap();
        assert!(why(place.alias(alice, others[ALIASES_MAX]).await).contains("too many"));
        assert!(why(place.alias(alice, alice).await).contains("this very account"));
        let first = others[0];
        place
            .write(move |tx, env| {
                let uri = accounts::by_id(tx, first)?.uri;
                accounts::remove_alias(tx, env, alice, &uri)
            })
            .await
            .unwrap();
        let left = place.read(move |tx, env| accounts::migration(tx, env, alice)).await.unwrap();
        let left: Vec<Id> =
            left.aliases.into_iter().filter_map(|alias| Some(alias.account?.id)).collect();
        assert_eq!(left, others[1..ALIASES_MAX]);
        // Without the alias there is no way here.
        assert!(why(place.moves(first, alice).await).contains("alias"));
    }
}
