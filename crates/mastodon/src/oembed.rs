//! `GET /api/oembed`: how a post is shown in other people's pages (oEmbed 1.0).

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_base::Id;
use weir_community::statuses::{self, View};
use weir_community::{Env, text};
use weir_http::Query;

use crate::{Error, Face};

/// Which post, and how wide.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    url: String,
    maxwidth: Option<u32>,
    maxheight: Option<u32>,
}

/// The id of the post at `url`: `…/@alice/1`, or its address on the network.
pub(crate) fn post_at(env: &Env, url: &str) -> Option<Id> {
    if let Some((_, status)) = env.site.parse_local(url) {
        return status;
    }
    let path = url.strip_prefix(&env.site.base)?.strip_prefix("/@")?;
    path.split_once('/')?.1.split(['/', '?', '#']).next()?.parse().ok()
}

/// The post as a quotation with a link.
pub async fn get(
    State(face): State<Face>,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Value>, Error> {
    let id = post_at(face.env(), &wanted.url).ok_or_else(Error::not_found)?;
    let view = face.read(move |tx, env| statuses::load_one(tx, env, None, id)).await?;
    if !view.status.local {
        return Err(Error::not_found());
    }
    let env = face.env();
    let author = &view.account;
    let unnamed = author.display_name.is_empty();
    let name = if unnamed { &author.username } else { &author.display_name };
    Ok(Json(json!({
        "type": "rich",
        "version": "1.0",
        "title": title(&view),
        "author_name": name,
        "author_url": author.url,
        "provider_name": env.instance.settings().title,
        "provider_url": format!("{}/", env.site.base),
        "cache_age": 86_400,
        "html": html(&view),
        "width": wanted.maxwidth.unwrap_or(400),
        "height": wanted.maxheight,
    })))
}

fn title(view: &View) -> String {
    let shown = if view.status.spoiler.is_empty() {
        text::plain(&view.status.content)
    } else {
        view.status.spoiler.clone()
    };
    shown.chars().take(100).collect()
}

fn html(view: &View) -> String {
    let (author, url) = (text::escape(&view.account.acct()), text::escape(&view.status.url));
    let shown = if view.status.spoiler.is_empty() {
        view.status.content.clone()
    } else {
        format!("<p>{}</p>", text::escape(&view.status.spoiler))
    };
    format!("<blockquote cite=\"{url}\">{shown}<p><a href=\"{url}\">@{author}</a></p></blockquote>")
}
