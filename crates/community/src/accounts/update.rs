//! Changing one's profile.

use std::collections::HashMap;

use weir_base::Id;
use weir_db::{Json, Tx, params};

use super::{
    ATTRIBUTION_DOMAINS_MAX, Account, DISPLAY_NAME_CHARACTERS_MAX, FIELD_CHARACTERS_MAX,
    FIELDS_MAX, Field, NOTE_CHARACTERS_MAX, by_id,
};
use crate::federation::{self, Message};
use crate::streams::Noun;
use crate::{Env, Error, media, search, text};

/// What is to change; what is `None` stays.
#[derive(Debug, Clone, Default)]
pub struct ProfileChange {
    /// What to be called.
    pub display_name: Option<String>,
    /// The bio, as plain text.
    pub note: Option<String>,
    /// Name and value, as plain text; empty ones are dropped.
    pub fields: Option<Vec<(String, String)>>,
    /// A stored file; empty removes it.
    pub avatar: Option<String>,
    /// What the avatar shows.
    pub avatar_description: Option<String>,
    /// A stored file; empty removes it.
    pub header: Option<String>,
    /// What the header shows.
    pub header_description: Option<String>,
    /// Whether followers are approved by hand.
    pub locked: Option<bool>,
    /// Whether a program posts here.
    pub bot: Option<bool>,
    /// Whether to be found in directories.
    pub discoverable: Option<bool>,
    /// Whether public posts may be searched.
    pub indexable: Option<bool>,
    /// Whether followers and followees are hidden.
    pub hide_collections: Option<bool>,
    /// Whether media has a place of its own on the profile.
    pub show_media: Option<bool>,
    /// Whether media in replies stands there too.
    pub show_media_replies: Option<bool>,
    /// Whether what is featured has a place of its own on the profile.
    pub show_featured: Option<bool>,
    /// Websites that may name this account as author.
    pub attribution_domains: Option<Vec<String>>,
    /// Other accounts of the same person, by actor id.
    pub also_known_as: Option<Vec<String>>,
}

/// Changes the profile of `by` and tells the network.
///
/// # Errors
/// [`Error::Invalid`] when something is too long.
pub fn update_profile(
    tx: &mut Tx,
    env: &Env,
    by: Id,
    change: &ProfileChange,
) -> Result<Account, Error> {
    check(change)?;
    let mut account = by_id(tx, by)?;
    let before = [account.avatar.clone(), account.header.clone()];
    let was_indexable = account.indexable;
    apply(&mut account, change, env);
    for (old, new) in before.iter().zip([&account.avatar, &account.header]) {
        if old != new {
            media::forget_file(tx, env, old)?;
        }
    }
    env.streams.touched(tx, Noun::Account(by));
    env.streams.looks_changed(tx, by);
    tx.run(
        "UPDATE accounts SET display_name = ?2, note = ?3, note_source = ?4, fields = ?5,
           fields_source = ?6, avatar = ?7, avatar_description = ?8, header = ?9,
           header_description = ?10, locked = ?11, kind = ?12, discoverable = ?13,
           indexable = ?14, hide_collections = ?15, also_known_as = ?16,
           show_media = ?17, show_media_replies = ?18, show_featured = ?19,
           attribution_domains = ?20
         WHERE id = ?1",
        params![
            by,
            account.display_name,
            account.note,
            account.note_source,
            account.fields,
            account.fields_source,
            account.avatar,
            account.avatar_description,
            account.header,
            account.header_description,
            account.locked,
            account.kind,
            account.discoverable,
            account.indexable,
            account.hide_collections,
            account.also_known_as,
            account.show_media,
            account.show_media_replies,
            account.show_featured,
            account.attribution_domains
        ],
    )?;
    search::account_changed(tx, env, by, true)?;
    if account.indexable && !was_indexable {
        search::indexable_changed(tx, env, by)?;
    }
    federation::send(tx, env, by, Message::UpdateActor)?;
    Ok(account)
}

fn check(change: &ProfileChange) -> Result<(), Error> {
    let too_long = |field, most: usize| {
        Err(Error::invalid(
            field,
            "ERR_TOO_LONG",
            format!("is too long (maximum is {most} characters)"),
        ))
    };
    let length = |text: &Option<String>| text.as_ref().map_or(0, |text| text.chars().count());
    if length(&change.display_name) > DISPLAY_NAME_CHARACTERS_MAX {
        return too_long("display_name", DISPLAY_NAME_CHARACTERS_MAX);
    }
    if change.note.as_deref().map_or(0, text::counted_characters) > NOTE_CHARACTERS_MAX {
        return too_long("note", NOTE_CHARACTERS_MAX);
    }
    let fields = change.fields.as_deref().unwrap_or_default();
    let long = |text: &str| text.chars().count() > FIELD_CHARACTERS_MAX;
    if fields.len() > FIELDS_MAX {
        return Err(Error::invalid(
            "fields",
            "ERR_TOO_MANY",
            format!("can be {FIELDS_MAX} at most"),
        ));
    }
    let websites = change.attribution_domains.as_deref().unwrap_or_default();
    let is_domain = |domain: &String| {
        domain.len() <= 255
            && domain.contains('.')
            && domain.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '.'))
    };
    let websites = domains(websites);
    if websites.len() > ATTRIBUTION_DOMAINS_MAX || !websites.iter().all(is_domain) {
        let message = format!("must be domains of websites, {ATTRIBUTION_DOMAINS_MAX} at most");
        return Err(Error::invalid("attribution_domains", "ERR_INVALID", message));
    }
    if fields.iter().any(|(name, value)| long(name) || long(value)) {
        return too_long("fields", FIELD_CHARACTERS_MAX);
    }
    Ok(())
}

/// The domains as they are kept: each once, without what people write around them.
fn domains(websites: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for website in websites {
        let website = website.trim().to_lowercase();
        let bare = website.trim_start_matches("https://").trim_start_matches("http://");
        let bare = bare.trim_end_matches('/').trim_start_matches("*.");
        if !bare.is_empty() && !kept.iter().any(|known| known == bare) {
            kept.push(bare.to_owned());
        }
    }
    kept
}

fn apply(account: &mut Account, change: &ProfileChange, env: &Env) {
    let render = |source: &str| text::render(source, &HashMap::new(), |tag| env.site.tag_url(tag));
    let set = |target: &mut String, value: &Option<String>| {
        if let Some(value) = value {
            target.clone_from(value);
        }
    };
    set(&mut account.display_name, &change.display_name);
    set(&mut account.avatar, &change.avatar);
    set(&mut account.avatar_description, &change.avatar_description);
    set(&mut account.header, &change.header);
    set(&mut account.header_description, &change.header_description);
    if let Some(note) = &change.note {
        account.note = if note.trim().is_empty() { String::new() } else { render(note) };
        account.note_source.clone_from(note);
    }
    if let Some(fields) = &change.fields {
        let kept = fields.iter().filter(|(name, value)| !(name.is_empty() && value.is_empty()));
        let kept: Vec<&(String, String)> = kept.collect();
        let field = |(name, value): &(String, String), value_html: String| {
            let known = account.fields_source.0.iter().find(|old| old.value == *value);
            let verified_at = known.and_then(|old| old.verified_at);
            Field { name: name.clone(), value: value_html, verified_at }
        };
        let html = |value: &str| {
            let html = render(value);
            html.strip_prefix("<p>")
                .and_then(|html| html.strip_suffix("</p>"))
                .map_or(html.clone(), str::to_owned)
        };
        let shown = kept.iter().map(|pair| field(pair, html(&pair.1))).collect();
        let source = kept.iter().map(|pair| field(pair, pair.1.clone())).collect();
        account.fields = Json(shown);
        account.fields_source = Json(source);
    }
    if let Some(bot) = change.bot {
        account.kind = if bot { "service".into() } else { "person".into() };
    }
    let flags = [
        (&mut account.locked, change.locked),
        (&mut account.discoverable, change.discoverable),
        (&mut account.indexable, change.indexable),
        (&mut account.hide_collections, change.hide_collections),
        (&mut account.show_media, change.show_media),
        (&mut account.show_media_replies, change.show_media_replies),
        (&mut account.show_featured, change.show_featured),
    ];
    for (target, value) in flags {
        *target = value.unwrap_or(*target);
    }
    if let Some(websites) = &change.attribution_domains {
        account.attribution_domains = Json(domains(websites));
    }
    if let Some(known_as) = &change.also_known_as {
        account.also_known_as = Json(known_as.clone());
    }
}
