//! How a room behaves, as a form (XEP-0045 §10.2).

use weir_community::chat::rooms::{Config, OCCUPANTS_MAX, Private, Whois};

use super::bad;
use crate::wire::form::{Field, Form};
use crate::wire::{Condition, StanzaError, ns};

/// The numbers of occupants to choose from.
const SIZES: [&str; 7] = ["10", "50", "200", "1000", "5000", "20000", "50000"];

/// The roles to choose from.
const ROLES: [&str; 3] = ["moderator", "participant", "visitor"];

/// The form to change `config` with.
pub(super) fn form(config: &Config, name: &str) -> Form {
    let text = |kind, var: &str, label: &str, value: &str| Field::new(kind, var, label, value);
    let flag = |var: &str, label: &str, on: bool| Field::flag(var, label, on);
    let private = Private::ALL
        .iter()
        .find(|(one, _)| *one == config.private_messages)
        .map_or("", |one| one.1);
    let whois = match config.whois {
        Whois::Moderators => "moderators",
        Whois::Anyone => "anyone",
    };
    Form::to_fill_in(ns::MUC_CONFIG)
        .titled(&format!("Configuration of {name}"), "Fill in what is to change, and submit.")
        .with(text("text-single", "muc#roomconfig_roomname", "Title", &config.title))
        .with(text("text-single", "muc#roomconfig_roomdesc", "Description", &config.description))
        .with(text("text-single", "muc#roomconfig_lang", "Language", &config.language))
        .with(flag(
            "muc#roomconfig_persistentroom",
            "Stays when the last one leaves",
            config.persistent,
        ))
        .with(flag("muc#roomconfig_publicroom", "Stands in the list of rooms", config.public))
        .with(flag(
            "muc#roomconfig_passwordprotectedroom",
            "Has a password",
            !config.password.is_empty(),
        ))
        .with(text("text-private", "muc#roomconfig_roomsecret", "Password", &config.password))
        .with(flag("muc#roomconfig_membersonly", "For members only", config.members_only))
        .with(flag("muc#roomconfig_moderatedroom", "Newcomers have no voice", config.moderated))
        .with(
            text("list-single", "muc#roomconfig_whois", "Who sees real addresses", whois)
                .of(["moderators", "anyone"]),
        )
        .with(
            text(
                "list-single",
                "muc#roomconfig_maxusers",
                "Occupants at most",
                &config.occupants_max.to_string(),
            )
            .of(SIZES),
        )
        .with(flag(
            "muc#roomconfig_changesubject",
            "All who may speak may change the subject",
            config.change_subject,
        ))
        .with(flag("muc#roomconfig_allowinvites", "All may invite others", config.invites))
        .with(
            text("list-single", "muc#roomconfig_allowpm", "Who may write in private", private)
                .of(Private::ALL.iter().map(|(_, name)| *name)),
        )
        .with(flag(
            "muc#roomconfig_allowvoicerequests",
            "Voice can be asked for",
            config.voice_requests,
        ))
        .with(flag("muc#roomconfig_enablelogging", "Keep what is said", config.archive))
        .with(flag("muc#roomconfig_enablearchiving", "The same for older apps", config.archive))
        .with(text(
            "text-single",
            "muc#maxhistoryfetch",
            "Messages told to those who come",
            &config.history_max.to_string(),
        ))
        .with(
            Field::many(
                "list-multi",
                "muc#roomconfig_presencebroadcast",
                "Whose presence is told to all",
                &config.broadcast,
            )
            .of(ROLES),
        )
        .with(
            Field::many(
                "list-multi",
                "muc#roomconfig_getmemberlist",
                "Who sees the lists of members, beside admins",
                &config.lists_for,
            )
            .of(ROLES),
        )
}

/// `config` with what `form` says in its place.
pub(super) fn changed(config: &Config, form: &Form) -> Result<Config, StanzaError> {
    let mut new = config.clone();
    let mut has_password = None;
    for field in &form.fields {
        let value = field.values.first().map(String::as_str).unwrap_or_default();
        let flag = || match value {
            "1" | "true" => Ok(true),
            "0" | "false" => Ok(false),
            _ => Err(bad("write 1 or 0 into fields that are true or false")),
        };
        let number = || value.parse::<u32>().map_err(|_| bad("write numbers as such"));
        match field.var.as_str() {
            "muc#roomconfig_roomname" => new.title = value.to_owned(),
            "muc#roomconfig_roomdesc" => new.description = value.to_owned(),
            "muc#roomconfig_lang" => new.language = value.to_owned(),
            "muc#roomconfig_persistentroom" => new.persistent = flag()?,
            "muc#roomconfig_publicroom" => new.public = flag()?,
            "muc#roomconfig_passwordprotectedroom" => has_password = Some(flag()?),
            "muc#roomconfig_roomsecret" => new.password = value.to_owned(),
            "muc#roomconfig_membersonly" => new.members_only = flag()?,
            "muc#roomconfig_moderatedroom" => new.moderated = flag()?,
            "muc#roomconfig_whois" if value == "anyone" => new.whois = Whois::Anyone,
            "muc#roomconfig_whois" => new.whois = Whois::Moderators,
            "muc#roomconfig_maxusers" if matches!(value, "" | "none") => {
                new.occupants_max = OCCUPANTS_MAX;
            }
            "muc#roomconfig_maxusers" => new.occupants_max = number()?,
            "muc#roomconfig_changesubject" => new.change_subject = flag()?,
            "muc#roomconfig_allowinvites" => new.invites = flag()?,
            "muc#roomconfig_allowpm" => {
                let found = Private::ALL.iter().find(|(_, name)| *name == value);
                new.private_messages = found.ok_or_else(|| bad("no such choice"))?.0;
            }
            "muc#roomconfig_allowvoicerequests" => new.voice_requests = flag()?,
            "muc#roomconfig_enablearchiving" | "muc#roomconfig_enablelogging" => {
                // Two names of one thing: the one that was changed counts.
                let on = flag()?;
                if on != config.archive {
                    new.archive = on;
                }
            }
            "muc#maxhistoryfetch" => new.history_max = number()?,
            "muc#roomconfig_presencebroadcast" => new.broadcast.clone_from(&field.values),
            "muc#roomconfig_getmemberlist" => new.lists_for.clone_from(&field.values),
            // What else there is changes nothing here.
            _ => {}
        }
    }
    match has_password {
        Some(false) => new.password.clear(),
        Some(true) if new.password.is_empty() => {
            let text = "a room with a password needs one";
            return Err(StanzaError::new(Condition::NotAcceptable).text(text));
        }
        _ => {}
    }
    Ok(new.within_limits())
}

/// The status codes by which occupants learn what changed (XEP-0045 §10.2.1).
pub(super) fn codes(before: &Config, after: &Config) -> Vec<u16> {
    let mut codes = Vec::new();
    if before.archive != after.archive {
        codes.push(if after.archive { 170 } else { 171 });
    }
    if before.whois != after.whois {
        codes.push(match after.whois {
            Whois::Anyone => 172,
            Whois::Moderators => 173,
        });
    }
    let others = Config { archive: after.archive, whois: after.whois, ..before.clone() };
    if others != *after {
        codes.push(104);
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_configuration_says_that_configuration() {
        let secret = Config {
            password: "tea".into(),
            whois: Whois::Anyone,
            occupants_max: 20,
            private_messages: Private::None,
            ..Config::default()
        };
        for config in [Config::default(), secret] {
            let config = config.within_limits();
            let back = changed(&Config::default(), &form(&config, "tea")).unwrap();
            assert_eq!(back, config);
        }
    }

    #[test]
    fn a_password_that_is_switched_on_and_empty_is_refused() {
        let on =
            Form::default().with(Field::flag("muc#roomconfig_passwordprotectedroom", "", true));
        assert!(changed(&Config::default(), &on).is_err());
    }

    #[test]
    fn what_changed_is_told_by_its_code() {
        let before = Config::default();
        let after = Config { whois: Whois::Anyone, moderated: true, ..Config::default() };
        assert_eq!(codes(&before, &after), [172, 104]);
        assert!(codes(&before, &before).is_empty());
    }
}
