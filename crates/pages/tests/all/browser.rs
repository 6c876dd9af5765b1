//! A small browser: it keeps cookies, and sends the form of the page it shows.

use std::collections::BTreeMap;

use axum::Router;
use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

pub struct Browser {
    router: Router,
    base: String,
    pub cookies: BTreeMap<String, String>,
    /// The form of the last page: where it goes, and its hidden fields.
    form: Option<(String, Vec<(String, String)>)>,
}

pub struct Answer {
    pub status: u16,
    pub location: String,
    pub policy: String,
    pub body: String,
    pub set_cookies: Vec<String>,
}

impl Browser {
    pub fn new(router: Router, base: &str) -> Self {
        Self { router, base: base.into(), cookies: BTreeMap::new(), form: None }
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        self.request(Method::GET, path, &[], None).await
    }

    /// Sends the form in the main part of the last page with `fields` filled in.
    pub async fn send(&mut self, fields: &[(&str, &str)]) -> Answer {
        let (action, hidden) = self.form.clone().expect("a page with a form");
        let filled = |name: &str| fields.iter().any(|field| field.0 == name);
        let mut all: Vec<(String, String)> =
            hidden.into_iter().filter(|field| !filled(&field.0)).collect();
        all.extend(fields.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        self.post(&action, &all).await
    }

    pub async fn post(&mut self, path: &str, fields: &[(String, String)]) -> Answer {
        let origin = self.base.clone();
        self.request(Method::POST, path, fields, Some(&origin)).await
    }

    pub async fn request(
        &mut self,
        method: Method,
        path: &str,
        fields: &[(String, String)],
        origin: Option<&str>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "weir.test");
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            request = request.header("cookie", cookies.join("; "));
        }
        if let Some(origin) = origin {
            request = request
                .header("origin", origin)
                .header("content-type", "application/x-www-form-urlencoded");
        }
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(fields.iter())
            .finish();
        self.exchange(request.body(Body::from(body)).unwrap()).await
    }

    /// Sends `fields` and `files` (name and content) as a form with files does.
    pub async fn upload(
        &mut self,
        path: &str,
        fields: &[(String, String)],
        files: &[(&str, &[u8])],
    ) -> Answer {
        let mut body = Vec::new();
        let mut part = |head: String, content: &[u8]| {
            let head = format!("--edge\r\nContent-Disposition: form-data; {head}\r\n\r\n");
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(content);
            body.extend_from_slice(b"\r\n");
        };
        for (name, value) in fields {
            part(format!("name=\"{name}\""), value.as_bytes());
        }
        for (name, content) in files {
            let kind = "Content-Type: application/octet-stream";
            part(format!("name=\"{name}\"; filename=\"picture.png\"\r\n{kind}"), content);
        }
        body.extend_from_slice(b"--edge--\r\n");
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = Request::post(path)
            .header("host", "weir.test")
            .header("cookie", cookies.join("; "))
            .header("origin", self.base.clone())
            .header("content-type", "multipart/form-data; boundary=edge");
        self.exchange(request.body(Body::from(body)).unwrap()).await
    }

    async fn exchange(&mut self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let text = |name: &str| {
            let value = response.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let (location, policy) = (text("location"), text("content-security-policy"));
        let set_cookies: Vec<String> = response
            .headers()
            .get_all("set-cookie")
            .iter()
            .map(|value| value.to_str().unwrap().to_owned())
            .collect();
        for cookie in &set_cookies {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            if cookie.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.into(), value.into());
            }
        }
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        self.form = main_form(&body).or(self.form.take());
        Answer { status, location, policy, body, set_cookies }
    }
}

/// The last form of the page's main part.
fn main_form(body: &str) -> Option<(String, Vec<(String, String)>)> {
    let main = body.split_once("<main")?.1;
    let form = main.rsplit_once("<form")?.1.split_once("</form>")?.0;
    let action = attribute(form, "action")?;
    let hidden = form
        .split("<input")
        .skip(1)
        .filter(|input| input.contains("type=\"hidden\""))
        .filter_map(|input| Some((attribute(input, "name")?, attribute(input, "value")?)))
        .collect();
    Some((action, hidden))
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let rest = tag.split_once(&format!("{name}=\""))?.1;
    let value = rest.split_once('"')?.0;
    Some(html_escape::decode_html_entities(value).into_owned())
}

impl Browser {
    /// The hidden fields of the last page's form, with `fields`.
    pub fn form_fields(&self, fields: &[(String, String)]) -> Vec<(String, String)> {
        let mut all = self.form.clone().expect("a page with a form").1;
        all.extend_from_slice(fields);
        all
    }
}
