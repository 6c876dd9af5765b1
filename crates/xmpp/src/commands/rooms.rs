//! Which rooms belong to the community.

use std::collections::BTreeSet;

use weir_base::Id;
use weir_community::Error;
use weir_community::chat::rooms as noun;
use weir_db::Tx;

use super::admin::addresses;
use super::{Shown, Step};
use crate::muc;
use crate::wire::form::{Field, Form};
use crate::wire::{Condition, Jid, StanzaError};

const ROOMS: &str = "urn:weir:chat:community-rooms";
/// Rooms of the community at most.
const ROOMS_MAX: usize = 100;

/// Everybody here may enter them, and they stand first in the list of rooms.
pub(super) async fn of_community(step: Step) -> Result<Shown, StanzaError> {
    let place = format!("{}.{}", muc::LABEL, step.xmpp.domain());
    let Some(form) = &step.form else {
        let rooms = step.xmpp.read(|tx, _| noun::of_community(tx)).await?;
        let rooms: Vec<String> =
            rooms.into_iter().map(|room| format!("{}@{place}", room.name)).collect();
        let what = "Everybody here may enter these rooms, and they stand first in the list. They \
                    have to be there, and stay when the last one leaves.";
        let field = Field::many("jid-multi", "rooms", "Their addresses", &rooms);
        let form = Form::to_fill_in(ROOMS).titled("Rooms of the community", what).with(field);
        return Ok(Shown::Form(form));
    };
    let list = addresses(form.values("rooms").unwrap_or_default(), ROOMS_MAX)?;
    let name = |jid: &Jid| {
        let local = jid.local().filter(|_| jid.domain() == place);
        local.map(str::to_owned).ok_or_else(|| {
            let text = format!("{} is no room of this server", jid.bare_str());
            StanzaError::new(Condition::ItemNotFound).text(text)
        })
    };
    let wanted: BTreeSet<String> = list.iter().map(name).collect::<Result<_, _>>()?;
    let of = place.clone();
    let changed = step.xmpp.write(move |tx, env| {
        let mut changed: Vec<(String, bool)> = Vec::new();
        let mut set = |tx: &mut Tx, id: Id, name: &str, on| {
            changed.push((name.to_owned(), on));
            noun::set_of_community(tx, env, id, on)
        };
        for room in noun::of_community(tx)? {
            if !wanted.contains(&room.name) {
                set(tx, room.id, &room.name, false)?;
            }
        }
        for name in &wanted {
            let nowhere = || {
                let message = format!("name {name}@{of}, which is no room");
                Error::invalid("rooms", "ERR_NOT_FOUND", message)
            };
            let room = noun::find(tx, name)?.ok_or_else(nowhere)?;
            if !room.of_community {
                set(tx, room.id, name, true)?;
            }
        }
        Ok(changed)
    });
    let changed = changed.await?;
    tracing::info!(staff = %step.by, ?changed, "moderation: rooms of the community");
    for (name, on) in changed {
        muc::hats::set_of_community(&step.xmpp, &format!("{name}@{place}"), on).await;
    }
    Ok(Shown::Done("These are the rooms of the community.".to_owned(), None))
}
