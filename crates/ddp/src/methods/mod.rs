//! What clients can call, a file for each noun: parse, one use case in one unit, answer. The rules
//! and limits are those of the Mastodon API, for the use cases are the same.

pub(crate) mod accounts;
pub(crate) mod chat;
pub(crate) mod chat_contacts;
pub(crate) mod conversations;
pub(crate) mod filters;
pub(crate) mod lists;
pub(crate) mod log_in;
pub(crate) mod markers;
pub(crate) mod notifications;
pub(crate) mod statuses;
pub(crate) mod tags;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_base::Id;
use weir_community::{Env, Error};
use weir_db::Tx;
use weir_http::Rule;

use crate::face::Face;
use crate::server::{Answer, Call, Outcome};
use crate::typed::typed;

typed! {
    /// What a call is about.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct IdParams {
        /// Its id.
        pub id: Id,
    }
}

typed! {
    /// What a call made or changed.
    #[derive(Debug, Clone, Serialize)]
    pub struct IdResult {
        /// Its id.
        pub id: Id,
    }
}

/// `echo`: gives back what it gets, to everybody and at once.
pub(crate) async fn echo(_: Call<Face>, given: Value) -> Outcome {
    Ok(Answer::of(&given))
}

/// Runs a use case for the person who calls, counted under the rules of the API.
async fn act<T: Serialize + Send + 'static>(
    call: Call<Face>,
    narrower: Option<Rule>,
    mut unit: impl FnMut(&mut Tx, &Env, Id) -> Result<T, Error> + Send + 'static,
) -> Outcome {
    let by = call.person()?;
    call.app.count(by, narrower)?;
    let done = call.app.write(move |tx, env| unit(tx, env, by)).await?;
    Ok(Answer::of(&done))
}
