//! Applications, their permissions and the tokens they act with.

mod apps;
mod grants;
mod held;
mod scopes;
mod tokens;

pub use apps::{App, NewApp, app, app_by_client_id, register_app, secret_fits};
pub use grants::{Authorization, NewGrant, exchange, grant};
pub use held::{Held, Hold};
pub use scopes::{Scopes, UnknownScope};
pub(crate) use tokens::role_changed;
pub use tokens::{
    Bearer, LogIns, access_changed, bearer, bearer_by_id, issue, person_behind, powerless, revoke,
    revoke_all, revoke_by_id, revoke_own, tokens_of, touch,
};

use aws_lc_rs::digest::{SHA256, digest};

/// The address that shows the code to the person instead of sending it to an app.
pub const OUT_OF_BAND: &str = "urn:ietf:wg:oauth:2.0:oob";

/// Tokens, codes and secrets are long and random, so one SHA-256 keeps them at rest.
pub fn hash(secret: &str) -> Vec<u8> {
    digest(&SHA256, secret.as_bytes()).as_ref().to_vec()
}
