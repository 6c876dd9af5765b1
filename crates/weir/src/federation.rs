//! What the configuration means for how this server speaks with others.

use weir_activitypub::{ActivityPub, Setup, SetupError};

use crate::config::{Checked, FederationMode};
use crate::options;
use crate::outside::Outside;
use crate::parts::Parts;

/// The face to other servers; none where the configuration switches it off.
///
/// # Errors
/// [`SetupError`] when the public URL cannot stand in ids.
pub fn face(
    checked: &Checked,
    parts: &Parts,
    outside: &Outside,
) -> Result<Option<ActivityPub>, SetupError> {
    let federation = &checked.config.federation;
    if federation.mode == FederationMode::Off {
        return Ok(None);
    }
    let setup = Setup {
        community: parts.community.clone(),
        fetch: outside.fetch.clone(),
        require_signed_fetch: federation.require_signed_fetch,
        allowlist: federation.mode == FederationMode::Allowlist,
        registrations: options::registrations(checked),
    };
    ActivityPub::new(setup).map(Some)
}
