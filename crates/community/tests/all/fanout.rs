//! What a post costs does not grow with the number of those here who follow its author.

use weir_base::Id;
use weir_community::statuses::{self, Draft, Visibility};
use weir_db::{Dialect, Tx, params};

use crate::place::{Place, places};

/// Rows written so far by this transaction (SQLite: by its connection), and how often a table was
/// looked into (PostgreSQL only).
fn work(tx: &mut Tx) -> (i64, i64) {
    let counted = match tx.dialect() {
        Dialect::Sqlite => tx.query_one("SELECT total_changes(), 0", &[], pair),
        Dialect::Postgres => tx.query_one(
            "SELECT CAST(coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) AS BIGINT),
               CAST(coalesce(sum(coalesce(seq_scan, 0) + coalesce(idx_scan, 0)), 0) AS BIGINT)
             FROM pg_stat_xact_user_tables",
            &[],
            pair,
        ),
    };
    counted.unwrap()
}

fn pair(row: &weir_db::Row<'_>) -> Result<(i64, i64), weir_db::Error> {
    Ok((row.get(0)?, row.get(1)?))
}

/// Somebody whom `count` people here follow.
async fn followed_by(place: &Place, name: &str, count: i64) -> Id {
    let author = place.person(name).await;
    let named = name.to_owned();
    let fill = move |tx: &mut Tx, env: &weir_community::Env| {
        for number in 0..count {
            let id = env.ids.next();
            let name = format!("{named}{number}");
            tx.execute(
                "INSERT INTO accounts (id, username, username_key, domain, uri, url, created_at)
                 VALUES (?1, ?2, ?2, '', ?2, ?2, 0)",
                params![id, name],
            )?;
            tx.execute(
                "INSERT INTO follows (account_id, target_id, id) VALUES (?1, ?2, ?1)",
                params![id, author],
            )?;
        }
        Ok(())
    };
    place.write(fill).await.unwrap();
    author
}

/// What it takes for `by` to post.
async fn cost_of_a_post(place: &Place, by: Id) -> (i64, i64) {
    let draft = Draft { text: "Hello".into(), visibility: Visibility::Public, ..Draft::default() };
    let publish = move |tx: &mut Tx, env: &weir_community::Env| {
        let before = work(tx);
        statuses::publish(tx, env, by, &draft)?;
        let after = work(tx);
        Ok((after.0 - before.0, after.1 - before.1))
    };
    place.write(publish).await.unwrap()
}

#[tokio::test]
async fn a_post_costs_the_same_whether_three_or_three_thousand_here_follow() {
    for place in places() {
        let few = followed_by(&place, "few", 3).await;
        let many = followed_by(&place, "many", 3_000).await;
        cost_of_a_post(&place, few).await;
        cost_of_a_post(&place, many).await;
        let (few, many) = (cost_of_a_post(&place, few).await, cost_of_a_post(&place, many).await);
        assert!(few.0 > 0);
        assert_eq!(few.0, many.0, "rows written");
        // A plan may differ by a look or two.
        assert!((few.1 - many.1).abs() <= 5, "looks: {few:?} and {many:?}");
    }
}
