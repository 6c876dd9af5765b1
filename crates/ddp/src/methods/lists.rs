//! `lists.…`: the reader's lists and who is in them.

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::lists;

use super::{IdParams, IdResult, act};
use crate::face::Face;
use crate::server::{Call, Outcome};
use crate::typed::typed;

typed! {
    /// A list to be made.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct NewListParams {
        /// Its name.
        pub title: String,
        /// Which replies are shown: `followed`, `list` or `none`; `list` unless said.
        #[serde(default)]
        pub replies_policy: Option<String>,
        /// Whether its members' posts are kept out of the home timeline.
        #[serde(default)]
        pub exclusive: Option<bool>,
    }
}

typed! {
    /// A list to be changed; what is absent stays.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct ListChangeParams {
        /// Which.
        pub id: Id,
        /// Its name.
        #[serde(default)]
        pub title: Option<String>,
        /// Which replies are shown.
        #[serde(default)]
        pub replies_policy: Option<String>,
        /// Whether its members' posts are kept out of the home timeline.
        #[serde(default)]
        pub exclusive: Option<bool>,
    }
}

typed! {
    /// Members of a list.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct MembersParams {
        /// Which list.
        pub id: Id,
        /// Who.
        pub account_ids: Vec<Id>,
    }
}

/// `lists.create`
pub(crate) async fn create(call: Call<Face>, params: NewListParams) -> Outcome {
    act(call, None, move |tx, env, by| {
        let policy = params.replies_policy.as_deref().unwrap_or("list");
        let exclusive = params.exclusive.unwrap_or_default();
        let list = lists::create(tx, env, by, &params.title, policy, exclusive)?;
        Ok(IdResult { id: list.id })
    })
    .await
}

/// `lists.update`
pub(crate) async fn update(call: Call<Face>, params: ListChangeParams) -> Outcome {
    act(call, None, move |tx, env, by| {
        let (title, policy) = (params.title.as_deref(), params.replies_policy.as_deref());
        lists::update(tx, env, by, params.id, title, policy, params.exclusive)?;
        Ok(IdResult { id: params.id })
    })
    .await
}

/// `lists.delete`
pub(crate) async fn delete(call: Call<Face>, IdParams { id }: IdParams) -> Outcome {
    act(call, None, move |tx, env, by| {
        lists::delete(tx, env, by, id)?;
        Ok(IdResult { id })
    })
    .await
}

/// `lists.addAccounts`
pub(crate) async fn add(call: Call<Face>, params: MembersParams) -> Outcome {
    act(call, None, move |tx, env, by| {
        lists::add_members(tx, env, by, params.id, &params.account_ids)?;
        Ok(IdResult { id: params.id })
    })
    .await
}

/// `lists.removeAccounts`
pub(crate) async fn remove(call: Call<Face>, params: MembersParams) -> Outcome {
    act(call, None, move |tx, env, by| {
        lists::remove_members(tx, env, by, params.id, &params.account_ids)?;
        Ok(IdResult { id: params.id })
    })
    .await
}
