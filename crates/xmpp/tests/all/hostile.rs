//! What no honest client does.

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
