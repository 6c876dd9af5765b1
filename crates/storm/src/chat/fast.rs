//! Logging in with a token of an earlier time: SASL2 (XEP-0388), the resource in the same message
//! (XEP-0386), FAST (XEP-0484).

use anyhow::{Context as _, Result, ensure};
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::link::Link;
use super::wire::{attribute, name, text_of};

/// What tokens are bound to: nothing, so that they are good with and without TLS.
const MECHANISM: &str = "HT-SHA-256-NONE";
/// Each account has one app, so that all may have the same id.
const AGENT: &str = "<user-agent id='5f0d1c6e-3b7a-4c52-9d1e-8a64b2f7c903'>\
    <software>weir storm</software></user-agent>";

/// Proves by password who this is, and asks for a token.
pub(super) async fn token(link: &mut Link, user: &str, password: &str) -> Result<String> {
    let first = BASE64.encode(format!("\0{user}\0{password}"));
    let asks = format!("<request-token xmlns='urn:xmpp:fast:0' mechanism='{MECHANISM}'/>");
    let success = authenticate(link, "PLAIN", &first, &asks).await;
    let success = success.with_context(|| format!("{user} was not let in"))?;
    let (_, token) = success.split_once("<token").context("the server gives no token (FAST)")?;
    let token = attribute(&format!("<token{token}"), "token").map(str::to_owned);
    token.context("the server's token is none")
}

/// Logs in by `token` and takes a resource. The address.
pub(super) async fn enter(link: &mut Link, user: &str, token: &str) -> Result<String> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
    let proof = hmac::sign(&key, b"Initiator");
    let first = BASE64.encode([user.as_bytes(), b"\0", proof.as_ref()].concat());
    let asks = "<fast xmlns='urn:xmpp:fast:0'/>\
        <bind xmlns='urn:xmpp:bind:0'><tag>storm</tag></bind>";
    let success = authenticate(link, MECHANISM, &first, asks).await;
    let success = success.with_context(|| format!("{user} was not let in"))?;
    let answer = text_of(&success, "additional-data").unwrap_or_default();
    let expected = BASE64.encode(hmac::sign(&key, b"Responder"));
    ensure!(answer == expected, "the server does not know the token of {user}");
    ensure!(success.contains("<bound"), "not bound: {success}");
    let address = text_of(&success, "authorization-identifier").map(str::to_owned);
    address.with_context(|| format!("{user} has no address: {success}"))
}

async fn authenticate(link: &mut Link, mechanism: &str, first: &str, asks: &str) -> Result<String> {
    let wish = format!(
        "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='{mechanism}'>\
         <initial-response>{first}</initial-response>{AGENT}{asks}</authenticate>"
    );
    link.say(&wish).await?;
    let answer = link.hear().await?;
    ensure!(name(&answer) == "success", "{answer}");
    Ok(answer)
}
