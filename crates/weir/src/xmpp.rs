//! Chat, put together with what it leans on.

use tokio_util::sync::CancellationToken;
use weir_community::Community;
use weir_xmpp::{Setup, Xmpp};

use crate::config::Checked;

/// Sessions without a descriptor of their own (they wait to be resumed), for each that has one.
const SESSIONS_PER_DESCRIPTOR: u64 = 2;

/// The face of chat.
pub fn face(
    checked: &Checked,
    community: &Community,
    descriptors_max: u64,
    shutdown: CancellationToken,
) -> Xmpp {
    let sessions_max = descriptors_max.saturating_mul(SESSIONS_PER_DESCRIPTOR);
    Xmpp::start(Setup {
        community: community.clone(),
        dev: checked.modes.dev,
        sessions_max: usize::try_from(sessions_max).unwrap_or(usize::MAX),
        shutdown,
    })
}
