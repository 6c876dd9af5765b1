//! `notifications.…`: putting notifications away.

use serde_json::Value;
use weir_community::notifications;

use super::{IdParams, IdResult, act};
use crate::face::Face;
use crate::server::{Call, Outcome};

/// `notifications.dismiss`
pub(crate) async fn dismiss(call: Call<Face>, IdParams { id }: IdParams) -> Outcome {
    act(call, None, move |tx, env, by| {
        notifications::dismiss(tx, env, by, id)?;
        Ok(IdResult { id })
    })
    .await
}

/// `notifications.clear`
pub(crate) async fn clear(call: Call<Face>, (): ()) -> Outcome {
    act(call, None, move |tx, env, by| {
        notifications::clear(tx, env, by)?;
        Ok(Value::Null)
    })
    .await
}
