//! What a client may ask for together with its log-in: a resource (XEP-0386), an earlier session
//! (XEP-0198), a token for the next time (XEP-0484). All of it in one answer.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use weir_community::chat::{messages, offline};
use weir_community::users::{ChatToken, ClientId};

use super::negotiate::{Begun, Entered, bind_resource};
use super::resume::{self, Hold};
use super::sm::Sm;
use super::unserved::Unserved;
use crate::face::Xmpp;
use crate::iq::mam;
use crate::limits;
use crate::log_in::Authenticated;
use crate::sasl::{Failure, Mechanism, Offer};
use crate::wire::{Element, Jid, StanzaError, ns};

/// The longest tag of a client that stands in its resource, in bytes.
const TAG_BYTES_MAX: usize = 64;

/// What a client asks for.
pub(super) struct Wish {
    bind: Option<Element>,
    resume: Option<Element>,
    /// For which mechanism it wants a token.
    token: Option<Mechanism>,
    /// Whether it gives its token up.
    gives_up: bool,
}

impl Wish {
    /// What stands in `<authenticate/>`, as far as it is offered.
    pub(super) fn of(asked: Element, offer: &Offer) -> Self {
        let token = asked.child("request-token", ns::FAST);
        let token = token.and_then(|token| Mechanism::parse(token.attr("mechanism")?));
        let token = token.filter(|wanted| offer.token_mechanisms().any(|one| one == *wanted));
        let fast = asked.child("fast", ns::FAST);
        let gives_up = fast.and_then(|fast| fast.attr("invalidate"));
        let gives_up = matches!(gives_up, Some("1" | "true"));
        let mut wish = Self { bind: None, resume: None, token, gives_up };
        for child in asked.into_children() {
            if child.is("bind", ns::BIND2) {
                wish.bind = Some(child);
            } else if child.is("resume", ns::SM) {
                wish.resume = Some(child);
            }
        }
        wish
    }
}

/// Does what somebody who has logged in wishes, and tells it in `<success/>`.
///
/// # Errors
/// When a token cannot be kept.
pub(super) async fn begin(
    xmpp: &Xmpp,
    who: Authenticated,
    client: Option<ClientId>,
    wish: Wish,
    extra: Option<String>,
) -> Result<(Element, Entered), Failure> {
    let token = match &client {
        None => None,
        Some(client) => {
            let settled = xmpp.log_ins.settle_token(&who, client, wish.token, wish.gives_up).await;
            settled.map_err(|error| {
                tracing::warn!(%error, "a token of a chat app could not be kept");
                let text = "The server is busy. Try again in a moment.";
                Failure::new("temporary-auth-failure", text)
            })?
        }
    };
    let mut success = Element::new("success", ns::SASL2);
    if let Some(extra) = extra {
        let extra = Element::new("additional-data", ns::SASL2).with_text(extra);
        success = success.with_child(extra);
    }
    let bare = Jid::of(Some(&who.username), xmpp.domain(), None).ok();
    let mut address = bare.map(|bare| bare.to_string()).unwrap_or_default();
    let mut told = Vec::new();
    let entered = 'entered: {
        if let Some(asked) = &wish.resume {
            match resume::resume(xmpp, &who, asked).await {
                Ok(mut taken) => {
                    told.extend(taken.take_answer());
                    address = taken.jid().to_string();
                    break 'entered Entered::Begun(Begun::Resumed(taken));
                }
                Err(failed) => told.push(failed),
            }
        }
        let Some(asked) = wish.bind else { break 'entered Entered::Here(who) };
        match bind(xmpp, &who, client.as_ref(), &asked).await {
            Ok((session, bound)) => {
                told.push(bound);
                address = session.session().jid().to_string();
                Entered::Begun(Begun::New(session))
            }
            // Without a resource the client can still ask for one in the older way.
            Err(_) => Entered::Here(who),
        }
    };
    let address = Element::new("authorization-identifier", ns::SASL2).with_text(address);
    let token = token.as_ref().map(token_element);
    Ok((success.with_child(address).with_children(told).with_children(token), entered))
}

fn token_element(token: &ChatToken) -> Element {
    Element::new("token", ns::FAST)
        .with_attr("expiry", token.expires_at.to_string())
        .with_attr("token", token.secret.expose().clone())
}

/// XEP-0386, 3.2.
async fn bind(
    xmpp: &Xmpp,
    who: &Authenticated,
    client: Option<&ClientId>,
    asked: &Element,
) -> Result<(Unserved, Element), StanzaError> {
    let mut unserved = bind_resource(xmpp, who, &resource(xmpp, client, asked))?;
    let session = unserved.session().clone();
    let mut bound = Element::new("bound", ns::BIND2);
    {
        let mut state = session.state();
        state.has_carbons = asked.has("enable", ns::CARBONS);
        state.is_inactive = asked.has("inactive", ns::CSI);
    }
    // The client reads the archive: what stands there is not sent because it was offline.
    let account = who.account;
    let found =
        xmpp.read(move |tx, _| Ok((offline::count(tx, account)?, messages::ends(tx, account)?)));
    let (waiting, ends) = found.await?;
    bound = bound.with_child(mam::ends_told(ends));
    if waiting > 0 {
        xmpp.write(move |tx, _| offline::reads_archive(tx, account)).await?;
    }
    if let Some(enable) = asked.child("enable", ns::SM) {
        let can_resume = matches!(enable.attr("resume"), Some("true" | "1"));
        let hold = if can_resume { unserved.let_resume() } else { None };
        let id = hold.map(|hold| hold.id().clone());
        bound = bound.with_child(enabled(hold));
        session.state().more().sm = Some(Sm::new(id));
    }
    Ok((unserved, bound))
}

/// `<enabled/>` of XEP-0198.
pub(super) fn enabled(hold: Option<&Hold>) -> Element {
    let enabled = Element::new("enabled", ns::SM);
    match hold {
        Some(hold) => enabled
            .with_attr("id", &**hold.id())
            .with_attr("resume", "true")
            .with_attr("max", limits::RESUME.as_secs().to_string()),
        None => enabled,
    }
}

/// The resource of an app: always the same for the same app, whose own id nobody learns by it.
fn resource(xmpp: &Xmpp, client: Option<&ClientId>, asked: &Element) -> String {
    let tag = asked.child("tag", ns::BIND2).map(Element::text).unwrap_or_default();
    let tag: String =
        tag.chars().filter(|c| c.is_ascii_graphic() && *c != '/').take(TAG_BYTES_MAX).collect();
    let tag = if tag.is_empty() { "app" } else { &tag };
    let own = match client {
        Some(client) => {
            let text = [&b"resource "[..], tag.as_bytes(), b" ", client].concat();
            BASE64_URL_SAFE_NO_PAD.encode(&xmpp.env().vault.digest(&text)[..9])
        }
        None => xmpp.token(6),
    };
    format!("{tag}/{own}")
}
