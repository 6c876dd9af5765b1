//! Server-sent events to clients that read slowly, over each version of HTTP.

use std::collections::VecDeque;
use std::net::SocketAddr;

use axum::body::Body;
use http::{Request, Version};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpSocket;
use weir_base::{Id, KIB};
use weir_community::streams::{Event, Topic};
use weir_live::Shared;

use crate::place::{Place, Someone, places};

/// A stream as server-sent events, and as far as it was read.
pub struct Sse {
    body: Incoming,
    told: VecDeque<Told>,
    rest: String,
}

/// One event: its name, its data and its id.
type Told = (String, String, String);

impl Sse {
    /// Begins where `last` was heard. What is on its way before it is read is little.
    pub async fn open(
        address: SocketAddr,
        version: Version,
        by: &Someone,
        last: Option<&str>,
    ) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 * KIB as u32).unwrap();
        let io = TokioIo::new(socket.connect(address).await.unwrap());
        let mut request = Request::get(format!("http://{address}/api/v1/streaming/user"))
            .header("host", address.to_string())
            .header("authorization", format!("Bearer {}", by.token));
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = if version == Version::HTTP_2 {
            let mut client = http2::Builder::new(TokioExecutor::new());
            client.initial_stream_window_size(16 * KIB as u32);
            let (mut sender, connection) = client.handshake(io).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        } else {
            let (mut sender, connection) = http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            sender.send_request(request).await.unwrap()
        };
        assert_eq!((response.status().as_u16(), response.version()), (200, version));
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), told: VecDeque::new(), rest: String::new() }
    }

    /// The next event; none where the answer ends, which it must do whole.
    async fn next(&mut self) -> Option<Told> {
        while self.told.is_empty() {
            let Some(frame) = self.body.frame().await else {
                assert_eq!(self.rest, "", "the end is in the middle of an event");
                return None;
            };
            let data = frame.unwrap().into_data().unwrap();
            self.rest.push_str(std::str::from_utf8(&data).unwrap());
            let Some(whole) = self.rest.rfind("\n\n") else { continue };
            let rest = self.rest.split_off(whole + 2);
            let events = std::mem::replace(&mut self.rest, rest);
            let events = events.split_terminator("\n\n").filter(|event| !event.starts_with(':'));
            self.told.extend(events.map(|event| {
                let field = |name: &str| {
                    let value = event.lines().find_map(|line| line.strip_prefix(name));
                    value.unwrap_or_default().to_owned()
                };
                (field("event: "), field("data: "), field("id: "))
            }));
        }
        self.told.pop_front()
    }
}

/// Tells everybody number `number`.
fn tell(place: &Place, number: i64) {
    let event = Shared::sized(Event::AnnouncementDeleted(Id(number)), 100);
    place.community.env().streams.hub().publish(&Topic::Everybody, event);
}

#[tokio::test]
async fn who_does_not_read_is_cut_whole_and_comes_back_to_all_that_was_missed() {
    let place = &places()[0];
    let address = place.listen().await;
    let hub = place.community.env().streams.hub();
    for (version, name) in [(Version::HTTP_11, "alice"), (Version::HTTP_2, "bob")] {
        let reader = place.person(name).await;
        let mut stream = Sse::open(address, version, &reader, None).await;
        let lost = hub.stats().lost;
        let mut count = 0;
        while hub.stats().lost == lost {
            count += 1;
            tell(place, count);
            tokio::task::yield_now().await;
        }
        let (mut told, mut last) = (0, String::new());
        while let Some((event, data, id)) = stream.next().await {
            told += 1;
            assert_eq!((event.as_str(), data), ("announcement.delete", told.to_string()));
            last = id;
        }
        assert!((1..count).contains(&told), "{told} of {count} by {version:?}");
        (1..=2).for_each(|more| tell(place, count + more));
        let mut stream = Sse::open(address, version, &reader, Some(&last)).await;
        for number in told + 1..=count + 2 {
            assert_eq!(stream.next().await.unwrap().1, number.to_string(), "by {version:?}");
        }
        let (event, data, _) = stream.next().await.unwrap();
        assert_eq!((event.as_str(), data.as_str()), ("resumed", "{\"complete\":true}"));
        tell(place, count + 3);
        assert_eq!(stream.next().await.unwrap().1, (count + 3).to_string(), "by {version:?}");
    }
}
