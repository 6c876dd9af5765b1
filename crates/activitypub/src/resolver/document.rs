//! One document of another server, asked for in the name of the instance actor and signed as that
//! server understands.

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};
use url::Url;
use weir_fetch::{Request, Response};

use super::RemoteError;
use super::links;
use super::policy::Standing;
use crate::signature::{self, Form, Outgoing};
use crate::wire::{self, ACCEPT, BYTES_MAX, Object, Uri};
use crate::{ActivityPub, Signing};

impl ActivityPub {
    /// The thing whose id is `uri`, from its own server.
    pub(super) async fn document(&self, uri: &Uri) -> Result<Object, RemoteError> {
        let answer = self.get(uri, ACCEPT).await?;
        self.document_in(uri, answer).await
    }

    /// The thing whose id is `uri`, or to whose id that leads; `answer` is what stands at `uri`.
    async fn document_in(&self, uri: &Uri, answer: Response) -> Result<Object, RemoteError> {
        let (mut at, mut answer) = (uri.clone(), Some(answer));
        // A URL of a thing may lead to the thing's id, once.
        for _ in 0..2 {
            let response = match answer.take() {
                Some(answer) => answer,
                None => self.get(&at, ACCEPT).await?,
            };
            let body = Self::activity_json(&at, &response)?;
            let object = wire::parse_object(&body)
                .map_err(|error| RemoteError::Wire(at.to_string(), error))?;
            let from = response.final_url.as_str().parse::<Uri>();
            let from = from.map_err(|error| RemoteError::Wire(at.to_string(), error))?;
            let Some(id) = object.id().cloned() else {
                return Err(RemoteError::Unfit(at.to_string(), "it has no id"));
            };
            if id == at || (id.is_of_same_host(&from) && id.as_str() == from.as_str()) {
                return Ok(object);
            }
            at = id;
        }
        Err(RemoteError::Unfit(uri.to_string(), "its id leads elsewhere"))
    }

    /// As [`document`](Self::document), also by the page that people see of it: that names the
    /// document in a `Link` header or element.
    pub(super) async fn document_of_page(&self, uri: &Uri) -> Result<Object, RemoteError> {
        let response = self.get(uri, ACCEPT).await?;
        if wire::is_media_type(&response.media_type()) {
            return self.document_in(uri, response).await;
        }
        let nowhere = || RemoteError::Unfit(uri.to_string(), "it leads to no ActivityPub document");
        let base = response.final_url.clone();
        let leads_to = match links::of_headers(&response.headers, &base) {
            Some(url) => Some(url),
            None if response.media_type() == "text/html" => {
                let body = response.body.clone();
                let read = tokio::task::spawn_blocking(move || links::of_page(&body, &base));
                read.await.ok().flatten()
            }
            None => None,
        };
        let document: Uri =
            leads_to.and_then(|url| url.as_str().parse().ok()).ok_or_else(nowhere)?;
        if self.urls().is_own(&document) {
            return Err(nowhere());
        }
        self.document(&document).await
    }

    fn activity_json(at: &Uri, response: &Response) -> Result<bytes::Bytes, RemoteError> {
        if wire::is_media_type(&response.media_type()) {
            Ok(response.body.clone())
        } else {
            Err(RemoteError::Unfit(at.to_string(), "it is no ActivityPub document"))
        }
    }

    /// An answer of another server with success, from a server this one speaks with.
    pub(super) async fn get(
        &self,
        uri: &Uri,
        accept: &'static str,
    ) -> Result<Response, RemoteError> {
        let authority = uri.authority();
        match self.standing(authority).await? {
            Standing::Welcome => {}
            Standing::Refused => return Err(RemoteError::Refused(authority.into())),
            Standing::Own => {
                return Err(RemoteError::Unfit(uri.to_string(), "it lies on this server"));
            }
        }
        let url = uri.to_url().ok_or(RemoteError::Unfit(uri.to_string(), "it is no URL"))?;
        let key = self.keys().of_instance().await?;
        let known = self.outbound().peers.form(authority).await?;
        let mut answer = self.signed_get(&url, accept, key.clone(), known).await?;
        if is_about_signature(answer.status) {
            let other = other(known);
            let second = self.signed_get(&url, accept, key, other).await?;
            if second.status.is_success() {
                self.outbound().peers.note_form(authority, other);
            }
            answer = second;
        }
        match answer.status {
            StatusCode::GONE => return Err(RemoteError::Gone(uri.to_string())),
            StatusCode::NOT_FOUND => return Err(RemoteError::Missing(uri.to_string())),
            _ => {}
        }
        Ok(answer.success(self.now())?)
    }

    async fn signed_get(
        &self,
        url: &Url,
        accept: &'static str,
        key: Signing,
        form: Form,
    ) -> Result<Response, RemoteError> {
        let host = url.host_str().unwrap_or_default();
        self.finder().budgets.take(host)?;
        let clock = self.community().env().clock.clone();
        let signer = Arc::new(move |method: &Method, url: &Url| {
            let request = Outgoing { method, url, body: None };
            let signed = signature::sign(form, &request, &key.key_id, &key.key, clock.now());
            signed.unwrap_or_else(|error| {
                tracing::error!(%error, "a request goes out without a signature");
                HeaderMap::new()
            })
        });
        let request = Request::new(url.clone()).accept(accept).limit_bytes(BYTES_MAX).sign(signer);
        Ok(self.fetch().get(request).await?)
    }
}

/// Whether an answer may mean that the form of signature is not understood.
fn is_about_signature(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED)
}

/// The form of signature that is not `form`.
fn other(form: Form) -> Form {
    match form {
        Form::Cavage => Form::Rfc9421,
        Form::Rfc9421 => Form::Cavage,
    }
}
