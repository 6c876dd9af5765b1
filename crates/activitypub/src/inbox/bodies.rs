//! The bodies that are being read or judged: what they may take of the memory, in all and from one
//! network.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use metrics::Gauge;
use parking_lot::Mutex;

use super::full::Refusal;
use crate::wire::BYTES_MAX;

/// One in so many of all bytes may be held by one network, so that who sends slowly shuts the door
/// to nobody else.
const SOURCE_PART: usize = 4;
/// One in so many of all bytes is for networks that hold less than one in so many besides the body
/// that comes.
const LAST_PART: usize = 8;
const FEW_PART: usize = 2_048;
/// How long a body may take to come.
const WITHIN: Duration = Duration::from_secs(60);
/// When to come again, in s, where the memory for bodies is taken: most are read and judged within
/// some ms, the slowest are given up after [`WITHIN`].
const AGAIN_S: u32 = 5;

/// Why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is not taken now.
    Later(Refusal),
    /// It is not taken at all.
    Refused(StatusCode, &'static str),
}

/// What bodies take now.
pub(crate) struct Bodies {
    bytes_max: usize,
    within: Duration,
    held: Mutex<Held>,
    gauge: Gauge,
}

#[derive(Default)]
struct Held {
    all: usize,
    sources: HashMap<IpAddr, usize>,
}

impl Bodies {
    pub(super) fn new(bytes_max: usize) -> Self {
        let gauge = metrics::gauge!("weir_activitypub_inbox_body_bytes");
        Self { bytes_max, within: WITHIN, held: Mutex::default(), gauge }
    }

    /// Takes `bytes` more for a body of `source` that holds `held` of it.
    fn take(&self, source: IpAddr, held: usize, bytes: usize) -> Result<(), Refusal> {
        let mut all = self.held.lock();
        let of_source = all.sources.get(&source).copied().unwrap_or(0);
        let (free, others) = (self.bytes_max - all.all, of_source - held);
        // Who holds much is put off before who has little: the last of it is for a single body.
        let most = match others > self.bytes_max / FEW_PART {
            true => free.saturating_sub(self.bytes_max / LAST_PART),
            false => usize::MAX,
        };
        if of_source + bytes > (self.bytes_max / SOURCE_PART).min(most) {
            return Err(Refusal::Sender(AGAIN_S));
        }
        if bytes > free {
            return Err(Refusal::Everybody(AGAIN_S));
        }
        all.sources.insert(source, of_source + bytes);
        all.all += bytes;
        self.gauge.set(all.all as f64);
        Ok(())
    }

    fn give_back(&self, source: IpAddr, bytes: usize) {
        let mut held = self.held.lock();
        held.all -= bytes;
        if let Some(of_source) = held.sources.get_mut(&source) {
            *of_source -= bytes;
            if *of_source == 0 {
                held.sources.remove(&source);
            }
        }
        self.gauge.set(held.all as f64);
    }
}

/// A body in the memory, and its part of what there is for all, which is free again when it is
/// dropped.
pub(super) struct Kept {
    bodies: Arc<Bodies>,
    source: IpAddr,
    held: usize,
    pub(super) bytes: Bytes,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.held > 0 {
            self.bodies.give_back(self.source, self.held);
        }
    }
}

impl Kept {
    /// One more piece came.
    fn add(&mut self, piece: Bytes, pieces: &mut Vec<u8>) -> Result<(), Unread> {
        if self.held + piece.len() > BYTES_MAX {
            return Err(TOO_LARGE);
        }
        self.bodies.take(self.source, self.held, piece.len()).map_err(Unread::Later)?;
        self.held += piece.len();
        // Most come whole.
        if self.bytes.is_empty() && pieces.is_empty() {
            self.bytes = piece;
        } else {
            pieces.extend_from_slice(&std::mem::take(&mut self.bytes));
            pieces.extend_from_slice(&piece);
        }
        Ok(())
    }
}

const TOO_LARGE: Unread = Unread::Refused(StatusCode::PAYLOAD_TOO_LARGE, "too_large");

/// Reads a body of `source` as it comes: only what came takes of what there is, so that nobody
/// takes anything by announcing it.
pub(super) async fn read(
    bodies: &Arc<Bodies>,
    source: IpAddr,
    headers: &HeaderMap,
    mut body: Body,
) -> Result<Kept, Unread> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced
        .and_then(|length| length.parse().ok())
        .is_some_and(|bytes: usize| bytes > BYTES_MAX)
    {
        return Err(TOO_LARGE);
    }
    let mut kept = Kept { bodies: bodies.clone(), source, held: 0, bytes: Bytes::new() };
    let mut pieces = Vec::new();
    let whole = async {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return Err(Unread::Refused(StatusCode::BAD_REQUEST, "body_cut_off"));
            };
            if let Ok(piece) = frame.into_data() {
                kept.add(piece, &mut pieces)?;
            }
        }
        Ok(())
    };
    match tokio::time::timeout(bodies.within, whole).await {
        Ok(read) => read?,
        Err(_) => return Err(Unread::Refused(StatusCode::REQUEST_TIMEOUT, "body_too_slow")),
    }
    if !pieces.is_empty() {
        kept.bytes = pieces.into();
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn body(pieces: &[usize]) -> Body {
        let pieces: Vec<_> =
            pieces.iter().map(|len| Ok::<_, Infallible>(Bytes::from(vec![b'x'; *len]))).collect();
        Body::from_stream(stream::iter(pieces))
    }

    async fn get(bodies: &Arc<Bodies>, source: IpAddr, pieces: &[usize]) -> Result<Kept, Unread> {
        read(bodies, source, &HeaderMap::new(), body(pieces)).await
    }

    /// Bodies of 90 bytes, one from each of so many networks.
    async fn held_by(bodies: &Arc<Bodies>, networks: u8) -> Vec<Kept> {
        let mut kept = Vec::new();
        for last in 1..=networks {
            let source = IpAddr::from([192, 0, 2, last]);
            kept.push(get(bodies, source, &[90]).await.expect("there is room"));
        }
        kept
    }

    fn len(read: &Result<Kept, Unread>) -> Option<usize> {
        read.as_ref().ok().map(|kept| kept.bytes.len())
    }

    #[tokio::test]
    async fn bodies_take_what_they_are_until_they_are_dropped() {
        let bodies = Arc::new(Bodies::new(400));
        let whole = get(&bodies, ONE, &[60]).await;
        let pieces = get(&bodies, ONE, &[10, 20, 10]).await;
        assert_eq!((len(&whole), len(&pieces)), (Some(60), Some(40)));
        let more = get(&bodies, ONE, &[1]).await;
        assert_eq!(
            more.err(),
            Some(Unread::Later(Refusal::Sender(AGAIN_S))),
            "a quarter is one network's"
        );
        let others = get(&bodies, OTHER, &[100]).await;
        assert_eq!(len(&others), Some(100));
        drop(pieces);
        assert_eq!(len(&get(&bodies, ONE, &[40]).await), Some(40));
        drop((whole, others));
        assert_eq!(bodies.held.lock().all, 0);
        assert!(bodies.held.lock().sources.is_empty());
    }

    #[tokio::test]
    async fn who_holds_as_much_as_is_left_for_all_others_is_put_off_first() {
        let bodies = Arc::new(Bodies::new(400));
        let mut kept = held_by(&bodies, 3).await;
        let fourth = IpAddr::from([192, 0, 2, 4]);
        kept.push(get(&bodies, fourth, &[60]).await.expect("there is room"));
        let more = get(&bodies, fourth, &[30]).await;
        assert_eq!(more.err(), Some(Unread::Later(Refusal::Sender(AGAIN_S))));
        assert_eq!(len(&get(&bodies, IpAddr::from([192, 0, 2, 5]), &[30]).await), Some(30));
    }

    #[tokio::test]
    async fn where_all_is_taken_everybody_is_told_to_come_again() {
        let bodies = Arc::new(Bodies::new(400));
        let mut kept = held_by(&bodies, 4).await;
        let one_more = get(&bodies, IpAddr::from([192, 0, 2, 5]), &[30, 30]).await;
        assert_eq!(one_more.err(), Some(Unread::Later(Refusal::Everybody(AGAIN_S))));
        assert_eq!(bodies.held.lock().all, 360, "of what was not read whole nothing is held");
        kept.pop();
        assert_eq!(len(&get(&bodies, IpAddr::from([192, 0, 2, 5]), &[30, 30]).await), Some(60));
    }

    #[tokio::test]
    async fn too_large_bodies_are_refused_whether_they_say_so_or_not() {
        let bodies = Arc::new(Bodies::new(64 << 20));
        let half = BYTES_MAX / 2;
        assert_eq!(len(&get(&bodies, ONE, &[half, half]).await), Some(BYTES_MAX));
        assert_eq!(get(&bodies, ONE, &[half, half, 1]).await.err(), Some(TOO_LARGE));
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_LENGTH, (BYTES_MAX + 1).into());
        // It is not even begun.
        let endless = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        assert_eq!(read(&bodies, ONE, &headers, endless).await.err(), Some(TOO_LARGE));
        assert_eq!(bodies.held.lock().all, 0);
    }

    #[tokio::test]
    async fn a_body_that_does_not_end_is_given_up() {
        let bodies = Arc::new(Bodies { within: Duration::ZERO, ..Bodies::new(400) });
        let endless = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let given_up = read(&bodies, ONE, &HeaderMap::new(), endless).await;
        let late = Unread::Refused(StatusCode::REQUEST_TIMEOUT, "body_too_slow");
        assert_eq!(given_up.err(), Some(late));
    }
}
