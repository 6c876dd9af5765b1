//! `chat.send`: a message by chat, which reaches all apps of both sides.

use serde::{Deserialize, Serialize};
use weir_community::Error;
use weir_community::chat::carrier::{Outgoing, TEXT_BYTES_MAX};
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

/// `chat.send`: answers once the message is durable.
pub(crate) async fn send(call: Call<Face>, params: ChatSendParams) -> Outcome {
    let by = call.person()?;
    call.app.count(by, None)?;
    if params.text.trim().is_empty() || params.text.len() > TEXT_BYTES_MAX {
        let message = format!("must be 1 to {TEXT_BYTES_MAX} bytes");
        return Err(failure(Error::invalid("text", "ERR_INVALID", message)));
    }
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
    let Some(chat) = call.app.env().chat.get() else {
        return Err(Failure::new(503, "Chat is not served here"));
    };
    let id = (chat.send)(outgoing).await.map_err(failure)?;
    Ok(Answer::of(&IdResult { id }))
}
