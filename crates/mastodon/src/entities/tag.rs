//! Hashtags as the API shows them.

use serde::Serialize;
use weir_base::Id;
use weir_community::tags::{self, Tag as Row};
use weir_community::{Env, Error};
use weir_db::Tx;

/// A hashtag.
#[derive(Debug, Clone, Serialize)]
pub struct Tag {
    /// Its id; empty when nobody has used it.
    pub id: String,
    /// Its name, without the sign.
    pub name: String,
    /// Its page.
    pub url: String,
    /// How often it was used, a day each, today first.
    pub history: Vec<TagDay>,
    /// Whether the reader follows it; not there for visitors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub following: Option<bool>,
    /// Whether the reader shows it on their profile; not there for visitors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub featuring: Option<bool>,
}

/// How often a hashtag was used on a day; numbers as text.
#[derive(Debug, Clone, Serialize)]
pub struct TagDay {
    /// The beginning of the day, in s since 1970.
    pub day: String,
    /// Posts.
    pub uses: String,
    /// People.
    pub accounts: String,
}

/// Hashtags as `reader` (none: a visitor) sees them, in their order.
///
/// # Errors
/// The database's.
pub fn tags(tx: &mut Tx, env: &Env, reader: Option<Id>, list: &[Row]) -> Result<Vec<Tag>, Error> {
    let all: Vec<Id> = list.iter().map(|tag| tag.id).collect();
    let (followed, featured) = match reader {
        Some(reader) => (
            tags::followed_among(tx, reader, &all)?,
            tags::featured(tx, reader)?.into_iter().map(|one| one.tag.id).collect(),
        ),
        None => (Vec::new(), Vec::<Id>::new()),
    };
    let mut shaped = Vec::with_capacity(list.len());
    for tag in list {
        let known = tag.id != Id::ZERO;
        let days = tags::history(tx, env, tag.id)?.into_iter().map(|(day, uses, people)| TagDay {
            day: (day.as_ms() / 1_000).to_string(),
            uses: uses.to_string(),
            accounts: people.to_string(),
        });
        shaped.push(Tag {
            id: if known { tag.id.to_string() } else { String::new() },
            name: tag.display.clone(),
            url: env.site.tag_url(&tag.name),
            history: days.collect(),
            following: reader.map(|_| followed.contains(&tag.id)),
            featuring: reader.map(|_| featured.contains(&tag.id)),
        });
    }
    Ok(shaped)
}

/// One hashtag as `reader` sees it.
///
/// # Errors
/// The database's.
pub fn tag(tx: &mut Tx, env: &Env, reader: Option<Id>, one: &Row) -> Result<Tag, Error> {
    tags(tx, env, reader, std::slice::from_ref(one))?.pop().ok_or(Error::NotFound("Tag"))
}
