//! One request with its redirects.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, Method, StatusCode};
use tokio::time::{Instant, timeout_at};
use url::Url;
use weir_base::Timestamp;

use crate::body::{self, Limits};
use crate::host::{HostReport, Hosts, Place};
use crate::options::Options;
use crate::request::{Request, Response, Saved, retry_after_ms};
use crate::resolver::{Refused, Resolver};
use crate::{Error, StartError, target};

/// The largest set of headers an answer may have over HTTP/2, in bytes.
const HEADERS_BYTES_MAX: u32 = 64 * 1024;
/// How many connections to a host stay open while unused.
const IDLE_PER_HOST_MAX: usize = 2;
/// How long a connection stays open while unused.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// The longest pause a host gets by asking for it (429 or 503 with `Retry-After`).
const PAUSE_MAX_MS: i64 = 10 * 60_000;

/// The way out. Cheap to clone; all clones share connections, breakers and budgets.
#[derive(Clone)]
pub struct Fetch {
    inner: Arc<Inner>,
}

struct Inner {
    /// Each waits for no look-up of the others.
    asking: reqwest::Client,
    urgent: reqwest::Client,
    sending: reqwest::Client,
    options: Options,
    hosts: Hosts,
}

/// An answer whose body is not read yet, and the place it is read in.
struct Hop {
    response: reqwest::Response,
    url: Url,
    host: String,
    place: Place,
    leads_to: Option<Url>,
}

impl Fetch {
    /// A way out under this policy.
    ///
    /// # Errors
    /// An extra CA is not a certificate, or the system has none to trust.
    pub fn new(options: Options) -> Result<Self, StartError> {
        let mut extra = Vec::new();
        for pem in &options.extra_ca {
            let certificates = reqwest::Certificate::from_pem_bundle(pem)
                .map_err(|error| StartError::ExtraCa(cause_of(&error)))?;
            if certificates.is_empty() {
                return Err(StartError::ExtraCa("it holds no certificate".to_owned()));
            }
            extra.extend(certificates);
        }
        let client = |resolver: Resolver| {
            reqwest::Client::builder()
                .user_agent(&options.user_agent)
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .referer(false)
                .no_proxy()
                .dns_resolver(resolver)
                .connect_timeout(Duration::from_millis(options.connect_timeout_ms))
                .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
                .pool_idle_timeout(IDLE_MAX)
                .http2_max_header_list_size(HEADERS_BYTES_MAX)
                .tls_certs_merge(extra.clone())
                .build()
                .map_err(|error| StartError::Tls(cause_of(&error)))
        };
        let resolver = Resolver::to_ask(&options);
        let (sending, urgent) = (client(resolver.to_send())?, client(resolver.urgent())?);
        let (asking, hosts) = (client(resolver)?, Hosts::new(&options));
        Ok(Self { inner: Arc::new(Inner { asking, urgent, sending, options, hosts }) })
    }

    /// Gets a resource. Redirects are followed, each checked and signed anew.
    ///
    /// # Errors
    /// See [`Error`]. A status without success is no error here: see [`Response::success`].
    pub async fn get(&self, request: Request) -> Result<Response, Error> {
        let started = Instant::now();
        let result = self.read(Method::GET, &request, Bytes::new()).await;
        record("get", started, result.as_ref().map(|answer| answer.status));
        result
    }

    /// Posts `body`. Only redirects that keep it a post (307, 308) are followed; other ones are
    /// given back as they are.
    ///
    /// # Errors
    /// See [`Error`]. A status without success is no error here: see [`Response::success`].
    pub async fn post(&self, request: Request, body: Bytes) -> Result<Response, Error> {
        let started = Instant::now();
        let result = self.read(Method::POST, &request, body).await;
        record("post", started, result.as_ref().map(|answer| answer.status));
        result
    }

    /// Gets a resource into a new file at `path`, without holding it in memory. The file is not
    /// synced; where this fails there is none.
    ///
    /// # Errors
    /// See [`Error`]; here a status without success is one.
    pub async fn get_to_file(&self, request: Request, path: &Path) -> Result<Saved, Error> {
        let started = Instant::now();
        let result = self.save(&request, path).await;
        record("get", started, result.as_ref().map(|_| StatusCode::OK));
        result
    }

    /// What is known of the hosts asked lately, by name.
    pub fn hosts(&self) -> Vec<HostReport> {
        self.inner.hosts.report()
    }

    /// Has the host of `url`, if it is left alone, asked again at once. Gives whether the host is
    /// known.
    pub fn retry_host(&self, url: &Url) -> bool {
        self.inner.hosts.close(&target::host_of(url))
    }

    /// How long a request may take in all that does not say so itself.
    pub fn deadline(&self) -> Duration {
        Duration::from_millis(self.inner.options.deadline_ms)
    }

    /// The present moment by this way out's clock.
    pub fn now(&self) -> Timestamp {
        self.inner.options.clock.now()
    }

    async fn read(
        &self,
        method: Method,
        request: &Request,
        body: Bytes,
    ) -> Result<Response, Error> {
        let time = self.time(request);
        let Hop { response, url, host, mut place, leads_to } =
            self.follow(method, request, body, time).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        if leads_to.is_some() {
            // What stands beside it says nothing more.
            self.tell(&mut place, status, &headers, None);
            let body = Bytes::new();
            return Ok(Response { status, headers, final_url: url, leads_to, body });
        }
        let limits = self.limits(request, &host, time);
        let result = match body::read(response, &limits).await {
            // The status says that it refuses; a long page about that is not needed.
            Err(Error::TooLarge { .. }) if !status.is_success() => Ok(Bytes::new()),
            result => result,
        };
        self.tell(&mut place, status, &headers, result.as_ref().err());
        Ok(Response { status, headers, final_url: url, leads_to, body: result? })
    }

    async fn save(&self, request: &Request, path: &Path) -> Result<Saved, Error> {
        let time = self.time(request);
        let Hop { response, url, host, mut place, .. } =
            self.follow(Method::GET, request, Bytes::new(), time).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        if !status.is_success() {
            self.tell(&mut place, status, &headers, None);
            let retry_after_ms = retry_after_ms(&headers, self.now());
            return Err(Error::Status { host, status, retry_after_ms });
        }
        let limits = self.limits(request, &host, time);
        let result = body::save(response, &limits, path).await;
        self.tell(&mut place, status, &headers, result.as_ref().err());
        Ok(Saved { headers, final_url: url, bytes: result? })
    }

    /// Sends the request and follows redirects to the answer that is none.
    async fn follow(
        &self,
        method: Method,
        request: &Request,
        body: Bytes,
        time: Time,
    ) -> Result<Hop, Error> {
        let Inner { options, .. } = &*self.inner;
        let mut url = request.url.clone();
        url.set_fragment(None);
        let mut host = target::host_of(&url);
        for _ in 0..=options.redirects_max {
            let mut hop = self.hop(&method, request, &url, &body, time).await?;
            let headers = hop.response.headers();
            let next = target::next_hop(&method, &url, hop.response.status(), headers);
            let Some(next) = next.inspect_err(|_| hop.place.answered())? else {
                return Ok(hop);
            };
            if request.stay_on_host && target::host_of(&next) != hop.host {
                hop.leads_to = Some(next);
                return Ok(hop);
            }
            hop.place.answered();
            (url, host) = (next, hop.host);
        }
        Err(Error::Redirects { host, max: options.redirects_max })
    }

    /// One hop: checked, admitted, signed and sent, up to the headers of its answer.
    async fn hop(
        &self,
        method: &Method,
        request: &Request,
        url: &Url,
        body: &Bytes,
        time: Time,
    ) -> Result<Hop, Error> {
        let Inner { asking, urgent, sending, options, hosts } = &*self.inner;
        target::check(url, options)?;
        let host = target::host_of(url);
        // To be out of time before it was one's turn is not the host's failure.
        let busy = |_| Error::Busy { host: host.clone() };
        let mut place =
            timeout_at(time.until, hosts.enter(&host, request.insists)).await.map_err(busy)??;
        let mut headers = request.headers.clone();
        if host != target::host_of(&request.url) {
            headers.remove(AUTHORIZATION);
            headers.remove(COOKIE);
        }
        if let Some(sign) = &request.sign {
            for (name, value) in &sign(method, url) {
                headers.insert(name.clone(), value.clone());
            }
        }
        let client = match *method {
            Method::GET if request.urgent => urgent,
            Method::GET => asking,
            _ => sending,
        };
        let answer =
            client.request(method.clone(), url.clone()).headers(headers).body(body.clone()).send();
        let error = match timeout_at(time.until, answer).await {
            Ok(Ok(response)) => {
                return Ok(Hop { response, url: url.clone(), host, place, leads_to: None });
            }
            Ok(Err(error)) => sending_error(host, &error),
            Err(_) => Error::Timeout { host, deadline_ms: time.deadline_ms },
        };
        if error.blames_host() {
            place.failed();
        }
        Err(error)
    }

    /// Tells the breaker how a complete exchange went.
    fn tell(
        &self,
        place: &mut Place,
        status: StatusCode,
        headers: &HeaderMap,
        error: Option<&Error>,
    ) {
        let asks_for_pause =
            matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let pause_ms = retry_after_ms(headers, self.now()).filter(|ms| asks_for_pause && *ms > 0);
        if let Some(pause_ms) = pause_ms {
            return place.paused(pause_ms.min(PAUSE_MAX_MS));
        }
        // What a gateway says when the server behind it is away; 520 to 530 are Cloudflare's.
        let away = matches!(status.as_u16(), 502..=504 | 520..=530);
        if away || error.is_some_and(Error::blames_host) {
            place.failed();
        } else {
            place.answered();
        }
    }

    fn time(&self, request: &Request) -> Time {
        let deadline = request.deadline.unwrap_or(self.deadline());
        Time { until: Instant::now() + deadline, deadline_ms: deadline.as_millis() as u64 }
    }

    fn limits<'a>(&self, request: &Request, host: &'a str, time: Time) -> Limits<'a> {
        let limit_bytes = request.limit_bytes.unwrap_or(self.inner.options.body_bytes_max);
        Limits { host, limit_bytes, until: time.until, deadline_ms: time.deadline_ms }
    }
}

/// The time of one request, redirects and body included.
#[derive(Clone, Copy)]
struct Time {
    until: Instant,
    deadline_ms: u64,
}

fn sending_error(host: String, error: &reqwest::Error) -> Error {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        match inner.downcast_ref::<Refused>() {
            Some(Refused::NotFound) => return Error::Resolve { host },
            Some(Refused::Private) => return Error::Private { host },
            Some(Refused::Busy) => return Error::Busy { host },
            None => source = inner.source(),
        }
    }
    Error::Connect { host, cause: cause_of(error) }
}

/// The innermost cause: the outer ones repeat the URL.
pub(crate) fn cause_of(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn record(method: &'static str, started: Instant, result: Result<StatusCode, &Error>) {
    let outcome = match result {
        Ok(status) if status.is_success() => "success",
        Ok(_) => "status",
        Err(error) => {
            tracing::debug!(%error, "not fetched");
            error.kind()
        }
    };
    metrics::counter!("weir_fetch_requests_total", "method" => method, "outcome" => outcome)
        .increment(1);
    metrics::histogram!("weir_fetch_request_seconds", "method" => method)
        .record(started.elapsed().as_secs_f64());
}
