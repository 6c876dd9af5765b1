//! Asking by WebFinger (RFC 7033) who is behind an address.

use serde::Deserialize;
use url::Url;
use weir_base::KIB;
use weir_community::hosts;

use super::RemoteError;
use super::links;
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
        let resource = format!("acct:{address}");
        // A server for development speaks with others of its kind.
        let (scheme, _) = self.urls().origin();
        let unfit = |why| RemoteError::Unfit(address.clone(), why);
        let url = format!("{scheme}://{domain}/.well-known/webfinger");
        let mut url = Url::parse(&url).map_err(|_| unfit("its domain is none"))?;
        url.query_pairs_mut().append_pair("resource", &resource);
        let answer = match self.descriptor(&address, url).await {
            // A domain whose server lies elsewhere may say so in host-meta (RFC 7033 grew out of
            // that).
            Err(error) if !error.is_passing() => {
                match self.described_at(domain, &resource).await? {
                    Some(url) => self.descriptor(&address, url).await,
                    None => Err(error),
                }
            }
            answer => answer,
        };
        let descriptor = answer?;
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
        let (username, domain) = (username.into(), hosts::name(domain));
        if !hosts::is_name(&domain) {
            return Err(unfit("its subject is of no server"));
        }
        Ok(Answer { username, domain, actor })
    }

    async fn descriptor(&self, address: &str, url: Url) -> Result<Descriptor, RemoteError> {
        let accept = "application/jrd+json, application/json";
        let response = self.unsigned_get(url, accept, BYTES_MAX).await?;
        if matches!(response.status.as_u16(), 404 | 410) {
            return Err(RemoteError::Gone(address.to_owned()));
        }
        let response = response.success(self.now())?;
        serde_json::from_slice(&response.body)
            .map_err(|_| RemoteError::Unfit(address.to_owned(), "its answer is not JSON"))
    }

    /// Where the host-meta of `domain` has accounts asked for, if that is elsewhere than where
    /// they were just asked for, on a server this one speaks with.
    async fn described_at(&self, domain: &str, resource: &str) -> Result<Option<Url>, RemoteError> {
        let (scheme, _) = self.urls().origin();
        let Ok(url) = Url::parse(&format!("{scheme}://{domain}/.well-known/host-meta")) else {
            return Ok(None);
        };
        let asked = url.join("/.well-known/webfinger").ok();
        let accept = "application/xrd+xml, application/xml";
        let response = match self.unsigned_get(url, accept, BYTES_MAX).await {
            // Asked too often: that says nothing of what it knows.
            Err(error @ RemoteError::Budget(..)) => return Err(error),
            Ok(response) if response.status.is_success() => response,
            _ => return Ok(None),
        };
        let (body, resource) = (response.body, resource.to_owned());
        let read = tokio::task::spawn_blocking(move || links::of_host_meta(&body, &resource));
        let Some(found) = read.await.ok().flatten() else { return Ok(None) };
        let same = |asked: &Url| asked.origin() == found.origin() && asked.path() == found.path();
        if asked.is_some_and(|asked| same(&asked)) {
            return Ok(None);
        }
        let host = found.host_str().unwrap_or_default();
        let authority = found.port().map_or(host.to_owned(), |port| format!("{host}:{port}"));
        Ok(match self.standing(&authority).await? {
            Standing::Welcome => Some(found),
            Standing::Refused | Standing::Own => None,
        })
    }

    /// Who is behind `username@domain`, and that the domain which is named in the answer says so
    /// too.
    pub(super) async fn confirmed_webfinger(
        &self,
        username: &str,
        domain: &str,
    ) -> Result<Answer, RemoteError> {
        let domain = &*hosts::name(domain);
        let first = self.webfinger(username, domain).await?;
        if first.domain == domain {
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
