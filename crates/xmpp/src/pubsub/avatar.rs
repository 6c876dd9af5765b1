//! Avatars: one for posts and chat. What an app publishes (XEP-0084) becomes the picture of the
//! profile; what was changed there is published here when somebody asks; vCards (XEP-0054,
//! XEP-0153) show the same (XEP-0398).

use std::io::Read;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use weir_base::Id;
use weir_community::Error as CommunityError;
use weir_community::accounts::{self, ProfileChange};
use weir_community::chat::address::{self, Whom};
use weir_community::chat::{nodes as noun, private};
use weir_community::media::{self, Body};
use weir_db::Tx;

use super::{Call, notify, publish};
use crate::face::Xmpp;
use crate::wire::{Condition, Element, Jid, Scope, StanzaError, ns, parse, write};

/// The largest picture that is taken or shown here, in bytes: an item and its base64 must fit.
const BYTES_MAX: usize = 140 * 1_024;
/// The paper that says which file of the profile is which published picture.
const PAPER: &str = "weir avatar";

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Picture {
    pub(crate) content_type: String,
    pub(crate) bytes: Vec<u8>,
}

impl Picture {
    /// The SHA-1 by which it is named everywhere.
    pub(crate) fn name(&self) -> String {
        let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &self.bytes);
        hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// In base64, as it is published.
    pub(crate) fn text(&self) -> String {
        STANDARD.encode(&self.bytes)
    }

    /// From base64, with any white space.
    pub(crate) fn read(text: &str, content_type: &str) -> Result<Self, StanzaError> {
        let bad = |text: &str| StanzaError::new(Condition::NotAcceptable).text(text);
        let text: String = text.split_whitespace().collect();
        let bytes = STANDARD.decode(text).map_err(|_| bad("the picture is not base64"))?;
        if bytes.len() > BYTES_MAX {
            return Err(bad("the picture is too large: take a smaller one"));
        }
        Ok(Self { content_type: content_type.to_owned(), bytes })
    }
}

/// The hash of the picture of `account`, if it has one.
///
/// # Errors
/// The database's.
pub(crate) fn hash(tx: &mut Tx, account: Id) -> Result<Option<Box<str>>, CommunityError> {
    let paper = private::get(tx, account, PAPER)?;
    let hash = paper.as_deref().and_then(|paper| paper.split_once(' ')).map(|(_, hash)| hash);
    Ok(hash.filter(|hash| !hash.is_empty()).map(Box::from))
}

/// An app has published the metadata `item`: the profile shows that picture from now on, or none.
pub(super) async fn published(
    xmpp: &Xmpp,
    account: Id,
    host: &Jid,
    item: &Element,
    name: &str,
) -> Result<(), StanzaError> {
    let metadata = item.child("metadata", ns::AVATAR_METADATA);
    let Some(info) = metadata.and_then(|data| data.child("info", ns::AVATAR_METADATA)) else {
        return profile(xmpp, account, host, None).await;
    };
    let content_type = info.attr("type").unwrap_or("image/png").to_owned();
    let name = info.attr("id").unwrap_or(name).to_owned();
    let found = xmpp
        .read(move |tx, _| match noun::find(tx, account, ns::AVATAR_DATA)? {
            Some(node) => noun::items(tx, &node, std::slice::from_ref(&name), None, 1),
            None => Ok(Vec::new()),
        })
        .await?;
    let Some(item) = found.into_iter().next() else { return Ok(()) };
    let data = parse::element_in(&item.xml, &Scope::empty());
    let Ok(data) = data else { return Ok(()) };
    let picture = Picture::read(&data.text(), &content_type)?;
    profile(xmpp, account, host, Some(picture)).await
}

/// The profile of `account` shows `picture` from now on.
async fn profile(
    xmpp: &Xmpp,
    account: Id,
    host: &Jid,
    picture: Option<Picture>,
) -> Result<(), StanzaError> {
    let name = picture.as_ref().map(Picture::name).unwrap_or_default();
    let file = match picture {
        Some(picture) => {
            let body = Body::Bytes(picture.bytes);
            media::store_avatar(&xmpp.community, body).await.map_err(crate::face::fault)?
        }
        None => String::new(),
    };
    let hash = name.clone();
    xmpp.write(move |tx, env| {
        let change = ProfileChange { avatar: Some(file.clone()), ..ProfileChange::default() };
        accounts::update_profile(tx, env, account, &change)?;
        private::set(tx, account, PAPER, &format!("{file} {name}"))
    })
    .await?;
    crate::presence::avatar_changed(xmpp, host.as_str(), &hash);
    Ok(())
}

/// Publishes the picture of the profile at `host`, where it is not what is published.
pub(crate) async fn refresh(xmpp: &Xmpp, host: &Jid) -> Result<(), StanzaError> {
    let jid = host.as_str().to_owned();
    let found = xmpp
        .read(move |tx, env| {
            let Whom::Here(account) = address::whom(tx, env, &jid)? else { return Ok(None) };
            let avatar = accounts::by_id(tx, account)?.avatar;
            let known = private::get(tx, account, PAPER)?.unwrap_or_default();
            let known = known.split_once(' ').map_or("", |(file, _)| file).to_owned();
            Ok(Some((account, avatar, known)))
        })
        .await?;
    let Some((account, avatar, _)) = found.filter(|(_, avatar, known)| avatar != known) else {
        return Ok(());
    };
    let picture = read_file(xmpp, &avatar).await;
    let name = picture.as_ref().map(Picture::name).unwrap_or_default();
    put(xmpp, account, host, picture.as_ref()).await?;
    let paper = format!("{avatar} {name}");
    xmpp.write(move |tx, _| private::set(tx, account, PAPER, &paper)).await?;
    crate::presence::avatar_changed(xmpp, host.as_str(), &name);
    Ok(())
}

/// Publishes `picture` in the nodes of `account`, the data first.
async fn put(
    xmpp: &Xmpp,
    account: Id,
    host: &Jid,
    picture: Option<&Picture>,
) -> Result<(), StanzaError> {
    let call = Call::of_owner(xmpp, account, host);
    let mut items = Vec::new();
    let mut metadata = Element::new("metadata", ns::AVATAR_METADATA);
    let id = picture.map(Picture::name).unwrap_or_default();
    if let Some(picture) = picture {
        let data = Element::new("data", ns::AVATAR_DATA).with_text(picture.text());
        items.push((ns::AVATAR_DATA, write::to_string(&data)));
        let info = Element::new("info", ns::AVATAR_METADATA)
            .with_attr("id", &*id)
            .with_attr("type", &*picture.content_type)
            .with_attr("bytes", picture.bytes.len().to_string());
        metadata = metadata.with_child(info);
    }
    items.push((ns::AVATAR_METADATA, write::to_string(&metadata)));
    let events = call
        .write(move |tx, env, call| {
            let mut events = Vec::new();
            for (name, xml) in &items {
                let (name, id, xml) = ((*name).to_owned(), id.clone(), xml.clone());
                let new = publish::New { name, id, xml, wish: None };
                let event = publish::put(tx, env, call, &new)?.0;
                events.push(event.seen_by_contacts(tx, env, account)?);
            }
            Ok(events)
        })
        .await?;
    for event in events {
        notify::send(xmpp, event);
    }
    Ok(())
}

/// `account` shows `picture` from now on: in its nodes and on its profile.
pub(crate) async fn change(
    xmpp: &Xmpp,
    account: Id,
    host: &Jid,
    picture: Option<Picture>,
) -> Result<(), StanzaError> {
    put(xmpp, account, host, picture.as_ref()).await?;
    profile(xmpp, account, host, picture).await
}

/// The picture of the profile of the account at `host`.
pub(crate) async fn current(xmpp: &Xmpp, host: &Jid) -> Result<Option<Picture>, StanzaError> {
    let jid = host.as_str().to_owned();
    refresh(xmpp, host).await?;
    let found = xmpp
        .read(move |tx, env| {
            let Whom::Here(account) = address::whom(tx, env, &jid)? else { return Ok(None) };
            let Some(node) = noun::find(tx, account, ns::AVATAR_METADATA)? else { return Ok(None) };
            let Some(item) = noun::last(tx, &node)? else { return Ok(None) };
            let Some(node) = noun::find(tx, account, ns::AVATAR_DATA)? else { return Ok(None) };
            let mut data = noun::items(tx, &node, std::slice::from_ref(&item.name), None, 1)?;
            Ok(data.pop().map(|data| (item.xml, data.xml)))
        })
        .await?;
    let Some((metadata, data)) = found else { return Ok(None) };
    let metadata = parse::element_in(&metadata, &Scope::empty()).ok();
    let content_type = metadata
        .and_then(|data| data.child("info", ns::AVATAR_METADATA)?.attr("type").map(str::to_owned));
    let Ok(data) = parse::element_in(&data, &Scope::empty()) else { return Ok(None) };
    Ok(Picture::read(&data.text(), content_type.as_deref().unwrap_or("image/png")).ok())
}

/// A stored file, where it is one of here and small enough.
async fn read_file(xmpp: &Xmpp, file: &str) -> Option<Picture> {
    if file.is_empty() || file.contains("://") {
        return None;
    }
    let path = xmpp.env().media.store.path(file)?;
    let content_type = media::content_type_of(file).to_owned();
    let read = move || {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).ok()?;
        file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes).ok()?;
        (bytes.len() <= BYTES_MAX).then_some(bytes)
    };
    let bytes = tokio::task::spawn_blocking(read).await.ok()??;
    Some(Picture { content_type, bytes })
}
