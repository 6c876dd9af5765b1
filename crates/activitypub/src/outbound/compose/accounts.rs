//! Profiles, moves and reports.

use weir_base::Id;
use weir_community::federation::{self, Audience};
use weir_community::{accounts, reports};
use weir_db::ids;

use super::{Composed, Desk, One, parsed};
use crate::Signing;
use crate::shape::{self, AccountShape};
use crate::wire::{Activity, Kind, Object, Uri};

impl Desk<'_, '_> {
    pub(super) fn update_actor(&mut self, key: Option<&Signing>) -> One {
        let Some(key) = key else { return Ok(None) };
        let account = accounts::by_id(self.tx, self.by)?;
        let spoken_with = federation::spoken_with(self.tx, self.by)?;
        let shape = AccountShape::load(self.tx, account)?;
        let actor = shape::actor(self.env, self.urls, &shape, &key.public_pem);
        let object = Object::Actor(Box::new(actor));
        let update = self.activity(self.own_id("updates"), Kind::Update, object);
        let published = Some(self.env.clock.now());
        let update = Activity { to: vec![Uri::public()], published, ..update };
        let audience = Audience {
            followers_of: Some(self.by),
            followed_by: Some(self.by),
            accounts: spoken_with,
            everybody: false,
        };
        self.composed(update, audience)
    }

    pub(super) fn delete_actor(&mut self, actor: &str) -> One {
        let Some(actor) = parsed(actor) else { return Ok(None) };
        let id = self.urls.beneath(&actor, "#delete");
        let delete = self.activity(id, Kind::Delete, actor);
        let audience =
            Audience { followers_of: Some(self.by), everybody: true, ..Audience::default() };
        self.composed(Activity { to: vec![Uri::public()], ..delete }, audience)
    }

    pub(super) fn r#move(&mut self, target: Id) -> One {
        let target = accounts::by_id(self.tx, target)?;
        let Some(target) = parsed(&target.uri) else { return Ok(None) };
        let moves = self.activity(self.own_id("moves"), Kind::Move, self.me());
        let to = vec![self.urls.of_actor(self.by, "followers")];
        let moves = Activity { target: Some(target), to, ..moves };
        self.composed(moves, Audience::followers(self.by))
    }

    /// In the server's name: who reports is told to nobody elsewhere.
    pub(super) fn flag(&mut self, report: Id, key: Option<&Signing>) -> One {
        let Some(key) = key else { return Ok(None) };
        let report = reports::get(self.tx, report)?;
        let Some(target) = self.remote(report.target_id)? else { return Ok(None) };
        let posts: Vec<String> = if report.status_ids.0.is_empty() {
            Vec::new()
        } else {
            let sql = "SELECT uri FROM statuses WHERE id IN ids(?1) ORDER BY id";
            self.tx.column(sql, &[ids(&report.status_ids.0)])?
        };
        let id = self.urls.at(&format!("actor#flags/{}", report.id));
        let flag = Activity {
            more_objects: posts.iter().filter_map(|uri| parsed(uri)).collect(),
            to: vec![target.clone()],
            content: Some(report.comment),
            ..Activity::new(id, Kind::Flag, self.urls.instance_actor(), target.into())
        };
        let audience = Audience::one(report.target_id);
        Ok(Some(Composed { by: key.account, activity: flag, audience }))
    }
}
