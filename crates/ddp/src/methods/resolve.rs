//! Learning of people on other servers before a post that mentions them is written.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use weir_community::accounts;
use weir_community::text::{self, Piece};

use crate::face::Face;
use crate::wire::Failure;

/// Unknown people one post may make us look for.
const MENTIONS_MAX: usize = 20;
/// How long a person waits for other servers.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks for those whom `text` mentions and who are not known here, all at once.
///
/// # Errors
/// The database's.
pub(super) async fn mentions(face: &Face, text: &str) -> Result<(), Failure> {
    let here = face.env().site.domain.clone();
    let named = text::pieces(text).into_iter().filter_map(|piece| match piece {
        Piece::Mention { username, domain } => Some((username.to_owned(), domain.to_lowercase())),
        _ => None,
    });
    let remote = named.filter(|(_, domain)| !domain.is_empty() && *domain != here);
    let remote: BTreeSet<(String, String)> = remote.take(MENTIONS_MAX * 5).collect();
    if remote.is_empty() {
        return Ok(());
    }
    let unknown = face.read(move |tx, _| {
        let mut unknown = Vec::new();
        for (name, domain) in &remote {
            if accounts::by_address(tx, name, domain)?.is_none() {
                unknown.push((name.clone(), domain.clone()));
            }
        }
        Ok(unknown)
    });
    let unknown = unknown.await?;
    let looks = unknown.iter().take(MENTIONS_MAX).map(async |(name, domain)| {
        let found = tokio::time::timeout(PATIENCE, face.resolver.account(name, domain)).await;
        if !matches!(found, Ok(Ok(_))) {
            tracing::debug!(name, domain, "a mentioned person was not found");
        }
    });
    join_all(looks).await;
    Ok(())
}
