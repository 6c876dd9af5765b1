//! `markers.set`: how far one has read.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_base::Id;
use weir_community::markers;

use super::act;
use crate::face::Face;
use crate::server::{Call, Outcome};
use crate::typed::typed;

typed! {
    /// How far one has read.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct MarkerParams {
        /// `home` or `notifications`.
        pub timeline: String,
        /// The newest item read.
        pub last_read_id: Id,
    }
}

/// `markers.set`
pub(crate) async fn set(call: Call<Face>, params: MarkerParams) -> Outcome {
    act(call, None, move |tx, env, by| {
        markers::set(tx, env, by, &params.timeline, params.last_read_id)?;
        Ok(Value::Null)
    })
    .await
}
