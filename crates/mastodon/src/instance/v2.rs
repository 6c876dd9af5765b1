//! `GET /api/v2/instance`

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use weir_community::accounts;
use weir_community::instance::{self, Registrations};

use super::{API_VERSION, BLURHASH, VERSION, configuration, streaming, thumbnail};
use crate::{Error, Face, entities};

/// What this community is.
pub async fn get(State(face): State<Face>) -> Result<Json<Value>, Error> {
    let counts = face.numbers.counts(&face).await?;
    let env = face.env();
    let settings = env.instance.settings();
    let (door, contact) = (face.door, settings.contact_account);
    let (contact, rules) = face
        .read(move |tx, env| {
            let contact = match contact {
                Some(id) => accounts::by_ids(tx, &[id])?.pop(),
                None => None,
            };
            let contact = contact.filter(accounts::Account::is_available);
            let contact = contact.map(|one| entities::account(tx, env, &one)).transpose()?;
            Ok((contact, instance::rules(tx)?))
        })
        .await?;
    let base = &env.site.base;
    let mut configuration = configuration(&settings);
    let terms = (!settings.terms_of_service.is_empty()).then(|| format!("{base}/about/terms"));
    configuration["urls"] = json!({
        "streaming": streaming(env),
        "status": null,
        "about": format!("{base}/about"),
        "privacy_policy": format!("{base}/privacy-policy"),
        "terms_of_service": terms,
    });
    configuration["vapid"] = json!({ "public_key": face.vapid_key });
    configuration["translation"] = json!({ "enabled": false });
    configuration["limited_federation"] = json!(false);
    let access = if settings.public_timelines { "public" } else { "authenticated" };
    let access = json!({ "local": access, "remote": access });
    configuration["timelines_access"] = json!({
        "live_feeds": access, "hashtag_feeds": access, "trending_link_feeds": access,
    });
    Ok(Json(json!({
        "domain": env.site.domain,
        "title": settings.title,
        "version": VERSION,
        "source_url": env!("CARGO_PKG_REPOSITORY"),
        "description": settings.short_description,
        "usage": { "users": { "active_month": counts.active_month } },
        "thumbnail": {
            "url": thumbnail(env),
            "description": "",
            "blurhash": BLURHASH,
            "versions": { "@1x": thumbnail(env), "@2x": thumbnail(env) },
        },
        "icon": [],
        "languages": settings.languages,
        "configuration": configuration,
        "registrations": registrations(door.registrations(env), base),
        "api_versions": { "mastodon": API_VERSION },
        "contact": { "email": settings.contact_email, "account": contact },
        "rules": rules.iter().map(rule).collect::<Vec<_>>(),
    })))
}

/// A rule as the API shows it.
pub(super) fn rule(rule: &instance::Rule) -> Value {
    json!({
        "id": rule.id,
        "text": rule.content,
        "hint": rule.hint,
        "translations": {},
    })
}

fn registrations(mode: Registrations, base: &str) -> Value {
    let open = matches!(mode, Registrations::Open | Registrations::Approval);
    json!({
        "enabled": open,
        "approval_required": mode == Registrations::Approval,
        "reason_required": mode == Registrations::Approval,
        "message": null,
        "min_age": null,
        "url": format!("{base}/auth/sign_up"),
    })
}
