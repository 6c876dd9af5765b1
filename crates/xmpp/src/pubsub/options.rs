//! How a node behaves, as a form (XEP-0060 §16.4.4), and as conditions of publishing.

use weir_community::chat::nodes::{Access, Config, Notification, Publish, SendLast};

use super::{bad, refuse};
use crate::wire::form::{Field, Form};
use crate::wire::{Condition, StanzaError, ns};

/// The most items a node may keep, as `max` asks for.
const ITEMS_MAX: u32 = 1_000;

/// As node `name` of an account begins, where nothing else is wished for.
pub(super) fn initial(name: &str) -> Config {
    match name {
        ns::BOOKMARKS_2 => Config {
            access: Access::Whitelist,
            items_max: ITEMS_MAX,
            send_last: SendLast::Never,
            ..Config::default()
        },
        ns::BOOKMARKS => Config { access: Access::Whitelist, ..Config::default() },
        // Anybody may ask for a card by query too.
        ns::VCARD4_NODE => Config { access: Access::Open, ..Config::default() },
        ns::AVATAR_DATA => Config { send_last: SendLast::Never, ..Config::default() },
        _ => Config::default(),
    }
}

fn name_of<T: Copy + PartialEq>(all: &[(T, &'static str)], value: T) -> &'static str {
    all.iter().find(|(one, _)| *one == value).map_or("", |(_, name)| name)
}

fn by_name<T: Copy>(all: &[(T, &'static str)], name: &str) -> Result<T, StanzaError> {
    let found = all.iter().find(|(_, one)| *one == name).map(|(value, _)| *value);
    found.ok_or_else(|| StanzaError::new(Condition::NotAcceptable).text(format!("no such: {name}")))
}

fn names<T>(all: &'static [(T, &'static str)]) -> impl Iterator<Item = &'static str> {
    all.iter().map(|(_, name)| *name)
}

/// The form to change `config` with.
pub(super) fn form(config: &Config) -> Form {
    let text = |var: &str, label: &str, value: &str| Field::new("text-single", var, label, value);
    let flag = |var: &str, label: &str, on: bool| Field::flag(var, label, on);
    Form::to_fill_in(ns::PUBSUB_CONFIG)
        .with(text("pubsub#title", "Title", &config.title))
        .with(text("pubsub#description", "Description", &config.description))
        .with(text("pubsub#type", "Namespace of the payloads", &config.kind))
        .with(
            Field::new(
                "list-single",
                "pubsub#access_model",
                "Who may read",
                name_of(&Access::ALL, config.access),
            )
            .of(names(&Access::ALL)),
        )
        .with(Field::many(
            "list-multi",
            "pubsub#roster_groups_allowed",
            "Groups of contacts that may read",
            &config.groups,
        ))
        .with(
            Field::new(
                "list-single",
                "pubsub#publish_model",
                "Who may publish",
                name_of(&Publish::ALL, config.publish),
            )
            .of(names(&Publish::ALL)),
        )
        .with(flag("pubsub#persist_items", "Keep items", config.persist))
        .with(text("pubsub#max_items", "Items to keep", &config.items_max.to_string()))
        .with(text(
            "pubsub#max_payload_size",
            "The longest payload, in bytes",
            &config.payload_bytes_max.to_string(),
        ))
        .with(flag("pubsub#deliver_notifications", "Tell of what happens", config.notifies))
        .with(
            Field::new(
                "list-single",
                "pubsub#notification_type",
                "As which messages to tell of it",
                name_of(&Notification::ALL, config.notification),
            )
            .of(names(&Notification::ALL)),
        )
        .with(flag("pubsub#deliver_payloads", "Send payloads", config.payloads))
        .with(flag("pubsub#notify_retract", "Tell of retracted items", config.tells_retracts))
        .with(flag("pubsub#notify_delete", "Tell of the node's end", config.tells_delete))
        .with(flag("pubsub#notify_config", "Tell of changed settings", config.tells_config))
        .with(
            Field::new(
                "list-single",
                "pubsub#send_last_published_item",
                "When to send the last item",
                name_of(&SendLast::ALL, config.send_last),
            )
            .of(names(&SendLast::ALL)),
        )
}

/// `config` with what `form` says in its place.
pub(super) fn changed(config: &Config, form: &Form) -> Result<Config, StanzaError> {
    let mut new = config.clone();
    for field in &form.fields {
        let var = field.var.strip_prefix("pubsub#").unwrap_or(&field.var);
        let value = field.values.first().map(String::as_str).unwrap_or_default();
        let flag = || match value {
            "1" | "true" => Ok(true),
            "0" | "false" => Ok(false),
            _ => Err(bad("write 1 or 0 into fields that are true or false")),
        };
        match var {
            "title" => new.title = value.to_owned(),
            "description" => new.description = value.to_owned(),
            "type" => new.kind = value.to_owned(),
            "access_model" => new.access = by_name(&Access::ALL, value)?,
            "roster_groups_allowed" => new.groups.clone_from(&field.values),
            "publish_model" => new.publish = by_name(&Publish::ALL, value)?,
            "persist_items" => new.persist = flag()?,
            "max_items" if value == "max" => new.items_max = ITEMS_MAX,
            "max_items" => {
                let number: u32 =
                    value.parse().map_err(|_| bad("write max_items as a number, or max"))?;
                if number > ITEMS_MAX {
                    let text = format!("at most {ITEMS_MAX} items");
                    return Err(StanzaError::new(Condition::NotAcceptable).text(text));
                }
                new.items_max = number;
            }
            "max_payload_size" => {
                let number = value.parse();
                new.payload_bytes_max =
                    number.map_err(|_| bad("write max_payload_size as a number of bytes"))?;
            }
            "deliver_notifications" => new.notifies = flag()?,
            "notification_type" => new.notification = by_name(&Notification::ALL, value)?,
            // Who asks for these relies on them.
            "purge_offline" | "presence_based_delivery" if flag()? => {
                let text = format!("{var} is not done here");
                return Err(StanzaError::new(Condition::NotAcceptable).text(text));
            }
            "deliver_payloads" => new.payloads = flag()?,
            "notify_retract" => new.tells_retracts = flag()?,
            "notify_delete" => new.tells_delete = flag()?,
            "notify_config" => new.tells_config = flag()?,
            "send_last_published_item" => new.send_last = by_name(&SendLast::ALL, value)?,
            // What else there is changes nothing here.
            _ => {}
        }
    }
    Ok(new.within_limits())
}

/// That `config` is as the publisher's form demands (XEP-0060 §7.1.5).
pub(super) fn demand(config: &Config, form: &Form) -> Result<(), StanzaError> {
    if changed(config, form)? == *config {
        return Ok(());
    }
    Err(refuse(
        Condition::Conflict,
        "precondition-not-met",
        "the node is configured otherwise; configure it first, or publish without these options",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_configuration_says_that_configuration() {
        for config in [Config::default(), Config::of_service(), initial(ns::BOOKMARKS_2)] {
            assert_eq!(changed(&Config::default(), &form(&config)).unwrap(), config);
            assert!(demand(&config, &form(&config)).is_ok());
        }
    }

    #[test]
    fn other_options_than_the_node_has_are_refused() {
        let wish = Form::default()
            .with(Field::new("", "pubsub#access_model", "", "open"))
            .with(Field::new("", "pubsub#unknown", "", "1"));
        let error = demand(&Config::default(), &wish).unwrap_err();
        assert_eq!(error.condition, Condition::Conflict);
        let open = changed(&Config::default(), &wish).unwrap();
        assert!(demand(&open, &wish).is_ok());
    }

    #[test]
    fn max_asks_for_as_many_items_as_there_may_be() {
        let wish = |value| Form::default().with(Field::new("", "pubsub#max_items", "", value));
        assert_eq!(changed(&Config::default(), &wish("max")).unwrap().items_max, ITEMS_MAX);
        assert!(changed(&Config::default(), &wish("1001")).is_err());
    }
}
