//! One document of another server, asked for in the name of the instance actor and signed as that
//! server understands.

use std::sync::Arc;

use http::{HeaderMap, Method, StatusCode};
use url::Url;
use weir_fetch::{Request, Response};

use super::RemoteError;
use super::budget::is_for_key;
use super::links;
use super::policy::Standing;
use crate::signature::{self, Form, Outgoing};
use crate::wire::{self, ACCEPT, BYTES_MAX, Object, Uri};
use crate::{ActivityPub, Signing};

/// How many times a way may lead on to another server.
pub(crate) const SERVERS_MAX: usize = 2;

/// How far a redirect is followed.
#[derive(Clone, Copy)]
enum Reach {
    /// On the server that is asked.
    Server,
    /// To other servers too, [so many times](SERVERS_MAX).
    Anywhere,
}

impl ActivityPub {
    /// The thing whose id is `uri`, or to whose id that leads; always from the server of its id.
    pub(super) async fn document(&self, uri: &Uri) -> Result<Object, RemoteError> {
        let answer = self.get(uri, Reach::Anywhere).await?;
        self.document_in(uri, answer).await
    }

    /// The same; `answer` is what stands at `uri`, perhaps by way of other servers.
    async fn document_in(&self, uri: &Uri, answer: Response) -> Result<Object, RemoteError> {
        let (object, from) = read(uri, &answer)?;
        let id = id_of(uri, &object)?;
        if is_by_its_server(id, uri, &from) {
            return Ok(object);
        }
        if id == uri {
            // Its own server had it said by another one.
            return Err(RemoteError::Unfit(uri.to_string(), "another server speaks for it"));
        }
        // A URL of a thing may lead to the thing's id, once; that is asked on its own server.
        let at = id.clone();
        let (object, from) = read(&at, &self.get(&at, Reach::Server).await?)?;
        if is_by_its_server(id_of(&at, &object)?, &at, &from) {
            return Ok(object);
        }
        Err(RemoteError::Unfit(uri.to_string(), "its id leads elsewhere"))
    }

    /// As [`document`](Self::document), also by the page that people see of it: that names the
    /// document in a `Link` header or element.
    pub(super) async fn document_of_page(&self, uri: &Uri) -> Result<Object, RemoteError> {
        let response = self.get(uri, Reach::Anywhere).await?;
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
        let document: Uri = leads_to.and_then(|url| address(&url).ok()).ok_or_else(nowhere)?;
        if self.urls().is_own(&document) {
            return Err(nowhere());
        }
        self.document(&document).await
    }

    /// An answer with success to what stands at `uri`. Each server on the way is one that this
    /// one speaks with, and is asked as one of its own.
    async fn get(&self, uri: &Uri, reach: Reach) -> Result<Response, RemoteError> {
        let mut at = uri.clone();
        for _ in 0..=SERVERS_MAX {
            let answer = self.ask(&at).await?;
            match (&answer.leads_to, reach) {
                (None, _) => return self.success(uri, &at, answer),
                (Some(next), Reach::Anywhere) => at = address(next)?,
                (Some(_), Reach::Server) => {
                    return Err(RemoteError::Unfit(at.to_string(), "it leads to another server"));
                }
            }
        }
        Err(RemoteError::Unfit(uri.to_string(), "it leads from server to server"))
    }

    /// The answer of the server `at` to the question for `uri`, if it is a success.
    fn success(&self, uri: &Uri, at: &Uri, answer: Response) -> Result<Response, RemoteError> {
        match answer.status {
            // Of what is no more only its own server knows.
            StatusCode::GONE | StatusCode::NOT_FOUND if !at.is_of_same_host(uri) => {
                Err(RemoteError::Unfit(uri.to_string(), "it leads to nothing on another server"))
            }
            StatusCode::GONE => Err(RemoteError::Gone(uri.to_string())),
            StatusCode::NOT_FOUND => Err(RemoteError::Missing(uri.to_string())),
            _ => Ok(answer.success(self.now())?),
        }
    }

    /// What one server answers at `uri`.
    async fn ask(&self, uri: &Uri) -> Result<Response, RemoteError> {
        self.welcome(uri).await?;
        let authority = uri.authority();
        let url = uri.to_url().ok_or(RemoteError::Unfit(uri.to_string(), "it is no URL"))?;
        let key = self.keys().of_instance().await?;
        let known = self.outbound().peers.form(authority).await?;
        let answer = self.signed_get(&url, key.clone(), known).await?;
        if !is_about_signature(answer.status) {
            return Ok(answer);
        }
        let other = other(known);
        let second = self.signed_get(&url, key, other).await?;
        if second.status.is_success() {
            self.outbound().peers.note_form(authority, other);
        }
        Ok(second)
    }

    /// That this server speaks with the one of `uri`.
    pub(super) async fn welcome(&self, uri: &Uri) -> Result<(), RemoteError> {
        match self.standing(uri.authority()).await? {
            Standing::Welcome => Ok(()),
            Standing::Refused => Err(RemoteError::Refused(uri.authority().into())),
            Standing::Own => Err(RemoteError::Unfit(uri.to_string(), "it lies on this server")),
        }
    }

    /// An answer of any status to a request without a signature, for what needs none. The server
    /// of `url` is one that this one speaks with.
    pub(super) async fn unsigned_get(
        &self,
        url: Url,
        accept: &'static str,
        limit_bytes: usize,
    ) -> Result<Response, RemoteError> {
        let mut at = url.clone();
        for _ in 0..=SERVERS_MAX {
            let host = at.host_str().unwrap_or_default().to_owned();
            self.finder().budgets.take(&host)?;
            let request = Request::new(at).accept(accept).limit_bytes(limit_bytes);
            let answer = self.fetch().get(urgent(&host, request.stay_on_host())).await?;
            let Some(next) = answer.leads_to.clone() else { return Ok(answer) };
            self.welcome(&address(&next)?).await?;
            at = next;
        }
        Err(RemoteError::Unfit(url.to_string(), "it leads from server to server"))
    }

    async fn signed_get(
        &self,
        url: &Url,
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
        let request = Request::new(url.clone()).accept(ACCEPT).limit_bytes(BYTES_MAX).sign(signer);
        Ok(self.fetch().get(urgent(host, request.stay_on_host())).await?)
    }
}

/// The request, before others where it is for a key.
fn urgent(host: &str, request: Request) -> Request {
    if is_for_key(host) { request.urgent() } else { request }
}

/// What an answer says, and where it stood in the end.
fn read(at: &Uri, answer: &Response) -> Result<(Object, Uri), RemoteError> {
    if !wire::is_media_type(&answer.media_type()) {
        return Err(RemoteError::Unfit(at.to_string(), "it is no ActivityPub document"));
    }
    let object = wire::parse_object(&answer.body)
        .map_err(|error| RemoteError::Wire(at.to_string(), error))?;
    Ok((object, address(&answer.final_url)?))
}

fn id_of<'o>(at: &Uri, object: &'o Object) -> Result<&'o Uri, RemoteError> {
    object.id().ok_or_else(|| RemoteError::Unfit(at.to_string(), "it has no id"))
}

/// Whether what stood at `from`, and was asked for as `at`, has its id from the server that serves
/// it.
fn is_by_its_server(id: &Uri, at: &Uri, from: &Uri) -> bool {
    id.is_of_same_host(from) && (id == at || id == from)
}

fn address(url: &Url) -> Result<Uri, RemoteError> {
    url.as_str().parse().map_err(|error| RemoteError::Wire(url.to_string(), error))
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
