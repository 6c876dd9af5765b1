//! `chat.contacts.…`: the roster, by the rules that hold for people's apps, which are told.

use serde::{Deserialize, Serialize};
use weir_community::chat::carrier::ContactDeed;

use super::chat::served;
use crate::face::{Face, failure};
use crate::server::{Answer, Call, Outcome};
use crate::typed::typed;

typed! {
    /// Whom to have as a contact.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct ChatContactAddParams {
        /// Its address.
        pub jid: String,
        /// What to call it; unless said as before.
        #[serde(default)]
        pub name: Option<String>,
        /// The groups it stands in; unless said as before.
        #[serde(default)]
        pub groups: Option<Vec<String>>,
    }
}

typed! {
    /// Which contact.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct ChatContactParams {
        /// Its address.
        pub jid: String,
    }
}

/// `chat.contacts.add`: on the list, and asked whether one may see its presence.
pub(crate) async fn add(call: Call<Face>, params: ChatContactAddParams) -> Outcome {
    let ChatContactAddParams { jid, name, groups } = params;
    act(call, jid, ContactDeed::Add { name, groups }).await
}

/// `chat.contacts.remove`
pub(crate) async fn remove(call: Call<Face>, params: ChatContactParams) -> Outcome {
    act(call, params.jid, ContactDeed::Remove).await
}

/// `chat.contacts.approve`
pub(crate) async fn approve(call: Call<Face>, params: ChatContactParams) -> Outcome {
    act(call, params.jid, ContactDeed::Approve).await
}

/// `chat.contacts.refuse`
pub(crate) async fn refuse(call: Call<Face>, params: ChatContactParams) -> Outcome {
    act(call, params.jid, ContactDeed::Refuse).await
}

async fn act(call: Call<Face>, jid: String, deed: ContactDeed) -> Outcome {
    let by = call.person()?;
    call.app.count(by, None)?;
    let jid = jid.trim().to_lowercase();
    (served(&call.app)?.contact)(by, jid, deed).await.map_err(failure)?;
    Ok(Answer::of(&()))
}
