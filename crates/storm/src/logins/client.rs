//! One client of a DDP server, as small as it can be.

use anyhow::{Result, bail};
use serde_json::{Value, json};
use weir_live::socket::client::Client as Socket;
use weir_live::socket::{Message, close_code};

use super::door::Door;
use crate::pipe::Pipe;

/// As whom a client logs in.
#[derive(Debug, Clone)]
pub(super) enum Login {
    /// Nobody.
    Nobody,
    /// Whoever this token belongs to.
    Token(String),
}

/// A connected client.
pub(super) struct Client {
    socket: Socket<Box<dyn Pipe>>,
    session: String,
    received: u64,
    /// Documents that came.
    pub(super) documents: usize,
    /// Bytes of messages that came.
    pub(super) bytes: usize,
}

/// What a client needs to come back.
pub(super) struct Cut {
    session: String,
    received: u64,
}

impl Client {
    /// A socket to a DDP server.
    pub(super) async fn open(door: &Door) -> Result<Self> {
        let socket = door.open().await?;
        Ok(Self { socket, session: String::new(), received: 0, documents: 0, bytes: 0 })
    }

    /// Says all at once, as clients do, and waits until every subscription is ready.
    pub(super) async fn arrive(&mut self, login: &Login, subs: &[(String, Value)]) -> Result<()> {
        self.say(&json!({ "msg": "connect", "version": "1", "support": ["1"] })).await?;
        if let Login::Token(token) = login {
            self.say(&json!({ "msg": "method", "id": "login", "method": "login",
                              "params": [{ "resume": token }] }))
                .await?;
        }
        for (at, (name, params)) in subs.iter().enumerate() {
            let id = format!("s{at}");
            self.say(&json!({ "msg": "sub", "id": id, "name": name, "params": params })).await?;
        }
        let mut open = subs.len();
        let mut connected = false;
        while open > 0 || !connected {
            let text = self.hear().await?;
            match kind(&text) {
                "connected" => {
                    connected = true;
                    let message: Value = serde_json::from_str(&text)?;
                    self.session = message["session"].as_str().unwrap_or_default().to_owned();
                }
                "ready" => {
                    let message: Value = serde_json::from_str(&text)?;
                    open = open.saturating_sub(message["subs"].as_array().map_or(0, Vec::len));
                }
                "nosub" | "error" | "failed" => bail!("the server answers {text}"),
                "result" if text.contains("\"error\"") => bail!("the server answers {text}"),
                _ => {}
            }
        }
        Ok(())
    }

    /// The next message that is no ping; pings are answered.
    async fn hear(&mut self) -> Result<String> {
        loop {
            match self.socket.recv().await? {
                Message::Text(text) => {
                    self.bytes += text.len();
                    match kind(&text) {
                        "ping" => {
                            self.say(&json!({ "msg": "pong" })).await?;
                            continue;
                        }
                        "pong" => return Ok(text),
                        "added" => self.documents += 1,
                        "" => continue,
                        _ => {}
                    }
                    self.received += 1;
                    return Ok(text);
                }
                Message::Close(reason) => bail!("the server closed the connection: {reason:?}"),
                _ => {}
            }
        }
    }

    pub(super) async fn say(&mut self, message: &Value) -> Result<()> {
        self.socket.send_text(&message.to_string()).await?;
        Ok(())
    }

    /// Asks for a sign of life, and waits for it.
    pub(super) async fn ping(&mut self, id: &str) -> Result<()> {
        self.say(&json!({ "msg": "ping", "id": id })).await?;
        while kind(&self.hear().await?) != "pong" {}
        Ok(())
    }

    /// Calls a method and waits for its result; whether that is no fault.
    pub(super) async fn call(&mut self, id: &str, method: &(String, Value)) -> Result<bool> {
        let (name, params) = method;
        self.say(&json!({ "msg": "method", "id": id, "method": name, "params": params })).await?;
        loop {
            let text = self.hear().await?;
            if kind(&text) == "result" {
                return Ok(!text.contains("\"error\""));
            }
        }
    }

    /// Goes for good.
    pub(super) async fn leave(&mut self) {
        let _ = self.say(&json!({ "msg": "disconnect" })).await;
        self.socket.close(close_code::NORMAL, "").await;
    }

    /// The connection breaks.
    pub(super) fn cut(self) -> Cut {
        Cut { session: self.session, received: self.received }
    }

    /// Comes back on a new connection; whether the session is the old one.
    pub(super) async fn come_back(door: &Door, cut: &Cut) -> Result<(Self, bool)> {
        let mut client = Self::open(door).await?;
        client
            .say(&json!({ "msg": "connect", "version": "1", "support": ["1"],
                          "session": cut.session, "receivedCount": cut.received }))
            .await?;
        let text = client.hear().await?;
        let message: Value = serde_json::from_str(&text)?;
        let same = message["session"] == cut.session.as_str();
        Ok((client, same))
    }

    /// Hears what is still on its way; how many documents came since it connected.
    pub(super) async fn settle(&mut self) -> Result<usize> {
        self.ping("settled").await?;
        Ok(self.documents)
    }
}

/// What kind a message is, without reading all of it: servers write `msg` first.
fn kind(text: &str) -> &str {
    let rest = text.strip_prefix("{\"msg\":\"");
    if let Some(kind) = rest.and_then(|rest| rest.split('"').next()) {
        return kind;
    }
    let found = text.split_once("\"msg\":\"").and_then(|(_, rest)| rest.split('"').next());
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_message_is_found_wherever_it_stands() {
        assert_eq!(kind(r#"{"msg":"added","id":"1"}"#), "added");
        assert_eq!(kind(r#"{"collection":"c","msg":"ready"}"#), "ready");
        assert_eq!(kind(r#"{"server_id":"0"}"#), "");
    }
}
