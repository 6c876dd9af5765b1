//! Who reads: known by the signature, where one is needed.

use axum::extract::FromRequestParts;
use http::request::Parts;
use weir_base::Id;
use weir_http::ClientIp;

use super::answer::{Kept, Refusal};
use crate::ActivityPub;
use crate::Signer;
use crate::resolver::Standing;
use crate::signature::{self, Checked, Received, SignatureError};
use crate::wire::Uri;

/// A request for a document. Its signature is looked at only where that changes the answer.
pub struct Reader {
    parts: Parts,
    client: ClientIp,
}

impl FromRequestParts<ActivityPub> for Reader {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        face: &ActivityPub,
    ) -> Result<Self, Self::Rejection> {
        let client = ClientIp::from_request_parts(parts, face).await?;
        Ok(Self { parts: parts.clone(), client })
    }
}

impl Reader {
    /// The request's headers.
    pub fn headers(&self) -> &http::HeaderMap {
        &self.parts.headers
    }

    /// For what everybody may see: refuses who does not sign only where that is required.
    ///
    /// # Errors
    /// [`Refusal::Unsigned`], [`Refusal::Forbidden`].
    pub async fn of_public(&self, face: &ActivityPub) -> Result<Kept, Refusal> {
        if !face.requires_signed_fetch() {
            return Ok(Kept::ByAll);
        }
        self.signed(face).await?;
        Ok(Kept::ByReader)
    }

    /// For what not everybody may see: the account that reads, none for a visitor.
    ///
    /// # Errors
    /// As [`of_public`](Self::of_public).
    pub async fn account(&self, face: &ActivityPub) -> Result<Option<Id>, Refusal> {
        match self.signed(face).await {
            Ok(account) => Ok(Some(account)),
            Err(refusal @ Refusal::Failed(_)) => Err(refusal),
            Err(refusal) if face.requires_signed_fetch() => Err(refusal),
            Err(_) => Ok(None),
        }
    }

    /// The account whose good signature the request has.
    async fn signed(&self, face: &ActivityPub) -> Result<Id, Refusal> {
        let refuse = |error: SignatureError| Refusal::Unsigned(error.to_string());
        let claim = signature::claim(&self.parts.headers).map_err(refuse)?;
        let path = self.parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let (scheme, authority) = face.urls().origin();
        let received = Received {
            method: &self.parts.method,
            scheme,
            authority,
            path_and_query: path,
            headers: &self.parts.headers,
        };
        let now = face.community().env().clock.now();
        let checked = signature::check(&received, b"", now).map_err(refuse)?;
        let unsigned = |why: &str| Refusal::Unsigned(why.to_owned());
        let key: Uri =
            claim.key_id.parse().map_err(|_| unsigned("the key's id is no web address"))?;
        self.welcome(face, key.authority()).await?;
        let signer = self.signer(face, &key, &checked).await?;
        if signer.domain != key.authority() {
            self.welcome(face, &signer.domain).await?;
        }
        if signer.suspended { Err(Refusal::Forbidden) } else { Ok(signer.account) }
    }

    /// That this server speaks with the one at `authority`.
    async fn welcome(&self, face: &ActivityPub, authority: &str) -> Result<(), Refusal> {
        match face.standing(authority).await.map_err(Refusal::Failed)? {
            Standing::Welcome => Ok(()),
            Standing::Refused => Err(Refusal::Forbidden),
            Standing::Own => Err(Refusal::Unsigned("this server does not ask itself".to_owned())),
        }
    }

    /// Whose key it is that fits the signature. It is fetched where it is not known, or may have
    /// been changed, while the network of the reader has something left for that.
    async fn signer(
        &self,
        face: &ActivityPub,
        key: &Uri,
        checked: &Checked,
    ) -> Result<Signer, Refusal> {
        let invalid = || Refusal::Unsigned(SignatureError::Invalid.to_string());
        let known = face.known_signer(key.as_str()).await.map_err(Refusal::Failed)?;
        let is_known = known.is_some();
        if let Some(known) = known.filter(|known| checked.verify(&known.key).is_ok()) {
            return Ok(known);
        }
        let (source, now) = (self.client.source(), face.now());
        let sources = &face.inbox().sources;
        if sources.is_spent(source, now) {
            return Err(invalid());
        }
        let Some(fetched) = face.refetch(key.as_str()).await.map_err(Refusal::Failed)? else {
            if is_known {
                sources.forged(source, now);
                return Err(invalid());
            }
            sources.named_no_key(source, now);
            return Err(Refusal::Unsigned("the key could not be fetched".to_owned()));
        };
        if checked.verify(&fetched.key).is_err() {
            sources.forged(source, now);
            return Err(invalid());
        }
        Ok(fetched)
    }
}
