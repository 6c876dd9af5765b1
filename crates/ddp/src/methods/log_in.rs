//! `login` and `logout`. A password comes plain or as Meteor's clients send it, by its SHA-256; a
//! token is what an earlier log-in gave, or an app's token that may do everything.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_base::{Id, Timestamp};
use weir_community::oauth::Bearer;
use weir_community::users::{self, NewSession, Standing};
use weir_community::{accounts, oauth};
use weir_http::{Asker, Rule};
use weir_live::admission::Permit;

use crate::face::{Face, failure, too_many};
use crate::server::{Answer, Call, Outcome};
use crate::typed::{Date, typed};
use crate::wire::Failure;

/// Log-ins from one network: 25 in 5 minutes.
const LOG_INS: Rule = Rule { name: "ddp_login", most: 25, window_s: 300 };
/// What an app's token must be good for to log in with it.
const SCOPES: [&str; 3] = ["read", "write", "follow"];
/// How long a log-in lasts without being used, in ms.
const LIFE_MS: i64 = 90 * 24 * 60 * 60 * 1_000;
/// What is said whoever or whatever was wrong.
const WRONG: &str = "Something went wrong. Please check your credentials.";

typed! {
    /// How to log in: `user` and `password`, or `resume`.
    #[derive(Debug, Clone, Default, Serialize, Deserialize)]
    pub struct LoginParams {
        /// `{ username }` or `{ email }`, or either as a text.
        #[serde(default)]
        pub user: Option<Value>,
        /// The password, or `{ digest, algorithm: "sha-256" }`.
        #[serde(default)]
        pub password: Option<Value>,
        /// A token.
        #[serde(default)]
        pub resume: Option<String>,
    }
}

typed! {
    /// Who is logged in.
    #[derive(Debug, Clone, Serialize)]
    pub struct LoginResult {
        /// The account's id, as in `users`.
        pub id: Id,
        /// By which to log in again.
        pub token: String,
        /// Until when, if it is not used.
        #[serde(rename = "tokenExpires")]
        pub token_expires: Date,
        /// `password` or `resume`.
        pub kind as "type": &'static str,
    }
}

/// `login`
pub(crate) async fn log_in(call: Call<Face>, asked: LoginParams) -> Outcome {
    let face = call.app.clone();
    if !face.dev {
        let allowance = face.limiter.count(LOG_INS, Asker::Source(call.client.address));
        if !allowance.granted {
            return Err(too_many(allowance.reset_at.since_ms(face.env().clock.now()).max(0)));
        }
    }
    match asked.resume {
        Some(token) => resume(&face, token).await,
        None => by_password(&face, &call, asked.user, asked.password).await,
    }
}

fn wrong() -> Failure {
    Failure::new(403, WRONG)
}

/// Stands in line with all who arrive.
///
/// # Errors
/// 503 when too many do.
async fn arrive(face: &Face) -> Result<Permit, Failure> {
    let entered = face.env().streams.hub().admission().enter().await;
    entered.map_err(|busy| {
        let details = serde_json::json!({ "retryAfter": busy.retry_after_s });
        Failure::new(503, busy.to_string()).with_details(details)
    })
}

fn answer(account: Id, token: &str, kind: &'static str, now: Timestamp) -> Answer {
    let token_expires = now.plus_ms(LIFE_MS).into();
    let result = LoginResult { id: account, token: token.to_owned(), token_expires, kind };
    Answer::of(&result).logged_in(account, token)
}

async fn by_password(
    face: &Face,
    call: &Call<Face>,
    user: Option<Value>,
    password: Option<Value>,
) -> Outcome {
    let name = user.as_ref().and_then(|user| {
        let field = |name: &str| user.get(name).and_then(Value::as_str);
        user.as_str().or_else(|| field("username")).or_else(|| field("email"))
    });
    let name = name.ok_or_else(|| Failure::bad_params("Match failed: say who you are"))?.to_owned();
    let key = name.trim_start_matches('@').to_lowercase();
    face.log_ins_by_name.take(&key).map_err(|wait_s| {
        too_many(i64::try_from(wait_s).unwrap_or(i64::MAX).saturating_mul(1_000))
    })?;
    let arrival = arrive(face).await?;
    let known = face.read(move |tx, _| {
        let Some(user) = users::by_login(tx, &name)? else { return Ok(None) };
        let account = accounts::by_id(tx, user.account_id)?;
        Ok(account.deleted_at.is_none().then_some((user, account)))
    });
    let known = known.await?;
    // Passwords have a line of their own.
    drop(arrival);
    let hash = known.as_ref().map_or("", |(user, _)| user.password_hash.as_str());
    let fits = match &password {
        Some(Value::String(plain)) => users::verify_password(hash, plain).await,
        Some(Value::Object(digest)) => {
            let text = |name: &str| digest.get(name).and_then(Value::as_str).unwrap_or_default();
            if text("algorithm") != "sha-256" {
                return Err(Failure::bad_params("Match failed: the algorithm must be sha-256"));
            }
            users::verify_digest(hash, text("digest")).await
        }
        _ => return Err(Failure::bad_params("Match failed: a password is missing")),
    };
    let Some((user, account)) = known.filter(|_| matches!(fits, Ok(true))) else {
        fits.map_err(failure)?;
        metrics::counter!("weir_ddp_log_ins_total", "outcome" => "wrong").increment(1);
        return Err(wrong());
    };
    face.log_ins_by_name.forgive(&key);
    match user.standing(&account) {
        Standing::Fine => {}
        Standing::Unconfirmed => {
            return Err(Failure::new(403, "Your login is missing a confirmed e-mail address"));
        }
        Standing::Pending => {
            return Err(Failure::new(403, "Your login is currently pending approval"));
        }
        Standing::Disabled => return Err(Failure::new(403, "Your login is currently disabled")),
    }
    let (id, client) = (account.id, call.client.clone());
    let token = face.write(move |tx, env| {
        let new = NewSession { ip: client.address.to_string(), user_agent: client.agent.clone() };
        users::start_session(tx, env, id, &new)
    });
    let token = token.await?;
    metrics::counter!("weir_ddp_log_ins_total", "outcome" => "good").increment(1);
    Ok(answer(id, token.expose(), "password", face.env().clock.now()))
}

async fn resume(face: &Face, token: String) -> Outcome {
    let expired =
        || Failure::new(403, "You've been logged out by the server. Please log in again.");
    let _arrival = arrive(face).await?;
    let account = match holder(face, &token).await? {
        Some(account) => account,
        None => return Err(expired()),
    };
    Ok(answer(account, &token, "resume", face.env().clock.now()))
}

/// Whose token it is, if they may be logged in by it.
///
/// # Errors
/// The database's.
async fn holder(face: &Face, token: &str) -> Result<Option<Id>, Failure> {
    let text = token.to_owned();
    let by_session = face.read(move |tx, env| {
        let Some((session, due)) = users::session(tx, env, &text)? else { return Ok(None) };
        let account = accounts::by_id(tx, session.account_id)?;
        let user = users::by_account(tx, session.account_id)?;
        let fine = user.standing(&account) == Standing::Fine;
        Ok(fine.then_some((account.id, due.then_some(session.id))))
    });
    if let Some((account, due)) = by_session.await? {
        if let Some(session) = due {
            face.write(move |tx, env| users::touch_session(tx, env, session)).await?;
        }
        return Ok(Some(account));
    }
    let bearer = match face.tokens.bearer(token).await {
        Ok(bearer) => bearer,
        Err(weir_community::Error::Db(error)) => return Err(failure(error.into())),
        Err(_) => return Ok(None),
    };
    Ok(may_log_in(&bearer))
}

/// Who is logged in by an app's token, where it may do everything.
pub(crate) fn may_log_in(bearer: &Bearer) -> Option<Id> {
    let whole = SCOPES.iter().all(|scope| bearer.scopes.allow(scope));
    bearer.account_id.filter(|_| whole)
}

/// `logout`: the token is good for nothing from now on.
pub(crate) async fn log_out(call: Call<Face>, (): ()) -> Outcome {
    let (Some(by), Some(token)) = (call.user, call.token.clone()) else {
        return Ok(Answer::default().logged_out());
    };
    call.app
        .write(move |tx, env| {
            if let Some((session, _)) = users::session(tx, env, &token)? {
                users::end_session(tx, env, by, session.id)?;
            }
            oauth::revoke_own(tx, env, by, &token)
        })
        .await?;
    Ok(Answer::default().logged_out())
}
