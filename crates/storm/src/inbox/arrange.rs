//! Everything that stands before the clock starts: people, their posts, whom they follow.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::{Value, json};

use super::plan::{Cast, Local};
use super::{Options, Storm};
use crate::api::{Api, Person};
use crate::fediverse::{Behaviour, Fediverse, Servers};

/// Requests at once.
const AT_ONCE: usize = 16;
/// How long agreements to follow are waited for.
const AGREED_MAX: Duration = Duration::from_secs(120);
/// Accounts asked for in one request.
pub(super) const CHUNK: usize = 40;

/// How hosts of unverifiable actors behave, in turn.
pub(super) const BAD: [Behaviour; 5] = [
    Behaviour::Refuses,
    Behaviour::Hangs,
    Behaviour::Gone,
    Behaviour::Drips,
    Behaviour::Fails(500),
];

/// The people of the server under test and what they follow.
pub(super) struct Arranged {
    /// The people; the first follows every known actor.
    pub(super) people: Vec<Person>,
    /// As activities name them.
    pub(super) cast: Cast,
    /// The ids of their posts on their server.
    pub(super) post_ids: Vec<Vec<String>>,
    /// The ids of the known actors on the server, in their order.
    pub(super) account_ids: Vec<String>,
    /// Whom each person follows, as places among the known.
    pub(super) follows: Vec<Vec<usize>>,
}

/// Hosts whose actors write fresh posts at most.
const FRESH: usize = 16;

/// Which actors there are, by number.
pub(super) struct Actors {
    /// Those that people follow.
    pub(super) known: Vec<usize>,
    /// Those that write fresh posts, and nothing else: on hosts of the others.
    pub(super) fresh: Vec<usize>,
    /// Those that the server never hears of before.
    pub(super) unknown: Vec<usize>,
    /// Such on hosts that cannot be asked, which are the last ones.
    pub(super) unreachable: Vec<usize>,
    /// How many there are in all, and on how many hosts.
    pub(super) all: usize,
    pub(super) hosts: usize,
}

/// Which actors there are.
pub(super) fn actors(options: &Options) -> Actors {
    let good = options.hosts as usize;
    let hosts = good + BAD.len();
    let wanted = options.count() as f64 * options.unknown / 100.0;
    // Each of them says a few things.
    let unknown = (wanted / 4.0).ceil() as usize;
    let (known, fresh) = (options.actors as usize, FRESH.min(good));
    let mut numbers = (0..).filter(|actor| actor % hosts < good);
    let mut take = |count: usize| -> Vec<usize> { numbers.by_ref().take(count).collect() };
    let (known, fresh, unknown) = (take(known), take(fresh), take(unknown));
    let last = known.iter().chain(&fresh).chain(&unknown).max().copied().unwrap_or(0);
    let all = (last + 1).div_ceil(hosts) * hosts;
    let unreachable = (0..all).filter(|actor| actor % hosts >= good).collect();
    Actors { known, fresh, unknown, unreachable, all, hosts }
}

/// Has people join, write, and follow.
pub(super) async fn arrange(storm: &Storm, servers: &Servers, actors: Actors) -> Result<Arranged> {
    let (options, api, fediverse) = (&storm.options, &storm.api, &storm.fediverse);
    for (place, behaviour) in BAD.into_iter().enumerate() {
        servers.set(options.hosts as usize + place, behaviour);
    }
    let people = people(options, api).await?;
    if people.is_empty() {
        bail!("there is nobody to follow: give --people at least 1, or --tokens");
    }
    let (locals, post_ids) = posts(options, api, &people).await?;
    let began = Instant::now();
    let Actors { known, fresh, unknown, unreachable, .. } = actors;
    let account_ids = look_up(api, fediverse, &people[0], &known).await?;
    let fresh = look_up(api, fediverse, &people[0], &fresh).await?;
    let follows = follow(options, api, &people, &account_ids).await?;
    follow_all(api, &people[..1], &fresh, &[(0..fresh.len()).collect()]).await?;
    let count = follows.iter().map(Vec::len).sum::<usize>() + fresh.len();
    let seconds = began.elapsed().as_secs_f64();
    eprintln!("{} actors looked up and {count} follows agreed in {seconds:.1} s", known.len());
    let cast = Cast { known, unknown, unreachable, people: locals };
    Ok(Arranged { people, cast, post_ids, account_ids, follows })
}

async fn people(options: &Options, api: &Api) -> Result<Vec<Person>> {
    let Some(file) = &options.tokens else {
        let name = |number| format!("storm{}x{number}", options.seed);
        let names: Vec<String> = (0..options.people).map(name).collect();
        return api.people(&names, "give --tokens with a token a line").await;
    };
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("{} cannot be read", file.display()))?;
    let mut people = Vec::new();
    for token in text.split_whitespace() {
        people.push(api.person(token).await?);
    }
    Ok(people)
}

/// What people wrote, for others to like and boost: by person, as activities name it and by id.
async fn posts(
    options: &Options,
    api: &Api,
    people: &[Person],
) -> Result<(Vec<Local>, Vec<Vec<String>>)> {
    let host = options.target.split("://").last().unwrap_or_default().trim_end_matches('/');
    let (mut locals, mut ids) = (Vec::new(), Vec::new());
    for person in people {
        let mut local = Local {
            uri: person.uri.clone(),
            address: format!("{}@{host}", person.name),
            posts: Vec::new(),
        };
        let mut own = Vec::new();
        for number in 0..options.posts {
            let text = format!("Post {number} of {}, before the flood", person.name);
            let body = json!({ "status": text, "visibility": "public" });
            let post = api.post(&person.token, "/api/v1/statuses", &body).await?;
            let text = |name: &str| post[name].as_str().unwrap_or_default().to_owned();
            local.posts.push(text("uri"));
            own.push(text("id"));
        }
        locals.push(local);
        ids.push(own);
    }
    Ok((locals, ids))
}

/// The ids that the server gives the known actors: it looks each up.
async fn look_up(
    api: &Api,
    fediverse: &Arc<Fediverse>,
    by: &Person,
    known: &[usize],
) -> Result<Vec<String>> {
    let find = |actor: usize| async move {
        let address = fediverse.address(actor);
        let path = format!("/api/v2/search?type=accounts&resolve=true&limit=1&q=%40{address}");
        let found = api.get(&by.token, &path).await?;
        let id = found["accounts"][0]["id"].as_str();
        Ok::<_, anyhow::Error>(id.with_context(|| format!("{address} is not found"))?.to_owned())
    };
    stream::iter(known.iter().copied()).map(find).buffered(AT_ONCE).try_collect().await
}

/// The first person follows everybody, the others each their share; waits until all is agreed.
async fn follow(
    options: &Options,
    api: &Api,
    people: &[Person],
    accounts: &[String],
) -> Result<Vec<Vec<usize>>> {
    let each = (options.follows as usize).min(accounts.len());
    let of = |person: usize| -> Vec<usize> {
        match person {
            0 => (0..accounts.len()).collect(),
            // Neighbours overlap, so that every actor has about as many followers.
            _ => (0..each).map(|step| (person * each / 2 + step) % accounts.len()).collect(),
        }
    };
    let follows: Vec<Vec<usize>> = (0..people.len()).map(of).collect();
    follow_all(api, people, accounts, &follows).await?;
    Ok(follows)
}

async fn follow_all(
    api: &Api,
    people: &[Person],
    accounts: &[String],
    follows: &[Vec<usize>],
) -> Result<()> {
    let pairs = follows
        .iter()
        .zip(people)
        .flat_map(|(all, person)| all.iter().map(move |place| (person, &accounts[*place])));
    let ask = |(person, account): (&Person, &String)| {
        let (token, path) = (person.token.clone(), format!("/api/v1/accounts/{account}/follow"));
        async move { api.post(&token, &path, &json!({})).await.map(|_| ()) }
    };
    stream::iter(pairs).map(ask).buffered(AT_ONCE).try_collect::<()>().await?;
    agreed(api, people, accounts, follows).await
}

async fn agreed(
    api: &Api,
    people: &[Person],
    accounts: &[String],
    follows: &[Vec<usize>],
) -> Result<()> {
    let began = Instant::now();
    for (person, all) in people.iter().zip(follows) {
        for chunk in all.chunks(CHUNK) {
            let ids: Vec<String> =
                chunk.iter().map(|place| format!("id[]={}", accounts[*place])).collect();
            let path = format!("/api/v1/accounts/relationships?{}", ids.join("&"));
            loop {
                let bonds = api.get(&person.token, &path).await?;
                let bonds = bonds.as_array().into_iter().flatten();
                let open: Vec<&Value> = bonds.filter(|bond| bond["following"] != true).collect();
                let Some(one) = open.first() else { break };
                if began.elapsed() > AGREED_MAX {
                    bail!(
                        "{} does not follow {} after {} s",
                        person.name,
                        one["id"],
                        AGREED_MAX.as_secs()
                    );
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    Ok(())
}
