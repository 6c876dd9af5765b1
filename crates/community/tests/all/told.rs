//! What those who listen are told of.

use tokio_util::sync::CancellationToken;
use weir_base::Id;
use weir_community::statuses::Visibility;
use weir_community::streams::{self, Event, Topic};
use weir_db::{Tx, params};
use weir_live::Session;

use crate::place::{Place, places};

/// What a new post of `by` counts for in the log.
async fn size_of_a_post(place: &Place, by: Id, session: &mut Session<Topic, Event>) -> usize {
    place.post(by, "Hello", Visibility::Public).await;
    loop {
        let batch = session.next().await.unwrap();
        let told = batch.iter().find(|(_, shared)| matches!(shared.event, Event::Created(_)));
        if let Some((_, shared)) = told {
            return shared.held_bytes();
        }
    }
}

#[tokio::test]
async fn a_post_counts_in_the_log_with_all_that_is_shown_beside_its_text() {
    const BIO_BYTES: usize = 20_000;
    for place in places() {
        let alice = place.person("alice").await;
        let stop = CancellationToken::new();
        let telling = tokio::spawn(streams::run(place.community.clone(), stop.clone()));
        let mut session = place.community.env().streams.hub().session(alice.0).unwrap();
        session.subscribe(Topic::Author(alice)).unwrap();
        let without = size_of_a_post(&place, alice, &mut session).await;
        let say = move |tx: &mut Tx, _: &_| {
            let note = "a".repeat(BIO_BYTES);
            tx.execute("UPDATE accounts SET note = ?2 WHERE id = ?1", params![alice, note])?;
            Ok(())
        };
        place.write(say).await.unwrap();
        let with = size_of_a_post(&place, alice, &mut session).await;
        // Once as it is, and once more for what is made of it.
        assert_eq!(with - without, 2 * BIO_BYTES);
        stop.cancel();
        telling.await.unwrap();
    }
}
