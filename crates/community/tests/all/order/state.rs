//! All that a history leaves behind, in words that do not depend on ids.

use std::collections::HashMap;

use weir_base::Id;
use weir_db::{Row, Tx};

use super::history::Universe;
use super::id_in;
use crate::place::Place;

/// One line for each thing.
pub async fn of(place: &Place, universe: &Universe) -> Vec<String> {
    let names = HashMap::from([
        (universe.alice.clone(), "the-alice"),
        (universe.bob.clone(), "the-bob"),
        (universe.post.clone(), "the-post"),
        (universe.poll.clone(), "the-poll"),
    ]);
    let lines = place
        .read(|tx, _| {
            let mut lines = Vec::new();
            for (name, sql) in QUERIES {
                lines.extend(rows(tx, name, sql)?);
            }
            lines.extend(conversations(tx)?);
            Ok(lines)
        })
        .await
        .unwrap();
    let host = format!(".{}.example", universe.tag);
    let mut own: Vec<String> = lines
        .into_iter()
        .map(|line| {
            line.iter()
                .map(|word| names.get(word).map_or(word.as_str(), |n| n).to_owned())
                .collect::<Vec<_>>()
        })
        .filter(|line| {
            let ours = |word: &String| word.contains(&host) || names.values().any(|n| n == word);
            line.iter().any(ours)
        })
        .map(|line| line.join(" ").replace(&host, ""))
        .collect();
    own.sort();
    own
}

const QUERIES: [(&str, &str); 13] = [
    (
        "post",
        "SELECT s.uri, s.content, CAST(s.visibility AS TEXT),
           CAST(CASE WHEN s.local = 1 THEN 0 ELSE s.id / 65536 END AS TEXT),
           coalesce(p.uri, s.in_reply_to_uri, ''), coalesce(pa.uri, ''),
           CAST(s.replies_count AS TEXT), CAST(s.boosts_count AS TEXT),
           CAST(s.favourites_count AS TEXT), CAST(coalesce(s.edited_at, 0) AS TEXT)
         FROM statuses s LEFT JOIN statuses p ON p.id = s.in_reply_to_id
         LEFT JOIN accounts pa ON pa.id = s.in_reply_to_account_id
         WHERE s.boost_of_id IS NULL",
    ),
    ("boost", "SELECT s.uri, b.uri FROM statuses s JOIN statuses b ON b.id = s.boost_of_id"),
    (
        "edit",
        "SELECT s.uri, e.content, CAST(e.created_at AS TEXT)
         FROM status_edits e JOIN statuses s ON s.id = e.status_id",
    ),
    (
        "mention",
        "SELECT s.uri, a.uri, CAST(m.silent AS TEXT) FROM mentions m
         JOIN statuses s ON s.id = m.status_id JOIN accounts a ON a.id = m.account_id",
    ),
    (
        "tag",
        "SELECT s.uri, t.name FROM status_tags m
         JOIN statuses s ON s.id = m.status_id JOIN tags t ON t.id = m.tag_id",
    ),
    (
        "like",
        "SELECT a.uri, s.uri FROM favourites f
         JOIN accounts a ON a.id = f.account_id JOIN statuses s ON s.id = f.status_id",
    ),
    (
        "follow",
        "SELECT a.uri, t.uri FROM follows f
         JOIN accounts a ON a.id = f.account_id JOIN accounts t ON t.id = f.target_id",
    ),
    (
        "block",
        "SELECT a.uri, t.uri FROM blocks f
         JOIN accounts a ON a.id = f.account_id JOIN accounts t ON t.id = f.target_id",
    ),
    (
        "notification",
        "SELECT n.kind, a.uri, f.uri, coalesce(s.uri, '') FROM notifications n
         JOIN accounts a ON a.id = n.account_id JOIN accounts f ON f.id = n.from_account_id
         LEFT JOIN statuses s ON s.id = n.status_id",
    ),
    ("tombstone", "SELECT uri FROM tombstones"),
    (
        "account",
        "SELECT uri, display_name, CAST(CASE WHEN deleted_at IS NULL THEN 0 ELSE 1 END AS TEXT),
           CAST(statuses_count AS TEXT), CAST(followers_count AS TEXT),
           CAST(following_count AS TEXT) FROM accounts",
    ),
    (
        "vote",
        "SELECT s.uri, a.uri, CAST(v.choice AS TEXT), p.tallies, CAST(p.voters_count AS TEXT)
         FROM poll_votes v JOIN polls p ON p.id = v.poll_id JOIN statuses s ON s.id = p.status_id
         JOIN accounts a ON a.id = v.account_id",
    ),
    ("report", "SELECT a.uri, r.comment FROM reports r JOIN accounts a ON a.id = r.account_id"),
];

fn rows(tx: &mut Tx, name: &str, sql: &str) -> Result<Vec<Vec<String>>, weir_community::Error> {
    let words = |row: &Row<'_>| {
        let mut words = vec![name.to_owned()];
        let mut at = 0;
        while let Ok(word) = row.get::<String>(at) {
            words.push(word);
            at += 1;
        }
        Ok(words)
    };
    Ok(tx.query(sql, &[], words)?)
}

/// Which posts are in one conversation, each conversation named by its least post.
fn conversations(tx: &mut Tx) -> Result<Vec<Vec<String>>, weir_community::Error> {
    // Those that were deleted are in one, too; and boosts of what is not from here, whose address
    // is the same each time.
    let sql = "SELECT conversation_id, uri FROM statuses WHERE boost_of_id IS NULL
       UNION ALL SELECT b.conversation_id, a.uri || ' boosted ' || p.uri FROM statuses b
         JOIN statuses p ON p.id = b.boost_of_id JOIN accounts a ON a.id = b.account_id
         WHERE p.local = 0
       UNION ALL SELECT conversation_id, uri FROM tombstones WHERE conversation_id IS NOT NULL
       ORDER BY 2";
    let pairs: Vec<(Id, String)> = tx.query(sql, &[], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut least: HashMap<Id, String> = HashMap::new();
    for (conversation, uri) in &pairs {
        least.entry(*conversation).or_insert_with(|| uri.clone());
    }
    Ok(pairs
        .into_iter()
        .filter(|(_, uri)| id_in(uri).is_some())
        .map(|(conversation, uri)| vec!["together".into(), uri, least[&conversation].clone()])
        .collect())
}
