//! Accounts, follows and filters, where the server makes them for us.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::crowd::Door;
use super::publish::Publisher;
use super::wire::Way;
use super::{Options, Target, Transport};
use crate::api::{Api, Person};

/// Listeners that share an account, where nobody says.
const LISTENERS_EACH: u64 = 50;
/// Speakers of --echo.
const SPEAKERS: usize = 64;

/// What listeners need.
pub(super) struct Arranged {
    pub(super) door: Door,
    /// Where bystanders ask.
    pub(super) bystanders: Option<Door>,
    pub(super) publisher: Publisher,
}

pub(super) async fn arrange(options: &Options, target: &Target) -> Result<Arranged> {
    let door = |transport: Transport, paths: Vec<String>| Door {
        way: Way { transport, ..target.way.clone() },
        paths: paths.into(),
    };
    let transport = options.transport;
    let is_socket = transport == Transport::Websocket;
    if let Some(path) = &options.path {
        let door = door(transport, vec![path.clone()]);
        let publisher = match &options.publish {
            Some(path) => {
                let client = reqwest::Client::builder()
                    .tcp_nodelay(true)
                    .tls_danger_accept_invalid_certs(options.insecure)
                    .build()?;
                Publisher::Http { client, url: format!("{}{path}", target.base) }
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
        let bystanders = is_socket.then(|| door.clone());
        return Ok(Arranged { door, bystanders, publisher });
    }
    let api = Api::trusting(&target.base, options.insecure)?;
    let (writer, readers) = if options.visitors {
        let writer = match tokens(options)?.into_iter().next() {
            Some(token) => token,
            None => people(&api, options, 1).await?.swap_remove(0).token,
        };
        (writer, vec![String::new()])
    } else {
        let mut tokens = tokens(options)?;
        if tokens.is_empty() {
            tokens = make(&api, options).await?;
        }
        ensure!(tokens.len() > 1, "--tokens needs one for who writes and one for who reads");
        let readers = tokens.split_off(1);
        (tokens.swap_remove(0), readers)
    };
    let paths = |transport: Transport| -> Vec<String> {
        readers.iter().map(|token| transport.path(&options.stream, token)).collect()
    };
    Ok(Arranged {
        door: door(transport, paths(transport)),
        // Only a WebSocket can be asked whether the other side is there.
        bystanders: Some(door(Transport::Websocket, paths(Transport::Websocket))),
        publisher: Publisher::Mastodon { api, token: writer },
    })
}

impl Transport {
    /// Where servers of Mastodon's kind tell what happens in `stream` (and what it needs, as in
    /// `hashtag&tag=weir`) to whom `token` belongs; without one to visitors.
    fn path(self, stream: &str, token: &str) -> String {
        let (name, wish) = stream.split_once('&').unwrap_or((stream, ""));
        let mut query: Vec<String> = Vec::new();
        let mut path = String::from("/api/v1/streaming");
        match self {
            Self::Websocket => query.push(format!("stream={name}")),
            Self::Sse => {
                let of_all = name.strip_suffix(":media");
                query.extend(of_all.map(|_| "only_media=true".to_owned()));
                path = format!("{path}/{}", of_all.unwrap_or(name).replace(':', "/"));
            }
        }
        query.extend((!wish.is_empty()).then(|| wish.to_owned()));
        query.extend((!token.is_empty()).then(|| format!("access_token={token}")));
        if query.is_empty() { path } else { format!("{path}?{}", query.join("&")) }
    }
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
    api.people(&names, "give --tokens with a token a line").await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_transport_has_its_own_address_of_a_stream() {
        let (socket, sse) = (Transport::Websocket, Transport::Sse);
        assert_eq!(socket.path("user", "t"), "/api/v1/streaming?stream=user&access_token=t");
        assert_eq!(sse.path("user", "t"), "/api/v1/streaming/user?access_token=t");
        assert_eq!(sse.path("public:local", ""), "/api/v1/streaming/public/local");
        let media = "/api/v1/streaming/public/remote?only_media=true";
        assert_eq!(sse.path("public:remote:media", ""), media);
        let tag = "/api/v1/streaming/hashtag?tag=weir&access_token=t";
        assert_eq!(sse.path("hashtag&tag=weir", "t"), tag);
        let tag = "/api/v1/streaming?stream=hashtag&tag=weir";
        assert_eq!(socket.path("hashtag&tag=weir", ""), tag);
    }
}
