//! Whose token a request carries.

use std::sync::Arc;
use std::time::Duration;

use http::header;
use http::request::Parts;
use metrics::Gauge;
use moka::sync::Cache;
use weir_community::oauth::{self, Bearer};
use weir_community::{Community, Error};
use weir_db::Class;

/// Tokens remembered at once.
const CACHED_MAX: u64 = 20_000;
/// How long a token is believed without asking again; revoking here takes effect at once.
const CACHED: Duration = Duration::from_secs(10);
/// The longest token that is looked up, in bytes.
const TOKEN_BYTES_MAX: usize = 512;

/// Looks tokens up, and remembers the good ones for a moment. Clones share the memory.
#[derive(Clone)]
pub struct Tokens {
    community: Community,
    known: Cache<Vec<u8>, (u64, Arc<Bearer>)>,
    held: Gauge,
}

impl Tokens {
    /// Tokens of `community` that come to `face`, in the metrics.
    pub fn new(face: &'static str, community: Community) -> Self {
        let known = Cache::builder().max_capacity(CACHED_MAX).time_to_live(CACHED).build();
        let held = metrics::gauge!("weir_http_tokens_held", "face" => face);
        Self { community, known, held }
    }

    /// Who is behind `token`.
    ///
    /// # Errors
    /// As [`oauth::bearer`].
    pub async fn bearer(&self, token: &str) -> Result<Arc<Bearer>, Error> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Error::Unauthorized("The access token is invalid"));
        }
        let key = oauth::hash(token);
        let generation = self.community.env().log_ins.current();
        if let Some((seen, bearer)) = self.known.get(&key)
            && seen == generation
        {
            return Ok(bearer);
        }
        let text = token.to_owned();
        let found =
            self.community.read(Class::Interactive, move |tx, env| oauth::bearer(tx, env, &text));
        let bearer = Arc::new(found.await?);
        if bearer.stale {
            self.touch(&bearer);
        }
        self.known.insert(key, (generation, bearer.clone()));
        self.held.set(self.known.entry_count() as f64);
        Ok(bearer)
    }

    /// Notes, beside the request, that the token is in use: about once a day for each.
    fn touch(&self, bearer: &Bearer) {
        let (community, id) = (self.community.clone(), bearer.token_id);
        tokio::spawn(async move {
            let noted = community
                .write(Class::Housekeeping, move |tx, env| oauth::touch(tx, env, id))
                .await;
            if let Err(error) = noted {
                tracing::debug!(%error, "the last use of a token was not noted");
            }
        });
    }
}

/// The token in a request's `Authorization` header, or in its query as `access_token`.
pub fn token(parts: &Parts) -> Option<String> {
    if let Some(header) = parts.headers.get(header::AUTHORIZATION) {
        let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned());
    }
    let pairs = parts.uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    let mut tokens = pairs.filter(|(name, value)| *name == "access_token" && !value.is_empty());
    let (_, value) = tokens.next()?;
    percent_encoding::percent_decode_str(value).decode_utf8().ok().map(|text| text.into_owned())
}
