//! The opening of a session: versions, and clients that come back.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{Back, Session};
use crate::server::{Client, Server};
use crate::transport::{Said, Wire};
use crate::wire::{self, Connect, Incoming, VERSIONS};

/// Bytes of randomness in a session's id, by which it is resumed.
const ID_BYTES: usize = 18;
/// What a client may say before it connects.
const WORDS_MAX: usize = 32;

/// Speaks with a new connection until its session ends or is lost.
pub(crate) async fn welcome<A>(server: Server<A>, mut wire: Box<Wire>, client: Client)
where
    A: Clone + Send + Sync + 'static,
{
    let deadline = server.0.limits.connect_deadline;
    let heard = timeout(deadline, connect(&server, &mut wire)).await;
    let Ok(Some(connect)) = heard else {
        wire.close(3000, "No connect").await;
        return;
    };
    let received = connect.received_count.zip(connect.session.as_ref());
    if let Some((received, session)) = received {
        match resume(&server, wire, session, received).await {
            None => return,
            Some(back) => wire = back,
        }
    }
    let id = server.0.random.token(ID_BYTES);
    let mut session =
        Session::new(&server, id.clone(), Arc::new(client), connect.version != "pre1");
    let fits = {
        let most = server.0.limits.sessions_max;
        server.0.sessions.lock().enter(&id, &session.door, most)
    };
    if !fits {
        server.0.meters.refused.increment(1);
        wire.close(1013, "All sessions are taken: come again later").await;
        return;
    }
    session.view.deflate(wire.is_deflating());
    session.wire = Some(wire);
    session.out.push(wire::connected(&id));
    session.run().await;
}

/// Waits for a `connect` in a version that both sides speak; none where there is none.
async fn connect<A>(server: &Server<A>, wire: &mut Wire) -> Option<Connect> {
    for _ in 0..WORDS_MAX {
        let Ok(Said::Text(text)) = wire.recv().await else { return None };
        server.0.meters.received.increment(1);
        let answer = match wire::parse(&text) {
            Ok(Some(Incoming::Connect(connect))) => {
                let version = agreed(&connect);
                if version == connect.version {
                    return Some(connect);
                }
                let _ = wire.send(&[wire::failed(version)]).await;
                return None;
            }
            Ok(Some(Incoming::Ping { id })) => wire::pong(id.as_deref()),
            Ok(None | Some(Incoming::Pong)) => continue,
            Ok(Some(Incoming::Disconnect)) => return None,
            Ok(Some(_)) => {
                let offence = wire::Offence::new("Must connect first", &text);
                wire::error(offence.reason, offence.offending.as_ref())
            }
            Err(offence) => wire::error(offence.reason, offence.offending.as_ref()),
        };
        wire.send(&[answer]).await.ok()?;
    }
    None
}

/// The best version of the client's that is spoken here, or the best of ours.
fn agreed(connect: &Connect) -> &str {
    let spoken = |version: &&String| VERSIONS.contains(&version.as_str());
    let offered = connect.support.contains(&connect.version);
    match connect.support.iter().find(spoken) {
        Some(version) if offered => version,
        _ => VERSIONS[0],
    }
}

/// Hands the connection to the session it belongs to; gives it back where that one can't go on.
async fn resume<A>(
    server: &Server<A>,
    wire: Box<Wire>,
    session: &str,
    received: u64,
) -> Option<Box<Wire>> {
    let door = server.0.sessions.lock().get(session).cloned();
    let Some(door) = door else { return Some(wire) };
    let (refused, answer) = oneshot::channel();
    let earlier = door.back.lock().replace(Back { wire, received, refused });
    drop(earlier);
    door.bell.wake();
    // The session may just have ended without seeing this.
    let gone = server.0.sessions.lock().get(session).is_none();
    if gone && let Some(back) = { door.back.lock().take() } {
        return Some(back.wire);
    }
    answer.await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agree(version: &str, support: &[&str]) -> String {
        let support = support.iter().map(|one| (*one).to_owned()).collect();
        agreed(&Connect { version: version.into(), support, ..Connect::default() }).to_owned()
    }

    #[test]
    fn the_client_s_best_version_that_is_spoken_here_is_agreed_on() {
        assert_eq!(agree("1", &["1", "pre2", "pre1"]), "1");
        assert_eq!(agree("pre1", &["pre1"]), "pre1");
        assert_eq!(agree("pre1", &["1", "pre1"]), "1");
        assert_eq!(agree("2", &["2", "pre2"]), "pre2");
        assert_eq!(agree("2", &["2"]), "1");
        assert_eq!(agree("2", &["1"]), "1");
    }
}
