//! A chat in one page of code: whoever connects gets what the others say.
//!
//! `cargo run -p weir-live --example chat` listens on port 9000; any WebSocket client will do.
//! It shows how a server joins the parts: the upgrade is hyper's, the frames are `live`'s, each
//! line is encoded once for all who read it, and who reads too slowly is told to come again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use weir_live::socket::{
    Message, Socket, SocketError, Sockets, close_code, ping, text, upgrade_headers,
};
use weir_live::{Hub, Limits, Session, Shared};

type Line = Arc<Shared<String>>;
/// The rooms are the paths that clients ask for.
type Rooms = Hub<Arc<str>, String>;
type Stream = TokioIo<hyper::upgrade::Upgraded>;

const WEBSOCKET_TEXT: usize = 0;
const SILENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let rooms = Rooms::new(Limits::default());
    let sockets = Sockets::default();
    let listener = TcpListener::bind("127.0.0.1:9000").await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (rooms, sockets) = (rooms.clone(), sockets.clone());
        tokio::spawn(async move {
            let service =
                service_fn(move |request| answer(request, rooms.clone(), sockets.clone()));
            let http = hyper::server::conn::http1::Builder::new();
            // Who breaks off the connection needs no answer.
            let _ = http.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
        });
    }
}

/// Upgrades a request, or says why not.
async fn answer(
    request: Request<Incoming>,
    rooms: Rooms,
    sockets: Sockets,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let mut response = Response::new(Empty::new());
    let (upgrade, session) = match (upgrade_headers(request.headers()), rooms.session(0)) {
        (Err(_), _) => {
            *response.status_mut() = StatusCode::BAD_REQUEST;
            return Ok(response);
        }
        (_, Err(_)) => {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            return Ok(response);
        }
        (Ok(upgrade), Ok(session)) => (upgrade, session),
    };
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = upgrade.response_headers(None);
    let room: Arc<str> = request.uri().path().into();
    tokio::spawn(async move {
        if let Ok(stream) = hyper::upgrade::on(request).await {
            // A socket that breaks off has nobody left to be told.
            let _ = chat(sockets.server(TokioIo::new(stream)), session, rooms, room).await;
        }
    });
    Ok(response)
}

/// One participant, until either side has enough.
async fn chat(
    mut socket: Socket<Stream>,
    mut session: Session<Arc<str>, String>,
    rooms: Rooms,
    room: Arc<str>,
) -> Result<(), SocketError> {
    if session.subscribe(room.clone()).is_err() {
        socket.close(close_code::POLICY, "no subscriptions are left").await;
        return Ok(());
    }
    let mut pinged = false;
    loop {
        tokio::select! {
            said = socket.recv() => match said.inspect(|_| pinged = false)? {
                Message::Text(line) => {
                    rooms.publish(&room, Shared::new(line));
                }
                Message::Binary(_) => {
                    socket.close(close_code::UNSUPPORTED, "text only").await;
                    return Ok(());
                }
                Message::Close(_) => return Ok(()),
                Message::Ping(_) | Message::Pong(_) => {}
            },
            waiting = session.next() => match waiting {
                Ok(lines) => {
                    let frames: Vec<Bytes> = lines.iter().map(|(_, line)| encode(line)).collect();
                    socket.send_many(&frames).await?;
                }
                Err(lost) => {
                    socket.close(close_code::TRY_LATER, &lost.to_string()).await;
                    return Ok(());
                }
            },
            () = tokio::time::sleep(SILENCE) => {
                // A second silence after a ping: the other side is gone without a word.
                if std::mem::replace(&mut pinged, true) {
                    return Ok(());
                }
                socket.send_many(&[ping(b"")]).await?;
            }
        }
    }
}

fn encode(line: &Line) -> Bytes {
    line.encoded(WEBSOCKET_TEXT, |line| text(line))
}
