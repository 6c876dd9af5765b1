//! Apps as the API shows them to themselves.

use serde::Serialize;
use weir_base::Id;
use weir_community::oauth::App;

/// An app.
#[derive(Debug, Clone, Serialize)]
pub struct Application {
    /// Its id.
    pub id: Id,
    /// Its name.
    pub name: String,
    /// Its page.
    pub website: Option<String>,
    /// The most it may ask for.
    pub scopes: Vec<String>,
    /// Where codes may be sent.
    pub redirect_uris: Vec<String>,
    /// The same, a line each: the older form.
    pub redirect_uri: String,
    /// The key by which push messages are signed: the older place for it.
    pub vapid_key: String,
}

/// An app as it is shown once, at its registration.
#[derive(Debug, Clone, Serialize)]
pub struct CredentialApplication {
    /// What it may see later too.
    #[serde(flatten)]
    pub application: Application,
    /// Its public name to the server.
    pub client_id: String,
    /// Its secret.
    pub client_secret: String,
    /// When the secret ends: never.
    pub client_secret_expires_at: u32,
}

impl Application {
    /// Of this app.
    pub fn of(app: &App, vapid_key: &str) -> Self {
        Self {
            id: app.id,
            name: app.name.clone(),
            website: app.website.clone(),
            scopes: app.scopes.0.iter().map(str::to_owned).collect(),
            redirect_uris: app.redirect_uris.0.clone(),
            redirect_uri: app.redirect_uris.0.join("\n"),
            vapid_key: vapid_key.to_owned(),
        }
    }
}
