//! What the configuration means for how this server speaks with others.

use tokio::runtime::Handle;
use weir_activitypub::{ActivityPub, FreeDisk, HostLink, InboxLimits, Setup, SetupError};

use crate::config::{Checked, FederationMode, Role};
use crate::options;
use crate::outside::Outside;
use crate::parts::Parts;
use crate::process;

/// The face to other servers; none where the configuration switches it off.
///
/// # Errors
/// [`SetupError`] when the public URL cannot stand in ids.
pub fn face(
    checked: &Checked,
    parts: &Parts,
    outside: &Outside,
    door: &Handle,
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
        free_disk: free_disk(checked, parts),
        inbox_limits: InboxLimits::default(),
        host_links: host_links(checked, parts),
        door: door.clone(),
    };
    ActivityPub::new(setup).map(Some)
}

/// How chat is reached by the web (XEP-0156).
pub fn host_links(checked: &Checked, parts: &Parts) -> Vec<HostLink> {
    if !checked.config.roles.contains(&Role::Xmpp) {
        return Vec::new();
    }
    let base = &parts.community.env().site.base;
    // http to ws, https to wss.
    let sockets = base.replacen("http", "ws", 1);
    let link = |name, href| HostLink { rel: name, href };
    vec![
        link("urn:xmpp:alt-connections:websocket", format!("{sockets}/xmpp-websocket")),
        link("urn:xmpp:alt-connections:xbosh", format!("{base}/http-bind")),
    ]
}

/// What is free on the disk that the database lies on, where that is this machine's to know.
fn free_disk(checked: &Checked, parts: &Parts) -> FreeDisk {
    let data = parts.community.env().data.clone();
    let file = checked.config.database.url.expose().strip_prefix("sqlite:");
    let file = file.map(|path| data.join(path.trim_start_matches("//")));
    Box::new(move || file.as_deref()?.parent().map(process::free_disk_bytes))
}
