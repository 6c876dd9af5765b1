//! What no honest client does.

use super::dialogue::play;
use super::place::{App, places};

#[tokio::test]
async fn nobody_speaks_for_others() {
    for mut place in places().await {
        for from in ["bob@weir.test", "bob@weir.test/home", "alice@weir.test/other", "weir.test"] {
            let mut app = place.logged_in("alice", "home").await;
            app.send(&format!("<message from='{from}' to='alice@weir.test'/>")).await;
            assert_eq!(app.stream_error().await, "invalid-from", "{from}");
        }
    }
}

#[tokio::test]
async fn bad_xml_ends_the_stream_with_the_right_condition() {
    let mut place = places().await.remove(0);
    let long = format!("<message><body>{}</body></message>", "a".repeat(300_000));
    let deep = "<a>".repeat(100);
    let cases: [(&[u8], &str); 9] = [
        (b"<message><!-- x --></message>", "restricted-xml"),
        (b"<?x y?>", "restricted-xml"),
        (b"<message><body>&lol;</body></message>", "restricted-xml"),
        (b"<message><body>\xff\xfe</body></message>", "unsupported-encoding"),
        (b"<message></presence>", "not-well-formed"),
        (b"<x:message/>", "not-well-formed"),
        (b"<unknown xmlns='urn:x'/>", "unsupported-stanza-type"),
        (long.as_bytes(), "policy-violation"),
        (deep.as_bytes(), "policy-violation"),
    ];
    for (bytes, condition) in cases {
        let mut app = place.logged_in("alice", "home").await;
        app.try_send(bytes).await;
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert_eq!(app.stream_error().await, condition, "{text}");
    }
}

#[tokio::test]
async fn a_stranger_cannot_send_long_elements() {
    let place = places().await.remove(0);
    let mut app = App::connect(place.address).await;
    app.try_send(format!("<auth>{}", "a".repeat(20_000)).as_bytes()).await;
    assert_eq!(app.stream_error().await, "policy-violation");
}

#[tokio::test]
async fn passwords_are_guessed_only_a_few_times_a_connection() {
    let place = places().await.remove(0);
    let mut app = App::connect(place.address).await;
    let sasl = "urn:ietf:params:xml:ns:xmpp-sasl";
    for _ in 0..5 {
        app.send(&format!("<auth xmlns='{sasl}' mechanism='NONE'>=</auth>")).await;
        assert_eq!(app.receive().await.name, "failure");
    }
    assert_eq!(app.stream_error().await, "policy-violation");
}

#[tokio::test]
async fn a_document_type_that_would_grow_without_end_is_not_even_read() {
    let mut place = places().await.remove(0);
    let bomb = "<!DOCTYPE lolz [<!ENTITY a \"lol\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">]>";
    let mut app = App::silent(place.address).await;
    app.try_send(format!("<?xml version='1.0'?>{bomb}").as_bytes()).await;
    assert_eq!(app.stream_error().await, "restricted-xml");
    let mut app = place.logged_in("alice", "home").await;
    app.try_send(format!("<message><body>{bomb}&b;</body></message>").as_bytes()).await;
    assert_eq!(app.stream_error().await, "restricted-xml");
}

#[tokio::test]
async fn an_element_without_an_end_is_cut_at_the_limit() {
    let mut place = places().await.remove(0);
    let mut app = place.logged_in("alice", "home").await;
    let piece = "a".repeat(10_000);
    app.try_send(b"<message><body>").await;
    for _ in 0..40 {
        if !app.try_send(piece.as_bytes()).await {
            break;
        }
    }
    assert_eq!(app.stream_error().await, "policy-violation");
}

#[tokio::test]
async fn who_does_not_read_is_closed_and_holds_nobody_up() {
    let mut place = places().await.remove(0);
    let _deaf = place.logged_in("bob", "home").await;
    let mut alice = place.logged_in("alice", "home").await;
    let body = "a".repeat(200_000);
    let message = format!(
        "<message to='bob@weir.test/home' type='groupchat' id='m'><body>{body}</body></message>"
    );
    let refused = loop {
        alice.send(&message).await;
        if let Some(answer) = alice.until_ping().await.into_iter().next() {
            break answer;
        }
    };
    assert_eq!((refused.attr("type"), refused.attr("id")), (Some("error"), Some("m")));
}

/// Names, ids and places to go on from are values: whatever stands in them, the database is asked
/// for just that.
#[tokio::test]
async fn nothing_that_is_said_becomes_part_of_a_statement() {
    let name = "&apos;) OR 1=1; DROP TABLE chat_items; --";
    let pubsub = "http://jabber.org/protocol/pubsub";
    let page = format!(
        "<set xmlns='http://jabber.org/protocol/rsm'><max>5</max><after>{name}</after></set>"
    );
    let missing = |id: &str| {
        format!(
            "alice receives
               <iq type='error' id='{id}'><error><item-not-found
               xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
        )
    };
    play(&format!(
        "alice is here
         alice sends
           <iq type='set' id='1'><pubsub xmlns='{pubsub}'><publish node='urn:n'>
           <item id='{name}'><a xmlns='urn:a'/></item></publish></pubsub></iq>
         alice receives
           <iq type='result' id='1'/>
         alice sends
           <iq type='get' id='2'><pubsub xmlns='{pubsub}'><items node='urn:n'>
           <item id='{name}'/></items></pubsub></iq>
         alice receives
           <iq type='result' id='2'><pubsub xmlns='{pubsub}'><items node='urn:n'>
           <item id='{name}'/></items></pubsub></iq>
         alice sends
           <iq type='get' id='3'><pubsub xmlns='{pubsub}'><items node='urn:n'>
           <item id='&apos;'/></items></pubsub></iq>
         {}
         alice sends
           <iq type='get' id='4'><pubsub xmlns='{pubsub}'><items node='urn:n&apos; OR 1=1'/>
           </pubsub></iq>
         {}
         alice sends
           <iq type='get' id='5'><pubsub xmlns='{pubsub}'><items node='urn:n'/>{page}</pubsub></iq>
         alice receives
           <iq id='5'/>
         alice sends
           <iq type='set' id='6'><query xmlns='urn:xmpp:mam:2'>{page}</query></iq>
         {}
         alice sends
           <iq type='get' id='7'><pubsub xmlns='{pubsub}'><items node='urn:n'/></pubsub></iq>
         alice receives
           <iq type='result' id='7'><pubsub xmlns='{pubsub}'><items node='urn:n'>
           <item id='{name}'/></items></pubsub></iq>",
        missing("3"),
        missing("4"),
        missing("6"),
    ))
    .await;
}

#[tokio::test]
async fn who_does_not_end_what_it_began_to_say_is_told_to_go() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        let peer = place.xmpp.router.find("alice@weir.test").unwrap();
        let session = peer.session("home").unwrap();
        // Quiet is no fault, however long, and neither is an element that ends.
        for _ in 0..4 {
            session.beat();
            alice.until_ping().await;
        }
        session.beat();
        session.beat();
        alice.send("<message to='bob@weir.test'><bo").await;
        session.beat();
        alice.send("dy>hi</body></message>").await;
        alice.until_ping().await;
        alice.send("<message to='bob@weir.test'><body>and th").await;
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
    }
}
