//! The demo community: people, posts and pictures to look at. Made once for a data directory, by
//! the use cases that people go through.

mod content;
mod picture;

use std::io;
use std::path::Path;

use weir_base::{Clock, Id, Random, Timestamp};
use weir_community::accounts::{self, NewAccount, ProfileChange};
use weir_community::media::{self, Body, NewMedia};
use weir_community::relationships::{self, FollowWish};
use weir_community::statuses::{self, Draft, PollDraft, Visibility};
use weir_community::users::{self, NewUser, Role};
use weir_community::{Community, Error, Setup, instance};
use weir_db::{Class, Tx};

use content::{
    ABOUT, BOOSTS, DemoPerson, DemoPost, Extra, FAVOURITES, PEOPLE, POSTS, RULES, SHORT, TITLE,
    VOTES,
};

/// What everybody in the demo logs in with. It is reachable from this machine only.
const PASSWORD: &str = "weir-demo";
/// Says in the data directory that a demo lives there, and whether it was made whole.
const MARK: &str = "demo";
const WHOLE: &str = "whole";
const HOUR_MS: f64 = 3_600_000.0;
/// How long people have been here, in hours.
const PEOPLE_SINCE_H: f64 = 168.0;
/// How long after a post the first applauds it, and then the next.
const APPLAUSE_EVERY_H: f64 = 0.3;
/// How long the demo's polls are open, in s.
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
    let now = community.env().clock.now();
    // The mark keeps the moment, so that a start that carries on posts nothing twice.
    let begun = match std::fs::read_to_string(&mark) {
        Ok(text) if text == WHOLE => return Ok(()),
        Ok(text) => text.parse().map_or(now, Timestamp::from_ms),
        Err(_) => {
            let unit = |tx: &mut Tx, _: &_| users::list(tx, Id::ZERO, 1);
            if !community.read(Class::Interactive, unit).await?.is_empty() {
                return Err(DemoError::PeopleLiveHere);
            }
            std::fs::write(&mark, now.as_ms().to_string())?;
            now
        }
    };
    let past = Past::open(community, begun)?;
    past.go_to(PEOPLE_SINCE_H);
    let people = people(&past.community).await?;
    // Who follows whom is held in the memory of the community that is served.
    follow(community, &people).await?;
    describe(community, people[0]).await?;
    let posts = life(&past, &people).await?;
    let pinned = (people[0], posts[0]);
    let pin = move |tx: &mut Tx, env: &_| statuses::pin(tx, env, pinned.0, pinned.1);
    community.write(Class::Interactive, pin).await?;
    Ok(std::fs::write(mark, WHOLE)?)
}

/// The same community on a clock of the past.
struct Past {
    community: Community,
    clock: Clock,
    begun: Timestamp,
}

impl Past {
    fn open(present: &Community, begun: Timestamp) -> Result<Self, Error> {
        let clock = Clock::manual(begun);
        let env = present.env();
        let community = Community::open(Setup {
            db: present.db().clone(),
            jobs: env.jobs.clone(),
            clock: clock.clone(),
            random: Random::system(),
            site: env.site.clone(),
            data: env.data.clone(),
        })?;
        Ok(Self { community, clock, begun })
    }

    /// It is `hours` before the demo began.
    fn go_to(&self, hours: f64) {
        self.clock.set(Timestamp::from_ms(self.begun.as_ms() - (hours * HOUR_MS) as i64));
    }
}

/// What to tell who started the demo: among other things which of its people are still there.
///
/// # Errors
/// The database's.
pub async fn words(community: &Community, url: &str, data: &Path) -> Result<String, DemoError> {
    let unit = |tx: &mut Tx, _: &_| {
        let mut names = Vec::new();
        for person in PEOPLE {
            let account = accounts::by_address(tx, person.name, "")?;
            if let Some(account) = account.filter(|account| account.deleted_at.is_none()) {
                let is_admin = users::by_account(tx, account.id)?.role == Role::Admin.name();
                names.push(format!("{}{}", person.name, if is_admin { " (admin)" } else { "" }));
            }
        }
        Ok(names)
    };
    let names = community.read(Class::Interactive, unit).await?;
    let log_in = match names.is_empty() {
        true => String::new(),
        false => format!("  Log in as {}; each has the password {PASSWORD}\n", names.join(", ")),
    };
    Ok(format!(
        "\n  Weir serves a demo community at {url}\n\
         {log_in}  \
         The data lies in {}\n  \
         Ctrl-C stops it; the next run finds everything again\n\n",
        data.display()
    ))
}

fn mail(name: &str) -> String {
    format!("{name}@example.test")
}

async fn people(community: &Community) -> Result<Vec<Id>, Error> {
    let mut ids = Vec::new();
    let password = users::hash_password(PASSWORD).await?;
    for person in PEOPLE {
        let user = NewUser {
            email: mail(person.name),
            password: password.clone(),
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
    let avatar = Body::Bytes(picture::landscape(number, 240, 240)?);
    let header = Body::Bytes(picture::landscape(number + 4, 1_200, 400)?);
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

/// Name, description and rules.
async fn describe(community: &Community, contact: Id) -> Result<(), Error> {
    let env = community.env().clone();
    let unit = move |tx: &mut Tx, _: &_| {
        let settings = instance::Settings {
            title: TITLE.into(),
            short_description: SHORT.into(),
            extended_description: ABOUT.into(),
            contact_account: Some(contact),
            ..instance::Settings::clone(&env.instance.settings())
        };
        instance::set(tx, &env, settings)?;
        if instance::rules(tx)?.is_empty() {
            for (rule, hint) in RULES {
                instance::add_rule(tx, &env, rule, hint)?;
            }
        }
        Ok(())
    };
    community.write(Class::Interactive, unit).await
}

/// What happens; the numbers are places in [`PEOPLE`] and [`POSTS`].
#[derive(Clone, Copy)]
enum Deed {
    Post(usize),
    Boost(usize, usize),
    Favourite(usize, usize),
    Vote(usize, usize, usize),
}

/// All deeds with their hours before now, the oldest first: ids never go back.
fn deeds() -> Vec<(f64, Deed)> {
    let boosts = BOOSTS.iter().map(|(by, post)| (*post, Deed::Boost(*by, *post)));
    let favourites = FAVOURITES.iter().map(|(by, post)| (*post, Deed::Favourite(*by, *post)));
    let votes = VOTES.iter().map(|(by, post, choice)| (*post, Deed::Vote(*by, *post, *choice)));
    let mut claps = vec![0.0; POSTS.len()];
    let after = |(post, deed): (usize, Deed)| {
        claps[post] += 1.0;
        // The newest post is applauded too before now.
        let hours = (POSTS[post].1 - claps[post] * APPLAUSE_EVERY_H).max(POSTS[post].1 / 10.0);
        (hours, deed)
    };
    let mut deeds: Vec<_> = boosts.chain(favourites).chain(votes).map(after).collect();
    deeds.extend(
        POSTS.iter().enumerate().map(|(post, DemoPost(_, hours, ..))| (*hours, Deed::Post(post))),
    );
    deeds.sort_by(|a, b| b.0.total_cmp(&a.0));
    deeds
}

async fn life(past: &Past, people: &[Id]) -> Result<Vec<Id>, Error> {
    let community = &past.community;
    let mut posts: Vec<Id> = Vec::new();
    for (hours, deed) in deeds() {
        past.go_to(hours);
        let who = |by: usize, post: usize| (people[by], posts[post]);
        match deed {
            Deed::Post(number) => {
                let post = publish(community, people, &posts, number).await?;
                posts.push(post);
            }
            Deed::Boost(by, post) => {
                let (by, post) = who(by, post);
                let unit = move |tx: &mut Tx, env: &_| statuses::boost(tx, env, by, post, None);
                community.write(Class::Interactive, unit).await?;
            }
            Deed::Favourite(by, post) => {
                let (by, post) = who(by, post);
                let unit = move |tx: &mut Tx, env: &_| statuses::favourite(tx, env, by, post);
                community.write(Class::Interactive, unit).await?;
            }
            Deed::Vote(by, post, choice) => {
                let (by, post) = who(by, post);
                let unit = move |tx: &mut Tx, env: &_| {
                    let view = statuses::load_one(tx, env, Some(by), post)?;
                    match view.poll {
                        Some(poll) if poll.own_votes.is_empty() => {
                            statuses::vote(tx, env, by, poll.id, &[choice])
                        }
                        _ => Ok(()),
                    }
                };
                community.write(Class::Interactive, unit).await?;
            }
        }
    }
    Ok(posts)
}

async fn publish(
    community: &Community,
    people: &[Id],
    posts: &[Id],
    number: usize,
) -> Result<Id, Error> {
    let DemoPost(author, _, text, extra) = &POSTS[number];
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
        Extra::Pictures(pictures) => {
            for (picture, description) in *pictures {
                let body = Body::Bytes(picture::landscape(*picture, 960, 600)?);
                let description = Some((*description).into());
                let new = NewMedia { body, description, focus: None, thumbnail: None };
                draft.media.push(media::upload(community, by, new).await?.id);
            }
        }
        Extra::Warned(warning) => draft.spoiler = (*warning).into(),
        Extra::Reply(to) => draft.in_reply_to = Some(posts[*to]),
        Extra::Private => draft.visibility = Visibility::Private,
        Extra::Poll(options) => draft.poll = Some(poll(options)),
    }
    let unit = move |tx: &mut Tx, env: &_| statuses::publish(tx, env, by, &draft);
    community.write(Class::Interactive, unit).await
}

fn poll(options: &[&str]) -> PollDraft {
    PollDraft {
        options: options.iter().map(|option| (*option).into()).collect(),
        expires_in_s: POLL_LIFE_S,
        multiple: false,
        hide_totals: false,
    }
}
