//! What a message is about: what one person says about one thing reaches a server in its order.

use crate::wire::{Activity, Kind, Object};

/// The address of what `activity` is about: the post, the profile, or whom it concerns. A taking
/// back is about what it takes back, an answer to a wish about who wished.
pub fn of(activity: &Activity) -> &str {
    let inner = match activity.object.embedded() {
        Some(Object::Activity(inner)) => Some(inner),
        _ => None,
    };
    match (activity.kind, inner) {
        (Kind::Undo, Some(inner)) => of(inner),
        (Kind::Accept | Kind::Reject, Some(inner)) => inner.actor.as_str(),
        _ => activity.object.id().or(activity.id.as_ref()).map_or("", |id| id.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Uri;

    fn uri(path: &str) -> Uri {
        format!("https://weir.test/{path}").parse().unwrap()
    }

    fn activity(kind: Kind, object: impl Into<crate::wire::ObjectRef>) -> Activity {
        Activity::new(uri("activities/1"), kind, uri("alice"), object.into())
    }

    #[test]
    fn what_undoes_or_changes_a_thing_is_about_that_thing() {
        let like = activity(Kind::Like, uri("notes/1"));
        let undone = activity(Kind::Undo, Object::Activity(like.clone()));
        let deleted = activity(Kind::Delete, uri("notes/1"));
        assert_eq!(of(&like), of(&undone));
        assert_eq!(of(&like), of(&deleted));
        assert_ne!(of(&like), of(&activity(Kind::Like, uri("notes/2"))));
    }

    #[test]
    fn an_answer_to_a_wish_is_about_who_wished() {
        let wish = Activity { actor: uri("bob"), ..activity(Kind::Follow, uri("alice")) };
        let accepted = activity(Kind::Accept, Object::Activity(wish));
        assert_eq!(of(&accepted), of(&activity(Kind::Follow, uri("bob"))));
    }
}
