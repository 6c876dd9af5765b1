//! Messages that wait until their receiver has them (XEP-0160).

use weir_base::Id;
use weir_community::accounts;
use weir_community::chat::messages::{self, New, Side};
use weir_community::chat::offline;
use weir_db::Class;
use weir_xmpp::wire::Element;

use super::place::{App, Place, places};

const SM: &str = "urn:xmpp:sm:3";

impl Place {
    async fn id_of(&self, name: &'static str) -> Id {
        let found = self.community.read(Class::Interactive, move |tx, _| {
            Ok(accounts::by_address(tx, name, "")?.unwrap().id)
        });
        found.await.unwrap()
    }

    /// How many messages wait.
    pub async fn waiting(&self, name: &'static str) -> usize {
        let account = self.id_of(name).await;
        let found =
            self.community.read(Class::Interactive, move |tx, _| offline::count(tx, account));
        found.await.unwrap()
    }

    /// Until what a client has waits no longer.
    pub async fn until_none_waits(&self, name: &'static str) {
        while self.waiting(name).await > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Keeps messages of so many bytes each for somebody who is not there.
    async fn keep(&self, name: &'static str, count: usize, bytes: usize) {
        let account = self.id_of(name).await;
        let kept = self.community.write(Class::Interactive, move |tx, env| {
            let new = |number: usize| New {
                id: env.ids.next(),
                from: Side { account: None, jid: "carol@far.test/x".into() },
                to: Side { account: Some(account), jid: format!("{name}@weir.test") },
                xml: format!(
                    "<message xmlns='jabber:client' from='carol@far.test/x' id='n{number}' \
                     type='chat'><body>{}</body></message>",
                    "x".repeat(bytes)
                ),
                archive: false,
                waits: true,
            };
            let list: Vec<New> = (0..count).map(new).collect();
            messages::store(tx, &list)
        });
        kept.await.unwrap();
    }
}

async fn manage(app: &mut App) {
    app.send(&format!("<enable xmlns='{SM}'/>")).await;
    assert!(app.receive().await.is("enabled", SM));
}

fn ids(heard: &[Element]) -> Vec<&str> {
    let messages = heard.iter().filter(|one| one.name == "message");
    messages.filter_map(|one| one.attr("id")).collect()
}

/// Becomes available, and hears what waited.
async fn arrive(app: &mut App) -> Vec<Element> {
    app.send("<presence/>").await;
    app.until_ping().await
}

#[tokio::test]
async fn what_waited_comes_again_until_the_client_says_that_it_has_it() {
    for mut place in places().await {
        place.person("bob").await;
        place.keep("bob", 2, 10).await;
        let mut first = place.logged_in("bob", "first").await;
        manage(&mut first).await;
        assert_eq!(ids(&arrive(&mut first).await), ["n0", "n1"]);
        first.send("</stream:stream>").await;
        while first.frame().await.is_some() {}
        assert_eq!(place.waiting("bob").await, 2);
        let mut second = place.logged_in("bob", "second").await;
        manage(&mut second).await;
        let heard = arrive(&mut second).await;
        assert_eq!(ids(&heard), ["n0", "n1"]);
        let stanzas = heard.iter().filter(|one| one.ns != SM).count() + 1;
        second.send(&format!("<a xmlns='{SM}' h='{stanzas}'/>")).await;
        place.until_none_waits("bob").await;
        second.send("</stream:stream>").await;
        let mut third = place.logged_in("bob", "third").await;
        assert!(ids(&arrive(&mut third).await).is_empty());
    }
}

#[tokio::test]
async fn what_was_written_to_a_client_that_acknowledges_nothing_waits_no_longer() {
    for mut place in places().await {
        place.person("bob").await;
        place.keep("bob", 3, 10).await;
        let mut app = place.logged_in("bob", "home").await;
        assert_eq!(ids(&arrive(&mut app).await), ["n0", "n1", "n2"]);
        place.until_none_waits("bob").await;
    }
}

#[tokio::test]
async fn more_than_one_session_may_hold_comes_in_parts_and_in_order() {
    for mut place in places().await {
        place.person("bob").await;
        place.keep("bob", 12, 200_000).await;
        let mut app = place.logged_in("bob", "home").await;
        app.send("<presence/>").await;
        let mut heard = Vec::new();
        while heard.len() < 12 {
            let next = app.receive().await;
            if next.name == "message" {
                heard.push(next);
            }
        }
        let wanted: Vec<String> = (0..12).map(|number| format!("n{number}")).collect();
        assert_eq!(ids(&heard), wanted);
        place.until_none_waits("bob").await;
    }
}

#[tokio::test]
async fn another_resource_gets_what_one_that_left_did_not_acknowledge() {
    for mut place in places().await {
        place.person("bob").await;
        place.keep("bob", 1, 10).await;
        let mut first = place.logged_in("bob", "first").await;
        manage(&mut first).await;
        assert_eq!(ids(&arrive(&mut first).await), ["n0"]);
        let mut second = place.logged_in("bob", "second").await;
        assert!(ids(&arrive(&mut second).await).is_empty(), "it is on its way to the first");
        first.send("</stream:stream>").await;
        while first.frame().await.is_some() {}
        let next = loop {
            let next = second.receive().await;
            if next.name == "message" {
                break next;
            }
        };
        assert_eq!(next.attr("id"), Some("n0"));
    }
}
