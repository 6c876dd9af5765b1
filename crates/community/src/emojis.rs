//! Custom emoji: ours, and those of other servers that posts and profiles here name.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use weir_base::{Id, KIB, Timestamp};
use weir_db::{Class, Question, Record as _, Tx, ids, params, texts};

use crate::media::{self, Body};
use crate::users::{self, Role};
use crate::{Community, Env, Error};

/// The longest name, in characters.
const NAME_CHARACTERS_MAX: usize = 128;
/// Names one post or profile may bring.
const BROUGHT_MAX: usize = 64;
/// Emoji that are remembered of one server.
const PER_DOMAIN_MAX: i64 = 20_000;
/// The largest picture that is taken, in bytes.
const PICTURE_BYTES_MAX: u64 = 512 * KIB as u64;
/// The longest address of a picture, in bytes.
const ADDRESS_BYTES_MAX: usize = 2_048;

weir_db::record! {
    /// A custom emoji.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Emoji {
        /// Its id.
        pub id: Id,
        /// Its name, without the colons.
        pub shortcode: String,
        /// The server it belongs to; empty for ours.
        pub domain: String,
        /// Its id on the network; may be empty.
        pub uri: String,
        /// The stored picture; empty for those of other servers.
        pub image: String,
        /// The stored picture without movement.
        pub static_image: String,
        /// Where the picture of another server's emoji lies.
        pub remote_url: String,
        /// The group it is shown in.
        pub category: Option<String>,
        /// Whether pickers show it.
        pub listed: bool,
        /// Whether it is shown as plain text.
        pub disabled: bool,
        /// When it was last changed.
        pub updated_at: Timestamp,
    }
}

/// An emoji as another server describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteEmoji {
    /// Its name, with or without colons.
    pub shortcode: String,
    /// Its id on the network; may be empty.
    pub uri: String,
    /// Its picture.
    pub image_url: String,
    /// When it was changed, as its server says.
    pub updated_at: Option<Timestamp>,
}

/// An emoji that staff adds.
#[derive(Debug)]
pub struct NewEmoji {
    /// Its name, without the colons.
    pub shortcode: String,
    /// The group it is shown in.
    pub category: Option<String>,
    /// Its picture.
    pub picture: Body,
}

/// What staff changes about an emoji; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct EmojiChange {
    /// The group; empty for none.
    pub category: Option<String>,
    /// Whether pickers show it.
    pub listed: Option<bool>,
    /// Whether it is shown as plain text.
    pub disabled: Option<bool>,
}

/// Our emoji that pickers show.
///
/// # Errors
/// The database's.
pub fn listed(tx: &mut Tx) -> Result<Vec<Emoji>, Error> {
    Ok(tx.records(
        "SELECT {} FROM custom_emojis WHERE domain = '' AND disabled = 0 AND listed = 1
         ORDER BY coalesce(category, ''), shortcode LIMIT 5000",
        &[],
    )?)
}

/// Those of these names on these servers (the empty one is ours) that are shown: for every
/// combination, so that the texts of a whole page are served by one query.
///
/// # Errors
/// The database's.
pub fn named<'t>(
    tx: &mut Tx,
    domains: impl IntoIterator<Item = &'t str>,
    shortcodes: impl IntoIterator<Item = &'t str>,
) -> Result<Vec<Emoji>, Error> {
    let mut found = Vec::new();
    tx.query_together(vec![ask_named(domains, shortcodes, |emoji| found.push(emoji))])?;
    Ok(found)
}

/// As [`named`], asked together with other things.
pub fn ask_named<'q, 't>(
    domains: impl IntoIterator<Item = &'t str>,
    shortcodes: impl IntoIterator<Item = &'t str>,
    mut each: impl FnMut(Emoji) + 'q,
) -> Question<'q> {
    let sql = format!(
        "SELECT {} FROM custom_emojis
         WHERE domain IN texts(?1) AND shortcode IN texts(?2) AND disabled = 0",
        Emoji::COLUMNS
    );
    Question::new(sql, [texts(domains), texts(shortcodes)], move |row| {
        each(Emoji::read(row, 0)?);
        Ok(())
    })
}

/// Where the picture is reached; those of other servers through us.
pub fn url(env: &Env, emoji: &Emoji) -> String {
    match emoji.image.as_str() {
        "" => proxied(env, emoji, ""),
        image => env.site.file_url(image),
    }
}

/// Where the picture without movement is reached.
pub fn static_url(env: &Env, emoji: &Emoji) -> String {
    match (emoji.static_image.as_str(), emoji.image.as_str()) {
        ("", "") => proxied(env, emoji, "static"),
        ("", image) | (image, _) => env.site.file_url(image),
    }
}

fn proxied(env: &Env, emoji: &Emoji, form: &str) -> String {
    let path = media::proxy_path(&env.media, "emoji", emoji.id, form, &emoji.remote_url);
    format!("{}{path}", env.site.base)
}

/// Remembers what a post or profile of `domain` says of the emoji it names. What is not
/// acceptable is left out; each server has room for so many and no more.
///
/// # Errors
/// The database's.
pub fn upsert_remote(
    tx: &mut Tx,
    env: &Env,
    domain: &str,
    brought: &[RemoteEmoji],
) -> Result<(), Error> {
    let brought = acceptable(brought);
    if domain.is_empty() || brought.is_empty() {
        return Ok(());
    }
    let known: Vec<Emoji> = tx.records(
        "SELECT {} FROM custom_emojis WHERE domain IN texts(?1) AND shortcode IN texts(?2)",
        &[texts([domain]), texts(brought.keys())],
    )?;
    let known: HashMap<&str, &Emoji> =
        known.iter().map(|emoji| (emoji.shortcode.as_str(), emoji)).collect();
    let mut room: Option<i64> = None;
    for (shortcode, new) in brought {
        let updated_at = new.updated_at.unwrap_or(Timestamp::from_ms(0));
        if let Some(old) = known.get(shortcode) {
            let newer = updated_at > old.updated_at || new.updated_at.is_none();
            if newer && (old.remote_url != new.image_url || updated_at > old.updated_at) {
                tx.run(
                    "UPDATE custom_emojis SET uri = ?2, remote_url = ?3, updated_at = ?4
                     WHERE id = ?1",
                    params![old.id, new.uri, new.image_url, updated_at.max(old.updated_at)],
                )?;
            }
            continue;
        }
        let left = match room {
            Some(left) => left,
            None => PER_DOMAIN_MAX - count(tx, domain)?,
        };
        room = Some(left - 1);
        if left <= 0 {
            metrics::counter!("weir_community_emojis_refused_total").increment(1);
            break;
        }
        tx.run(
            "INSERT INTO custom_emojis (id, shortcode, domain, uri, remote_url, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
            params![env.ids.next(), shortcode, domain, new.uri, new.image_url, updated_at],
        )?;
    }
    Ok(())
}

fn count(tx: &mut Tx, domain: &str) -> Result<i64, Error> {
    let sql = "SELECT count(*) FROM custom_emojis WHERE domain = ?1";
    Ok(tx.value(sql, params![domain])?.unwrap_or(0))
}

/// Those with a good name and address, by name.
fn acceptable(brought: &[RemoteEmoji]) -> BTreeMap<&str, &RemoteEmoji> {
    brought
        .iter()
        .take(BROUGHT_MAX)
        .map(|emoji| (emoji.shortcode.trim_matches(':'), emoji))
        .filter(|(shortcode, emoji)| {
            is_shortcode(shortcode)
                && media::is_address(&emoji.image_url)
                && emoji.image_url.len() <= ADDRESS_BYTES_MAX
                && emoji.uri.len() <= ADDRESS_BYTES_MAX
        })
        .collect()
}

/// Whether this can be a name: letters, digits and `_`, two at least.
pub fn is_shortcode(name: &str) -> bool {
    (2..=NAME_CHARACTERS_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Staff adds an emoji, or gives an own one another picture.
///
/// # Errors
/// [`Error::Forbidden`] when `by` may not, [`Error::Invalid`] with what is not acceptable.
pub async fn add(community: &Community, by: Id, new: NewEmoji) -> Result<Emoji, Error> {
    if !is_shortcode(&new.shortcode) {
        let message = "must have 2 to 128 letters, digits and underscores";
        return Err(Error::invalid("shortcode", "ERR_INVALID", message));
    }
    community.read(Class::Interactive, move |tx, _| check_staff(tx, by)).await?;
    let NewEmoji { shortcode, category, picture } = new;
    let env = community.env();
    let (image, static_image) = media::store_emoji(&env.media, picture, PICTURE_BYTES_MAX).await?;
    let category = category.filter(|category| !category.trim().is_empty());
    community
        .write(Class::Interactive, move |tx, env| {
            let old: Option<Emoji> = tx.record(
                "SELECT {} FROM custom_emojis WHERE domain = '' AND shortcode = ?1",
                params![shortcode],
            )?;
            if let Some(old) = old {
                forget_pictures(tx, env, &old)?;
            }
            tx.run(
                "INSERT INTO custom_emojis
                   (id, shortcode, domain, image, static_image, category, updated_at)
                 VALUES (?1, ?2, '', ?3, ?4, ?5, ?6)
                 ON CONFLICT (domain, shortcode) DO UPDATE SET image = excluded.image,
                   static_image = excluded.static_image, category = excluded.category,
                   updated_at = excluded.updated_at, disabled = 0",
                params![env.ids.next(), shortcode, image, static_image, category, env.clock.now()],
            )?;
            tx.record(
                "SELECT {} FROM custom_emojis WHERE domain = '' AND shortcode = ?1",
                params![shortcode],
            )?
            .ok_or(Error::NotFound("Emoji"))
        })
        .await
}

/// Staff changes an emoji, ours or another server's.
///
/// # Errors
/// [`Error::Forbidden`] when `by` may not, [`Error::NotFound`].
pub fn change(tx: &mut Tx, by: Id, id: Id, change: &EmojiChange) -> Result<Emoji, Error> {
    check_staff(tx, by)?;
    let mut emoji = by_id(tx, id)?;
    if let Some(category) = &change.category {
        emoji.category = Some(category.clone()).filter(|category| !category.trim().is_empty());
    }
    emoji.listed = change.listed.unwrap_or(emoji.listed);
    emoji.disabled = change.disabled.unwrap_or(emoji.disabled);
    tx.run(
        "UPDATE custom_emojis SET category = ?2, listed = ?3, disabled = ?4 WHERE id = ?1",
        params![id, emoji.category, emoji.listed, emoji.disabled],
    )?;
    Ok(emoji)
}

/// Staff removes one of our emoji, and its pictures.
///
/// # Errors
/// [`Error::Forbidden`] when `by` may not, [`Error::NotFound`].
pub fn remove(tx: &mut Tx, env: &Env, by: Id, id: Id) -> Result<(), Error> {
    check_staff(tx, by)?;
    let emoji = by_id(tx, id)?;
    forget_pictures(tx, env, &emoji)?;
    tx.run("DELETE FROM custom_emojis WHERE id IN ids(?1)", &[ids(&[id])])?;
    Ok(())
}

/// The emoji with this id.
///
/// # Errors
/// [`Error::NotFound`].
pub fn by_id(tx: &mut Tx, id: Id) -> Result<Emoji, Error> {
    tx.record("SELECT {} FROM custom_emojis WHERE id = ?1", params![id])?
        .ok_or(Error::NotFound("Emoji"))
}

fn forget_pictures(tx: &mut Tx, env: &Env, emoji: &Emoji) -> Result<(), Error> {
    media::forget_file(tx, env, &emoji.image)?;
    media::forget_file(tx, env, &emoji.static_image)
}

fn check_staff(tx: &mut Tx, by: Id) -> Result<(), Error> {
    let role = Role::parse(&users::by_account(tx, by)?.role);
    if role.is_some_and(|role| role >= Role::Moderator) {
        return Ok(());
    }
    Err(Error::Forbidden("Only staff may change custom emoji"))
}
