//! Posts as pages show them.

use std::collections::HashMap;

use serde_json::Value;
use weir_base::{Id, Timestamp};
use weir_community::accounts::Account;
use weir_community::media::Media;
use weir_community::statuses::{Poll, View, Visibility};
use weir_community::{Env, media, text};

use crate::Pages;
use crate::emoji::Paintable;
use crate::face::{self, Face};
use crate::fault::Fault;
use crate::time::Moment;

/// How deep answers to answers are drawn in.
const DEPTH_MAX: usize = 5;

/// A post.
pub struct Post {
    /// Its id.
    pub id: Id,
    /// Who boosted it, when it is shown for that.
    pub boosted_by: Option<Face>,
    /// Its author.
    pub author: Face,
    /// Its page.
    pub url: String,
    /// When it was written.
    pub created: Moment,
    /// When it was edited.
    pub edited: Option<Moment>,
    /// Who may see it, when that is not everybody.
    pub limits: &'static str,
    /// Whom it answers: name and page.
    pub answers: Option<(String, String)>,
    /// What stands before it.
    pub warning: String,
    /// The same as safe HTML.
    pub warning_shown: String,
    /// The text, safe HTML.
    pub content: String,
    /// Its language.
    pub language: String,
    /// Whether its media is hidden at first.
    pub sensitive: bool,
    /// Its media.
    pub media: Vec<Attachment>,
    /// Its poll.
    pub poll: Option<PollResult>,
    /// Its link preview.
    pub card: Option<Card>,
    /// Replies.
    pub replies: i64,
    /// Boosts.
    pub boosts: i64,
    /// Favourites.
    pub favourites: i64,
    /// Whether its author pinned it.
    pub pinned: bool,
    /// How far it is drawn in below the post it answers.
    pub depth: usize,
}

/// An attachment.
pub struct Attachment {
    /// `image`, `gifv`, `video`, `audio` or `unknown`.
    pub kind: String,
    /// The whole file.
    pub url: String,
    /// A small picture of it; empty when there is none.
    pub preview: String,
    /// What it shows.
    pub description: String,
    /// The size of the small picture, when known.
    pub size: Option<(u64, u64)>,
}

/// A poll with its results.
pub struct PollResult {
    /// Each option, its votes and its share in percent.
    pub options: Vec<(String, i64, i64)>,
    /// People who voted.
    pub voters: i64,
    /// Whether it has ended.
    pub ended: bool,
    /// When it ends or ended.
    pub ends: Option<Moment>,
    /// Whether the results wait for its end.
    pub secret: bool,
}

/// A link preview.
pub struct Card {
    /// Where it leads.
    pub url: String,
    /// The page's title.
    pub title: String,
    /// The page's description.
    pub description: String,
    /// The site.
    pub site: String,
    /// A picture; empty when there is none.
    pub image: String,
}

impl Post {
    /// The post of `view`; of a boost, what it boosts.
    pub fn new(env: &Env, view: &View) -> Self {
        let now = env.clock.now();
        let (shown, boosted_by) = match &view.boost {
            Some(boosted) => (boosted.as_ref(), Some(Face::new(env, &view.account))),
            None => (view, None),
        };
        let status = &shown.status;
        let author = Face::new(env, &shown.account);
        let url = if shown.account.is_local() {
            format!("/@{}/{}", shown.account.username, status.id)
        } else if face::is_web(&status.url) {
            status.url.clone()
        } else {
            status.uri.clone()
        };
        Self {
            id: status.id,
            boosted_by,
            author,
            url,
            created: Moment::new(status.created_at, now),
            edited: status.edited_at.map(|at| Moment::new(at, now)),
            limits: match status.visibility {
                Visibility::Public => "",
                Visibility::Unlisted => "Quiet: in no public timeline",
                Visibility::Private => "Only for followers",
                Visibility::Direct => "Only for those mentioned",
            },
            answers: answers(shown),
            warning: status.spoiler.clone(),
            warning_shown: text::escape(&status.spoiler),
            content: status.content.clone(),
            language: status.language.clone().unwrap_or_default(),
            sensitive: status.sensitive || shown.account.sensitized_at.is_some(),
            media: shown.media.iter().filter_map(|media| attachment(env, media)).collect(),
            poll: shown.poll.as_ref().map(|poll| result(poll, now)),
            card: shown.card.as_ref().and_then(|(card, image)| preview(env, card, image)),
            replies: status.replies_count,
            boosts: status.boosts_count,
            favourites: status.favourites_count,
            pinned: false,
            depth: 0,
        }
    }

    /// What of it may name emoji.
    pub fn paintables(&mut self) -> Vec<Paintable<'_>> {
        let mut all = vec![
            Paintable { html: &mut self.content, domain: &self.author.domain },
            Paintable { html: &mut self.warning_shown, domain: &self.author.domain },
            Paintable { html: &mut self.author.shown, domain: &self.author.domain },
        ];
        all.extend(self.boosted_by.as_mut().map(Face::paintable));
        all
    }

    /// What a preview elsewhere says of it: the warning, or the beginning of the text.
    pub fn summary(&self) -> String {
        if !self.warning.is_empty() {
            return format!("{} (the text is behind this warning)", self.warning);
        }
        shortened(&text::plain(&self.content), 280)
    }

    /// Whether anything was done with it yet.
    pub fn has_counts(&self) -> bool {
        self.replies + self.boosts + self.favourites > 0
    }
}

impl Pages {
    /// The posts of `views`, with their emoji.
    ///
    /// # Errors
    /// The database's.
    pub(crate) async fn posts(&self, views: &[View]) -> Result<Vec<Post>, Fault> {
        let env = self.community.env();
        let mut posts: Vec<Post> = views.iter().map(|view| Post::new(env, view)).collect();
        self.paint(posts.iter_mut().flat_map(Post::paintables).collect()).await?;
        Ok(posts)
    }

    /// The faces of `accounts`, with their emoji.
    ///
    /// # Errors
    /// The database's.
    pub(crate) async fn faces(&self, accounts: &[Account]) -> Result<Vec<Face>, Fault> {
        let env = self.community.env();
        let mut faces: Vec<Face> = accounts.iter().map(|account| Face::new(env, account)).collect();
        self.paint(faces.iter_mut().map(Face::paintable).collect()).await?;
        Ok(faces)
    }
}

/// `text` in one line of at most `most` characters.
pub fn shortened(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", line[..at].trim_end()),
        None => line,
    }
}

fn answers(view: &View) -> Option<(String, String)> {
    let to = view.status.in_reply_to_account_id?;
    if to == view.status.account_id {
        return None;
    }
    let mention = view.mentions.iter().find(|mention| mention.account_id == to)?;
    let local = mention.domain.is_empty();
    let url = if local { format!("/@{}", mention.username) } else { mention.url.clone() };
    (local || face::is_web(&url)).then(|| (mention.username.clone(), url))
}

fn attachment(env: &Env, media: &Media) -> Option<Attachment> {
    let url = media::url(env, media)?;
    let preview = media::preview_url(env, media).unwrap_or_default();
    let number = |path: &str| media.meta.0.pointer(path).and_then(Value::as_u64);
    let size = number("/small/width")
        .zip(number("/small/height"))
        .or_else(|| number("/original/width").zip(number("/original/height")));
    face::is_web(&url).then(|| Attachment {
        kind: media.kind.clone(),
        url,
        preview,
        description: media.description.clone().unwrap_or_default(),
        size,
    })
}

fn result(poll: &Poll, now: Timestamp) -> PollResult {
    let ended = poll.expired(now);
    let secret = poll.hide_totals && !ended;
    let all = if poll.multiple { poll.voters_count } else { poll.tallies.iter().sum() };
    let option = |(text, votes): (&String, &i64)| {
        let share = if all > 0 { (votes * 100 + all / 2) / all } else { 0 };
        if secret { (text.clone(), 0, 0) } else { (text.clone(), *votes, share.clamp(0, 100)) }
    };
    PollResult {
        options: poll.options.iter().zip(&poll.tallies).map(option).collect(),
        voters: poll.voters_count,
        ended,
        ends: poll.expires_at.map(|at| Moment::new(at, now)),
        secret,
    }
}

fn preview(env: &Env, card: &Value, image: &str) -> Option<Card> {
    let text = |name: &str| card.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let url = text("url");
    let site = url::Url::parse(&url).ok().and_then(|url| url.host_str().map(str::to_owned));
    (face::is_web(&url) && !text("title").is_empty()).then(|| Card {
        title: text("title"),
        description: shortened(&text("description"), 160),
        site: match text("provider_name").as_str() {
            "" => site.unwrap_or_default(),
            named => named.to_owned(),
        },
        image: face::picture(env, image),
        url,
    })
}

/// Draws answers in below what they answer.
pub fn draw_in(root: Id, views: &[View], posts: &mut [Post]) {
    let mut depths: HashMap<Id, usize> = HashMap::from([(root, 0)]);
    for (view, post) in views.iter().zip(posts) {
        let parent = view.status.in_reply_to_id.and_then(|id| depths.get(&id)).copied();
        post.depth = (parent.unwrap_or(0) + 1).min(DEPTH_MAX);
        depths.insert(view.status.id, post.depth);
    }
}
