//! Components (XEP-0114): gateways and bots that serve a domain of their own beside ours.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::{constant_time, digest};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{self, Receiver};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_base::Secret;

use super::domains;
use super::link::{Broken, Io, Link};
use crate::face::Xmpp;
use crate::wire::{
    Condition, Element, Frame, Stanza, StanzaError, StreamCondition, StreamError, ns, write,
};

/// Connections at once.
const CONNECTIONS_MAX: usize = 256;
/// How long a component may take to prove its domain.
const HANDSHAKE: Duration = Duration::from_secs(20);
/// Stanzas that wait for one component.
const WAITING_MAX: usize = 10_000;

/// The secrets of the components, by their domains.
pub type Secrets = BTreeMap<String, Secret<String>>;

/// Takes components in on `listener` until the shutdown.
pub async fn serve(xmpp: Xmpp, listener: TcpListener, secrets: Secrets) {
    let secrets = Arc::new(secrets);
    let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            biased;
            () = xmpp.shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((io, _)) => {
                let Ok(place) = free.clone().try_acquire_owned() else { continue };
                tokio::spawn(hold(xmpp.clone(), io, secrets.clone(), place));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of a component");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn hold(xmpp: Xmpp, io: TcpStream, secrets: Arc<Secrets>, _place: OwnedSemaphorePermit) {
    let _ = io.set_nodelay(true);
    let mut link = Link::new(Io::Plain(io));
    let error = match tokio::time::timeout(HANDSHAKE, greet(&xmpp, &mut link, &secrets)).await {
        Ok(Ok((domain, receiver))) => {
            tracing::info!(domain, "a component has connected");
            let error = attend(&xmpp, &mut link, &domain, receiver).await;
            xmpp.remove_component(&domain);
            tracing::info!(domain, "a component has left");
            error
        }
        Ok(Err(error)) => error,
        Err(_) => Some(StreamError::new(StreamCondition::ConnectionTimeout)),
    };
    link.end(error).await;
}

/// XEP-0114, 3: until the component has proven which domain it serves.
async fn greet(
    xmpp: &Xmpp,
    link: &mut Link,
    secrets: &Secrets,
) -> Result<(String, Receiver<Stanza>), Option<StreamError>> {
    let opened = link.header().await.map_err(told)?;
    let domain = opened.attr("to").unwrap_or_default().to_lowercase();
    let id = xmpp.token(16);
    let mut text = String::from("<?xml version='1.0'?><stream:stream");
    write::attribute("xmlns", ns::COMPONENT, &mut text);
    write::attribute("xmlns:stream", ns::STREAM, &mut text);
    write::attribute("from", &domain, &mut text);
    write::attribute("id", &id, &mut text);
    text.push('>');
    link.send(&text).await.map_err(told)?;
    let Some(secret) = secrets.get(&domain) else {
        let text = "name it under components in [xmpp]";
        return Err(Some(StreamError::new(StreamCondition::HostUnknown).text(text)));
    };
    let handshake = link.element().await.map_err(told)?;
    let expected = proof(&id, secret.expose());
    let shown = handshake.text().to_lowercase();
    let fits = constant_time::verify_slices_are_equal(shown.as_bytes(), expected.as_bytes());
    if handshake.name != "handshake" || fits.is_err() {
        let text = "the secret is wrong";
        return Err(Some(StreamError::new(StreamCondition::NotAuthorized).text(text)));
    }
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let take = move |xmpp: &Xmpp, stanza: Stanza| {
        if let Err(full) = sender.try_send(stanza) {
            let error = StanzaError::new(Condition::ResourceConstraint);
            let error = error.text("too much waits for that service: try again later");
            xmpp.spawn(xmpp.bounce(&full.into_inner(), &error));
        }
    };
    if !xmpp.add_component(&domain, Box::new(take)) {
        let text = "another component serves this domain";
        return Err(Some(StreamError::new(StreamCondition::Conflict).text(text)));
    }
    link.trust();
    // A component that is greeted and gone leaves nothing behind: `hold` removes it.
    if link.put(&Element::new("handshake", ns::CLIENT)).await.is_err() {
        xmpp.remove_component(&domain);
        return Err(None);
    }
    Ok((domain, receiver))
}

/// Passes stanzas on, both ways, until the component goes.
async fn attend(
    xmpp: &Xmpp,
    link: &mut Link,
    domain: &str,
    mut receiver: Receiver<Stanza>,
) -> Option<StreamError> {
    loop {
        tokio::select! {
            biased;
            () = xmpp.shutdown.cancelled() => return Some(StreamCondition::SystemShutdown.into()),
            frame = link.next() => match frame {
                Ok(Frame::Element(element)) => {
                    if let Err(error) = take(xmpp, domain, element).await {
                        return Some(error);
                    }
                }
                Ok(Frame::Space) => {}
                Ok(Frame::Open(_)) => return Some(StreamCondition::BadFormat.into()),
                Ok(Frame::Close) => return None,
                Err(broken) => return told(broken),
            },
            stanza = receiver.recv() => {
                let mut text = stanza?.text();
                while text.len() < 64 * 1024
                    && let Ok(stanza) = receiver.try_recv()
                {
                    stanza.write(&mut text);
                }
                if link.send(&text).await.is_err() {
                    return None;
                }
            }
        }
    }
}

/// A stanza of the component: of its domain, and of no other.
async fn take(xmpp: &Xmpp, domain: &str, element: Element) -> Result<(), StreamError> {
    let is_own = domains(&element).is_some_and(|(from, _)| from == domain);
    if !is_own {
        let text = "a component speaks for its own domain, and to somebody";
        return Err(StreamError::new(StreamCondition::InvalidFrom).text(text));
    }
    let stanza = Stanza::of(element)
        .map_err(|_| StreamError::new(StreamCondition::UnsupportedStanzaType))?;
    xmpp.receive_remote(stanza).await;
    Ok(())
}

/// XEP-0114, 3: the SHA-1 of the stream's id and the secret, in hex.
fn proof(id: &str, secret: &str) -> String {
    let text = format!("{id}{secret}");
    let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn told(broken: Broken) -> Option<StreamError> {
    match broken {
        Broken::Xml(error) => Some(error.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// XEP-0114, 3.
    #[test]
    fn the_handshake_is_as_specified() {
        let proof = proof("3BF96D32", "test");
        assert_eq!(proof, "aaee83c26aeeafcbabeabfcbcd50df997e0a2a1e");
    }
}
