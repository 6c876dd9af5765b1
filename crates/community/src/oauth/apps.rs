//! Applications.

use weir_base::{Id, Secret, Timestamp};
use weir_db::{Json, Tx, params};

use super::{OUT_OF_BAND, Scopes, hash};
use crate::{Env, Error};

/// Addresses an app may name.
const REDIRECTS_MAX: usize = 20;

weir_db::record! {
    /// An application that people let act for them.
    #[derive(Debug, Clone)]
    pub struct App {
        /// Its id.
        pub id: Id,
        /// Its public name to the server.
        pub client_id: String,
        /// The hash of its secret.
        pub client_secret_hash: Vec<u8>,
        /// Its name to people.
        pub name: String,
        /// Its page.
        pub website: Option<String>,
        /// Where codes may be sent.
        pub redirect_uris: Json<Vec<String>>,
        /// The most it may ask for.
        pub scopes: Json<Scopes>,
        /// When it was registered.
        pub created_at: Timestamp,
    }
}

/// What an app is registered with.
#[derive(Debug, Clone)]
pub struct NewApp {
    /// Its name to people.
    pub name: String,
    /// Its page.
    pub website: Option<String>,
    /// Where codes may be sent.
    pub redirect_uris: Vec<String>,
    /// The most it may ask for.
    pub scopes: Scopes,
}

/// Registers an app; the secret is shown only now.
///
/// # Errors
/// [`Error::Invalid`].
pub fn register_app(tx: &mut Tx, env: &Env, new: &NewApp) -> Result<(App, Secret<String>), Error> {
    check(new)?;
    let secret = env.random.token(32);
    let app = App {
        id: env.ids.next(),
        client_id: env.random.token(32),
        client_secret_hash: hash(&secret),
        name: new.name.clone(),
        website: new.website.clone(),
        redirect_uris: Json(new.redirect_uris.clone()),
        scopes: Json(new.scopes.clone()),
        created_at: env.clock.now(),
    };
    tx.run(
        "INSERT INTO oauth_apps (id, client_id, client_secret_hash, name, website, redirect_uris,
           scopes, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            app.id,
            app.client_id,
            app.client_secret_hash,
            app.name,
            app.website,
            app.redirect_uris,
            app.scopes,
            app.created_at
        ],
    )?;
    Ok((app, Secret::new(secret)))
}

fn check(new: &NewApp) -> Result<(), Error> {
    if new.name.trim().is_empty() {
        return Err(Error::invalid("client_name", "ERR_BLANK", "can't be blank"));
    }
    if new.name.chars().count() > 60 {
        let message = "is too long (maximum is 60 characters)";
        return Err(Error::invalid("client_name", "ERR_TOO_LONG", message));
    }
    if new.website.as_ref().is_some_and(|site| {
        site.len() > 2_000 || !(site.starts_with("https://") || site.starts_with("http://"))
    }) {
        return Err(Error::invalid("website", "ERR_INVALID", "must be a valid URL"));
    }
    let redirect = |uri: &String| {
        let scheme = uri.split(':').next().unwrap_or_default();
        let named = !matches!(scheme, "javascript" | "data" | "vbscript" | "file" | "about");
        uri == OUT_OF_BAND || (uri.len() <= 2_000 && named && url::Url::parse(uri).is_ok())
    };
    let count = new.redirect_uris.len();
    if count == 0 || count > REDIRECTS_MAX || !new.redirect_uris.iter().all(redirect) {
        return Err(Error::invalid("redirect_uri", "ERR_INVALID", "must be an absolute URI."));
    }
    Ok(())
}

/// The app with this client id.
///
/// # Errors
/// The database's.
pub fn app_by_client_id(tx: &mut Tx, client_id: &str) -> Result<Option<App>, Error> {
    Ok(tx.record("SELECT {} FROM oauth_apps WHERE client_id = ?1", params![client_id])?)
}

/// Whether `secret` is the app's; takes the same time wherever they differ.
pub fn secret_fits(app: &App, secret: &str) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(&app.client_secret_hash, &hash(secret))
        .is_ok()
}

/// The app with this id.
///
/// # Errors
/// [`Error::NotFound`].
pub fn app(tx: &mut Tx, id: Id) -> Result<App, Error> {
    tx.record("SELECT {} FROM oauth_apps WHERE id = ?1", params![id])?
        .ok_or(Error::NotFound("Application"))
}
