//! What people do in the same moment: beside each other, and beside housekeeping that removes what
//! they do it to.

use std::sync::{Arc, Barrier};

use weir_base::Id;
use weir_community::statuses::{self, Draft, Visibility};
use weir_community::users::{self, Role, UserChange};
use weir_community::{Env, Error, accounts, housekeeping, tags};
use weir_db::{Class, Tx};

use crate::housekeeping::{DAY_MS, KEEP, actor, agrees, chore, count, learn, left};
use crate::place::{Place, places};

/// A look at what there is: the first time it waits until another has looked as well.
fn meet(both: Arc<Barrier>) -> impl FnMut(&mut Tx) -> Result<(), Error> + Send + 'static {
    let mut met = false;
    move |tx: &mut Tx| {
        let seen = tx.value::<i64>("SELECT count(*) FROM statuses", &[]);
        if !std::mem::replace(&mut met, true) {
            both.wait();
        }
        Ok(seen.map(|_| ())?)
    }
}

/// Runs `act` beside a run of the chore `name`, once both have seen what there is before either
/// writes; tells whether it succeeded.
async fn beside(
    place: &Place,
    name: &'static str,
    act: impl Fn(&mut Tx, &Env) -> Result<(), Error> + Send + 'static,
) -> bool {
    let both = Arc::new(Barrier::new(2));
    let (mut one, mut other) = (meet(both.clone()), meet(both));
    let acts = place.community.write(Class::Interactive, move |tx, env| {
        one(tx)?;
        act(tx, env)
    });
    let prune = place.community.write(Class::Housekeeping, move |tx, env| {
        other(tx)?;
        housekeeping::step(tx, env, chore(name), KEEP)
    });
    let (acted, pruned) = tokio::join!(acts, prune);
    pruned.unwrap();
    acted.is_ok()
}

/// Runs both acts once both have seen what there is before either writes.
async fn together(
    place: &Place,
    acts: [impl Fn(&mut Tx, &Env) -> Result<(), Error> + Send + 'static; 2],
) -> [Result<(), Error>; 2] {
    let both = Arc::new(Barrier::new(2));
    let [one, other] = acts.map(|act| {
        let mut meet = meet(both.clone());
        place.community.write(Class::Interactive, move |tx, env| {
            meet(tx)?;
            act(tx, env)
        })
    });
    tokio::join!(one, other).into()
}

/// SQLite has one writer: there it cannot happen.
fn of_many_writers() -> impl Iterator<Item = Place> {
    places().into_iter().filter(|place| place.name() == "postgres")
}

#[tokio::test]
async fn a_mark_made_in_the_same_moment_is_not_lost() {
    for place in of_many_writers() {
        let (alice, stranger) = (place.person("alice").await, actor(&place, "stranger").await);
        let post = learn(&place, stranger, "post").await;
        place.clock.advance(31 * DAY_MS);
        let marked = beside(&place, "posts", move |tx, env| {
            statuses::bookmark(tx, env, alice, post).map(|_| ())
        })
        .await;
        let there = left(&place).await.contains(&post);
        assert_eq!(marked, there, "marked and gone, or neither");
        agrees(&place).await;
    }
}

#[tokio::test]
async fn of_two_admins_who_leave_in_the_same_moment_one_stays() {
    for place in of_many_writers() {
        let admins = [place.person("alice").await, place.person("bob").await];
        for id in admins {
            let change = UserChange { role: Some(Role::Admin), ..UserChange::default() };
            place.write(move |tx, env| users::change(tx, env, id, &change)).await.unwrap();
        }
        let leave = |id| move |tx: &mut Tx, env: &Env| accounts::delete(tx, env, id);
        let left = together(&place, admins.map(leave)).await;
        assert_eq!(left.iter().filter(|left| left.is_ok()).count(), 1, "{left:?}");
    }
}

#[tokio::test]
async fn of_the_newest_two_posts_deleted_in_the_same_moment_a_conversation_names_neither() {
    for place in of_many_writers() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        let first = place.post(alice, "@bob one", Visibility::Direct).await;
        let answer = async |by, text: &str| {
            let (text, in_reply_to) = (text.into(), Some(first));
            let visibility = Visibility::Direct;
            let draft = Draft { text, in_reply_to, visibility, ..Draft::default() };
            place.write(move |tx, env| statuses::publish(tx, env, by, &draft)).await.unwrap()
        };
        let two = answer(alice, "@bob two").await;
        let three = answer(bob, "@alice three").await;
        let delete =
            |(by, id)| move |tx: &mut Tx, env: &Env| statuses::delete(tx, env, by, id).map(|_| ());
        for deleted in together(&place, [(alice, two), (bob, three)].map(delete)).await {
            deleted.unwrap();
        }
        let sql = "SELECT last_status_id FROM conversations";
        let named: Vec<Id> = place.read(move |tx, _| Ok(tx.column(sql, &[])?)).await.unwrap();
        assert_eq!(named, [first, first]);
    }
}

#[tokio::test]
async fn a_hashtag_followed_or_shown_in_the_same_moment_is_there() {
    type Take = fn(&mut Tx, &Env, Id) -> Result<(), Error>;
    let takes: [Take; 2] = [
        |tx, env, by| tags::follow(tx, env, by, "cats").map(|_| ()),
        |tx, env, by| tags::feature(tx, env, by, "cats").map(|_| ()),
    ];
    for place in of_many_writers() {
        let alice = place.person("alice").await;
        for take in takes {
            let make = |tx: &mut Tx, env: &Env| tags::named(tx, env, "cats");
            place.write(make).await.unwrap();
            place.clock.advance(31 * DAY_MS);
            assert!(beside(&place, "tags", move |tx, env| take(tx, env, alice)).await);
            let sql = "SELECT count(*) FROM (SELECT tag_id FROM followed_tags
               UNION ALL SELECT tag_id FROM featured_tags) taken
               WHERE tag_id NOT IN (SELECT id FROM tags)";
            assert_eq!(count(&place, sql).await, 0);
            place.write(move |tx, env| tags::unfollow(tx, env, alice, "cats")).await.unwrap();
        }
    }
}
