//! Everything is signed before the clock starts, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use url::Url;
use weir_base::Timestamp;

use super::plan::{Deed, Local, Plan};
use crate::fediverse::{Fediverse, SignedRequest};

/// The activities of `plan` as requests, as they go over the wire to `inbox`.
pub(super) fn all(
    fediverse: &Fediverse,
    people: &[Local],
    plan: &Plan,
    inbox: &Url,
    now: Timestamp,
) -> Result<Vec<Vec<u8>>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, count) = (AtomicUsize::new(0), plan.items.len());
    let work = || -> Result<Vec<(usize, Vec<u8>)>> {
        let mut made = Vec::with_capacity(count / threads);
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= count {
                return Ok(made);
            }
            made.push((place, one(fediverse, people, plan, inbox, now, place)?));
        }
    };
    let mut requests = vec![Vec::new(); count];
    let made: Vec<Result<Vec<(usize, Vec<u8>)>>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| worker.join());
        ended.map(|end| end.unwrap_or_else(|_| Err(anyhow::anyhow!("signing failed")))).collect()
    });
    for part in made {
        for (place, request) in part? {
            requests[place] = request;
        }
    }
    // What is repeated is repeated to the letter.
    for (place, item) in plan.items.iter().enumerate() {
        if let Deed::Repeated(of) = item.deed {
            requests[place] = requests[of].clone();
        }
    }
    Ok(requests)
}

fn one(
    fediverse: &Fediverse,
    people: &[Local],
    plan: &Plan,
    inbox: &Url,
    now: Timestamp,
    place: usize,
) -> Result<Vec<u8>> {
    let item = plan.items[place];
    if matches!(item.deed, Deed::Repeated(_)) {
        return Ok(Vec::new());
    }
    let (host, path) = (inbox.authority(), inbox.path());
    let body = plan.body(fediverse, people, place);
    let is_forged = matches!(item.deed, Deed::Forged(_));
    // The next actor has another key.
    let signer = item.actor + usize::from(is_forged);
    let mut signed = fediverse.sign_body(signer, body, host, path, now)?;
    if is_forged {
        let (own, other) = (fediverse.actor_uri(signer), fediverse.actor_uri(item.actor));
        for (name, value) in &mut signed.headers {
            if *name == "signature" {
                *value = value.replace(&format!("\"{own}#"), &format!("\"{other}#"));
            }
        }
    }
    Ok(wire(host, path, &signed))
}

/// A request as it goes over the wire.
pub(super) fn wire(host: &str, path: &str, signed: &SignedRequest) -> Vec<u8> {
    let headers = signed.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
    let (headers, body) = (headers.collect::<String>(), &signed.body);
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nhost: {host}\r\nuser-agent: storm\r\n{headers}");
    format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
}
