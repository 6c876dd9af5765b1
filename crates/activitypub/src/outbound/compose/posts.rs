//! Posts, boosts and pins.

use weir_base::{Id, Timestamp};
use weir_community::Error;
use weir_community::federation::{self, Audience};
use weir_community::statuses::{self, View, Visibility};

use super::{Desk, One, parsed};
use crate::shape::{self, Loaded};
use crate::wire::{Activity, Kind, Object, Tombstone, Uri};

impl Desk<'_, '_> {
    fn load(&mut self, status: Id) -> Result<Loaded, Error> {
        let views: Vec<View> = statuses::load_for_all(self.tx, self.env, &[status])?;
        if views.is_empty() {
            return Err(Error::NotFound("Status"));
        }
        shape::loaded(self.tx, views)
    }

    /// The followers, but for direct posts, and `concerned`.
    fn reach(&self, visibility: Visibility, accounts: Vec<Id>) -> Audience {
        let followers_of = (visibility != Visibility::Direct).then_some(self.by);
        Audience { followers_of, accounts, ..Audience::default() }
    }

    pub(super) fn create(&mut self, status: Id) -> One {
        let loaded = self.load(status)?;
        let view = &loaded.views[0];
        let mut accounts = mentioned(view);
        // Whom it answers has seen the conversation already.
        let answered = view.status.in_reply_to_account_id;
        accounts.extend(answered.filter(|_| view.status.visibility.is_open()));
        let audience = self.reach(view.status.visibility, accounts);
        match shape::create(self.env, self.urls, &loaded, view) {
            Some(activity) => self.composed(activity, audience),
            None => Ok(None),
        }
    }

    pub(super) fn update_status(&mut self, status: Id) -> One {
        let loaded = self.load(status)?;
        let view = &loaded.views[0];
        let mut accounts = mentioned(view);
        accounts.extend(federation::concerned(self.tx, &view.status)?);
        let audience = self.reach(view.status.visibility, accounts);
        let Some(post) = shape::post(self.env, self.urls, &loaded, view) else { return Ok(None) };
        let (to, cc) = (post.to.clone(), post.cc.clone());
        let id = self.urls.beneath(&post.id, &format!("#updates/{}", self.job));
        let published = Some(self.env.clock.now());
        let object = Object::Post(Box::new(post));
        let update = Activity { to, cc, published, ..self.activity(id, Kind::Update, object) };
        self.composed(update, audience)
    }

    pub(super) fn delete_status(
        &mut self,
        uri: &str,
        visibility: Visibility,
        concerned: &[Id],
    ) -> One {
        let Some(id) = parsed(uri) else { return Ok(None) };
        let object = Object::Tombstone(Tombstone { id: id.clone(), deleted: None });
        let activity_id = self.urls.beneath(&id, "#delete");
        let to = vec![Uri::public()];
        let delete = Activity { to, ..self.activity(activity_id, Kind::Delete, object) };
        let audience = self.reach(visibility, concerned.to_vec());
        self.composed(delete, audience)
    }

    pub(super) fn boost(&mut self, status: Id) -> One {
        let loaded = self.load(status)?;
        let view = &loaded.views[0];
        let author = view.boost.as_ref().map(|boosted| boosted.status.account_id);
        let audience = self.reach(view.status.visibility, author.into_iter().collect());
        match shape::announce(self.urls, view) {
            Some(activity) => self.composed(activity, audience),
            None => Ok(None),
        }
    }

    pub(super) fn unboost(
        &mut self,
        uri: &str,
        of_uri: &str,
        author: Id,
        visibility: Visibility,
        at: Timestamp,
    ) -> One {
        let (Some(id), Some(of)) = (parsed(uri), parsed(of_uri)) else { return Ok(None) };
        let writer = self.remote(author)?;
        let named = writer.into_iter().collect();
        let (to, cc) = shape::addressees(self.urls, self.by, visibility, named);
        let published = Some(at);
        let announce = Activity { to, cc, published, ..self.activity(id, Kind::Announce, of) };
        let audience = self.reach(visibility, vec![author]);
        match self.undo(announce) {
            Some(undo) => self.composed(undo, audience),
            None => Ok(None),
        }
    }

    pub(super) fn pin(&mut self, status: Id) -> One {
        if !statuses::is_pinned(self.tx, self.by, status)? {
            return Ok(None);
        }
        let uri = statuses::by_id(self.tx, status)?.uri;
        self.featured(Kind::Add, "adds", &uri)
    }

    pub(super) fn unpin(&mut self, status_uri: &str) -> One {
        self.featured(Kind::Remove, "removes", status_uri)
    }

    fn featured(&mut self, kind: Kind, what: &str, status_uri: &str) -> One {
        let Some(object) = parsed(status_uri) else { return Ok(None) };
        let target = Some(self.urls.of_actor(self.by, "collections/featured"));
        let to = vec![Uri::public()];
        let activity = self.activity(self.own_id(what), kind, object);
        self.composed(Activity { target, to, ..activity }, Audience::followers(self.by))
    }
}

fn mentioned(view: &View) -> Vec<Id> {
    view.mentions.iter().map(|mention| mention.account_id).collect()
}
