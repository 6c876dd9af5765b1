//! Reports that come from other servers.

use weir_base::Id;
use weir_community::federation::order::Version;
use weir_community::federation::{self, Deed, Incoming, Senders};
use weir_community::reports::PER_SERVER_A_DAY_MAX;
use weir_community::statuses::Receipt;
use weir_community::{Env, accounts};
use weir_db::{Tx, params};

use crate::housekeeping::{DAY_MS, actor};
use crate::place::{Place, places};

/// `by` reports `whom` in its activity `number`.
async fn report(place: &Place, by: Id, whom: Id, number: i64) -> Receipt {
    let unit = move |tx: &mut Tx, env: &Env| {
        let (by, target) = (accounts::by_id(tx, by)?, accounts::by_id(tx, whom)?);
        let arrived = env.clock.now();
        let flag = Incoming {
            activity: format!("{}/flags/{number}", by.uri),
            actor: by.uri,
            version: Version { at: arrived, seq: env.ids.next() },
            arrived,
            deed: Deed::Flag { objects: vec![target.uri], comment: "spam".into() },
        };
        let mut senders = Senders::read(tx, [&flag])?;
        federation::receive(tx, env, &mut senders, &flag)
    };
    place.write(unit).await.unwrap()
}

/// `by` has made `count` reports lately.
async fn made(place: &Place, by: Id, whom: Id, count: usize) {
    let unit = move |tx: &mut Tx, env: &Env| {
        let sql = "INSERT INTO reports (id, account_id, target_id) VALUES (?1, ?2, ?3)";
        (0..count).try_for_each(|_| Ok(tx.run(sql, params![env.ids.next(), by, whom])?))
    };
    place.write(unit).await.unwrap();
}

const TOO_MANY: Receipt = Receipt::Refused("too many reports");

#[tokio::test]
async fn a_server_reports_so_much_in_a_day_and_another_one_still_may() {
    for place in places() {
        let alice = place.person("alice").await;
        let (loud, calm) = (actor(&place, "loud").await, actor(&place, "calm").await);
        made(&place, loud, alice, PER_SERVER_A_DAY_MAX - 1).await;
        let last = report(&place, loud, alice, 1).await;
        let Receipt::New(known) = last else { panic!("{}: {last:?}", place.name()) };
        assert_eq!(report(&place, loud, alice, 2).await, TOO_MANY, "{}", place.name());
        assert_eq!(report(&place, loud, alice, 1).await, Receipt::Known(known), "it came before");
        assert!(matches!(report(&place, calm, alice, 1).await, Receipt::New(_)));
        place.clock.advance(DAY_MS + 1);
        assert!(matches!(report(&place, loud, alice, 2).await, Receipt::New(_)), "the next day");
    }
}

#[tokio::test]
async fn where_many_servers_report_very_much_one_that_seldom_does_is_heard() {
    for place in places() {
        let alice = place.person("alice").await;
        let (loud, calm) = (actor(&place, "loud").await, actor(&place, "calm").await);
        for name in ["a", "b", "c", "d", "e"] {
            let by = actor(&place, name).await;
            made(&place, by, alice, PER_SERVER_A_DAY_MAX - 2).await;
        }
        made(&place, loud, alice, 10).await;
        assert_eq!(report(&place, loud, alice, 1).await, TOO_MANY, "{}", place.name());
        assert!(matches!(report(&place, calm, alice, 1).await, Receipt::New(_)));
    }
}
