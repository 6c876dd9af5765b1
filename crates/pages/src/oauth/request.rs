//! What an app asks for (RFC 6749, 4.1.1; RFC 7636, 4.3): checked in the order that decides who
//! may be told of an error.

use weir_base::Id;
use weir_community::oauth::{App, OUT_OF_BAND, Scopes};
use weir_community::{Community, oauth};
use weir_db::Class;

use crate::fault::Fault;
use crate::form::Fields;

/// The longest `state` that is handed back, in bytes.
const STATE_BYTES_MAX: usize = 4_096;

/// A request whose app and redirect address are known to belong together.
pub struct Request {
    /// The app.
    pub app: App,
    /// Where the answer goes.
    pub redirect_uri: String,
    /// What the app wants back with it.
    pub state: Option<String>,
    /// What is asked for, or the error (its code and words) to tell the app.
    pub wish: Result<Wish, (&'static str, String)>,
}

/// What an app asks for.
pub struct Wish {
    /// What it wants to do.
    pub scopes: Scopes,
    /// PKCE's challenge.
    pub challenge: Option<String>,
}

impl Request {
    /// Reads a request.
    ///
    /// # Errors
    /// A page for the person when the app or the redirect address is wrong: then nobody else may
    /// be told.
    pub async fn read(community: &Community, fields: &Fields) -> Result<Self, Fault> {
        let client = fields.get("client_id").to_owned();
        let app = community
            .read(Class::Interactive, move |tx, _| oauth::app_by_client_id(tx, &client))
            .await?
            .ok_or_else(|| {
                Fault::bad(
                    "The app that sent you here is not known to this server (its client_id is \
                     wrong). Remove your account from the app and add it again.",
                )
            })?;
        let known = &app.redirect_uris.0;
        let redirect_uri = match fields.get("redirect_uri") {
            "" if known.len() == 1 => known.first().cloned(),
            named => known.iter().find(|known| *known == named).cloned(),
        };
        let redirect_uri = redirect_uri.ok_or_else(|| {
            Fault::bad(
                "The app wants to send you to an address that it has not registered (its \
                 redirect_uri is wrong). Tell the people who make the app.",
            )
        })?;
        let state = fields.optional("state").filter(|state| state.len() <= STATE_BYTES_MAX);
        let wish = wish(&app, fields);
        Ok(Self { state: state.map(str::to_owned), wish, redirect_uri, app })
    }

    /// Whether the answer is shown to the person.
    pub fn is_out_of_band(&self) -> bool {
        self.redirect_uri == OUT_OF_BAND
    }

    /// The address of the answer with these parameters.
    ///
    /// # Errors
    /// A page when the registered address cannot be read.
    pub fn answer(&self, parameters: &[(&str, &str)]) -> Result<String, Fault> {
        let mut address = url::Url::parse(&self.redirect_uri)
            .map_err(|_| Fault::bad("The app's redirect address cannot be read."))?;
        {
            let mut pairs = address.query_pairs_mut();
            pairs.extend_pairs(parameters);
            if let Some(state) = &self.state {
                pairs.append_pair("state", state);
            }
        }
        Ok(address.into())
    }

    /// What may follow the consent form, for `form-action`: the scheme and host of the redirect.
    pub fn form_target(&self) -> String {
        match url::Url::parse(&self.redirect_uri) {
            Ok(address) if matches!(address.scheme(), "http" | "https") => {
                address.origin().ascii_serialization()
            }
            Ok(address) => format!("{}:", address.scheme()),
            Err(_) => String::new(),
        }
    }
}

fn wish(app: &App, fields: &Fields) -> Result<Wish, (&'static str, String)> {
    if fields.get("response_type") != "code" {
        let words = "The authorization server does not support this response type.";
        return Err(("unsupported_response_type", words.to_owned()));
    }
    let scopes = match fields.get("scope") {
        "" => Scopes::read(),
        text => text
            .parse()
            .map_err(|error: oauth::UnknownScope| ("invalid_scope", error.to_string()))?,
    };
    if !app.scopes.0.cover(&scopes) {
        let words = "The requested scope is more than the app has registered for.";
        return Err(("invalid_scope", words.to_owned()));
    }
    let challenge = fields.optional("code_challenge").filter(|text| !text.is_empty());
    let method = fields.get("code_challenge_method");
    // A challenge without a method means `plain` (RFC 7636, 4.3), which protects nobody.
    if (challenge.is_some() && method != "S256") || (challenge.is_none() && !method.is_empty()) {
        let words = "The code_challenge_method must be S256.";
        return Err(("invalid_request", words.to_owned()));
    }
    // The challenge is a SHA-256 in base64 (RFC 7636, 4.2): 43 signs.
    let fits = |text: &str| {
        text.len() == 43 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    if challenge.is_some_and(|text| !fits(text)) {
        let words = "The code_challenge must be 43 signs of URL-safe base64.";
        return Err(("invalid_request", words.to_owned()));
    }
    Ok(Wish { scopes, challenge: challenge.map(str::to_owned) })
}

/// A grant for what the app asked and `account` agreed to.
pub fn grant_of(request: &Request, wish: &Wish, account: Id) -> oauth::NewGrant {
    oauth::NewGrant {
        app_id: request.app.id,
        account_id: account,
        scopes: wish.scopes.clone(),
        redirect_uri: request.redirect_uri.clone(),
        challenge: wish.challenge.clone(),
    }
}
