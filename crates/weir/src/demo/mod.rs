//! The demo community: people, posts and pictures to look at. Made once for a data directory, by
//! the use cases that people go through.

mod content;
mod picture;

use std::io;
use std::path::Path;

use weir_base::Id;
use weir_community::accounts::{self, NewAccount, ProfileChange};
use weir_community::media::{self, Body, NewMedia};
use weir_community::relationships::{self, FollowWish};
use weir_community::statuses::{self, Draft, PollDraft, Visibility};
use weir_community::users::{self, NewUser, Role};
use weir_community::{Community, Error};
use weir_db::{Class, Tx};

use content::{BOOSTS, DemoPerson, DemoPost, Extra, FAVOURITES, PEOPLE, POSTS};

/// What everybody in the demo logs in with. It is reachable from this machine only.
const PASSWORD: &str = "weir-demo";
/// Says in the data directory that a demo lives there, and whether it was made whole.
const MARK: &str = "demo";
const WHOLE: &str = "whole";
/// How long the demo's poll is open, in s.
const POLL_LIFE_S: i64 = 7 * 24 * 60 * 60;

/// Why there is no demo, or nothing but a demo.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// People live here, and the demo's have a password that everybody knows.
    #[error("people live in this data directory; name an empty one with --data for the demo")]
    PeopleLiveHere,
    /// The demo's people have a password that everybody knows.
    #[error(
        "a demo lives in this data directory; serve it with --demo, or name another with --data"
    )]
    DemoLivesHere,
    /// The mark cannot be written.
    #[error("cannot mark the data directory as a demo: {0}")]
    Mark(#[from] io::Error),
    /// What the use cases say.
    #[error("cannot make the demo community: {0}")]
    Community(#[from] Error),
}

/// Keeps a demo's data from being served as anything else.
///
/// # Errors
/// [`DemoError::DemoLivesHere`].
pub fn refuse_other_use(data: &Path) -> Result<(), DemoError> {
    if data.join(MARK).exists() { Err(DemoError::DemoLivesHere) } else { Ok(()) }
}

/// Makes what is not there yet. A start that was cut off is carried on by the next.
///
/// # Errors
/// [`DemoError::PeopleLiveHere`] when others than the demo's do.
pub async fn populate(community: &Community, data: &Path) -> Result<(), DemoError> {
    let mark = data.join(MARK);
    match std::fs::read_to_string(&mark) {
        Ok(text) if text == WHOLE => return Ok(()),
        Ok(_) => {}
        Err(_) => {
            let unit = |tx: &mut Tx, _: &_| users::list(tx, Id::ZERO, 1);
            if !community.read(Class::Interactive, unit).await?.is_empty() {
                return Err(DemoError::PeopleLiveHere);
            }
            std::fs::write(&mark, "begun")?;
        }
    }
    let people = people(community).await?;
    follow(community, &people).await?;
    let posts = posts(community, &people).await?;
    applaud(community, &people, &posts).await?;
    Ok(std::fs::write(mark, WHOLE)?)
}

/// What to tell who started the demo.
pub fn words(url: &str, data: &Path) -> String {
    let names: Vec<String> = PEOPLE.iter().map(|person| mail(person.name)).collect();
    format!(
        "\n  Weir serves a demo community at {url}\n  \
         Log in as {}, with the password {PASSWORD}\n  \
         The data lies in {}\n  \
         Ctrl-C stops it; the next run finds everything again\n\n",
        names.join(", "),
        data.display()
    )
}

fn mail(name: &str) -> String {
    format!("{name}@example.test")
}

async fn people(community: &Community) -> Result<Vec<Id>, Error> {
    let mut ids = Vec::new();
    for person in PEOPLE {
        let password_hash = users::hash_password(PASSWORD).await?;
        let user = NewUser {
            email: mail(person.name),
            password_hash,
            role: if person.is_admin { Role::Admin } else { Role::User },
            confirmed: true,
            approved: true,
            locale: "en".into(),
            reason: String::new(),
            ip: String::new(),
            invite_id: None,
        };
        let new = NewAccount { username: person.name.into(), user, reserved_allowed: true };
        let profile = profile(community, ids.len() as u32, person).await?;
        let unit = move |tx: &mut Tx, env: &_| {
            if let Some(known) = accounts::by_address(tx, &new.username, "")? {
                return Ok(known.id);
            }
            let id = accounts::create(tx, env, &new)?;
            accounts::update_profile(tx, env, id, &profile)?;
            Ok(id)
        };
        ids.push(community.write(Class::Interactive, unit).await?);
    }
    Ok(ids)
}

async fn profile(
    community: &Community,
    number: u32,
    person: &DemoPerson,
) -> Result<ProfileChange, Error> {
    let (name, value) = person.field;
    let avatar = Body::Bytes(picture::landscape(number, 400, 400)?);
    let header = Body::Bytes(picture::landscape(number + 1, 1_500, 500)?);
    Ok(ProfileChange {
        avatar: Some(media::store_avatar(community, avatar).await?),
        header: Some(media::store_header(community, header).await?),
        display_name: Some(person.display_name.into()),
        note: Some(person.note.into()),
        fields: Some(vec![(name.into(), value.into())]),
        discoverable: Some(true),
        indexable: Some(true),
        ..ProfileChange::default()
    })
}

async fn follow(community: &Community, people: &[Id]) -> Result<(), Error> {
    let people = people.to_vec();
    let unit = move |tx: &mut Tx, env: &_| {
        for by in &people {
            for target in people.iter().filter(|target| *target != by) {
                relationships::follow(tx, env, *by, *target, &FollowWish::default())?;
            }
        }
        Ok(())
    };
    community.write(Class::Interactive, unit).await
}

async fn posts(community: &Community, people: &[Id]) -> Result<Vec<Id>, Error> {
    let mut ids: Vec<Id> = Vec::new();
    for (number, DemoPost(author, text, extra)) in POSTS.iter().enumerate() {
        let by = people[*author];
        let mut draft = Draft {
            text: (*text).into(),
            language: Some("en".into()),
            // A start that was cut off does not post twice.
            idempotency_key: Some(format!("demo-{number}")),
            ..Draft::default()
        };
        match extra {
            Extra::Plain => {}
            Extra::Picture(picture, description) => {
                let body = Body::Bytes(picture::landscape(*picture, 1_280, 800)?);
                let description = Some((*description).into());
                let new = NewMedia { body, description, focus: None, thumbnail: None };
                draft.media = vec![media::upload(community, by, new).await?.id];
            }
            Extra::Warned(warning) => draft.spoiler = (*warning).into(),
            Extra::Reply(to) => draft.in_reply_to = Some(ids[*to]),
            Extra::Private => draft.visibility = Visibility::Private,
            Extra::Poll(options) => draft.poll = Some(poll(options)),
        }
        let unit = move |tx: &mut Tx, env: &_| statuses::publish(tx, env, by, &draft);
        ids.push(community.write(Class::Interactive, unit).await?);
    }
    Ok(ids)
}

fn poll(options: &[&str]) -> PollDraft {
    PollDraft {
        options: options.iter().map(|option| (*option).into()).collect(),
        expires_in_s: POLL_LIFE_S,
        multiple: false,
        hide_totals: false,
    }
}

async fn applaud(community: &Community, people: &[Id], posts: &[Id]) -> Result<(), Error> {
    let pairs = |list: &[(usize, usize)]| -> Vec<(Id, Id)> {
        list.iter().map(|(by, post)| (people[*by], posts[*post])).collect()
    };
    let (boosts, favourites) = (pairs(BOOSTS), pairs(FAVOURITES));
    let pinned = (people[0], posts[0]);
    let unit = move |tx: &mut Tx, env: &_| {
        for (by, post) in &boosts {
            statuses::boost(tx, env, *by, *post, None)?;
        }
        for (by, post) in &favourites {
            statuses::favourite(tx, env, *by, *post)?;
        }
        statuses::pin(tx, env, pinned.0, pinned.1)
    };
    community.write(Class::Interactive, unit).await
}
