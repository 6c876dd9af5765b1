//! What people do in the moment in which housekeeping removes what they do it to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};

use weir_base::Id;
use weir_community::users::{self, Role, UserChange};
use weir_community::{Env, Error, accounts, housekeeping, statuses, tags};
use weir_db::{Class, Tx};

use crate::housekeeping::{DAY_MS, KEEP, actor, agrees, chore, count, learn, left};
use crate::place::{Place, places};

/// Runs `act` beside a run of the chore `name`, once both have seen what there is before either
/// writes; tells whether it succeeded.
async fn beside(
    place: &Place,
    name: &'static str,
    act: impl Fn(&mut Tx, &Env) -> Result<(), Error> + Send + 'static,
) -> bool {
    let both = Arc::new(Barrier::new(2));
    let meet = |both: Arc<Barrier>| {
        let met = AtomicBool::new(false);
        move |tx: &mut Tx| {
            let seen = tx.value::<i64>("SELECT count(*) FROM statuses", &[]);
            if !met.swap(true, Ordering::Relaxed) {
                both.wait();
            }
            seen.map(|_| ())
        }
    };
    let (one, other) = (meet(both.clone()), meet(both));
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
        let both = Arc::new(Barrier::new(2));
        let leave = |id: Id| {
            let (both, met) = (both.clone(), AtomicBool::new(false));
            place.community.write(Class::Interactive, move |tx, env| {
                tx.value::<i64>("SELECT count(*) FROM users", &[])?;
                if !met.swap(true, Ordering::Relaxed) {
                    both.wait();
                }
                accounts::delete(tx, env, id)
            })
        };
        let (one, other) = tokio::join!(leave(admins[0]), leave(admins[1]));
        let left = [one, other].into_iter().filter(Result::is_ok).count();
        assert_eq!(left, 1);
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
