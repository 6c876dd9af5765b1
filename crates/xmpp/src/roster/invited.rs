//! Becoming a contact by an invitation (XEP-0379): who asks with one is let in at once, and asked
//! back.

use weir_base::Id;
use weir_community::chat::address::{self, Whom};
use weir_community::chat::contacts::{self, Exchange};
use weir_community::chat::subscription::Kind;
use weir_community::{Env, Error, users};
use weir_db::Tx;

use crate::wire::{Jid, Stanza, ns, write};

/// The invitation that a request to be a contact comes with.
pub(super) fn token(kind: Kind, presence: &Stanza) -> Option<String> {
    let preauth =
        presence.element.child("preauth", ns::PRE_AUTH).filter(|_| kind == Kind::Subscribe);
    preauth.and_then(|preauth| preauth.attr("token")).map(str::to_owned)
}

/// Before the request of `jid` is heard: whether `owner` invited it by `token`, which is used for
/// that and says yes.
pub(super) fn approve(
    tx: &mut Tx,
    env: &Env,
    owner: Id,
    jid: &str,
    token: &str,
) -> Result<bool, Error> {
    // Who is let in already takes no place of the invitation.
    let is_in = contacts::get(tx, owner, jid)?.is_some_and(|contact| contact.state.from);
    let guest = match address::whom(tx, env, jid)? {
        Whom::Here(account) => Some(account),
        _ => None,
    };
    if is_in || !users::use_invite_of(tx, env, owner, token, guest)? {
        return Ok(false);
    }
    contacts::approve_ahead(tx, env, owner, jid)
}

/// After it: `owner` asks to see the presence of `jid` too, unless it does.
pub(super) fn ask_back(
    tx: &mut Tx,
    env: &Env,
    owner: Id,
    request: &Stanza,
) -> Result<Option<Exchange>, Error> {
    let Some(jid) = request.to.as_ref().map(Jid::as_str) else { return Ok(None) };
    let sees = contacts::get(tx, owner, jid)?.is_some_and(|contact| contact.state.to);
    if sees {
        return Ok(None);
    }
    let request = write::to_string(&request.to_element());
    contacts::exchange(tx, env, owner, Kind::Subscribe, jid, &request).map(Some)
}
