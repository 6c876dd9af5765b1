//! Stream management (XEP-0198) and client state (XEP-0352).

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use weir_xmpp::stream::{self, ByteStream};
use weir_xmpp::wire::Element;

use super::place::{App, Place, places};

const SM: &str = "urn:xmpp:sm:3";

async fn enable(app: &mut App) -> String {
    app.send(&format!("<enable xmlns='{SM}' resume='true'/>")).await;
    let enabled = app.receive().await;
    assert!(enabled.is("enabled", SM), "{enabled:?}");
    enabled.attr("id").unwrap().to_owned()
}

async fn resume(place: &Place, name: &str, id: &str, h: u32) -> (App, Element) {
    let mut app = place.app().await;
    app.log_in(name).await;
    app.send(&format!("<resume xmlns='{SM}' previd='{id}' h='{h}'/>")).await;
    let answer = app.receive().await;
    (app, answer)
}

/// A log-in that asks for `more`, by a client that is gone before it hears what came of it. Ends
/// with its connection.
async fn log_in_and_be_gone(place: &Place, name: &str, more: &str) {
    let (client, server) = tokio::io::duplex(64 * 1024);
    let transport = Box::new(ByteStream::plain(server));
    let peer = [127, 0, 0, 1].into();
    let served = tokio::spawn(stream::accept(place.xmpp.clone(), transport, peer));
    let mut app = App::on(Box::new(client));
    app.open().await;
    let message = BASE64_STANDARD.encode(format!("\0{name}\0password of {name}"));
    app.send(&format!(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'>\
         <initial-response>{message}</initial-response>{more}</authenticate>"
    ))
    .await;
    drop(app);
    served.await.unwrap();
}

/// Until the server has seen that no connection serves this session any more.
pub async fn until_detached(place: &Place, name: &str, resource: &str) {
    let peer = place.xmpp.router.find(&format!("{name}@weir.test")).unwrap();
    let session = peer.session(resource).unwrap();
    while !session.state().is_detached {
        tokio::task::yield_now().await;
    }
}

/// Until the server has no session any more.
async fn until_nobody_is_here(place: &Place) {
    let nobody = async {
        while place.xmpp.router.sessions() > 0 {
            tokio::task::yield_now().await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(20), nobody).await;
    found.expect("a session is left behind");
}

/// The next stanza; requests for acknowledgements are read over.
async fn stanza(app: &mut App) -> Element {
    loop {
        let next = app.receive().await;
        if next.ns != SM {
            return next;
        }
    }
}

#[tokio::test]
async fn what_was_received_is_counted_once_it_is_durable() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        place.person("bob").await;
        enable(&mut alice).await;
        let message = "<message to='bob@weir.test' type='chat'><body>hi</body></message>";
        alice.send(&format!("{message}{message}<presence/><r xmlns='{SM}'/>")).await;
        let answer = loop {
            let next = alice.receive().await;
            if next.is("a", SM) {
                break next;
            }
        };
        assert_eq!(answer.attr("h"), Some("3"));
    }
}

#[tokio::test]
async fn what_is_worked_behind_a_message_is_counted_once_it_is_done() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        place.person("bob").await;
        enable(&mut alice).await;
        // The answer is owed until the message is durable, and by then the query is being worked.
        alice
            .send(&format!(
                "<message to='bob@weir.test' type='chat'><body>hi</body></message>\
                 <r xmlns='{SM}'/><iq type='set' id='keep'><query xmlns='jabber:iq:private'>\
                 <a xmlns='urn:a'/></query></iq>"
            ))
            .await;
        loop {
            let next = alice.receive().await;
            assert_ne!((&*next.name, next.attr("h")), ("a", Some("2")), "it is not stored yet");
            if next.attr("id") == Some("keep") {
                break;
            }
        }
        alice.send(&format!("<r xmlns='{SM}'/>")).await;
        let answer = loop {
            let next = alice.receive().await;
            if next.is("a", SM) {
                break next;
            }
        };
        assert_eq!(answer.attr("h"), Some("2"));
    }
}

#[tokio::test]
async fn a_broken_session_goes_on_without_loss_and_without_being_seen_to_leave() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        let mut bob = place.logged_in("bob", "home").await;
        bob.send("<presence/>").await;
        bob.receive().await;
        let id = enable(&mut bob).await;
        alice.send("<message to='bob@weir.test' type='chat'><body>one</body></message>").await;
        assert_eq!(stanza(&mut bob).await.child("body", "jabber:client").unwrap().text(), "one");
        bob.vanish().await;
        alice.until_ping().await;
        alice.send("<message to='bob@weir.test' type='chat'><body>two</body></message>").await;
        alice.until_ping().await;
        // The first was received and is acknowledged now.
        let (mut bob, answer) = resume(&place, "bob", &id, 1).await;
        assert!(answer.is("resumed", SM), "{answer:?}");
        assert_eq!(answer.attr("h"), Some("0"));
        assert_eq!(stanza(&mut bob).await.child("body", "jabber:client").unwrap().text(), "two");
        bob.send("<message to='alice@weir.test/home'><body>back</body></message>").await;
        let back = stanza(&mut alice).await;
        assert_eq!(back.attr("from"), Some("bob@weir.test/home"));
    }
}

#[tokio::test]
async fn what_was_not_acknowledged_is_sent_again() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        let mut bob = place.logged_in("bob", "home").await;
        bob.send("<presence/>").await;
        bob.receive().await;
        let id = enable(&mut bob).await;
        alice.send("<message to='bob@weir.test' type='chat'><body>one</body></message>").await;
        stanza(&mut bob).await;
        let (mut bob, answer) = resume(&place, "bob", &id, 0).await;
        assert!(answer.is("resumed", SM), "{answer:?}");
        assert_eq!(stanza(&mut bob).await.child("body", "jabber:client").unwrap().text(), "one");
    }
}

/// How many stanzas come up to the one with this id; nothing follows it.
async fn stanzas_until(app: &mut App, last: &str) -> usize {
    let mut count = 0;
    loop {
        count += 1;
        if stanza(app).await.attr("id") == Some(last) {
            break;
        }
    }
    app.send(&format!("<r xmlns='{SM}'/>")).await;
    loop {
        let next = app.receive().await;
        assert_eq!(&*next.ns, SM, "{next:?}");
        if next.name == "a" {
            return count;
        }
    }
}

#[tokio::test]
async fn no_more_is_sent_than_a_client_acknowledges_however_often_it_resumes() {
    let mut place = places().await.remove(0);
    let mut alice = place.logged_in("alice", "home").await;
    let mut id = enable(&mut alice).await;
    let ask = |from: usize, to: usize| {
        let ping = |at: usize| {
            format!("<iq type='get' to='weir.test' id='n{at}'><ping xmlns='urn:xmpp:ping'/></iq>")
        };
        (from..to).map(ping).collect::<String>()
    };
    alice.send(&ask(1, 1_501)).await;
    assert_eq!(stanzas_until(&mut alice, "n1000").await, 1_000);
    for _ in 0..2 {
        // What was not acknowledged comes again, and not one more.
        let (app, answer) = resume(&place, "alice", &id, 0).await;
        assert!(answer.is("resumed", SM), "{answer:?}");
        (alice, id) = (app, answer.attr("previd").unwrap().to_owned());
        assert_eq!(stanzas_until(&mut alice, "n1000").await, 1_000);
    }
    alice.send(&format!("<a xmlns='{SM}' h='1000'/>")).await;
    assert_eq!(stanzas_until(&mut alice, "n1500").await, 500);
}

#[tokio::test]
async fn nobody_resumes_what_is_not_theirs() {
    for mut place in places().await {
        let mut bob = place.logged_in("bob", "home").await;
        let id = enable(&mut bob).await;
        place.person("carol").await;
        let (_, answer) = resume(&place, "carol", &id, 0).await;
        assert!(answer.is("failed", SM), "{answer:?}");
        let (_, answer) = resume(&place, "bob", "made-up", 0).await;
        assert!(answer.is("failed", SM), "{answer:?}");
        assert!(bob.until_ping().await.is_empty());
    }
}

#[tokio::test]
async fn a_session_for_which_too_much_came_is_not_resumed() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        let mut bob = place.logged_in("bob", "home").await;
        bob.send("<presence/>").await;
        bob.receive().await;
        let id = enable(&mut bob).await;
        bob.vanish().await;
        let body = "a".repeat(200_000);
        // More than may be on its way to bob and wait for him together.
        for _ in 0..16 {
            let to = "bob@weir.test/home";
            let message =
                format!("<message to='{to}' type='groupchat'><body>{body}</body></message>");
            alice.send(&message).await;
        }
        alice.until_ping().await;
        let (mut bob, answer) = resume(&place, "bob", &id, 0).await;
        assert!(answer.is("failed", SM), "{answer:?}");
        assert!(answer.has("item-not-found", "urn:ietf:params:xml:ns:xmpp-stanzas"));
        bob.bind("new").await;
        assert_eq!(place.xmpp.router.sessions(), 2);
    }
}

#[tokio::test]
async fn presence_that_was_held_back_comes_with_the_resumption() {
    for mut place in places().await {
        let mut phone = place.logged_in("alice", "phone").await;
        phone.send("<presence/>").await;
        phone.receive().await;
        let id = enable(&mut phone).await;
        phone.send("<inactive xmlns='urn:xmpp:csi:0'/>").await;
        phone.until_ping().await;
        let mut desk = place.logged_in("alice", "desk").await;
        desk.send("<presence><show>away</show></presence>").await;
        desk.until_ping().await;
        phone.vanish().await;
        let (mut phone, answer) = resume(&place, "alice", &id, 1).await;
        assert!(answer.is("resumed", SM), "{answer:?}");
        assert_eq!(stanza(&mut phone).await.child("show", "jabber:client").unwrap().text(), "away");
    }
}

#[tokio::test]
async fn who_is_gone_before_the_log_in_is_answered_leaves_no_session_behind() {
    for mut place in places().await {
        place.person("bob").await;
        let manage = format!("<enable xmlns='{SM}' resume='true'/>");
        for more in ["", &manage] {
            let bind = format!("<bind xmlns='urn:xmpp:bind:0'>{more}</bind>");
            log_in_and_be_gone(&place, "bob", &bind).await;
            assert_eq!(place.xmpp.router.sessions(), 0);
        }
    }
}

#[tokio::test]
async fn who_is_gone_before_the_resumption_is_answered_may_come_again_and_is_not_here_for_ever() {
    for mut place in places().await {
        let mut bob = place.logged_in("bob", "home").await;
        let id = enable(&mut bob).await;
        let asked = format!("<resume xmlns='{SM}' previd='{id}' h='0'/>");
        log_in_and_be_gone(&place, "bob", &asked).await;
        let (_, answer) = resume(&place, "bob", &id, 0).await;
        assert!(answer.is("resumed", SM), "{answer:?}");
        log_in_and_be_gone(&place, "bob", &asked).await;
        // At the stop, all that wait to be taken up end.
        place.shut_down();
        until_nobody_is_here(&place).await;
    }
}

#[tokio::test]
async fn nobody_acknowledges_what_was_not_sent() {
    let mut place = places().await.remove(0);
    let mut alice = place.logged_in("alice", "home").await;
    enable(&mut alice).await;
    alice.send(&format!("<a xmlns='{SM}' h='9'/>")).await;
    assert_eq!(alice.stream_error().await, "undefined-condition");
}

#[tokio::test]
async fn what_a_session_that_is_over_did_not_acknowledge_waits_for_its_account() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        let mut bob = place.logged_in("bob", "home").await;
        bob.send("<presence/>").await;
        bob.receive().await;
        enable(&mut bob).await;
        alice.send("<message to='bob@weir.test' type='chat'><body>one</body></message>").await;
        stanza(&mut bob).await;
        bob.send("</stream:stream>").await;
        while bob.frame().await.is_some() {}
        // Kept by a unit of its own, which the next arrival may overtake: it comes all the same.
        let body = loop {
            let mut again = place.logged_in("bob", "again").await;
            again.send("<presence/>").await;
            let heard = again.until_ping().await;
            let message = heard.into_iter().find(|one| one.name == "message");
            if let Some(message) = message {
                break message.child("body", "jabber:client").unwrap().text();
            }
        };
        assert_eq!(body, "one");
    }
}

#[tokio::test]
async fn what_a_broken_session_did_not_acknowledge_reaches_a_resource_that_came_later() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        let mut phone = place.logged_in("bob", "phone").await;
        phone.send("<presence/>").await;
        phone.receive().await;
        let id = enable(&mut phone).await;
        alice.send("<message to='bob@weir.test' type='chat'><body>one</body></message>").await;
        stanza(&mut phone).await;
        phone.vanish().await;
        until_detached(&place, "bob", "phone").await;
        let mut desk = place.logged_in("bob", "desk").await;
        desk.send("<presence/>").await;
        desk.until_ping().await;
        // The app comes back without its session, and takes its place.
        let _phone = place.logged_in("bob", "phone").await;
        let message = loop {
            let next = desk.receive().await;
            if next.name == "message" {
                break next;
            }
        };
        assert_eq!(message.child("body", "jabber:client").unwrap().text(), "one");
        let (_, answer) = resume(&place, "bob", &id, 0).await;
        assert!(answer.is("failed", SM), "{answer:?}");
    }
}

#[tokio::test]
async fn what_a_broken_session_did_not_acknowledge_does_not_come_twice_to_who_was_given_it_too() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        let mut desk = place.logged_in("bob", "desk").await;
        desk.send("<presence/>").await;
        desk.until_ping().await;
        let mut phone = place.logged_in("bob", "phone").await;
        phone.send("<presence/>").await;
        phone.until_ping().await;
        enable(&mut phone).await;
        alice.send("<message to='bob@weir.test' type='chat'><body>one</body></message>").await;
        stanza(&mut phone).await;
        phone.vanish().await;
        until_detached(&place, "bob", "phone").await;
        let _phone = place.logged_in("bob", "phone").await;
        alice.send("<message to='bob@weir.test' type='chat'><body>two</body></message>").await;
        let mut bodies = Vec::new();
        while bodies.last().is_none_or(|last| last != "two") {
            let next = desk.receive().await;
            bodies.extend(next.child("body", "jabber:client").map(Element::text));
        }
        assert_eq!(bodies, ["one", "two"]);
    }
}

#[tokio::test]
async fn presence_waits_while_nobody_looks_and_the_newest_of_each_comes() {
    for mut place in places().await {
        let mut phone = place.logged_in("alice", "phone").await;
        phone.send("<presence/>").await;
        phone.receive().await;
        phone.send("<inactive xmlns='urn:xmpp:csi:0'/>").await;
        phone.until_ping().await;
        let mut desk = place.logged_in("alice", "desk").await;
        desk.send("<presence><show>away</show></presence>").await;
        desk.send("<presence><show>dnd</show></presence>").await;
        desk.until_ping().await;
        phone.send("<active xmlns='urn:xmpp:csi:0'/>").await;
        let heard = phone.until_ping().await;
        let shows: Vec<String> = heard
            .iter()
            .filter_map(|one| Some(one.child("show", "jabber:client")?.text()))
            .collect();
        assert_eq!(shows, ["dnd"]);
    }
}

#[tokio::test]
async fn who_comes_too_late_learns_what_of_it_was_done() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        let id = enable(&mut alice).await;
        alice.send("<message to='alice@weir.test'><body>kept</body></message>").await;
        alice.until_ping().await;
        // Nobody acknowledges what was not sent: the session ends by that.
        alice.send(&format!("<a xmlns='{SM}' h='100'/>")).await;
        assert_eq!(alice.stream_error().await, "undefined-condition");
        let (_, answer) = resume(&place, "alice", &id, 0).await;
        assert!(answer.is("failed", SM) && answer.attr("h") == Some("2"), "{answer:?}");
        assert!(answer.has("item-not-found", "urn:ietf:params:xml:ns:xmpp-stanzas"));
        // Whose it was not learns nothing.
        place.person("carol").await;
        let (_, answer) = resume(&place, "carol", &id, 0).await;
        assert!(answer.is("failed", SM) && answer.attr("h").is_none(), "{answer:?}");
    }
}

#[tokio::test]
async fn who_was_told_to_go_amid_an_element_resumes_and_says_it_anew() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        let id = enable(&mut alice).await;
        let peer = place.xmpp.router.find("alice@weir.test").unwrap();
        let session = peer.session("home").unwrap();
        alice.send("<message to='alice@weir.test'><body>half of").await;
        let beats = async {
            loop {
                session.beat();
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            end = alice.stream_error() => assert_eq!(end, "connection-timeout", "{}", place.name),
            () = beats => {}
        }
        let (mut alice, answer) = resume(&place, "alice", &id, 0).await;
        assert!(answer.is("resumed", SM) && answer.attr("h") == Some("0"), "{answer:?}");
        assert!(alice.until_ping().await.is_empty());
    }
}

#[tokio::test]
async fn white_space_keeps_a_connection_and_is_no_stanza() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        enable(&mut alice).await;
        for space in [" ", "\n", "\r\n\t "] {
            alice.send(space).await;
            alice.send(&format!("<r xmlns='{SM}'/>")).await;
            let answer = alice.receive().await;
            assert!(answer.is("a", SM) && answer.attr("h") == Some("0"), "{answer:?}");
        }
        alice.send("<message to='alice@weir.test'> <body> a \n</body>\n</message> \n").await;
        alice.send(&format!(" <r xmlns='{SM}'/> ")).await;
        let answer = alice.receive().await;
        assert!(answer.is("a", SM) && answer.attr("h") == Some("1"), "{answer:?}");
    }
}

#[tokio::test]
async fn who_cannot_resume_begins_anew_on_the_same_stream_and_gets_what_waits() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        let mut bob = place.logged_in("bob", "home").await;
        bob.send("<presence/>").await;
        bob.receive().await;
        let id = enable(&mut bob).await;
        alice.send("<message to='bob@weir.test' type='chat'><body>one</body></message>").await;
        stanza(&mut bob).await;
        // Nobody acknowledges what was not sent: the session ends by that, and what it was sent
        // waits for the account.
        bob.send(&format!("<a xmlns='{SM}' h='100'/>")).await;
        assert_eq!(bob.stream_error().await, "undefined-condition");
        while place.waiting("bob").await == 0 {
            tokio::task::yield_now().await;
        }
        let (mut bob, answer) = resume(&place, "bob", &id, 0).await;
        assert!(answer.is("failed", SM), "{answer:?}");
        bob.bind("again").await;
        bob.send("<presence/>").await;
        let heard = bob.until_ping().await;
        let message = heard.iter().find(|one| one.name == "message").unwrap();
        assert_eq!(message.child("body", "jabber:client").unwrap().text(), "one");
        assert!(message.has("delay", "urn:xmpp:delay"), "{message:?}");
    }
}
