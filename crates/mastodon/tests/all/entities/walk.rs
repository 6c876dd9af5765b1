//! Asks endpoints and compares what they answer; knows at the end which were never asked, and
//! which showed nothing.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::Body;
use http::{Method, Request};
use serde_json::Value;

use super::compare::{Table, faults, table};
use crate::place::{Answer, Place, Someone};

/// Endpoints by name, and what they answer.
type Endpoints = BTreeMap<String, String>;

/// A way through the API.
pub struct Walk<'a> {
    pub place: &'a Place,
    entities: Table,
    endpoints: Endpoints,
    asked: BTreeSet<String>,
    shown: BTreeSet<String>,
    found: Vec<String>,
}

/// The endpoints of `tests/endpoints.toml`, but those that are elsewhere.
fn endpoints() -> Endpoints {
    let groups: BTreeMap<String, Endpoints> =
        toml::from_str(include_str!("../../endpoints.toml")).unwrap();
    let here = groups.into_iter().filter(|(group, _)| group != "elsewhere");
    here.flat_map(|(_, endpoints)| endpoints).collect()
}

/// `GET /api/v1/lists/:id=7?limit=1` as the endpoint's name and the path that is asked.
fn parse(line: &str) -> (String, Method, String) {
    let (method, path) = line.split_once(' ').unwrap();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut name = Vec::new();
    let mut asked = Vec::new();
    for part in path.split('/') {
        match part.strip_prefix(':').and_then(|part| part.split_once('=')) {
            Some((parameter, value)) => {
                name.push(format!(":{parameter}"));
                asked.push(value);
            }
            None => {
                name.push(part.to_owned());
                asked.push(part);
            }
        }
    }
    let mut path = asked.join("/");
    if !query.is_empty() {
        path.push('?');
        path.push_str(query);
    }
    (format!("{method} {}", name.join("/")), method.parse().unwrap(), path)
}

impl<'a> Walk<'a> {
    pub fn through(place: &'a Place) -> Self {
        Self {
            place,
            entities: table(),
            endpoints: endpoints(),
            asked: BTreeSet::new(),
            shown: BTreeSet::new(),
            found: Vec::new(),
        }
    }

    /// Asks `METHOD /path/with/:parameter=value`, compares, and returns what was answered.
    pub async fn ask<'b>(
        &mut self,
        line: &str,
        by: impl Into<Option<&'b Someone>>,
        body: Value,
    ) -> Value {
        let (name, method, path) = parse(line);
        let kind = self.endpoints.get(&name).cloned();
        if kind.as_deref() == Some("stream") {
            self.asked.insert(name);
            let by = by.into();
            let mut request = Request::builder().method(method).uri(path);
            if let Some(someone) = by {
                request = request.header("authorization", format!("Bearer {}", someone.token));
            }
            let answer = self.place.begin(request.body(Body::empty()).unwrap()).await;
            if answer.status() != 200 {
                self.found.push(format!("{line}: {}", answer.status()));
            }
            return Value::Null;
        }
        let answer = self.place.call(method, &path, by.into(), body).await;
        self.take(&name, answer)
    }

    /// Compares an answer that was asked for in another way.
    pub fn take(&mut self, name: &str, answer: Answer) -> Value {
        let at = format!("{name} on {}", self.place.name);
        self.asked.insert(name.to_owned());
        let Some(kind) = self.endpoints.get(name) else {
            self.found.push(format!("{at}: is not in the table of endpoints"));
            return answer.body;
        };
        if let Ok(status) = kind.parse::<u16>() {
            if answer.status.as_u16() != status || answer.body["error"].as_str().is_none() {
                self.found.push(format!("{at}: {} {}, not {status}", answer.status, answer.body));
            }
        } else if answer.status.is_success() {
            faults(&self.entities, kind, &answer.body, &at, &mut self.found);
        } else {
            self.found.push(format!("{at}: {} {}", answer.status, answer.body));
        }
        let empty = answer.body.as_array().is_some_and(Vec::is_empty);
        if !empty || kind == "[]" {
            self.shown.insert(name.to_owned());
        }
        answer.body
    }

    /// Everything that was not as documented, was not asked or never had something to show.
    pub fn faults(mut self) -> Vec<String> {
        for name in self.endpoints.keys() {
            if !self.asked.contains(name) {
                self.found.push(format!("{name}: was not asked"));
            } else if !self.shown.contains(name) && self.endpoints[name] != "stream" {
                self.found.push(format!("{name}: had nothing to show"));
            }
        }
        self.found.sort();
        self.found.dedup();
        self.found
    }
}

#[test]
fn a_line_names_the_endpoint_and_the_path() {
    let (name, method, path) = parse("PUT /api/v1/x/:id=7/y/:name=a%20b?q=1");
    assert_eq!(name, "PUT /api/v1/x/:id/y/:name");
    assert_eq!(method, Method::PUT);
    assert_eq!(path, "/api/v1/x/7/y/a%20b?q=1");
}
