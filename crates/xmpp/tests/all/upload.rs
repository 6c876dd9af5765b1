//! Files that people send (XEP-0363), over the stream and over HTTP.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weir_community::Community;

use super::dialogue::play;
use super::place::{App, places};

const UPLOAD: &str = "urn:xmpp:http:upload:0";

/// Says one request over HTTP; answers the head and the body.
async fn say(community: &Community, request: String, body: &[u8]) -> (String, Vec<u8>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = weir_xmpp::upload::router(community.clone());
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("{request}host: weir.test\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    serving.abort();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let body = answer.split_off(end + 4);
    (String::from_utf8(answer).unwrap().to_lowercase(), body)
}

async fn put(community: &Community, path: &str, body: &[u8]) -> String {
    let request = format!("PUT {path} HTTP/1.1\r\ncontent-length: {}\r\n", body.len());
    say(community, request, body).await.0
}

async fn get(community: &Community, path: &str) -> (String, Vec<u8>) {
    say(community, format!("GET {path} HTTP/1.1\r\norigin: https://other.test\r\n"), b"").await
}

/// The path of a place for a file.
async fn place_for(app: &mut App, name: &str, bytes: usize, content_type: &str) -> String {
    let request = format!(
        "<iq type='get' to='weir.test' id='u'><request xmlns='{UPLOAD}' filename='{name}' \
         size='{bytes}' content-type='{content_type}'/></iq>"
    );
    app.send(&request).await;
    let answer = app.receive().await;
    let slot = answer.child("slot", UPLOAD).unwrap_or_else(|| panic!("{answer:?}"));
    let url = slot.child("put", UPLOAD).unwrap().attr("url").unwrap();
    assert_eq!(slot.child("get", UPLOAD).unwrap().attr("url"), Some(url));
    url.strip_prefix("https://weir.test").unwrap().to_owned()
}

#[tokio::test]
async fn a_file_is_put_once_and_read_by_whoever_has_its_address() {
    for mut place in places().await {
        let mut app = place.logged_in("alice", "home").await;
        let path = place_for(&mut app, "très joli.png", 9, "image/png").await;
        let at = place.name;
        let (head, _) = get(&place.community, &path).await;
        assert!(head.starts_with("http/1.1 404"), "{at}: before it came: {head}");
        let head = put(&place.community, &path, b"too short").await;
        assert!(head.starts_with("http/1.1 201"), "{at}: {head}");
        let head = put(&place.community, &path, b"another o").await;
        assert!(head.starts_with("http/1.1 409"), "{at}: again: {head}");
        let (head, body) = get(&place.community, &path).await;
        assert!(head.starts_with("http/1.1 200"), "{at}: {head}");
        assert_eq!(body, b"too short");
        for wanted in [
            "content-type: image/png",
            "x-content-type-options: nosniff",
            "content-disposition: inline; filename*=utf-8''tr%c3%a8s%20joli.png",
            "access-control-allow-origin: *",
            "sandbox",
        ] {
            assert!(head.contains(wanted), "{at}: {wanted}: {head}");
        }
    }
}

#[tokio::test]
async fn what_could_run_in_a_browser_is_saved_and_never_shown() {
    for mut place in places().await {
        let mut app = place.logged_in("alice", "home").await;
        for (name, content_type) in
            [("a.html", "text/html"), ("a.svg", "image/svg+xml"), ("a.js", "text/javascript")]
        {
            let path = place_for(&mut app, name, 4, content_type).await;
            put(&place.community, &path, b"<a/>").await;
            let (head, _) = get(&place.community, &path).await;
            assert!(head.contains("content-type: application/octet-stream"), "{head}");
            assert!(head.contains("content-disposition: attachment"), "{head}");
        }
    }
}

#[tokio::test]
async fn a_file_has_the_size_that_was_asked_for_and_comes_in_time() {
    for mut place in places().await {
        let mut app = place.logged_in("alice", "home").await;
        let path = place_for(&mut app, "a.bin", 5, "").await;
        let head = put(&place.community, &path, b"longer than that").await;
        assert!(head.starts_with("http/1.1 413"), "{head}");
        let chunked = format!("PUT {path} HTTP/1.1\r\ntransfer-encoding: chunked\r\n");
        let body = b"7\r\nlonger!\r\n0\r\n\r\n";
        let (head, _) = say(&place.community, chunked, body).await;
        assert!(head.starts_with("http/1.1 413"), "{head}");
        let head = put(&place.community, "/upload/unknown/a.bin", b"12345").await;
        assert!(head.starts_with("http/1.1 404"), "{head}");
        place.clock.advance(600_000);
        let head = put(&place.community, &path, b"12345").await;
        assert!(head.starts_with("http/1.1 410"), "{head}");
    }
}

#[tokio::test]
async fn apps_of_other_origins_may_put_files() {
    for place in places().await {
        let request = "OPTIONS /upload/key/name HTTP/1.1\r\norigin: https://chat.test\r\n\
                       access-control-request-method: PUT\r\n\
                       access-control-request-headers: content-type\r\n";
        let (head, _) = say(&place.community, request.into(), b"").await;
        assert!(head.starts_with("http/1.1 200"), "{head}");
        assert!(head.contains("put"), "{head}");
    }
}

#[tokio::test]
async fn places_are_bounded_in_size_and_number() {
    for mut place in places().await {
        let mut app = place.logged_in("alice", "home").await;
        for _ in 0..50 {
            place_for(&mut app, "a.bin", 1, "").await;
        }
        app.send(&format!(
            "<iq type='get' to='weir.test' id='u'><request xmlns='{UPLOAD}' filename='a' size='1'/>\
             </iq>"
        ))
        .await;
        let answer = app.receive().await;
        let error = answer.child("error", "jabber:client").unwrap();
        assert_eq!(error.attr("type"), Some("wait"));
        assert!(error.child("retry", UPLOAD).unwrap().attr("stamp").is_some());
    }
    play(
        "alice is here
         alice sends
           <iq type='get' to='weir.test' id='u1'>
           <request xmlns='urn:xmpp:http:upload:0' filename='a.bin' size='1000000000000'/></iq>
         alice receives
           <iq type='error' id='u1'><error type='modify'>
           <not-acceptable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>
           <file-too-large xmlns='urn:xmpp:http:upload:0'><max-file-size>104857600</max-file-size>
           </file-too-large></error></iq>
         alice sends
           <iq type='get' to='weir.test' id='u2'>
           <request xmlns='urn:xmpp:http:upload:0' filename='../../a' size='10'/></iq>
         alice receives
           <iq type='error' id='u2'><error type='modify'>
           <not-acceptable xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>
         alice sends
           <iq type='get' to='weir.test' id='d'>
           <query xmlns='http://jabber.org/protocol/disco#info'/></iq>
         alice receives
           <iq type='result' id='d'><query xmlns='http://jabber.org/protocol/disco#info'>
           <feature var='urn:xmpp:http:upload:0'/>
           <x xmlns='jabber:x:data' type='result'>
           <field var='FORM_TYPE'><value>urn:xmpp:http:upload:0</value></field>
           <field var='max-file-size'><value>104857600</value></field></x></query></iq>",
    )
    .await;
}
