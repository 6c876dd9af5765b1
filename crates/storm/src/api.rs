//! The Mastodon API as an app uses it: signing up, following, posting, looking.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

/// How long an answer is waited for.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// What an app of ours may do.
const SCOPES: &str = "read write follow push";
/// Pages of a list that are read at most: what is longer is not looked at to its end.
const PAGES_MAX: usize = 5_000;

/// A server, spoken to as apps do.
#[derive(Clone)]
pub struct Api {
    client: reqwest::Client,
    base: String,
}

/// Somebody with an account on the server.
#[derive(Debug, Clone)]
pub struct Person {
    /// What requests are made with.
    pub token: String,
    /// The account's id there.
    pub id: String,
    /// Its name, without the domain.
    pub name: String,
    /// The actor's id.
    pub uri: String,
}

impl Api {
    /// The server at `base`: `http://127.0.0.1:8080`.
    ///
    /// # Errors
    /// When the system lacks what a client needs.
    pub fn new(base: &str) -> Result<Self> {
        Self::trusting(base, false)
    }

    /// The same, whose certificate is not looked at where it `may_be_anybody`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn trusting(base: &str, may_be_anybody: bool) -> Result<Self> {
        let client = reqwest::Client::builder()
            .tls_danger_accept_invalid_certs(may_be_anybody)
            .timeout(ANSWER_MAX)
            .pool_max_idle_per_host(256)
            .tcp_nodelay(true)
            .build()?;
        Ok(Self { client, base: base.trim_end_matches('/').to_owned() })
    }

    async fn ask(
        &self,
        method: Method,
        token: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<reqwest::Response> {
        let url = if path.starts_with("http") { path.into() } else { self.base.clone() + path };
        let mut request = self.client.request(method, url);
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        request.send().await.with_context(|| format!("{path} is not answered"))
    }

    async fn success(&self, path: &str, answer: reqwest::Response) -> Result<Value> {
        let status = answer.status();
        let text = answer.text().await?;
        if !status.is_success() {
            let why: String = text.chars().take(300).collect();
            bail!("{path} is answered by {status}: {why}");
        }
        serde_json::from_str(&text).with_context(|| format!("{path} is not answered by JSON"))
    }

    /// What stands at `path`.
    ///
    /// # Errors
    /// When it is not answered with success.
    pub async fn get(&self, token: &str, path: &str) -> Result<Value> {
        let answer = self.ask(Method::GET, token, path, None).await?;
        self.success(path, answer).await
    }

    /// The text that stands at `path`.
    ///
    /// # Errors
    /// When it is not answered with success.
    pub async fn text(&self, path: &str) -> Result<String> {
        let answer = self.ask(Method::GET, "", path, None).await?;
        Ok(answer.error_for_status()?.text().await?)
    }

    /// Does what `path` names.
    ///
    /// # Errors
    /// When it is not answered with success.
    pub async fn post(&self, token: &str, path: &str, body: &Value) -> Result<Value> {
        let answer = self.ask(Method::POST, token, path, Some(body)).await?;
        self.success(path, answer).await
    }

    /// Whether a request is answered with success; the answer is read to its end.
    pub async fn is_answered(&self, token: &str, path: &str, body: Option<&Value>) -> bool {
        let method = if body.is_some() { Method::POST } else { Method::GET };
        match self.ask(method, token, path, body).await {
            Ok(answer) => answer.status().is_success() && answer.bytes().await.is_ok(),
            Err(_) => false,
        }
    }

    /// A list, page by page by its `Link` headers, until `seen` has enough.
    ///
    /// # Errors
    /// When a page is not answered with success.
    pub async fn pages(
        &self,
        token: &str,
        path: &str,
        mut seen: impl FnMut(Vec<Value>) -> bool,
    ) -> Result<()> {
        let mut next = Some(path.to_owned());
        for _ in 0..PAGES_MAX {
            let Some(path) = next.take() else { break };
            let answer = self.ask(Method::GET, token, &path, None).await?;
            let link = answer.headers().get("link").and_then(|link| link.to_str().ok());
            next = link.and_then(next_of);
            let page = self.success(&path, answer).await?;
            let page = page.as_array().cloned().unwrap_or_default();
            if page.is_empty() || !seen(page) {
                break;
            }
        }
        Ok(())
    }

    /// An app, and what it is known by: id and secret.
    async fn app(&self) -> Result<(String, String)> {
        let app = json!({
            "client_name": "storm", "redirect_uris": "urn:ietf:wg:oauth:2.0:oob", "scopes": SCOPES
        });
        let app = self.post("", "/api/v1/apps", &app).await?;
        let text = |name: &str| app[name].as_str().unwrap_or_default().to_owned();
        Ok((text("client_id"), text("client_secret")))
    }

    /// Accounts `names`, made where they do not exist yet: for servers for development, where
    /// whoever asks may join. `instead` says what to do where nobody may.
    ///
    /// # Errors
    /// When the server lets nobody in so.
    pub async fn people(&self, names: &[String], instead: &str) -> Result<Vec<Person>> {
        let (id, secret) = self.app().await?;
        let ask = json!({ "grant_type": "client_credentials", "client_id": id,
                          "client_secret": secret, "scope": SCOPES });
        let app = self.post("", "/oauth/token", &ask).await?;
        let app = app["access_token"].as_str().unwrap_or_default();
        let mut people = Vec::with_capacity(names.len());
        for name in names {
            let (email, password) = (format!("{name}@storm.test"), format!("password of {name}"));
            let form = json!({ "username": name, "email": email, "password": password,
                               "agreement": true, "locale": "en" });
            let answer = self.ask(Method::POST, app, "/api/v1/accounts", Some(&form)).await?;
            let token = if answer.status() == StatusCode::UNPROCESSABLE_ENTITY {
                let ask = json!({ "grant_type": "password", "client_id": id, "username": email,
                                  "client_secret": secret, "password": password, "scope": SCOPES });
                self.post("", "/oauth/token", &ask).await
            } else {
                self.success("/api/v1/accounts", answer).await
            };
            let token =
                token.with_context(|| format!("nobody can join here by an app: {instead}"))?;
            people.push(self.person(token["access_token"].as_str().unwrap_or_default()).await?);
        }
        Ok(people)
    }

    /// Whose token this is.
    ///
    /// # Errors
    /// When the server does not know it.
    pub async fn person(&self, token: &str) -> Result<Person> {
        let account = self.get(token, "/api/v1/accounts/verify_credentials").await?;
        let text = |name: &str| account[name].as_str().unwrap_or_default().to_owned();
        let (id, name, uri) = (text("id"), text("username"), text("uri"));
        let uri = if uri.is_empty() { self.actor_of(&name).await? } else { uri };
        Ok(Person { token: token.to_owned(), id, name, uri })
    }

    /// The actor of a name here, by WebFinger: not every server tells it by the API.
    async fn actor_of(&self, name: &str) -> Result<String> {
        let host = self.base.split("://").last().unwrap_or_default();
        let path = format!("/.well-known/webfinger?resource=acct:{name}@{host}");
        let found = self.get("", &path).await?;
        let links = found["links"].as_array().into_iter().flatten();
        let own = links.filter(|link| link["rel"] == "self");
        let actor = own.filter_map(|link| link["href"].as_str()).next();
        Ok(actor.with_context(|| format!("{name} has no actor"))?.to_owned())
    }
}

/// The address of the next page in a `Link` header.
fn next_of(link: &str) -> Option<String> {
    let next = link.split(',').find(|part| part.contains("rel=\"next\""))?;
    let (_, rest) = next.split_once('<')?;
    Some(rest.split_once('>')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_among_links() {
        let link = "<http://a/?max_id=3>; rel=\"next\", <http://a/?min_id=9>; rel=\"prev\"";
        assert_eq!(next_of(link).as_deref(), Some("http://a/?max_id=3"));
        assert_eq!(next_of("<http://a/?min_id=9>; rel=\"prev\""), None);
    }
}
