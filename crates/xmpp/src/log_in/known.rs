//! What is known of those who log in.

use std::sync::Arc;

use weir_community::accounts;
use weir_community::oauth::{Bearer, Hold};
use weir_community::users::scram::ScramKeys;
use weir_community::users::{self, ChatUser, ClientId, Standing};
use weir_db::Class;

use super::{Authenticated, LogIns, Power, TOKEN_AGE_MS_MAX, UsedToken, unavailable};
use crate::sasl::{Bindings, Failure, Ht, Mechanism, ht_answer, ht_proves};

/// Somebody, or nobody.
pub(super) type Known = Option<Arc<ChatUser>>;

/// What an app's token must be good for to chat with it.
const SCOPES: [&str; 3] = ["read", "write", "follow"];

/// What became of an app's token.
pub(super) enum Bearing {
    /// It is good.
    Good(Authenticated),
    /// It is known, and not good for chat.
    TooNarrow,
    /// It is not known, or somebody else's than was said.
    Unknown,
}

impl LogIns {
    /// Who has the `name`; remembered for a while.
    pub(super) async fn known(&self, name: &str) -> Result<Known, Failure> {
        let generation = self.community.env().log_ins.current();
        if let Some(known) = self.known.get(name).filter(|known| known.generation == generation) {
            return Ok(Some(known));
        }
        let key = name.to_owned();
        let found = self
            .community
            .read(Class::Interactive, move |tx, env| users::chat_user(tx, env, &key))
            .await
            .map_err(|error| unavailable(&error))?;
        let known = found.map(Arc::new);
        // Nobody's names are without end.
        if let Some(known) = &known {
            self.known.insert(name.to_owned(), known.clone());
            metrics::gauge!("weir_xmpp_known_people").set(self.known.entry_count() as f64);
        }
        Ok(known)
    }

    /// SCRAM's keys of whoever has the name; of nobody's, ones that look as good.
    pub(super) fn keys(&self, known: &Known, name: &str) -> ScramKeys {
        let keys = known.as_ref().and_then(|user| user.scram.clone());
        keys.unwrap_or_else(|| ScramKeys::decoy(&self.community.env().vault, name))
    }

    /// Whether `password` is the one of whoever has the name: one derivation, once in a while.
    pub(super) async fn is_right(
        &self,
        known: &Known,
        name: &str,
        password: &str,
    ) -> Result<bool, Failure> {
        let keys = self.keys(known, name);
        let seen = known.as_ref().map(|user| self.mark(user, &keys, password));
        if seen.is_some_and(|mark| self.right.contains_key(&mark)) {
            return Ok(true);
        }
        let fits = match known {
            Some(user) if user.scram.is_none() => self.is_right_by_hash(user, password).await,
            _ => users::verify_by_scram(keys, password).await,
        };
        let fits = fits.map_err(|error| unavailable(&error))?;
        if fits && let Some(mark) = seen {
            self.right.insert(mark, ());
        }
        Ok(fits)
    }

    /// A mark of this password of this person, which changes with the password.
    fn mark(&self, user: &ChatUser, keys: &ScramKeys, password: &str) -> [u8; 32] {
        let key = keys.key(users::scram::Hash::Sha256);
        let id = user.account_id.0.to_be_bytes();
        let parts = [b"right ", &id[..], key.stored, user.password_hash.as_bytes(), b" "];
        let text = [&parts.concat()[..], password.as_bytes()].concat();
        self.community.env().vault.digest(&text)
    }

    /// By the hash, for somebody who has no keys yet; then keys are kept for the next time.
    async fn is_right_by_hash(
        &self,
        user: &ChatUser,
        password: &str,
    ) -> Result<bool, weir_community::Error> {
        if !users::verify_password(&user.password_hash, password).await? {
            return Ok(false);
        }
        if !user.lacks_keys {
            return Ok(true);
        }
        let keys = users::scram_keys(password).await?;
        let (account, hash) = (user.account_id, user.password_hash.clone());
        self.community
            .write(Class::Interactive, move |tx, env| {
                users::learn_scram_keys(tx, env, account, &hash, &keys)
            })
            .await?;
        self.known.invalidate(&user.username.to_lowercase());
        Ok(true)
    }

    /// Lets somebody in who has proven to be who has the name, unless staff says otherwise.
    pub(super) fn admit(&self, user: &ChatUser, authzid: &str) -> Result<Authenticated, Failure> {
        if !self.is_oneself(authzid, &user.username) {
            return Err(Failure::authzid());
        }
        let shut_out = |text: &str| Err(Failure::new("account-disabled", text));
        match user.standing {
            Standing::Fine => Ok(Authenticated {
                account: user.account_id,
                username: user.username.to_lowercase(),
                power: Power::Own,
                token: None,
                password: Some(user.mark),
                generation: user.generation,
                hold: None,
            }),
            Standing::Unconfirmed => shut_out("Open the link in the mail that we sent you first."),
            Standing::Pending => shut_out("Your account waits for the staff to look at it."),
            Standing::Disabled => shut_out("This account has been closed by the staff."),
        }
    }

    /// Who is behind an app's token.
    pub(super) async fn bearing(&self, authzid: &str, token: &str) -> Result<Bearing, Failure> {
        let bearer = match self.tokens.bearer(token).await {
            Ok(bearer) => bearer,
            Err(weir_community::Error::Db(error)) => return Err(unavailable(&error.into())),
            Err(weir_community::Error::Forbidden(text)) => {
                return Err(Failure::new("account-disabled", text));
            }
            Err(_) => return Ok(Bearing::Unknown),
        };
        let whole = SCOPES.iter().all(|scope| bearer.scopes.allow(scope));
        let Some(account) = bearer.account_id.filter(|_| whole) else {
            return Ok(Bearing::TooNarrow);
        };
        let name = self
            .community
            .read(Class::Interactive, move |tx, _| Ok(accounts::by_id(tx, account)?.username))
            .await
            .map_err(|error| unavailable(&error))?;
        if !self.is_oneself(authzid, &name) {
            return Ok(Bearing::Unknown);
        }
        Ok(Bearing::Good(Authenticated {
            account,
            username: name.to_lowercase(),
            power: Power::of(&bearer),
            token: None,
            password: None,
            generation: bearer.generation,
            hold: self.hold(&bearer),
        }))
    }

    fn hold(&self, bearer: &Bearer) -> Option<Arc<Hold>> {
        self.community.env().log_ins.held().hold(bearer).map(Arc::new)
    }

    /// Whether `proof` shows a token of the app `client` of whoever has the name; then also what
    /// shows the client that the server has it too.
    pub(super) async fn by_token(
        &self,
        (name, proof): (&str, &[u8]),
        ht: Ht,
        bindings: &Bindings,
        client: Option<&ClientId>,
    ) -> Result<(Authenticated, Vec<u8>), Failure> {
        let client = client.ok_or_else(|| {
            Failure::malformed("A token is an app's: give the id of your user-agent.")
        })?;
        let known = self.known(name).await?;
        let account = known.as_ref().map(|user| user.account_id).unwrap_or_default();
        let of = client.clone();
        let tokens = self
            .community
            .read(Class::Interactive, move |tx, env| users::chat_tokens(tx, env, account, &of))
            .await
            .map_err(|error| unavailable(&error))?;
        let data = match ht.binding() {
            Some(binding) => bindings.data(binding).ok_or_else(Failure::mechanism)?,
            None => &[],
        };
        // A token is good for one mechanism alone, so that nobody can do without its binding.
        let mechanism = Mechanism::Ht(ht).name();
        let found = tokens.into_iter().find(|token| {
            token.mechanism == mechanism && ht_proves(token.secret.expose(), data, proof)
        });
        let (Some(user), Some(token)) = (known, found) else { return Err(Failure::wrong()) };
        let mut who = self.admit(&user, "")?;
        who.power = token.bearer.as_ref().map_or(Power::Role, Power::of);
        who.hold = token.bearer.as_ref().and_then(|bearer| self.hold(bearer));
        who.token = Some(UsedToken {
            client: client.clone(),
            mechanism: token.mechanism,
            is_due: self.now().since_ms(token.created_at) > TOKEN_AGE_MS_MAX,
            is_new: token.is_new,
        });
        Ok((who, ht_answer(token.secret.expose(), data)))
    }

    /// What an app without a fitting token is told.
    pub(super) fn oauth_needs(&self) -> (String, String) {
        let base = &self.community.env().site.base;
        (SCOPES.join(" "), format!("{base}/.well-known/oauth-authorization-server"))
    }

    /// Our part of a nonce.
    pub(super) fn nonce(&self) -> String {
        self.community.env().random.token(24)
    }

    /// Counts how log-ins end.
    pub(super) fn count(&self, mechanism: Mechanism, outcome: &'static str) {
        let mechanism = mechanism.name();
        metrics::counter!(
            "weir_xmpp_log_ins_total", "mechanism" => mechanism, "outcome" => outcome
        )
        .increment(1);
    }
}
