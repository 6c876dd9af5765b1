//! What a post costs does not grow with the number of those here who follow its author; and where
//! it goes.

use weir_base::Id;
use weir_community::federation;
use weir_community::statuses::{self, Draft, Edit, Visibility};
use weir_db::{Dialect, Tx, params};

use crate::place::{Place, places, until};

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

#[tokio::test]
async fn a_post_goes_to_the_servers_of_all_who_follow_however_many_they_are() {
    // More than are looked through at once; who followed last is alone on their server.
    const FOLLOWERS: i64 = 10_003;
    for place in places() {
        let author = place.person("author").await;
        let reach = move |tx: &mut Tx, env: &weir_community::Env| {
            tx.execute(
                "INSERT INTO accounts
                   (id, username, username_key, domain, uri, url, inbox, shared_inbox, created_at)
                 WITH RECURSIVE numbers (n) AS
                   (SELECT CAST(1 AS BIGINT) UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
                 SELECT n, 'name' || n, 'name' || n, host, 'https://' || host || '/' || n, '',
                   'https://' || host || '/inbox/' || n,
                   CASE WHEN host = 'own.example' THEN '' ELSE 'https://' || host || '/inbox' END,
                   0
                 FROM (SELECT n, CASE WHEN n = ?1 THEN 'last.example' WHEN n < 3
                   THEN 'own.example' ELSE 'most.example' END AS host FROM numbers) AS named",
                params![FOLLOWERS],
            )?;
            tx.execute(
                "INSERT INTO follows (account_id, target_id, id)
                 SELECT id, ?1, id FROM accounts WHERE domain <> ''",
                params![author],
            )?;
            let audience = federation::Audience::followers(author);
            federation::reach(tx, env, &audience, false)
        };
        let reach = place.write(reach).await.unwrap();
        let inboxes: Vec<&str> = reach.inboxes.iter().map(|inbox| inbox.url.as_str()).collect();
        assert_eq!(
            inboxes,
            [
                "https://last.example/inbox",
                "https://most.example/inbox",
                "https://own.example/inbox/1",
                "https://own.example/inbox/2",
            ]
        );
    }
}

#[tokio::test]
async fn who_names_the_inbox_of_another_server_takes_it_from_nobody() {
    const SHARED: &str = "https://most.example/inbox";
    for place in places() {
        let author = place.person("author").await;
        let reach = move |tx: &mut Tx, env: &weir_community::Env| {
            for domain in ["a.example", "most.example", "z.example"] {
                let (id, inbox) = (env.ids.next(), format!("https://{domain}/inbox/1"));
                tx.execute(
                    "INSERT INTO accounts (id, username, username_key, domain, uri, url, inbox,
                       shared_inbox, created_at) VALUES (?1, 'a', 'a', ?2, ?3, '', ?3, ?4, 0)",
                    params![id, domain, inbox, SHARED],
                )?;
                tx.execute(
                    "INSERT INTO follows (account_id, target_id, id) VALUES (?1, ?2, ?1)",
                    params![id, author],
                )?;
            }
            for blocked in ["a.example", "z.example"] {
                tx.execute(
                    "INSERT INTO domain_blocks (id, domain, severity) VALUES (?1, ?2, 'suspend')",
                    params![env.ids.next(), blocked],
                )?;
            }
            federation::reach(tx, env, &federation::Audience::followers(author), false)
        };
        let reach = place.write(reach).await.unwrap();
        let found: Vec<(&str, &str)> =
            reach.inboxes.iter().map(|inbox| (&*inbox.url, &*inbox.domain)).collect();
        assert_eq!(found, [(SHARED, "most.example")]);
    }
}

/// Of how many people here it is noted that they were told of `post`, and as what.
async fn told(place: &Place, post: Id) -> Vec<(String, i64)> {
    let read = move |tx: &mut Tx, _: &_| {
        let sql = "SELECT kind, count(*) FROM notifications WHERE status_id = ?1
           GROUP BY kind ORDER BY kind";
        Ok(tx.query(sql, params![post], |row| Ok((row.get(0)?, row.get(1)?)))?)
    };
    place.read(read).await.unwrap()
}

#[tokio::test]
async fn those_who_asked_and_those_who_boosted_are_all_told_in_several_units() {
    // Two units of 500 and a part of a third.
    const PEOPLE: i64 = 1_203;
    const AT_ONCE: i64 = 500;
    for place in places() {
        let author = followed_by(&place, "author", PEOPLE).await;
        let bystander = followed_by(&place, "bystander", 2).await;
        let ask = move |tx: &mut Tx, _: &_| {
            let asks = "UPDATE follows SET notify = 1 WHERE target_id = ?1";
            tx.execute(asks, params![author])?;
            // Of those mentioned nobody is told twice.
            let name = "SELECT username FROM accounts WHERE username LIKE 'author_%'
               ORDER BY id LIMIT 1";
            Ok(tx.value::<String>(name, &[])?.unwrap())
        };
        let mentioned = place.write(ask).await.unwrap();
        let text = format!("Hello @{mentioned}");
        let post = place.post(author, &text, Visibility::Public).await;
        let quiet = place.post(bystander, "Hello", Visibility::Public).await;
        let note = |kind: &str, count| (kind.to_owned(), count);
        let one = note("mention", 1);
        assert_eq!(told(&place, post).await, [one.clone(), note("status", AT_ONCE - 1)]);

        let running = place.start(statuses::register);
        let all = [one.clone(), note("status", PEOPLE - 1)];
        until("all are told", async || told(&place, post).await == all).await;
        let boost = move |tx: &mut Tx, _: &_| {
            tx.execute(
                "INSERT INTO statuses (id, account_id, local, uri, created_at, visibility,
                   boost_of_id) SELECT -id, id, 1, 'boost ' || id, 0, 0, ?1
                 FROM accounts WHERE username LIKE 'author_%'",
                params![post],
            )?;
            Ok(())
        };
        place.write(boost).await.unwrap();
        let edit = Edit { text: text.clone() + "!", ..Edit::default() };
        place.write(move |tx, env| statuses::edit(tx, env, author, post, &edit)).await.unwrap();
        let all = [all.to_vec(), vec![note("update", PEOPLE)]].concat();
        until("all are told", async || told(&place, post).await == all).await;
        until("nothing is left", async || place.jobs.depth("tell") == 0).await;
        assert_eq!(told(&place, quiet).await, []);
        running.stop().await;
    }
}
