use weir_base::{Id, Timestamp};
use weir_community::Error;
use weir_community::chat::messages::{self, New, Page, Query, Side, Stored};
use weir_community::chat::offline;
use weir_community::chat::settings::{self, Archive, Keep};

use crate::place::{Place, places};

struct Talk {
    place: Place,
    alice: Id,
    bob: Id,
}

async fn talks() -> Vec<Talk> {
    let mut all = Vec::new();
    for place in places() {
        let (alice, bob) = (place.person("alice").await, place.person("bob").await);
        all.push(Talk { place, alice, bob });
    }
    all
}

impl Talk {
    fn side(&self, jid: &str) -> Side {
        let account = match jid.split('@').next() {
            Some("alice") => Some(self.alice),
            Some("bob") => Some(self.bob),
            _ => None,
        };
        Side { account, jid: jid.into() }
    }

    async fn tell(&self, from: &str, to: &str, text: &str, waits: bool) -> (Id, Stored) {
        let (from, to, xml) = (self.side(from), self.side(to), format!("<body>{text}</body>"));
        self.place
            .write(move |tx, env| {
                let id = env.ids.next();
                let (from, to, xml) = (from.clone(), to.clone(), xml.clone());
                let new = New { id, from, to, xml, archive: true, waits };
                Ok((id, messages::store(tx, &[new])?[0]))
            })
            .await
            .unwrap()
    }

    async fn page(&self, owner: Id, query: Query) -> Result<Page, Error> {
        self.place.read(move |tx, env| messages::page(tx, env, owner, &query)).await
    }

    async fn archive(&self, owner: Id, archive: Archive) {
        self.place.write(move |tx, _| settings::set_archive(tx, owner, &archive)).await.unwrap();
    }
}

fn texts(page: &Page) -> Vec<&str> {
    page.messages
        .iter()
        .map(|message| message.xml.trim_start_matches("<body>").trim_end_matches("</body>"))
        .collect()
}

const ALL: Query = Query {
    with: None,
    start: None,
    end: None,
    after: None,
    before: None,
    until: None,
    backwards: false,
    limit: 100,
};

#[tokio::test]
async fn a_message_stands_in_the_archives_of_both_sides_in_one_row() {
    for talk in talks().await {
        talk.tell("alice@weir.test/phone", "bob@weir.test", "hello", false).await;
        talk.tell("bob@weir.test/desk", "alice@weir.test", "hi", false).await;
        for owner in [talk.alice, talk.bob] {
            let page = talk.page(owner, ALL).await.unwrap();
            assert_eq!(texts(&page), ["hello", "hi"]);
            assert_eq!((page.complete, page.count), (true, Some(2)));
        }
    }
}

#[tokio::test]
async fn pages_meet_without_a_seam_in_both_directions() {
    for talk in talks().await {
        for number in 0..7 {
            let with = if number % 3 == 2 { "carol@far.test" } else { "bob@weir.test" };
            talk.tell("alice@weir.test/phone", with, &number.to_string(), false).await;
        }
        for with in [None, Some("bob@weir.test".to_owned())] {
            let all = talk.page(talk.alice, Query { with: with.clone(), ..ALL }).await.unwrap();
            let (mut down, mut up) = (Vec::new(), Vec::new());
            let mut query = Query { with: with.clone(), limit: 2, ..ALL };
            loop {
                let page = talk.page(talk.alice, query.clone()).await.unwrap();
                assert_eq!(page.count, Some(all.messages.len()), "whatever the page is");
                query.after = page.messages.last().map(|message| message.id);
                down.extend(page.messages);
                if page.complete {
                    break;
                }
            }
            let mut query = Query { with, limit: 2, backwards: true, ..ALL };
            loop {
                let page = talk.page(talk.alice, query.clone()).await.unwrap();
                query.before = page.messages.first().map(|message| message.id);
                up.splice(0..0, page.messages);
                if page.complete {
                    break;
                }
            }
            assert_eq!(down, all.messages);
            assert_eq!(up, all.messages);
        }
    }
}

#[tokio::test]
async fn nobody_reads_what_others_wrote_to_each_other() {
    for talk in talks().await {
        talk.tell("alice@weir.test/a", "carol@far.test", "between us", false).await;
        let query = Query { with: Some("alice@weir.test".into()), ..ALL };
        assert_eq!(talk.page(talk.bob, query).await.unwrap().messages, []);
        assert_eq!(talk.page(talk.bob, ALL).await.unwrap().messages, []);
    }
}

#[tokio::test]
async fn a_note_to_oneself_comes_once() {
    for talk in talks().await {
        talk.tell("alice@weir.test/a", "alice@weir.test", "milk", false).await;
        assert_eq!(texts(&talk.page(talk.alice, ALL).await.unwrap()), ["milk"]);
    }
}

#[tokio::test]
async fn a_span_of_time_and_a_resource_narrow_the_page() {
    for talk in talks().await {
        let (first, _) = talk.tell("alice@weir.test/a", "bob@weir.test/x", "one", false).await;
        let (second, _) = talk.tell("alice@weir.test/a", "bob@weir.test/y", "two", false).await;
        let until = Query { end: Some(first.time()), ..ALL };
        assert_eq!(texts(&talk.page(talk.alice, until).await.unwrap()), ["one"]);
        let since = Query { start: Some(second.time()), ..ALL };
        assert_eq!(texts(&talk.page(talk.alice, since).await.unwrap()), ["two"]);
        let with = Query { with: Some("bob@weir.test/y".into()), ..ALL };
        assert_eq!(texts(&talk.page(talk.alice, with).await.unwrap()), ["two"]);
        let never = Query { end: Some(Timestamp::from_ms(0)), ..ALL };
        assert_eq!(talk.page(talk.alice, never).await.unwrap().count, Some(0));
        let ends = talk.place.read(move |tx, _| messages::ends(tx, talk.alice)).await.unwrap();
        assert_eq!(ends, Some((first, second)));
    }
}

#[tokio::test]
async fn going_on_from_a_message_that_is_not_there_is_an_error() {
    for talk in talks().await {
        talk.tell("alice@weir.test/a", "bob@weir.test", "one", false).await;
        let query = Query { after: Some(Id(7)), ..ALL };
        assert!(matches!(talk.page(talk.alice, query).await, Err(Error::NotFound(_))));
    }
}

#[tokio::test]
async fn each_side_chooses_for_itself_what_is_archived() {
    for talk in talks().await {
        let never = Archive {
            default: Keep::Never,
            always: vec!["carol@far.test".into()],
            never: Vec::new(),
        };
        talk.archive(talk.alice, never).await;
        talk.archive(talk.bob, Archive { default: Keep::Roster, ..Archive::default() }).await;
        let (_, stored) = talk.tell("alice@weir.test/a", "bob@weir.test", "secret", false).await;
        assert_eq!((stored.from, stored.to), (false, false));
        talk.place.befriend(talk.alice, talk.bob).await;
        let (_, stored) = talk.tell("alice@weir.test/a", "bob@weir.test", "friend", false).await;
        assert_eq!((stored.from, stored.to), (false, true));
        let (_, stored) = talk.tell("alice@weir.test/a", "carol@far.test/x", "far", false).await;
        assert!(stored.from);
        assert_eq!(texts(&talk.page(talk.bob, ALL).await.unwrap()), ["friend"]);
        assert_eq!(texts(&talk.page(talk.alice, ALL).await.unwrap()), ["far"]);
    }
}

#[tokio::test]
async fn what_waited_is_read_in_order_and_let_go() {
    for talk in talks().await {
        let bob = talk.bob;
        talk.archive(bob, Archive { default: Keep::Never, ..Archive::default() }).await;
        talk.archive(talk.alice, Archive { default: Keep::Never, ..Archive::default() }).await;
        talk.tell("alice@weir.test/a", "bob@weir.test", "one", true).await;
        talk.tell("alice@weir.test/a", "bob@weir.test", "two", true).await;
        let read = talk.place.read(move |tx, _| offline::waiting(tx, bob, &[])).await.unwrap();
        let list: Vec<Id> = read.messages.iter().map(|message| message.id).collect();
        assert_eq!(texts(&Page { messages: read.messages, ..Page::default() }), ["one", "two"]);
        let first = list[0];
        let rest = talk.place.read(move |tx, _| offline::waiting(tx, bob, &[first]));
        let rest = rest.await.unwrap().messages;
        assert_eq!(texts(&Page { messages: rest, ..Page::default() }), ["two"]);
        talk.place.write(move |tx, _| offline::reads_archive(tx, bob)).await.unwrap();
        let left = talk.place.read(move |tx, _| offline::count(tx, bob)).await.unwrap();
        assert_eq!(left, 2, "what stands in no archive waits on");
        talk.place.write(move |tx, _| offline::received(tx, bob, &list)).await.unwrap();
        let left = talk.place.read(move |tx, _| offline::count(tx, bob)).await.unwrap();
        assert_eq!(left, 0);
        let sql = "SELECT count(*) FROM chat_messages";
        let rows = talk.place.read(move |tx, _| Ok(tx.value::<i64>(sql, &[])?)).await.unwrap();
        assert_eq!(rows, Some(0), "what is in nobody's archive goes when it was received");
    }
}

#[tokio::test]
async fn a_page_ends_before_it_is_too_long() {
    for talk in talks().await {
        let fifth = "x".repeat(messages::PAGE_BYTES_MAX / 5 - 20);
        for _ in 0..6 {
            talk.tell("alice@weir.test/phone", "bob@weir.test", &fifth, false).await;
        }
        let first = talk.page(talk.bob, ALL).await.unwrap();
        assert_eq!((first.messages.len(), first.complete), (5, false));
        let after = first.messages.last().map(|message| message.id);
        let rest = talk.page(talk.bob, Query { after, ..ALL }).await.unwrap();
        assert_eq!((rest.messages.len(), rest.complete), (1, true));
        let newest = talk.page(talk.bob, Query { backwards: true, ..ALL }).await.unwrap();
        assert_eq!((newest.messages.len(), newest.complete), (5, false));
        assert_eq!(newest.messages.last(), rest.messages.last());
        let long = "x".repeat(messages::PAGE_BYTES_MAX + 1);
        talk.tell("alice@weir.test/phone", "bob@weir.test", &long, false).await;
        let after = rest.messages.last().map(|message| message.id);
        let alone = talk.page(talk.bob, Query { after, ..ALL }).await.unwrap();
        assert_eq!((alone.messages.len(), alone.complete), (1, true));
    }
}

#[tokio::test]
async fn so_many_messages_wait_and_no_more() {
    for talk in talks().await {
        let (from, to) = (talk.side("carol@far.test"), talk.side("bob@weir.test"));
        let most = offline::WAITING_MAX;
        let stored = talk
            .place
            .write(move |tx, env| {
                let new = || New {
                    id: env.ids.next(),
                    from: from.clone(),
                    to: to.clone(),
                    xml: "<body/>".into(),
                    archive: false,
                    waits: true,
                };
                let many: Vec<New> = (0..most + 3).map(|_| new()).collect();
                messages::store(tx, &many)
            })
            .await
            .unwrap();
        assert_eq!(stored.iter().filter(|stored| stored.full).count(), 3);
        let bob = talk.bob;
        let waiting = talk.place.read(move |tx, _| offline::count(tx, bob)).await.unwrap();
        assert_eq!(waiting, most);
        let read = talk.place.read(move |tx, _| offline::waiting(tx, bob, &[])).await.unwrap();
        assert_eq!((read.messages.len(), read.has_more), (offline::READ_MAX, true));
    }
}
