//! `chat.send`: a message by chat, which reaches all apps of both sides. `chat.rooms.send`: one for
//! all in a room.

use serde::{Deserialize, Serialize};
use weir_community::Error;
use weir_community::chat::carrier::{Carrier, Outgoing, Saying, TEXT_BYTES_MAX};
use weir_community::chat::{address, blocks};

use super::IdResult;
use crate::face::{Face, failure};
use crate::server::{Answer, Call, Outcome};
use crate::typed::typed;
use crate::wire::Failure;

typed! {
    /// A message to be sent.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct ChatSendParams {
        /// To whom: an address.
        pub to: String,
        /// Its text.
        pub text: String,
    }
}

typed! {
    /// Something to be said in a room.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct ChatRoomSendParams {
        /// The room: its address.
        pub room: String,
        /// Its text.
        pub text: String,
    }
}

/// The face of chat, where this node serves it.
pub(super) fn served(face: &Face) -> Result<&Carrier, Failure> {
    face.env().chat.get().ok_or_else(|| Failure::new(503, "Chat is not served here"))
}

fn check(text: &str) -> Result<(), Failure> {
    if text.trim().is_empty() || text.len() > TEXT_BYTES_MAX {
        let message = format!("must be 1 to {TEXT_BYTES_MAX} bytes");
        return Err(failure(Error::invalid("text", "ERR_INVALID", message)));
    }
    Ok(())
}

/// `chat.send`: answers once the message is durable.
pub(crate) async fn send(call: Call<Face>, params: ChatSendParams) -> Outcome {
    let by = call.person()?;
    call.app.count(by, None)?;
    check(&params.text)?;
    let to = params.to.trim().to_owned();
    let bare = address::bare(&to).to_lowercase();
    let own = call.app.read(move |tx, env| {
        if blocks::blocks(tx, env, by, &bare)? {
            return Err(Error::Forbidden("You have blocked them: unblock them first"));
        }
        address::of_account(tx, env, by)?.ok_or(Error::NotFound("Account"))
    });
    let from_jid = own.await?;
    let outgoing = Outgoing { from: by, from_jid, to_jid: to, text: params.text };
    let id = (served(&call.app)?.send)(outgoing).await.map_err(failure)?;
    Ok(Answer::of(&IdResult { id }))
}

/// `chat.rooms.send`: answers once those who are there are told, and it is durable where the room
/// keeps what is said.
pub(crate) async fn send_to_room(call: Call<Face>, params: ChatRoomSendParams) -> Outcome {
    let by = call.person()?;
    call.app.count(by, None)?;
    check(&params.text)?;
    let room = params.room.trim().to_lowercase();
    let said = Saying { by, room, text: params.text };
    let id = (served(&call.app)?.say)(said).await.map_err(failure)?;
    Ok(Answer::of(&IdResult { id }))
}
