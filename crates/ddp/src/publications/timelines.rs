//! `timelines.home`, `.public`, `.tag`, `.list`, `.account`: the newest posts of a timeline, with
//! everybody and everything they show, and each post's place in it as a `timeline_entries`
//! document.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use weir_base::Id;
use weir_community::filters::{Searched, hidden_in};
use weir_community::statuses::View;
use weir_community::streams::{Event, Noun, ReaderSets, Topic};
use weir_community::timelines::{self, AccountPage, PublicPage, Range};
use weir_community::{Env, Error, relationships, tags, text};
use weir_db::Tx;

use super::{limit, person};
use crate::face::Face;
use crate::face::docs::Docs;
use crate::face::live::{Live, Query, Shown, Welcome, in_one_unit};
use crate::face::places::{Places, nouns_of};
use crate::observer::Work;
use crate::server::Opening;
use crate::typed::typed;
use crate::wire::Failure;

typed! {
    /// How much of a timeline.
    #[derive(Debug, Clone, Default, Serialize, Deserialize)]
    pub struct HomeParams {
        /// Posts; 40 unless said, at most 200.
        #[serde(default)]
        pub limit: Option<usize>,
    }
}

typed! {
    /// Which public posts.
    #[derive(Debug, Clone, Default, Serialize, Deserialize)]
    pub struct PublicParams {
        /// Only posts written here.
        #[serde(default)]
        pub local: Option<bool>,
        /// Only posts written elsewhere.
        #[serde(default)]
        pub remote: Option<bool>,
        /// Only posts with media.
        #[serde(default)]
        pub only_media: Option<bool>,
        /// Posts; 40 unless said, at most 200.
        #[serde(default)]
        pub limit: Option<usize>,
    }
}

typed! {
    /// Which hashtag.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct TagParams {
        /// Its name, with or without the sign.
        pub tag: String,
        /// Only posts written here.
        #[serde(default)]
        pub local: Option<bool>,
        /// Posts; 40 unless said, at most 200.
        #[serde(default)]
        pub limit: Option<usize>,
    }
}

typed! {
    /// Which list.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct ListParams {
        /// Its id.
        pub list_id: Id,
        /// Posts; 40 unless said, at most 200.
        #[serde(default)]
        pub limit: Option<usize>,
    }
}

typed! {
    /// Whose posts.
    #[derive(Debug, Clone, Serialize, Deserialize)]
    pub struct AccountParams {
        /// Whose.
        pub account_id: Id,
        /// Only posts with media.
        #[serde(default)]
        pub only_media: Option<bool>,
        /// No replies to others.
        #[serde(default)]
        pub exclude_replies: Option<bool>,
        /// No boosts.
        #[serde(default)]
        pub exclude_reblogs: Option<bool>,
        /// Posts; 40 unless said, at most 200.
        #[serde(default)]
        pub limit: Option<usize>,
    }
}

#[derive(Debug, Clone, Serialize)]
enum Which {
    Home,
    Public { local: bool, remote: bool, only_media: bool },
    Tag { key: String, local: bool },
    List(Id),
    Account { id: Id, only_media: bool, exclude_replies: bool, exclude_reblogs: bool },
}

#[derive(Debug, Clone, Serialize)]
struct Timeline {
    which: Which,
    reader: Option<Id>,
    limit: usize,
}

impl Timeline {
    /// Visitors all see the same; a person's blocks and follows make a timeline theirs.
    fn open(self, face: &Face) -> Opening {
        let (face, timeline) = (face.clone(), self.clone());
        Opening::own(&self, move || Live::new(&face, timeline))
    }

    /// The name by which entries say where they belong.
    fn name(&self) -> String {
        match &self.which {
            Which::Home => "home".into(),
            Which::Public { local, remote, only_media } => {
                let from = match (local, remote) {
                    (true, _) => "public:local",
                    (_, true) => "public:remote",
                    _ => "public",
                };
                format!("{from}{}", if *only_media { ":media" } else { "" })
            }
            Which::Tag { key, local } => {
                format!("tag{}:{key}", if *local { ":local" } else { "" })
            }
            Which::List(id) => format!("list:{id}"),
            Which::Account { id, only_media, exclude_replies, exclude_reblogs } => {
                let flag = |on: bool, name: &'static str| if on { name } else { "" };
                let media = flag(*only_media, ":media");
                let replies = flag(*exclude_replies, ":no-replies");
                format!("account:{id}{media}{replies}{}", flag(*exclude_reblogs, ":no-reblogs"))
            }
        }
    }

    fn unit(&self, tx: &mut Tx, env: &Env) -> Result<Vec<View>, Error> {
        let (reader, range) = (self.reader, Range { limit: self.limit, ..Range::default() });
        match &self.which {
            Which::Home | Which::List(_) => Ok(Vec::new()),
            Which::Public { local, remote, only_media } => {
                let page = PublicPage { local: *local, remote: *remote, only_media: *only_media };
                timelines::public(tx, env, reader, page, range)
            }
            Which::Tag { key, local } => {
                let Some(tag) = tags::by_name(tx, key)? else { return Ok(Vec::new()) };
                let page = PublicPage { local: *local, ..PublicPage::default() };
                timelines::tag(tx, env, reader, (&[tag.id], &[], &[]), page, range)
            }
            Which::Account { id, only_media, exclude_replies, exclude_reblogs } => {
                let page = AccountPage {
                    only_media: *only_media,
                    exclude_replies: *exclude_replies,
                    exclude_boosts: *exclude_reblogs,
                    tag: None,
                };
                timelines::account(tx, env, reader, *id, page, range)
            }
        }
    }

    /// Where the reader's filters may hide what stands in it.
    fn context(&self) -> &'static str {
        match self.which {
            Which::Home | Which::List(_) => "home",
            Which::Public { .. } | Which::Tag { .. } => "public",
            Which::Account { .. } => "account",
        }
    }

    fn fill(
        &self,
        tx: &mut Tx,
        env: &Env,
        docs: &mut Docs,
        mut views: Vec<View>,
    ) -> Result<(), Error> {
        let mut places = Places::new(self.name(), self.limit, self.has_posts_once());
        if views.len() >= self.limit {
            docs.oldest = views.last().map(|view| view.status.id);
        }
        let all: Vec<(Id, Id)> =
            views.iter().map(|view| (view.status.id, view.post().status.id)).collect();
        if let Some(reader) = self.reader {
            let now = env.clock.now();
            docs.filter_for(tx, env, reader)?;
            views.retain(|view| !hidden_in(&docs.matching(view), self.context()));
            let ends = [docs.ends_at, relationships::next_mute_end(tx, reader, now)?];
            docs.ends_at = ends.into_iter().flatten().min();
        }
        // Documents go in the order in which they were first made: what an entry names is there.
        docs.posts(env, &views);
        docs.entries(&self.name(), &views);
        let mut shown: HashMap<Id, Vec<Noun>> =
            views.iter().map(|view| (view.status.id, nouns_of(view))).collect();
        for (id, post) in all {
            places.put(id, post, shown.remove(&id).unwrap_or_default());
        }
        docs.places = Some(places);
        Ok(())
    }

    /// Whether a post that was boosted stands in it once.
    fn has_posts_once(&self) -> bool {
        matches!(self.which, Which::Home | Which::List(_))
    }

    /// Whether a post that the reader may see belongs into it.
    fn takes(&self, view: &View, sets: &ReaderSets) -> bool {
        let status = &view.status;
        match &self.which {
            Which::Home => sets.comes_home(view),
            // Only posts of those in the list come here.
            Which::List(id) => sets.comes_to_list(view, *id),
            Which::Public { only_media, .. } => {
                (!only_media || !view.media.is_empty())
                    && sets.understands(view)
                    && sets.is_public_for(view)
            }
            Which::Tag { .. } => sets.is_public_for(view),
            Which::Account { only_media, exclude_replies, exclude_reblogs, .. } => {
                let is_boost = view.boost.is_some();
                let to_others =
                    status.in_reply_to_account_id.is_some_and(|to| to != view.account.id)
                        || (status.in_reply_to_uri.is_some() && status.in_reply_to_id.is_none());
                sets.comes_to_profile(view)
                    && !(*only_media && (view.media.is_empty() || is_boost)
                        || *exclude_reblogs && is_boost
                        || *exclude_replies && to_others)
            }
        }
    }
}

impl Query for Timeline {
    fn topics(&self) -> Vec<Topic> {
        let mut topics: Vec<Topic> = self.reader.map(Topic::Own).into_iter().collect();
        match &self.which {
            Which::Home => topics.extend(self.reader.map(Topic::Home)),
            Which::Public { local: true, .. } => topics.push(Topic::PublicLocal),
            Which::Public { remote: true, .. } => topics.push(Topic::PublicRemote),
            Which::Public { .. } => topics.push(Topic::Public),
            Which::Tag { key, local: true } => topics.push(Topic::TagLocal(key.clone())),
            Which::Tag { key, .. } => topics.push(Topic::Tag(key.clone())),
            Which::List(id) => topics.push(Topic::List(*id)),
            Which::Account { id, .. } => topics.push(Topic::Author(*id)),
        }
        topics
    }

    fn concerns(&self, event: &Event, shown: &Shown) -> bool {
        match event {
            Event::Created(_)
            | Event::Edited(_)
            | Event::BondsChanged
            | Event::FiltersChanged
            | Event::ConversationMuted
            | Event::ListsChanged => true,
            Event::CreatedLate(id) => shown.oldest.is_none_or(|oldest| *id > oldest),
            Event::Deleted(id) | Event::Marked(id) => shown.has_post(*id),
            _ => false,
        }
    }

    fn reader(&self) -> Option<Id> {
        self.reader
    }

    fn welcomes(&self, view: &View, sets: &ReaderSets, searched: &Searched) -> Option<Welcome> {
        if !(self.takes(view, sets) && sets.may_see(view)) {
            return Some(Welcome::No);
        }
        let applied = sets.matching(view, searched);
        match applied.is_empty() {
            true => Some(Welcome::Shown),
            false if hidden_in(&applied, self.context()) => Some(Welcome::Hidden),
            // What the filter says of it is rare enough to be read.
            false => None,
        }
    }

    fn read(&self, face: &Face) -> Work<'static, Result<Docs, Error>> {
        let (timeline, documents) = (self.clone(), face.documents.clone());
        let range = Range { limit: self.limit, ..Range::default() };
        let shape = move |tx: &mut Tx, env: &Env, views: Vec<View>| {
            let mut docs = Docs::new(&documents);
            timeline.fill(tx, env, &mut docs, views)?;
            Ok(docs)
        };
        let community = face.community.clone();
        match (&self.which, self.reader) {
            (Which::Home, Some(reader)) => {
                Box::pin(async move { timelines::home(&community, reader, range, shape).await })
            }
            (Which::List(id), Some(reader)) => {
                let id = *id;
                Box::pin(async move { timelines::list(&community, reader, id, range, shape).await })
            }
            _ => {
                let timeline = self.clone();
                in_one_unit(face, move |tx, env, docs| {
                    let views = timeline.unit(tx, env)?;
                    timeline.fill(tx, env, docs, views)
                })
            }
        }
    }
}

/// Visitors read public timelines only where staff lets them.
fn check_visitor(face: &Face, user: Option<Id>) -> Result<(), Failure> {
    if user.is_none() && !face.env().instance.settings().public_timelines {
        return Err(Failure::needs_login());
    }
    Ok(())
}

/// `timelines.home`
pub(crate) fn home(
    face: &Face,
    user: Option<Id>,
    asked: Option<HomeParams>,
) -> Result<Opening, Failure> {
    let reader = Some(person(user)?);
    let limit = limit(asked.unwrap_or_default().limit);
    Ok(Timeline { which: Which::Home, reader, limit }.open(face))
}

/// `timelines.public`
pub(crate) fn public(
    face: &Face,
    user: Option<Id>,
    asked: Option<PublicParams>,
) -> Result<Opening, Failure> {
    check_visitor(face, user)?;
    let asked = asked.unwrap_or_default();
    let which = Which::Public {
        local: asked.local.unwrap_or_default(),
        remote: asked.remote.unwrap_or_default(),
        only_media: asked.only_media.unwrap_or_default(),
    };
    Ok(Timeline { which, reader: user, limit: limit(asked.limit) }.open(face))
}

/// `timelines.tag`
pub(crate) fn tag(face: &Face, user: Option<Id>, asked: TagParams) -> Result<Opening, Failure> {
    check_visitor(face, user)?;
    let (name, most) = (asked.tag.trim().trim_start_matches('#'), text::TAG_CHARACTERS_MAX);
    if name.is_empty() {
        return Err(Failure::bad_params("The hashtag has no name."));
    }
    if name.chars().count() > most {
        return Err(Failure::bad_params(format!("The hashtag has more than {most} characters.")));
    }
    let key = text::tag_key(name);
    let which = Which::Tag { key, local: asked.local.unwrap_or_default() };
    Ok(Timeline { which, reader: user, limit: limit(asked.limit) }.open(face))
}

/// `timelines.list`
pub(crate) fn list(face: &Face, user: Option<Id>, asked: ListParams) -> Result<Opening, Failure> {
    let reader = Some(person(user)?);
    let which = Which::List(asked.list_id);
    Ok(Timeline { which, reader, limit: limit(asked.limit) }.open(face))
}

/// `timelines.account`
pub(crate) fn account(
    face: &Face,
    user: Option<Id>,
    asked: AccountParams,
) -> Result<Opening, Failure> {
    let which = Which::Account {
        id: asked.account_id,
        only_media: asked.only_media.unwrap_or_default(),
        exclude_replies: asked.exclude_replies.unwrap_or_default(),
        exclude_reblogs: asked.exclude_reblogs.unwrap_or_default(),
    };
    Ok(Timeline { which, reader: user, limit: limit(asked.limit) }.open(face))
}
