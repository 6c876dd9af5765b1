//! With whom this server speaks, in memory for a moment.

use quick_cache::sync::Cache;
use weir_base::Timestamp;
use weir_community::{Error, hosts};
use weir_db::Class;

use crate::{ActivityPub, Signer};

/// Servers remembered.
const HOSTS_MAX: usize = 20_000;
/// How long a decision of staff takes at most to be followed by other nodes of a cluster, in ms;
/// here it is followed at once.
const LIFE_MS: i64 = 10_000;

/// How a server stands to this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Spoken with.
    Welcome,
    /// Not spoken with.
    Refused,
    /// This server itself.
    Own,
}

/// Each with the number of decisions there were when it was read, and when that was.
pub(crate) struct Policies(Cache<String, (u64, Timestamp, Standing)>);

impl Default for Policies {
    fn default() -> Self {
        Self(Cache::new(HOSTS_MAX))
    }
}

impl Policies {
    /// Servers in memory.
    pub(super) fn held(&self) -> usize {
        self.0.len()
    }
}

impl ActivityPub {
    /// How the server at `authority` stands to this one.
    pub(crate) async fn standing(&self, authority: &str) -> Result<Standing, Error> {
        let site = &self.community().env().site;
        if authority == self.urls().origin().1 || authority == site.domain {
            return Ok(Standing::Own);
        }
        let (decisions, now) = (self.community().env().host_decisions.count(), self.now());
        if let Some((counted, read_at, known)) = self.finder().policies.0.get(authority)
            && counted == decisions
            && (0..LIFE_MS).contains(&now.since_ms(read_at))
        {
            return Ok(known);
        }
        let (name, allowlist) = (authority.to_owned(), self.is_allowlist());
        let standing = self
            .community()
            .read(Class::Inbound, move |tx, _| {
                let refused = hosts::policy(tx, &name)?.suspended
                    || (allowlist && !hosts::is_allowed(tx, &name)?);
                Ok(if refused { Standing::Refused } else { Standing::Welcome })
            })
            .await?;
        self.finder().policies.0.insert(authority.to_owned(), (decisions, now, standing));
        Ok(standing)
    }

    /// Whether the name of whose key this is, which came from `host`, is of another server, with
    /// which this one does not speak.
    pub(crate) async fn is_barred(&self, signer: &Signer, host: &str) -> Result<bool, Error> {
        Ok(signer.domain != host && self.standing(&signer.domain).await? == Standing::Refused)
    }
}
