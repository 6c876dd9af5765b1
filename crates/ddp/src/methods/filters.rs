//! `filters.…`: the reader's filters, the words they look for and the posts they name.

use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_community::filters::{self, FilterChange, KeywordChange};

use super::{IdParams, IdResult, act};
use crate::face::Face;
use crate::server::{Call, Outcome};
use crate::typed::typed;

typed! {
    /// A filter to be made, or what of one is to change: what is absent stays.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct FilterParams {
        /// Which; none for a new one.
        #[serde(default)]
        pub id: Option<Id>,
        /// What its owner calls it.
        #[serde(default)]
        pub title: Option<String>,
        /// Where it applies: `home`, `notifications`, `public`, `thread`, `account`.
        #[serde(default)]
        pub context: Option<Vec<String>>,
        /// `warn` (unless said), `blur` or `hide`.
        #[serde(default)]
        pub filter_action: Option<String>,
        /// For how long it is to hold from now, in s; 0 for ever.
        #[serde(default)]
        pub expires_in: Option<u32>,
        /// Words to add, change or remove.
        #[serde(default)]
        pub keywords: Option<Vec<FilterWordParams>>,
    }
}

typed! {
    /// A word of a filter, to be added (without `id`), changed or removed.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct FilterWordParams {
        /// Which; none for a new one.
        #[serde(default)]
        pub id: Option<Id>,
        /// The word or phrase.
        #[serde(default)]
        pub keyword: Option<String>,
        /// Whether it counts only as a whole word.
        #[serde(default)]
        pub whole_word: Option<bool>,
        /// Whether it goes.
        #[serde(default)]
        pub remove: Option<bool>,
    }
}

typed! {
    /// A post that a filter is to name.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct FilterStatusParams {
        /// Which filter.
        pub id: Id,
        /// The post.
        pub status_id: Id,
    }
}

impl FilterParams {
    fn change(&self, now: Timestamp) -> FilterChange {
        let words = self.keywords.iter().flatten();
        FilterChange {
            title: self.title.clone(),
            contexts: self.context.clone(),
            action: self.filter_action.clone(),
            expires_at: self
                .expires_in
                .map(|for_s| (for_s > 0).then(|| now.plus_ms(i64::from(for_s) * 1_000))),
            keywords: words
                .map(|word| KeywordChange {
                    id: word.id,
                    keyword: word.keyword.clone(),
                    whole_word: word.whole_word,
                    remove: word.remove.unwrap_or_default(),
                })
                .collect(),
        }
    }
}

/// `filters.set`
pub(crate) async fn set(call: Call<Face>, params: FilterParams) -> Outcome {
    act(call, None, move |tx, env, by| {
        let change = params.change(env.clock.now());
        let set = match params.id {
            Some(id) => filters::update(tx, env, by, id, &change)?,
            None => filters::create(tx, env, by, &change)?,
        };
        Ok(IdResult { id: set.id })
    })
    .await
}

/// `filters.delete`
pub(crate) async fn delete(call: Call<Face>, IdParams { id }: IdParams) -> Outcome {
    act(call, None, move |tx, env, by| {
        filters::delete(tx, env, by, id)?;
        Ok(IdResult { id })
    })
    .await
}

/// `filters.addStatus`
pub(crate) async fn add_status(call: Call<Face>, params: FilterStatusParams) -> Outcome {
    act(call, None, move |tx, env, by| {
        let entry = filters::add_status(tx, env, by, params.id, params.status_id)?;
        Ok(IdResult { id: entry.id })
    })
    .await
}

/// `filters.removeStatus`
pub(crate) async fn remove_status(call: Call<Face>, IdParams { id }: IdParams) -> Outcome {
    act(call, None, move |tx, env, by| {
        filters::remove_status(tx, env, by, id)?;
        Ok(IdResult { id })
    })
    .await
}
