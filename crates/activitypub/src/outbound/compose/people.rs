//! What one person does to another: favourites, follows, blocks, votes.

use weir_base::Id;
use weir_community::federation::Audience;
use weir_community::{Error, relationships, statuses};
use weir_db::{Json, params};

use super::{Composed, Desk, One, parsed};
use crate::wire::{Activity, Kind, Object, Post, PostKind, Uri};

impl Desk<'_, '_> {
    /// `kind` of something of `target`, by the id that is kept for it.
    fn towards(
        &mut self,
        kind: Kind,
        what: &str,
        id: Id,
        target: Id,
    ) -> Result<Option<(Activity, Audience)>, Error> {
        let Some(uri) = self.remote(target)? else { return Ok(None) };
        let id = self.urls.activity(self.by, what, id);
        let to = vec![uri.clone()];
        Ok(Some((Activity { to, ..self.activity(id, kind, uri) }, Audience::one(target))))
    }

    fn told(&self, of: Option<(Activity, Audience)>) -> One {
        match of {
            Some((activity, audience)) => self.composed(activity, audience),
            None => Ok(None),
        }
    }

    fn taken_back(&self, of: Option<(Activity, Audience)>) -> One {
        let undone = of.and_then(|(activity, audience)| Some((self.undo(activity)?, audience)));
        self.told(undone)
    }

    pub(super) fn favourite(&mut self, id: Id, status: Id) -> One {
        if !statuses::is_favourite(self.tx, id)? {
            return Ok(None);
        }
        let status = statuses::by_id(self.tx, status)?;
        let like = self.like(id, &status.uri, status.account_id)?;
        self.told(like)
    }

    pub(super) fn unfavourite(&mut self, id: Id, status_uri: &str, author: Id) -> One {
        let like = self.like(id, status_uri, author)?;
        self.taken_back(like)
    }

    fn like(
        &mut self,
        id: Id,
        status_uri: &str,
        author: Id,
    ) -> Result<Option<(Activity, Audience)>, Error> {
        let like = self.towards(Kind::Like, "likes", id, author)?;
        Ok(like.and_then(|(like, audience)| {
            let object = parsed(status_uri)?.into();
            Some((Activity { object, ..like }, audience))
        }))
    }

    pub(super) fn follow(&mut self, id: Id, target: Id) -> One {
        if !relationships::is_wanted(self.tx, self.by, target, id)? {
            return Ok(None);
        }
        let follow = self.towards(Kind::Follow, "follows", id, target)?;
        self.told(follow)
    }

    pub(super) fn unfollow(&mut self, id: Id, target: Id) -> One {
        let follow = self.towards(Kind::Follow, "follows", id, target)?;
        self.taken_back(follow)
    }

    pub(super) fn block(&mut self, id: Id, target: Id) -> One {
        if !relationships::is_blocked(self.tx, self.by, target, id)? {
            return Ok(None);
        }
        let block = self.towards(Kind::Block, "blocks", id, target)?;
        self.told(block)
    }

    pub(super) fn unblock(&mut self, id: Id, target: Id) -> One {
        let block = self.towards(Kind::Block, "blocks", id, target)?;
        self.taken_back(block)
    }

    pub(super) fn accept(&mut self, follow_uri: &str, follower: Id) -> One {
        if !relationships::is_followed(self.tx, self.by, follower)? {
            return Ok(None);
        }
        self.answer(Kind::Accept, follow_uri, follower)
    }

    /// The answer to a Follow, with the Follow in it: some know it only by its id, some only by
    /// who asked whom.
    pub(super) fn answer(&mut self, kind: Kind, follow_uri: &str, follower: Id) -> One {
        let Some(asker) = self.remote(follower)? else { return Ok(None) };
        let me = self.me();
        let follow = Activity {
            id: parsed(follow_uri),
            ..Activity::new(me.clone(), Kind::Follow, asker.clone(), me.into())
        };
        let what = if kind == Kind::Accept { "accepts" } else { "rejects" };
        let answer = self.activity(self.own_id(what), kind, Object::Activity(follow));
        self.composed(Activity { to: vec![asker], ..answer }, Audience::one(follower))
    }

    /// A note with a name for each choice, to who asks.
    pub(super) fn votes(&mut self, poll: Id, choices: &[usize]) -> Result<Vec<Composed>, Error> {
        let row = self.tx.query_opt(
            "SELECT p.options, s.uri, s.account_id FROM polls p
             JOIN statuses s ON s.id = p.status_id WHERE p.id = ?1",
            params![poll],
            |row| Ok((row.get::<Json<Vec<String>>>(0)?, row.get::<String>(1)?, row.get::<Id>(2)?)),
        )?;
        let Some((Json(options), uri, author)) = row else { return Ok(Vec::new()) };
        let Some((asker, question)) = self.remote(author)?.zip(parsed(&uri)) else {
            return Ok(Vec::new());
        };
        let note = |choice: &usize| {
            let name = options.get(*choice)?.clone();
            let activity = self.vote(poll, *choice, name, asker.clone(), question.clone());
            Some(Composed { by: self.by, activity, audience: Audience::one(author) })
        };
        Ok(choices.iter().filter_map(note).collect())
    }

    fn vote(&self, poll: Id, choice: usize, name: String, asker: Uri, question: Uri) -> Activity {
        let votes = self.urls.activity(self.by, "votes", poll);
        let id = self.urls.beneath(&votes, &format!("/{choice}"));
        let to = vec![asker];
        let note = Post {
            name: Some(name),
            in_reply_to: Some(question),
            to: to.clone(),
            ..Post::new(id.clone(), PostKind::Note, self.me())
        };
        let id = self.urls.beneath(&id, "/activity");
        Activity { to, ..self.activity(id, Kind::Create, Object::Post(Box::new(note))) }
    }
}
