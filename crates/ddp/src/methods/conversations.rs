//! `conversations.…`: reading conversations and putting them away.

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::conversations;

use super::{IdParams, IdResult, act};
use crate::face::Face;
use crate::server::{Call, Outcome};
use crate::typed::typed;

typed! {
    /// A conversation that was read.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct ReadParams {
        /// Which.
        pub id: Id,
        /// It was not, after all.
        #[serde(default)]
        pub unread: Option<bool>,
    }
}

/// `conversations.read`
pub(crate) async fn read(call: Call<Face>, params: ReadParams) -> Outcome {
    let ReadParams { id, unread } = params;
    act(call, None, move |tx, env, by| {
        conversations::mark(tx, env, by, id, unread.unwrap_or_default())?;
        Ok(IdResult { id })
    })
    .await
}

/// `conversations.remove`
pub(crate) async fn remove(call: Call<Face>, IdParams { id }: IdParams) -> Outcome {
    act(call, None, move |tx, env, by| {
        conversations::remove(tx, env, by, id)?;
        Ok(IdResult { id })
    })
    .await
}
