//! Accounts, follows and filters, where the server makes them for us.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::Options;
use super::crowd::Door;
use super::publish::Publisher;
use crate::api::{Api, Person};

/// Listeners that share an account, where nobody says.
const LISTENERS_EACH: u64 = 50;
/// Speakers of --echo.
const SPEAKERS: usize = 64;

/// What listeners need.
pub(super) struct Arranged {
    pub(super) door: Door,
    pub(super) publisher: Publisher,
}

pub(super) async fn arrange(
    options: &Options,
    address: SocketAddr,
    host: &str,
) -> Result<Arranged> {
    let door = |paths: Vec<String>| Door {
        address,
        host: host.to_owned(),
        paths: paths.into(),
        headers: String::new(),
    };
    if let Some(path) = &options.path {
        let door = door(vec![path.clone()]);
        let publisher = match &options.publish {
            Some(path) => {
                let client = reqwest::Client::builder().tcp_nodelay(true).build()?;
                Publisher::Http { client, url: format!("http://{host}{path}") }
            }
            None if options.echo => {
                let mut speakers = Vec::new();
                for own in 0..SPEAKERS {
                    speakers.push(Arc::new(Mutex::new(door.open(own, None).await?)));
                }
                Publisher::Echo(speakers)
            }
            None => Publisher::Nobody,
        };
        return Ok(Arranged { door, publisher });
    }
    let api = Api::new(&options.target)?;
    let stream = &options.stream;
    let (writer, paths) = if options.visitors {
        let writer = match tokens(options)?.into_iter().next() {
            Some(token) => token,
            None => people(&api, options, 1).await?.swap_remove(0).token,
        };
        (writer, vec![format!("/api/v1/streaming?stream={stream}")])
    } else {
        let mut tokens = tokens(options)?;
        if tokens.is_empty() {
            tokens = make(&api, options).await?;
        }
        let path =
            |token: &String| format!("/api/v1/streaming?stream={stream}&access_token={token}");
        ensure!(tokens.len() > 1, "--tokens needs one for who writes and one for who reads");
        (tokens[0].clone(), tokens[1..].iter().map(path).collect())
    };
    Ok(Arranged { door: door(paths), publisher: Publisher::Mastodon { api, token: writer } })
}

fn tokens(options: &Options) -> Result<Vec<String>> {
    let Some(path) = &options.tokens else { return Ok(Vec::new()) };
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} cannot be read", path.display()))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

async fn people(api: &Api, options: &Options, count: u64) -> Result<Vec<Person>> {
    let names: Vec<String> =
        (0..count).map(|number| format!("listener_{}_{number}", options.seed)).collect();
    api.people(&names).await
}

/// The tokens of somebody who writes and of others who follow them and have filters.
#[allow(clippy::print_stderr)]
async fn make(api: &Api, options: &Options) -> Result<Vec<String>> {
    let accounts = options.accounts.unwrap_or(options.clients.div_ceil(LISTENERS_EACH));
    eprintln!("{accounts} accounts are made");
    let people = people(api, options, accounts + 1).await?;
    let (writer, readers) = people.split_first().context("there is nobody")?;
    for reader in readers {
        let follow = format!("/api/v1/accounts/{}/follow", writer.id);
        api.post(&reader.token, &follow, &json!({})).await?;
        let there = api.get(&reader.token, "/api/v2/filters").await?;
        let there = there.as_array().map_or(0, Vec::len) as u64;
        for number in there..options.filters {
            api.post(&reader.token, "/api/v2/filters", &filter(number)).await?;
        }
    }
    Ok(people.into_iter().map(|person| person.token).collect())
}

fn filter(number: u64) -> Value {
    let word = |word: &str| json!({ "keyword": format!("{word}{number}"), "whole_word": true });
    json!({
        "title": format!("not {number}"), "context": ["home", "public"], "filter_action": "warn",
        "keywords_attributes": [word("dragon"), word("unicorn"), word("griffin")],
    })
}
