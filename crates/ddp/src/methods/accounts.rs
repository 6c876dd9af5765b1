//! `accounts.…` and `followRequests.…`: how people stand to each other.

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::relationships::{self, FollowWish};
use weir_community::{Error, accounts};
use weir_db::Tx;

use super::{IdParams, IdResult, act};
use crate::face::Face;
use crate::server::{Call, Outcome};
use crate::typed::typed;

typed! {
    /// Whom to follow, and how; what is absent stays.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct FollowParams {
        /// Whom.
        pub id: Id,
        /// With their boosts.
        #[serde(default)]
        pub reblogs: Option<bool>,
        /// With a notification for each post.
        #[serde(default)]
        pub notify: Option<bool>,
        /// Only posts in these languages.
        #[serde(default)]
        pub languages: Option<Vec<String>>,
    }
}

typed! {
    /// Whom to mute, and for how long.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct MuteParams {
        /// Whom.
        pub id: Id,
        /// Their notifications too; so unless said otherwise.
        #[serde(default)]
        pub notifications: Option<bool>,
        /// In s; for good unless said.
        #[serde(default)]
        pub duration: Option<i64>,
    }
}

fn present(tx: &mut Tx, id: Id) -> Result<(), Error> {
    let account = accounts::by_id(tx, id)?;
    if account.deleted_at.is_some() { Err(Error::Gone("Account")) } else { Ok(()) }
}

/// `accounts.follow`
pub(crate) async fn follow(call: Call<Face>, params: FollowParams) -> Outcome {
    let languages = params.languages.map(|mut languages| {
        languages.retain(|language| !language.is_empty() && language.len() <= 20);
        languages.truncate(100);
        languages
    });
    let (id, reblogs, notify) = (params.id, params.reblogs, params.notify);
    let wish = FollowWish { boosts: reblogs, notify, languages };
    act(call, None, move |tx, env, by| {
        present(tx, id)?;
        relationships::follow(tx, env, by, id, &wish)?;
        Ok(IdResult { id })
    })
    .await
}

/// `accounts.mute`
pub(crate) async fn mute(call: Call<Face>, params: MuteParams) -> Outcome {
    let MuteParams { id, notifications, duration } = params;
    act(call, None, move |tx, env, by| {
        present(tx, id)?;
        let duration_ms = duration.unwrap_or(0).saturating_mul(1_000);
        let until = (duration_ms > 0).then(|| env.clock.now().plus_ms(duration_ms));
        relationships::mute(tx, env, by, id, notifications.unwrap_or(true), until)?;
        Ok(IdResult { id })
    })
    .await
}

macro_rules! bonds {
    ($(
        $(#[$doc:meta])*
        $function:ident: |$tx:ident, $env:ident, $by:ident, $id:ident| $act:expr;
    )*) => {$(
        $(#[$doc])*
        pub(crate) async fn $function(call: Call<Face>, IdParams { id: $id }: IdParams) -> Outcome {
            act(call, None, move |$tx, $env, $by| {
                present($tx, $id)?;
                $act;
                Ok(IdResult { id: $id })
            })
            .await
        }
    )*};
}

bonds! {
    /// `accounts.unfollow`
    unfollow: |tx, env, by, id| relationships::unfollow(tx, env, by, id)?;
    /// `accounts.removeFollower`
    remove_follower: |tx, env, by, id| relationships::remove_follower(tx, env, by, id)?;
    /// `accounts.block`
    block: |tx, env, by, id| relationships::block(tx, env, by, id, "")?;
    /// `accounts.unblock`
    unblock: |tx, env, by, id| relationships::unblock(tx, env, by, id)?;
    /// `accounts.unmute`
    unmute: |tx, env, by, id| relationships::unmute(tx, env, by, id)?;
    /// `followRequests.accept`
    accept_request: |tx, env, by, id| relationships::accept_request(tx, env, by, id)?;
    /// `followRequests.reject`
    reject_request: |tx, env, by, id| relationships::reject_request(tx, env, by, id)?;
}
