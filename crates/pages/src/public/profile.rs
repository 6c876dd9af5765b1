//! `/@name`, `/@name/with_replies`, `/@name/media`, and with `.rss` the feed.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use weir_base::Id;
use weir_community::accounts::{self, Account, Field};
use weir_community::relationships::{self, Relationship};
use weir_community::statuses::{self, View};
use weir_community::timelines::{self, AccountPage};
use weir_community::{Env, Error, media, text};
use weir_db::{Class, Tx};

use crate::Pages;
use crate::emoji::Paintable;
use crate::face::{self, Face};
use crate::fault::Fault;
use crate::form::Fields;
use crate::frame::{Frame, show_form};
use crate::paging::{self, Neighbours};
use crate::post::{Post, shortened};
use crate::public::feed;
use crate::time;
use crate::visitor::Visitor;

/// Which posts of a person are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tab {
    /// Without replies.
    Posts,
    /// With replies.
    Replies,
    /// Those with media.
    Media,
}

impl Tab {
    fn page(self) -> AccountPage {
        AccountPage {
            only_media: self == Self::Media,
            exclude_replies: self == Self::Posts,
            ..AccountPage::default()
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Posts => "",
            Self::Replies => "/with_replies",
            Self::Media => "/media",
        }
    }
}

#[derive(Template)]
#[template(path = "public/profile.html")]
struct ProfilePage {
    frame: Frame,
    face: Face,
    header: String,
    /// Safe HTML.
    note: String,
    /// Values as safe HTML.
    fields: Vec<Field>,
    joined: String,
    account: Arc<Account>,
    moved_to: Option<Face>,
    tab: Tab,
    pinned: Vec<Post>,
    posts: Vec<Post>,
    neighbours: Neighbours,
    is_me: bool,
    /// How the person who looks stands to this one.
    bond: Option<Relationship>,
}

/// The local account called `name`, to be shown.
///
/// # Errors
/// A fault that says why it is not shown.
pub async fn shown(pages: &Pages, name: &str) -> Result<Account, Fault> {
    let name = name.to_owned();
    let found = pages
        .community
        .read(Class::Interactive, move |tx, env| {
            let Some((name, domain)) = accounts::parse_address(env, &name) else { return Ok(None) };
            let found = accounts::by_address(tx, &name, &domain)?;
            match found {
                Some(account) if is_hidden(tx, &account)? => Ok(None),
                found => Ok(found),
            }
        })
        .await?;
    let account = found.ok_or_else(Fault::not_found)?;
    if account.deleted_at.is_some() {
        return Err(Fault::gone());
    }
    if account.suspended_at.is_some() {
        let advice = "The staff has suspended this account. What was here is not shown.";
        return Err(Fault::forbidden(advice));
    }
    Ok(account)
}

/// Whether the account is the server's own, or of somebody who was not let in yet.
fn is_hidden(tx: &mut Tx, account: &Account) -> Result<bool, Error> {
    if !account.is_local() || account.deleted_at.is_some() {
        return Ok(false);
    }
    match weir_community::users::by_account(tx, account.id) {
        Ok(user) => Ok(!user.approved || user.confirmed_at.is_none()),
        Err(Error::NotFound(_)) => Ok(true),
        Err(error) => Err(error),
    }
}

/// `GET /@name`
pub async fn posts(
    state: State<Pages>,
    visitor: Visitor,
    Path(name): Path<String>,
    query: Fields,
) -> Result<Response, Fault> {
    match name.strip_suffix(".rss") {
        Some(name) => feed::of_person(&state.0, name).await,
        None => page(&state.0, &visitor, &name, Tab::Posts, &query).await,
    }
}

/// `GET /@name/with_replies`
pub async fn with_replies(
    state: State<Pages>,
    visitor: Visitor,
    Path(name): Path<String>,
    query: Fields,
) -> Result<Response, Fault> {
    page(&state.0, &visitor, &name, Tab::Replies, &query).await
}

/// `GET /@name/media`
pub async fn with_media(
    state: State<Pages>,
    visitor: Visitor,
    Path(name): Path<String>,
    query: Fields,
) -> Result<Response, Fault> {
    page(&state.0, &visitor, &name, Tab::Media, &query).await
}

struct Loaded {
    views: Vec<View>,
    pinned: Vec<View>,
    moved_to: Option<Account>,
    bond: Option<Relationship>,
}

async fn page(
    pages: &Pages,
    visitor: &Visitor,
    name: &str,
    tab: Tab,
    query: &Fields,
) -> Result<Response, Fault> {
    let account = Arc::new(shown(pages, name).await?);
    let env = pages.community.env().clone();
    if !account.is_local() {
        return Ok(Redirect::to(&face::link(&account)).into_response());
    }
    let path = format!("/@{}{}", account.username, tab.path());
    if name != account.username {
        return Ok(Redirect::permanent(&path).into_response());
    }
    let reader = visitor.me.as_ref().map(|me| me.account.id);
    let range = paging::range(query);
    let first = range.max_id.is_none() && range.min_id.is_none();
    let of = account.clone();
    let loaded = pages
        .community
        .read(Class::Interactive, move |tx, env| {
            let views = timelines::account(tx, env, reader, of.id, tab.page(), range)?;
            let pinned = if first && tab == Tab::Posts {
                statuses::pinned(tx, env, reader, of.id)?
            } else {
                Vec::new()
            };
            let moved_to = match of.moved_to_id {
                Some(id) => accounts::by_ids(tx, &[id])?.pop(),
                None => None,
            };
            let bond = bond(tx, env, reader, of.id)?;
            Ok(Loaded { views, pinned, moved_to, bond })
        })
        .await?;
    let mut pinned = pages.posts(&loaded.pinned).await?;
    pinned.iter_mut().for_each(|post| post.pinned = true);
    let shown_above: Vec<Id> = pinned.iter().map(|post| post.id).collect();
    let mut posts = pages.posts(&loaded.views).await?;
    posts.retain(|post| post.boosted_by.is_some() || !shown_above.contains(&post.id));
    let mut face = Face::new(&env, &account);
    let mut note = account.note.clone();
    pages.paint(vec![face.paintable(), Paintable { html: &mut note, domain: "" }]).await?;
    let template = ProfilePage {
        frame: frame(pages, visitor, &account, tab, &env),
        face,
        header: media::header_url(&env, &account).unwrap_or_default(),
        note,
        fields: account.fields.0.iter().map(with_rel_me).collect(),
        joined: time::date(account.created_at),
        moved_to: loaded.moved_to.map(|account| Face::new(&env, &account)),
        tab,
        pinned,
        posts,
        neighbours: Neighbours::of(&path, &range, &loaded.views),
        is_me: reader == Some(account.id),
        bond: loaded.bond,
        account,
    };
    show_form(pages, visitor, &template)
}

fn bond(tx: &mut Tx, env: &Env, reader: Option<Id>, of: Id) -> Result<Option<Relationship>, Error> {
    match reader {
        Some(reader) if reader != of => {
            Ok(relationships::relationships(tx, reader, &[of], env.clock.now())?.pop())
        }
        _ => Ok(None),
    }
}

/// The field with its links saying that they lead to the same person (`rel=me`).
fn with_rel_me(field: &Field) -> Field {
    Field { value: field.value.replace(" rel=\"nofollow", " rel=\"me nofollow"), ..field.clone() }
}

fn frame(pages: &Pages, visitor: &Visitor, account: &Account, tab: Tab, env: &Env) -> Frame {
    let address = env.site.address(&account.username, "");
    let title = format!("{} (@{address})", face::name(account));
    let mut frame = pages.frame(visitor, title.clone());
    let profile = env.site.profile_url(&account.username);
    frame.noindex = !account.discoverable || account.silenced_at.is_some() || tab != Tab::Posts;
    frame.feed = format!("{profile}.rss");
    frame.description = match shortened(&text::plain(&account.note), 280).as_str() {
        "" => format!("{} posts, {} followers", account.statuses_count, account.followers_count),
        note => note.to_owned(),
    };
    frame.canonical = format!("{profile}{}", tab.path());
    frame.previews = vec![
        ("og:type", "profile".into()),
        ("og:title", title),
        ("og:description", frame.description.clone()),
        ("og:url", profile),
        ("profile:username", address),
        ("twitter:card", "summary".into()),
    ];
    if let Some(avatar) = media::avatar_url(env, account) {
        frame.previews.push(("og:image", avatar));
    }
    frame
}
