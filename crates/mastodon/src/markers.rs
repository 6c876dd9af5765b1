//! `/api/v1/markers`: how far one has read.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use weir_base::{Id, Timestamp};
use weir_community::markers;
use weir_http::{Form, Query};

use crate::auth::{Person, ReadStatuses, WriteStatuses};
use crate::{Error, Face};

/// How far one has read a timeline.
#[derive(Debug, Clone, Serialize)]
pub struct Marker {
    last_read_id: Id,
    version: i64,
    updated_at: Timestamp,
}

type Markers = BTreeMap<String, Marker>;

fn shaped(list: Vec<markers::Marker>) -> Json<Markers> {
    let shape = |one: markers::Marker| {
        let marker = Marker {
            last_read_id: one.last_read_id,
            version: one.version,
            updated_at: one.updated_at,
        };
        (one.timeline, marker)
    };
    Json(list.into_iter().map(shape).collect())
}

/// Which timelines.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Which {
    timeline: Vec<String>,
}

/// The markers asked for.
pub async fn get(
    State(face): State<Face>,
    person: Person<ReadStatuses>,
    Query(which): Query<Which>,
) -> Result<Json<Markers>, Error> {
    let by = person.id;
    let found = face.read(move |tx, _| {
        let wanted = |name: &&str| which.timeline.iter().any(|asked| asked == name);
        let names: Vec<&str> = markers::TIMELINES.into_iter().filter(wanted).collect();
        markers::get(tx, by, &names)
    });
    Ok(shaped(found.await?))
}

/// How far one has read now.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wish {
    home: Option<Read>,
    notifications: Option<Read>,
}

/// Up to where.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Read {
    last_read_id: Id,
}

/// Sets markers, and answers with those set.
pub async fn post(
    State(face): State<Face>,
    person: Person<WriteStatuses>,
    Form(wish): Form<Wish>,
) -> Result<Json<Markers>, Error> {
    let by = person.id;
    let done = face.write(move |tx, env| {
        let mut set = Vec::new();
        for (timeline, read) in [("home", wish.home), ("notifications", wish.notifications)] {
            if let Some(read) = read {
                set.push(markers::set(tx, env, by, timeline, read.last_read_id)?);
            }
        }
        Ok(set)
    });
    Ok(shaped(done.await?))
}
