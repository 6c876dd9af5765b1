//! What an activity means here.

use weir_community::accounts::Sender;
use weir_community::federation::{Answered, Deed, Undone};
use weir_community::statuses::Visibility;

use crate::read;
use crate::wire::{Activity, Kind, Object, ObjectRef, Uri, Urls};

/// What an activity means here.
#[derive(Debug)]
pub(crate) enum Meaning {
    /// Something for the community.
    Deed(Deed),
    /// The sender's profile changed: its name has to be looked up before the community hears.
    Profile(Box<crate::wire::Actor>),
    /// The sender moved; the new account has to be looked at before the community hears.
    Move(Uri),
    /// Nothing, and why.
    Nothing(&'static str),
}

/// Why an activity cannot be its sender's: it speaks for another server, or for another person.
pub(crate) fn forgery(activity: &Activity) -> Option<&'static str> {
    let actor = &activity.actor;
    if activity.id.as_ref().is_some_and(|id| !id.is_of_same_host(actor)) {
        return Some("the activity's id is of another host");
    }
    let elsewhere = |uri: &Uri| !uri.is_of_same_host(actor);
    match (activity.kind, activity.object.embedded()) {
        (Kind::Create | Kind::Update, Some(Object::Post(post))) => {
            let author = post.author().is_some_and(elsewhere);
            (elsewhere(&post.id) || author).then_some("the post is of another host")
        }
        (Kind::Update, Some(Object::Actor(other))) => {
            (other.id != *actor).then_some("the profile is somebody else's")
        }
        (Kind::Undo, Some(Object::Activity(undone))) => {
            (undone.actor != *actor).then_some("what is undone is somebody else's")
        }
        (Kind::Accept | Kind::Reject, Some(Object::Activity(follow)))
            if follow.kind == Kind::Follow =>
        {
            let target = follow.object.id();
            target.is_some_and(|target| target != actor).then_some("the Follow is of somebody else")
        }
        (Kind::Delete, _) => {
            let object = activity.object.id();
            object.is_some_and(elsewhere).then_some("what is deleted is of another host")
        }
        (Kind::Move, _) => {
            let object = activity.object.id();
            object.is_some_and(|id| id != actor).then_some("who moves is somebody else")
        }
        _ => None,
    }
}

/// What `activity` of `by` means.
pub(crate) fn meaning(activity: &Activity, by: &Sender, urls: &Urls) -> Meaning {
    let Some(object) = activity.object.id().map(ToString::to_string) else {
        return match activity.kind {
            Kind::Undo => undo(activity),
            _ => Meaning::Nothing("its object has no id"),
        };
    };
    let deed = match activity.kind {
        Kind::Create | Kind::Update => return written(activity, by, urls),
        Kind::Delete if object == by.uri => Deed::DeleteSelf,
        Kind::Delete => Deed::Delete { uri: object },
        Kind::Follow => Deed::Follow { target: object },
        Kind::Like => Deed::Like { object },
        Kind::Block => Deed::Block { target: object },
        Kind::Announce => return boost(activity, by, object),
        Kind::Undo => return undo(activity),
        Kind::Accept => Deed::Answer { accepted: true, follow: answered(&activity.object) },
        Kind::Reject => Deed::Answer { accepted: false, follow: answered(&activity.object) },
        Kind::Flag => Deed::Flag {
            objects: std::iter::once(object)
                .chain(activity.more_objects.iter().map(ToString::to_string))
                .take(100)
                .collect(),
            comment: activity.content.clone().unwrap_or_default(),
        },
        Kind::Move => match &activity.target {
            Some(target) => return Meaning::Move(target.clone()),
            None => return Meaning::Nothing("it leads nowhere"),
        },
        Kind::Add | Kind::Remove => {
            let featured = |target: &Uri| *target == by.featured_uri.as_str();
            if !activity.target.as_ref().is_some_and(featured) {
                return Meaning::Nothing("the collection is not kept here");
            }
            Deed::Featured
        }
    };
    Meaning::Deed(deed)
}

fn written(activity: &Activity, by: &Sender, urls: &Urls) -> Meaning {
    match activity.object.embedded() {
        Some(Object::Post(post)) => {
            if let (Some(choice), Some(poll)) = (post.vote(), &post.in_reply_to) {
                if !urls.is_own(poll) {
                    return Meaning::Nothing("a vote in another server's poll");
                }
                let (poll, choice) = (poll.to_string(), choice.to_owned());
                return Meaning::Deed(Deed::Vote { poll, choice });
            }
            match read::post(post, &by.followers_uri, urls).cleaned() {
                Ok(post) => Meaning::Deed(Deed::Post(Box::new(post))),
                Err(_) => Meaning::Nothing("its post cannot be used"),
            }
        }
        Some(Object::Actor(actor)) if activity.kind == Kind::Update => {
            Meaning::Profile(actor.clone())
        }
        Some(_) => Meaning::Nothing("its object is of no known kind"),
        None => match activity.object.id() {
            Some(uri) if activity.kind == Kind::Update => {
                Meaning::Deed(Deed::Changed { uri: uri.to_string() })
            }
            Some(uri) => Meaning::Deed(Deed::Named { uri: uri.to_string() }),
            None => Meaning::Nothing("its object has no id"),
        },
    }
}

fn boost(activity: &Activity, by: &Sender, object: String) -> Meaning {
    // A group says so that somebody posted in it.
    let object = match activity.object.embedded() {
        Some(Object::Activity(inner)) if inner.kind == Kind::Create => match inner.object.id() {
            Some(id) => id.to_string(),
            None => return Meaning::Nothing("what is announced has no id"),
        },
        Some(Object::Activity(_)) => return Meaning::Nothing("only posts are boosted"),
        _ => object,
    };
    let visibility = match read::visibility(&activity.to, &activity.cc, &by.followers_uri) {
        Visibility::Direct => Visibility::Private,
        other => other,
    };
    Meaning::Deed(Deed::Boost { object, visibility, published: activity.published })
}

fn undo(activity: &Activity) -> Meaning {
    let text = |uri: Option<&Uri>| uri.map(ToString::to_string).unwrap_or_default();
    let undone = match &activity.object {
        ObjectRef::Uri(uri) => Undone { activity: uri.to_string(), ..Undone::default() },
        ObjectRef::Embedded(object) => match &**object {
            Object::Activity(inner) => Undone {
                activity: text(inner.id.as_ref()),
                kind: inner.kind.name().to_lowercase(),
                object: text(inner.object.id()),
            },
            Object::Unknown { id: Some(id), .. } => {
                Undone { activity: id.to_string(), ..Undone::default() }
            }
            _ => return Meaning::Nothing("what is undone is of no known kind"),
        },
    };
    Meaning::Deed(Deed::Undo(undone))
}

fn answered(object: &ObjectRef) -> Answered {
    let follower = match object.embedded() {
        Some(Object::Activity(follow)) => follow.actor.to_string(),
        _ => String::new(),
    };
    let activity = object.id().map(ToString::to_string).unwrap_or_default();
    Answered { activity, follower }
}
