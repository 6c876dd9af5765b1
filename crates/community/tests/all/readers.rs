//! What is known of an account that is connected, when it cannot be read.

use weir_db::Tx;

use crate::place::places;

#[tokio::test]
async fn who_joined_a_reading_that_failed_reads_for_themselves() {
    for place in places() {
        let alice = place.person("alice").await;
        let away = "ALTER TABLE list_accounts RENAME TO hidden";
        place.write(move |tx: &mut Tx, _| Ok(tx.run(away, &[])?)).await.unwrap();
        let readers = place.community.env().streams.readers();
        let reader = readers.of(alice);
        let sets = || readers.sets(&place.community, &reader);
        let (first, joined) = tokio::join!(sets(), sets());
        // Told what is wrong, and not to come again because of what somebody else met.
        let both = [first.err().unwrap(), joined.err().unwrap()];
        assert!(both.iter().all(|error| error.to_string().contains("list_accounts")), "{both:?}");
        let back = "ALTER TABLE hidden RENAME TO list_accounts";
        place.write(move |tx: &mut Tx, _| Ok(tx.run(back, &[])?)).await.unwrap();
        sets().await.unwrap();
    }
}
