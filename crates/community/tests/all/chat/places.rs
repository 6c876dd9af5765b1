//! Nodes, rooms, papers and push services as nouns.

use weir_base::Id;
use weir_community::Error;
use weir_community::chat::messages::{PAGE_BYTES_MAX, Query};
use weir_community::chat::nodes::{self, Access, Config};
use weir_community::chat::rooms::{self, Affiliation, Listed, RoomMessage};
use weir_community::chat::{private, push};

use crate::place::places;

#[tokio::test]
async fn a_node_keeps_its_newest_items_and_says_which_went() {
    for place in places() {
        let alice = place.person("alice").await;
        let kept = place
            .write(move |tx, env| {
                let config = Config { items_max: 2, ..Config::default() };
                let node = nodes::create(tx, env, alice, "urn:x", &config, "alice@weir.test")?;
                let mut dropped = Vec::new();
                for name in ["a", "b", "a", "c"] {
                    let done = nodes::publish(tx, env, &node, "alice@weir.test", name, "<x/>")?;
                    dropped.extend(done.dropped);
                }
                Ok((dropped, nodes::item_names(tx, &node)?))
            })
            .await
            .unwrap();
        assert_eq!(kept, (vec!["b".to_owned()], vec!["a".to_owned(), "c".to_owned()]));
        let twice = place
            .write(move |tx, env| {
                nodes::create(tx, env, alice, "urn:x", &Config::default(), "alice@weir.test")
            })
            .await;
        assert!(matches!(twice, Err(Error::Conflict(_))));
    }
}

#[tokio::test]
async fn all_nodes_of_one_account_together_have_a_limit() {
    for place in places() {
        let alice = place.person("alice").await;
        let full = place
            .write(move |tx, env| {
                let config = Config { items_max: 1_000, ..Config::default() };
                let node = nodes::create(tx, env, alice, "urn:x", &config, "alice@weir.test")?;
                let xml = format!("<x>{}</x>", "x".repeat(200 * 1_024));
                for _ in 0..100 {
                    nodes::publish(tx, env, &node, "alice@weir.test", "", &xml)?;
                }
                Ok(())
            })
            .await;
        assert!(matches!(full, Err(Error::Invalid(_))), "{}", place.name());
    }
}

#[tokio::test]
async fn a_closed_node_is_read_by_those_on_its_list() {
    for place in places() {
        let alice = place.person("alice").await;
        let (stranger, member) = place
            .write(move |tx, env| {
                let config = Config { access: Access::Whitelist, ..Config::default() };
                let node = nodes::create(tx, env, alice, "urn:x", &config, "alice@weir.test")?;
                nodes::affiliate(tx, node.id, "bob@far.test", nodes::Affiliation::Member)?;
                let own = "alice@weir.test";
                let stranger = nodes::standing(tx, &node, own, "carol@far.test/x")?;
                let member = nodes::standing(tx, &node, own, "bob@far.test/x")?;
                Ok((
                    nodes::may_read(&node, &stranger).is_ok(),
                    nodes::may_read(&node, &member).is_ok(),
                ))
            })
            .await
            .unwrap();
        assert_eq!((stranger, member), (false, true));
    }
}

#[tokio::test]
async fn a_room_keeps_its_lists_and_what_was_said_until_it_is_destroyed() {
    for place in places() {
        let listed = Listed {
            jid: "bob@far.test".into(),
            affiliation: Affiliation::Outcast,
            nick: String::new(),
            reason: "noise".into(),
        };
        let room = place
            .write(move |tx, env| {
                let config = rooms::Config { title: "Tea".into(), ..rooms::Config::default() };
                let room = rooms::create(tx, env, "tea", &config, "alice@weir.test")?;
                rooms::affiliate(tx, room.id, &listed)?;
                let said = |text: &str| {
                    let (from_jid, xml) = ("alice@weir.test".to_owned(), text.to_owned());
                    (room.id, RoomMessage { id: env.ids.next(), from_jid, xml })
                };
                rooms::store(tx, &[said("<one/>"), said("<two/>"), said("<three/>")])?;
                Ok(room.id)
            })
            .await
            .unwrap();
        let (lists, page, found) = place
            .read(move |tx, _| {
                let query = Query { backwards: true, limit: 2, ..Query::default() };
                let page = rooms::page(tx, room, &query)?;
                Ok((rooms::affiliations(tx, room)?, page, rooms::public(tx, "", 10)?))
            })
            .await
            .unwrap();
        let names: Vec<_> = lists.iter().map(|one| (&*one.jid, one.affiliation)).collect();
        assert_eq!(
            names,
            [("alice@weir.test", Affiliation::Owner), ("bob@far.test", Affiliation::Outcast)]
        );
        let texts: Vec<&str> = page.messages.iter().map(|said| &*said.xml).collect();
        assert_eq!(
            (texts, page.complete, page.count),
            (vec!["<two/>", "<three/>"], false, Some(3))
        );
        assert_eq!(found[0].config.title, "Tea");
        let page = place
            .write(move |tx, env| {
                let third = "x".repeat(PAGE_BYTES_MAX / 3);
                let said = || {
                    let (from_jid, xml) = ("alice@weir.test".to_owned(), third.clone());
                    (room, RoomMessage { id: env.ids.next(), from_jid, xml })
                };
                rooms::store(tx, &[said(), said(), said(), said()])?;
                let query = Query { backwards: true, limit: 10, ..Query::default() };
                rooms::page(tx, room, &query)
            })
            .await
            .unwrap();
        assert_eq!((page.messages.len(), page.complete), (3, false), "no page is too long");
        place.write(move |tx, env| rooms::destroy(tx, env, room)).await.unwrap();
        assert_eq!(place.read(|tx, _| rooms::find(tx, "tea")).await.unwrap(), None);
    }
}

#[tokio::test]
async fn papers_are_replaced_and_bounded() {
    for place in places() {
        let alice = place.person("alice").await;
        let many = place
            .write(move |tx, _| {
                private::set(tx, alice, "urn:x a", "<a/>")?;
                private::set(tx, alice, "urn:x a", "<b/>")?;
                assert_eq!(private::get(tx, alice, "urn:x a")?.as_deref(), Some("<b/>"));
                (0..private::PAPERS_MAX)
                    .try_for_each(|number| private::set(tx, alice, &number.to_string(), "<a/>"))
            })
            .await;
        assert!(matches!(many, Err(Error::Invalid(_))));
    }
}

#[tokio::test]
async fn a_push_service_is_enabled_once_and_disabled_by_node_or_whole() {
    for place in places() {
        let alice: Id = place.person("alice").await;
        let service = |node: &str| push::Service {
            service: "push.test".into(),
            node: node.into(),
            options: String::new(),
        };
        let (one, two) = (service("one"), service("two"));
        let left = place
            .write(move |tx, _| {
                push::enable(tx, alice, &one)?;
                push::enable(tx, alice, &one)?;
                push::enable(tx, alice, &two)?;
                push::disable(tx, alice, "push.test", Some("one"))?;
                let left = push::list(tx, alice)?.len();
                push::disable(tx, alice, "push.test", None)?;
                Ok((left, push::list(tx, alice)?.len()))
            })
            .await
            .unwrap();
        assert_eq!(left, (1, 0));
    }
}
