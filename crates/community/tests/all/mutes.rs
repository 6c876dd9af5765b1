//! Mutes that are for a while.

use weir_base::Id;
use weir_community::relationships::{self, FollowWish, Relation};
use weir_community::suggestions;
use weir_community::timelines::Range;
use weir_community::{Env, Error};
use weir_db::{Tx, params};

use crate::housekeeping::{DAY_MS, count};
use crate::place::{Place, places};

/// Whom `reader` sees among those who follow `of`, among suggestions, and among those they mute.
async fn seen(place: &Place, reader: Id, of: Id) -> [Vec<Id>; 3] {
    let read = move |tx: &mut Tx, env: &Env| {
        let now = env.clock.now();
        let mut page = |relation| -> Result<Vec<Id>, Error> {
            let rows = relationships::page(tx, Some(reader), relation, Range::default(), now)?;
            Ok(rows.into_iter().map(|(_, account)| account).collect())
        };
        let (followers, muted) = (page(Relation::Followers(of))?, page(Relation::Muted(reader))?);
        let suggested = suggestions::list(tx, reader, 10, now)?;
        Ok([followers, suggested.into_iter().map(|(account, _)| account).collect(), muted])
    };
    place.read(read).await.unwrap()
}

#[tokio::test]
async fn a_mute_that_has_ended_hides_nobody_though_it_is_not_removed_yet() {
    for place in places() {
        let [alice, bob, carol] =
            [place.person("alice").await, place.person("bob").await, place.person("carol").await];
        let end = place.clock.now().plus_ms(DAY_MS);
        let mute = move |tx: &mut Tx, env: &Env| {
            relationships::follow(tx, env, bob, carol, &FollowWish::default())?;
            tx.run("UPDATE accounts SET discoverable = 1 WHERE id = ?1", params![bob])?;
            relationships::mute(tx, env, alice, bob, true, Some(end))
        };
        place.write(mute).await.unwrap();
        let hidden = [vec![], vec![], vec![bob]];
        assert_eq!(seen(&place, alice, carol).await, hidden, "{}: it holds", place.name());
        place.clock.advance(2 * DAY_MS);
        let shown = [vec![bob], vec![bob], vec![]];
        assert_eq!(seen(&place, alice, carol).await, shown, "{}: it has ended", place.name());
        assert_eq!(count(&place, "SELECT count(*) FROM mutes").await, 1, "{}", place.name());
    }
}
