//! Who reads: known by the signature, where one is needed.

use axum::extract::FromRequestParts;
use http::request::Parts;
use weir_base::Id;
use weir_community::hosts;
use weir_db::Class;

use super::answer::{Kept, Refusal};
use crate::ActivityPub;
use crate::signature::{self, Received, SignatureError};

/// A request for a document. Its signature is looked at only where that changes the answer.
pub struct Reader {
    parts: Parts,
}

impl FromRequestParts<ActivityPub> for Reader {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        _: &ActivityPub,
    ) -> Result<Self, Self::Rejection> {
        Ok(Self { parts: parts.clone() })
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
        let signer = face.signer(&claim.key_id).await.map_err(Refusal::Failed)?;
        let Some(mut signer) = signer else {
            return Err(Refusal::Unsigned("the key could not be fetched".to_owned()));
        };
        if checked.verify(&signer.key).is_err() {
            // It may have been changed since.
            let again = face.refetch(&claim.key_id).await.map_err(Refusal::Failed)?;
            signer = again.ok_or_else(|| refuse(SignatureError::Invalid))?;
            checked.verify(&signer.key).map_err(refuse)?;
        }
        let domain = signer.domain.clone();
        let block =
            face.community().read(Class::Inbound, move |tx, _| hosts::severity(tx, &domain));
        let block = block.await.map_err(Refusal::Failed)?;
        if signer.suspended || block.is_some_and(|severity| severity == "suspend") {
            return Err(Refusal::Forbidden);
        }
        Ok(signer.account)
    }
}
