//! Messages of the community as activities, and for whom each is.
//!
//! What was taken back before anybody heard of it is not told: its end may be told already.
//!
//! | file | which messages |
//! | --- | --- |
//! | `posts` | posts, boosts and pins |
//! | `people` | favourites, follows, blocks, votes |
//! | `accounts` | profiles, moves, reports |

mod accounts;
mod people;
mod posts;

use weir_base::Id;
use weir_community::federation::{Audience, Distribute, Message};
use weir_community::{Env, Error, accounts as people_here};
use weir_db::Tx;
use weir_jobs::Claimed;

use crate::Signing;
use crate::wire::{Activity, Kind, Object, ObjectRef, Uri, Urls};

/// An activity, who signs it, and for whom it is.
pub struct Composed {
    /// Who signs.
    pub by: Id,
    /// The activity.
    pub activity: Activity,
    /// For whom it is.
    pub audience: Audience,
}

/// Whose key a message needs before it can be composed.
pub enum Speaker {
    /// None: the key is needed only when it is delivered.
    Account,
    /// The account's, which stands in the activity.
    AccountWithKey,
    /// The server's own, in whose name it is.
    Server,
}

/// Whose key `message` needs.
pub fn speaker(message: &Message) -> Speaker {
    match message {
        Message::UpdateActor => Speaker::AccountWithKey,
        Message::Flag { .. } => Speaker::Server,
        _ => Speaker::Account,
    }
}

/// What all messages are composed with.
struct Desk<'a, 't> {
    tx: &'a mut Tx<'t>,
    env: &'a Env,
    urls: &'a Urls,
    /// Who speaks.
    by: Id,
    /// The job's id: for what has no id of its own.
    job: Id,
}

/// What `claim` says, as activities: none where there is nothing (any more) to tell.
///
/// # Errors
/// [`Error::NotFound`] when what it is about is gone; the database's.
pub fn compose(
    tx: &mut Tx,
    env: &Env,
    urls: &Urls,
    claim: &Claimed<Distribute>,
    key: Option<&Signing>,
) -> Result<Vec<Composed>, Error> {
    let Distribute { by, message } = &claim.job;
    let mut desk = Desk { tx, env, urls, by: *by, job: claim.id };
    let composed = match message {
        Message::Vote { poll, choices } => return desk.votes(*poll, choices),
        Message::Create { status } => desk.create(*status)?,
        Message::UpdateStatus { status } | Message::CountVotes { status } => {
            desk.update_status(*status)?
        }
        Message::DeleteStatus { uri, visibility, concerned } => {
            desk.delete_status(uri, *visibility, concerned)?
        }
        Message::Boost { status } => desk.boost(*status)?,
        Message::Unboost { uri, of_uri, author, visibility, at } => {
            desk.unboost(uri, of_uri, *author, *visibility, *at)?
        }
        Message::Pin { status } => desk.pin(*status)?,
        Message::Unpin { status_uri } => desk.unpin(status_uri)?,
        Message::Favourite { id, status } => desk.favourite(*id, *status)?,
        Message::Unfavourite { id, status_uri, author } => {
            desk.unfavourite(*id, status_uri, *author)?
        }
        Message::Follow { id, target } => desk.follow(*id, *target)?,
        Message::Unfollow { id, target } => desk.unfollow(*id, *target)?,
        Message::AcceptFollow { uri, follower } => desk.accept(uri, *follower)?,
        Message::RejectFollow { uri, follower } => desk.answer(Kind::Reject, uri, *follower)?,
        Message::Block { id, target } => desk.block(*id, *target)?,
        Message::Unblock { id, target } => desk.unblock(*id, *target)?,
        Message::UpdateActor => desk.update_actor(key)?,
        Message::DeleteActor { actor } => desk.delete_actor(actor)?,
        Message::Move { target } => desk.r#move(*target)?,
        Message::Flag { report } => desk.flag(*report, key)?,
    };
    Ok(composed.into_iter().collect())
}

/// What one message makes: nothing where there is nothing (any more) to tell.
type One = Result<Option<Composed>, Error>;

impl Desk<'_, '_> {
    fn me(&self) -> Uri {
        self.urls.actor(self.by)
    }

    fn composed(&self, activity: Activity, audience: Audience) -> One {
        Ok(Some(Composed { by: self.by, activity, audience }))
    }

    /// An activity of the speaker about something.
    fn activity(&self, id: Uri, kind: Kind, object: impl Into<ObjectRef>) -> Activity {
        Activity::new(id, kind, self.me(), object.into())
    }

    /// The taking back of `activity`, for the same people.
    fn undo(&self, activity: Activity) -> Option<Activity> {
        let id = activity.id.clone()?;
        let separator = if id.as_str().contains('#') { "/" } else { "#" };
        let id = self.urls.beneath(&id, &format!("{separator}undo"));
        let (to, cc) = (activity.to.clone(), activity.cc.clone());
        let object = Object::Activity(activity);
        Some(Activity { to, cc, ..self.activity(id, Kind::Undo, object) })
    }

    /// A new id for an activity of the speaker that nothing else has one for.
    fn own_id(&self, what: &str) -> Uri {
        self.urls.activity(self.by, what, self.job)
    }

    /// The actor id of an account, if it is of another server.
    fn remote(&mut self, account: Id) -> Result<Option<Uri>, Error> {
        let account = people_here::by_id(self.tx, account)?;
        Ok(if account.is_local() { None } else { parsed(&account.uri) })
    }
}

fn parsed(uri: &str) -> Option<Uri> {
    uri.parse().ok()
}
