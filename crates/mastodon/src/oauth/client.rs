//! Which app asks: by parameters or HTTP's Basic authentication (RFC 6749, 2.3.1).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use weir_community::Error as CommunityError;
use weir_community::oauth::{self, App};
use weir_db::Tx;

use crate::Error;

/// What an app says of itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Client {
    pub client_id: String,
    pub client_secret: String,
}

impl Client {
    /// What the `Authorization` header says, else what the parameters say.
    pub fn or_basic(self, headers: &HeaderMap) -> Self {
        basic(headers).unwrap_or(self)
    }

    /// The app, if it is the one it says.
    pub fn find(&self, tx: &mut Tx) -> Result<Option<App>, CommunityError> {
        let app = oauth::app_by_client_id(tx, &self.client_id)?;
        Ok(app.filter(|app| oauth::secret_fits(app, &self.client_secret)))
    }
}

fn basic(headers: &HeaderMap) -> Option<Client> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(BASE64_STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    let decode = |text: &str| {
        percent_encoding::percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned())
    };
    Some(Client { client_id: decode(id)?, client_secret: decode(secret)? })
}

/// The app is not the one it says.
pub fn invalid_client() -> Error {
    Error::oauth(
        StatusCode::UNAUTHORIZED,
        "invalid_client",
        "Client authentication failed due to unknown client, no client authentication included, \
         or unsupported authentication method.",
    )
}
