//! `GET /api/v1/instance`: the older form.

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use weir_community::accounts;
use weir_community::instance::{self, Registrations};

use super::v2::rule;
use super::{VERSION, configuration, streaming, thumbnail};
use crate::{Error, Face, entities};

/// What this community is.
pub async fn get(State(face): State<Face>) -> Result<Json<Value>, Error> {
    let counts = face.numbers.counts(&face).await?;
    let env = face.env();
    let settings = env.instance.settings();
    let contact = settings.contact_account;
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
    let mode = face.door.registrations(env);
    Ok(Json(json!({
        "uri": env.site.domain,
        "title": settings.title,
        "short_description": settings.short_description,
        "description": settings.short_description,
        "email": settings.contact_email,
        "version": VERSION,
        "urls": { "streaming_api": streaming(env) },
        "stats": {
            "user_count": counts.users,
            "status_count": counts.statuses,
            "domain_count": counts.domains,
        },
        "thumbnail": thumbnail(env),
        "languages": settings.languages,
        "registrations": matches!(mode, Registrations::Open | Registrations::Approval),
        "approval_required": mode == Registrations::Approval,
        "invites_enabled": mode != Registrations::Closed,
        "configuration": older(configuration(&settings)),
        "contact_account": contact,
        "rules": rules.iter().map(rule).collect::<Vec<_>>(),
    })))
}

/// The limits as the older form has them.
fn older(mut configuration: Value) -> Value {
    let featured = configuration["accounts"]["max_featured_tags"].take();
    configuration["accounts"] = json!({ "max_featured_tags": featured });
    if let Some(media) = configuration["media_attachments"].as_object_mut() {
        media.remove("description_limit");
    }
    configuration
}
