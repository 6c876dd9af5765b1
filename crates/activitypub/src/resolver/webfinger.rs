//! Asking by WebFinger (RFC 7033) who is behind an address.

use serde::Deserialize;
use weir_base::KIB;
use weir_fetch::Request;

use super::RemoteError;
use super::policy::Standing;
use crate::ActivityPub;
use crate::wire::{self, Uri};

/// The largest answer that is read, in bytes.
const BYTES_MAX: usize = 64 * KIB;

#[derive(Deserialize)]
struct Descriptor {
    subject: Option<String>,
    #[serde(default)]
    links: Vec<Link>,
}

#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    rel: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    href: Option<String>,
}

/// Who is behind an address.
pub(super) struct Answer {
    /// Name and domain, as the server itself writes them.
    pub(super) username: String,
    pub(super) domain: String,
    /// The actor.
    pub(super) actor: Uri,
}

impl ActivityPub {
    /// Who is behind `username@domain`, by the word of `domain`.
    pub(super) async fn webfinger(
        &self,
        username: &str,
        domain: &str,
    ) -> Result<Answer, RemoteError> {
        if self.standing(domain).await? == Standing::Refused {
            return Err(RemoteError::Refused(domain.into()));
        }
        let address = format!("{username}@{domain}");
        // A server for development speaks with others of its kind.
        let (scheme, _) = self.urls().origin();
        let unfit = |why| RemoteError::Unfit(address.clone(), why);
        let url = format!("{scheme}://{domain}/.well-known/webfinger");
        let mut url = url::Url::parse(&url).map_err(|_| unfit("its domain is none"))?;
        url.query_pairs_mut().append_pair("resource", &format!("acct:{address}"));
        self.finder().budgets.take(url.host_str().unwrap_or_default())?;
        let request = Request::new(url).accept("application/jrd+json, application/json");
        let response = self.fetch().get(request.limit_bytes(BYTES_MAX)).await?;
        if matches!(response.status.as_u16(), 404 | 410) {
            return Err(RemoteError::Gone(address));
        }
        let response = response.success(self.now())?;
        let descriptor: Descriptor =
            serde_json::from_slice(&response.body).map_err(|_| unfit("its answer is not JSON"))?;
        let actor = descriptor
            .links
            .iter()
            .filter(|link| link.rel == "self")
            .filter(|link| {
                let kind = link.kind.as_deref().unwrap_or_default();
                wire::is_media_type(kind.split(';').next().unwrap_or_default().trim())
            })
            .find_map(|link| link.href.as_deref()?.parse().ok())
            .ok_or_else(|| unfit("it has no actor"))?;
        let subject = descriptor.subject.as_deref().unwrap_or_default();
        let subject = subject.strip_prefix("acct:").unwrap_or(subject);
        let (username, domain) = subject.split_once('@').unwrap_or((username, domain));
        Ok(Answer { username: username.into(), domain: domain.to_lowercase(), actor })
    }

    /// Who is behind `username@domain`, and that the domain which is named in the answer says so
    /// too.
    pub(super) async fn confirmed_webfinger(
        &self,
        username: &str,
        domain: &str,
    ) -> Result<Answer, RemoteError> {
        let first = self.webfinger(username, domain).await?;
        if first.domain == domain.to_lowercase() {
            return Ok(first);
        }
        let second = self.webfinger(&first.username, &first.domain).await?;
        if second.domain == first.domain && second.actor == first.actor {
            Ok(second)
        } else {
            Err(RemoteError::Unfit(format!("{username}@{domain}"), "its servers disagree"))
        }
    }
}
