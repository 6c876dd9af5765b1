//! `tags.follow`, `tags.unfollow`

use serde::{Deserialize, Serialize};
use weir_community::tags;

use super::{IdResult, act};
use crate::face::Face;
use crate::server::{Call, Outcome};
use crate::typed::typed;

typed! {
    /// A hashtag.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct TagNameParams {
        /// Its name, with or without the sign.
        pub name: String,
    }
}

/// `tags.follow`
pub(crate) async fn follow(call: Call<Face>, params: TagNameParams) -> Outcome {
    act(call, None, move |tx, env, by| {
        let name = params.name.trim().trim_start_matches('#');
        Ok(IdResult { id: tags::follow(tx, env, by, name)?.id })
    })
    .await
}

/// `tags.unfollow`
pub(crate) async fn unfollow(call: Call<Face>, params: TagNameParams) -> Outcome {
    act(call, None, move |tx, env, by| {
        let name = params.name.trim().trim_start_matches('#');
        Ok(IdResult { id: tags::unfollow(tx, env, by, name)?.id })
    })
    .await
}
