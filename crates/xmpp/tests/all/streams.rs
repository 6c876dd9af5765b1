//! How streams begin and end (RFC 6120).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::future::poll_fn;
use std::net::Ipv4Addr;

use futures_util::FutureExt as _;

use weir_community::{accounts, instance};
use weir_db::Class;
use weir_xmpp::limits;
use weir_xmpp::stream::{ByteStream, accept};
use weir_xmpp::wire::ns;

use super::dialogue::{play, play_at};
use super::place::{App, places};

#[tokio::test]
async fn a_client_logs_in_binds_and_is_offered_what_there_is() {
    for mut place in places().await {
        place.person("alice").await;
        let mut app = App::silent(place.address).await;
        let features = app.open().await;
        let mechanisms = features.child("mechanisms", ns::SASL).unwrap();
        assert!(mechanisms.children().any(|one| one.text() == "PLAIN"));
        app.log_in("alice").await;
        app.bind("").await;
        assert!(app.until_ping().await.is_empty());
    }
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_another_try_is_free() {
    for mut place in places().await {
        place.person("alice").await;
        let mut app = place.app().await;
        let sasl = ns::SASL;
        app.send(&format!("<auth xmlns='{sasl}' mechanism='PLAIN'>AGFsaWNlAHdyb25n</auth>")).await;
        let failure = app.receive().await;
        assert!(failure.has("not-authorized", sasl), "{failure:?}");
        app.log_in("alice").await;
    }
}

#[tokio::test]
async fn streams_that_are_no_streams_end_with_the_right_condition() {
    let place = places().await.remove(0);
    let header = |rest: &str| {
        format!("<stream:stream xmlns:stream='http://etherx.jabber.org/streams' {rest}>")
    };
    let cases = [
        (header("xmlns='jabber:client' version='1.0' to='other.test'"), "host-unknown"),
        (header("xmlns='jabber:client' to='weir.test'"), "unsupported-version"),
        (header("xmlns='jabber:client' version='1.0'"), "improper-addressing"),
        ("<stream xmlns='urn:x' version='1.0' to='weir.test'>".into(), "invalid-namespace"),
        ("GET / HTTP/1.1\r\n".into(), "not-well-formed"),
        ("<!DOCTYPE x>".into(), "restricted-xml"),
        (
            header("xmlns='jabber:client' version='1.0' to='weir.test'") + "<message/>",
            "not-authorized",
        ),
        (
            header("xmlns='jabber:client' version='1.0' to='weir.test'") + "<a></b>",
            "not-well-formed",
        ),
    ];
    for (text, condition) in cases {
        let mut app = App::silent(place.address).await;
        app.send(&text).await;
        assert_eq!(app.stream_error().await, condition, "{text}");
    }
}

#[tokio::test]
async fn who_does_not_log_in_in_time_is_told_so() {
    let place = places().await.remove(0);
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let transport = Box::new(ByteStream::plain(theirs));
    tokio::spawn(accept(place.xmpp.clone(), transport, Ipv4Addr::LOCALHOST.into()));
    let mut app = App::on(Box::new(ours));
    app.open().await;
    tokio::time::pause();
    tokio::time::advance(limits::NEGOTIATION).await;
    assert_eq!(app.stream_error().await, "connection-timeout");
}

#[tokio::test]
async fn a_second_session_of_the_same_resource_takes_the_place_of_the_first() {
    for mut place in places().await {
        let mut first = place.logged_in("alice", "home").await;
        let mut second = place.logged_in("alice", "home").await;
        assert_eq!(first.stream_error().await, "conflict");
        assert!(second.until_ping().await.is_empty());
    }
}

#[tokio::test]
async fn queries_that_nobody_answers_are_refused() {
    play(
        "alice connects
         alice sends
           <iq type='get' id='1' to='weir.test'><query xmlns='urn:unknown'/></iq>
         alice receives
           <iq type='error' id='1' from='weir.test' to='alice@weir.test/home'>
           <error type='cancel'>
           <service-unavailable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         alice sends
           <iq type='get' id='2'/>
         alice receives
           <iq type='error' id='2'><error>
           <bad-request xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         alice sends
           <iq type='get' id='3' to='@@'><query xmlns='urn:unknown'/></iq>
         alice receives
           <iq type='error' id='3'><error>
           <jid-malformed xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         alice sends
           <iq type='result' id='4' to='weir.test'/>
         alice hears nothing",
    )
    .await;
}

#[tokio::test]
async fn the_server_tells_what_there_is() {
    play(
        "alice connects
         alice sends
           <iq type='get' id='1' to='weir.test'>
           <query xmlns='http://jabber.org/protocol/disco#info'/></iq>
         alice receives
           <iq type='result' id='1' from='weir.test'>
           <query xmlns='http://jabber.org/protocol/disco#info'>
           <identity category='server' type='im'/>
           <feature var='urn:xmpp:ping'/><feature var='urn:xmpp:carbons:2'/></query></iq>
         alice sends
           <iq type='get' id='2'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>
         alice receives
           <iq type='result' id='2'><query xmlns='http://jabber.org/protocol/disco#info'>
           <identity category='account' type='registered'/></query></iq>
         alice sends
           <iq type='get' id='3' to='weir.test'><query xmlns='jabber:iq:version'/></iq>
         alice receives
           <iq type='result' id='3'><query xmlns='jabber:iq:version'>
           <name>Weir</name></query></iq>",
    )
    .await;
}

#[tokio::test]
async fn a_stream_says_by_a_hash_what_the_domain_can() {
    for mut place in places().await {
        let mut app = place.logged_in("alice", "phone").await;
        // Once more, to look at what is offered.
        app.send("</stream:stream>").await;
        let mut app = place.app().await;
        let auth = "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>";
        let message = BASE64_STANDARD.encode("\0alice\0password of alice");
        app.send(&format!("{auth}{message}</auth>")).await;
        assert_eq!(app.receive().await.name, "success");
        let features = app.open().await;
        let caps = features.child("c", ns::CAPS).unwrap();
        let (node, ver) = (caps.attr("node").unwrap(), caps.attr("ver").unwrap());
        assert_eq!((caps.attr("hash"), ver.len()), (Some("sha-1"), 28));
        app.bind("home").await;
        for (ver, kind) in [(ver, "result"), ("unknown", "error")] {
            let node = format!("{node}#{ver}");
            let query = format!("<query xmlns='{}' node='{node}'/>", ns::DISCO_INFO);
            app.send(&format!("<iq type='get' to='{}' id='d'>{query}</iq>", place.domain)).await;
            let answer = app.receive().await;
            assert_eq!(answer.attr("type"), Some(kind), "{answer:?}");
            if kind == "result" {
                let query = answer.child("query", ns::DISCO_INFO).unwrap();
                assert_eq!(query.attr("node"), Some(&*node));
                assert!(query.has("feature", ns::DISCO_INFO), "{query:?}");
            }
        }
    }
}

#[tokio::test]
async fn at_the_shutdown_sessions_are_told_and_end() {
    let mut place = places().await.remove(0);
    let mut alice = place.logged_in("alice", "home").await;
    let mut stranger = place.app().await;
    place.shut_down();
    assert_eq!(alice.stream_error().await, "system-shutdown");
    assert!(stranger.frame().await.is_none());
}

#[tokio::test]
async fn who_is_here_is_answered_while_those_who_arrive_wait_for_their_turn() {
    for mut place in places().await {
        let mut alice = place.logged_in("alice", "home").await;
        alice.send("<presence/>").await;
        alice.sync().await;
        let turns = std::iter::from_fn(|| {
            let mut turns = place.xmpp.pace.turns();
            poll_fn(|context| turns.poll_turn(context)).now_or_never()
        });
        let held: Vec<_> = turns.collect();
        let mut app = App::silent(place.address).await.of(place.domain);
        {
            let opening = app.open();
            tokio::pin!(opening);
            tokio::select! {
                biased;
                _ = &mut opening => panic!("it had its turn"),
                () = alice.sync() => {}
            }
            drop(held);
            opening.await;
        }
        app.log_in("alice").await;
    }
}

#[tokio::test]
async fn the_server_says_what_time_it_is() {
    play(
        "alice connects
         alice sends
           <iq type='get' id='t' to='weir.test'><time xmlns='urn:xmpp:time'/></iq>
         alice receives
           <iq type='result' id='t' from='weir.test'><time xmlns='urn:xmpp:time'>
           <tzo>+00:00</tzo><utc>2023-11-14T22:13:20.000Z</utc></time></iq>",
    )
    .await;
}

#[tokio::test]
async fn whom_to_write_to_about_the_server_is_what_staff_has_set() {
    for mut place in places().await {
        place.person("carol").await;
        let env = place.community.env().clone();
        let set = place.community.write(Class::Interactive, move |tx, _| {
            let carol = accounts::by_address(tx, "carol", "")?.map(|account| account.id);
            let mut settings = (*env.instance.settings()).clone();
            settings.contact_email = "staff@mail.test".into();
            settings.contact_account = carol;
            instance::set(tx, &env, settings)
        });
        set.await.unwrap();
        let fields: String = ["abuse", "admin", "security", "support"]
            .map(|name| {
                format!(
                    "<field var='{name}-addresses'><value>mailto:staff@mail.test</value>
                     <value>xmpp:carol@weir.test</value></field>"
                )
            })
            .concat();
        play_at(
            &mut place,
            &format!(
                "alice connects
                 alice sends
                   <iq type='get' id='c' to='weir.test'>
                   <query xmlns='http://jabber.org/protocol/disco#info'/></iq>
                 alice receives
                   <iq type='result' id='c'>
                   <query xmlns='http://jabber.org/protocol/disco#info'>
                   <x xmlns='jabber:x:data' type='result'><field var='FORM_TYPE'>
                   <value>http://jabber.org/network/serverinfo</value></field>
                   {fields}</x></query></iq>"
            ),
        )
        .await;
    }
}
