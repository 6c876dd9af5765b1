//! Matching posts against a reader's filters: pure, so that streams can do it in memory.

use weir_base::{Id, Timestamp};
use weir_db::Tx;

use super::{Bare, Filter, all, fill};
use crate::Error;
use crate::statuses::View;
use crate::text;

/// A reader's filters, ready to be matched against many posts.
#[derive(Debug, Clone, Default)]
pub struct Rules(Vec<Rule>);

#[derive(Debug, Clone)]
struct Rule {
    filter: Filter,
    words: Vec<Word>,
}

#[derive(Debug, Clone)]
struct Word {
    as_written: String,
    folded: String,
    whole: bool,
}

/// A filter that matched, and by what.
#[derive(Debug, Clone)]
pub struct Applied {
    /// The filter.
    pub filter: Filter,
    /// Words that were found.
    pub keywords: Vec<String>,
    /// The post itself or what it boosts, when the filter names it.
    pub statuses: Vec<Id>,
}

impl Rules {
    /// Of these filters, those that have not ended.
    pub fn new(filters: Vec<Filter>, now: Timestamp) -> Self {
        let live = filters.into_iter().filter(|one| one.expires_at.is_none_or(|at| at > now));
        let rule = |filter: Filter| {
            let word = |keyword: &super::Keyword| Word {
                as_written: keyword.keyword.clone(),
                folded: keyword.keyword.to_lowercase(),
                whole: keyword.whole_word,
            };
            Rule { words: filter.keywords.iter().map(word).collect(), filter }
        };
        Self(live.map(rule).collect())
    }

    /// `reader`'s filters.
    ///
    /// # Errors
    /// The database's.
    pub fn load(tx: &mut Tx, reader: Id, now: Timestamp) -> Result<Self, Error> {
        Ok(Self::new(all(tx, reader)?, now))
    }

    /// Of what [`ask_bare`](super::ask_bare) found; asks for their words and posts, if there are
    /// any.
    ///
    /// # Errors
    /// The database's.
    pub fn of_bare(tx: &mut Tx, bare: Bare, now: Timestamp) -> Result<Self, Error> {
        Ok(Self::new(fill(tx, bare.0)?, now))
    }

    /// When the next of them ends by itself.
    pub fn next_end(&self) -> Option<Timestamp> {
        self.0.iter().filter_map(|rule| rule.filter.expires_at).min()
    }

    /// Whether there is nothing to match.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The filters that match the post (or what it boosts), wherever they apply. A reader's own
    /// posts are never filtered.
    pub fn matching(&self, view: &View, reader: Id) -> Vec<Applied> {
        if self.0.is_empty() || view.post().status.account_id == reader {
            return Vec::new();
        }
        self.matching_in(&Searched::of(view), view, reader)
    }

    /// [`matching`](Self::matching) where what is searched was made before, for many readers.
    pub fn matching_in(&self, searched: &Searched, view: &View, reader: Id) -> Vec<Applied> {
        let (post, Searched(haystack)) = (view.post(), searched);
        if self.0.is_empty() || post.status.account_id == reader {
            return Vec::new();
        }
        let named = [view.status.id, post.status.id];
        let matched = self.0.iter().filter_map(|rule| {
            let words = rule.words.iter().filter(|word| found(haystack, word));
            let keywords: Vec<String> = words.map(|word| word.as_written.clone()).collect();
            let entries = rule.filter.statuses.iter().map(|entry| entry.status_id);
            let statuses: Vec<Id> = entries.filter(|id| named.contains(id)).collect();
            let hit = !keywords.is_empty() || !statuses.is_empty();
            hit.then(|| Applied { filter: rule.filter.clone(), keywords, statuses })
        });
        matched.collect()
    }
}

/// Whether one of `applied` hides the post in `context` altogether.
pub fn hidden_in(applied: &[Applied], context: &str) -> bool {
    applied.iter().any(|one| {
        one.filter.action == "hide" && one.filter.contexts.iter().any(|place| place == context)
    })
}

/// What of a post is searched: warning, text, poll options and media descriptions, in lower case.
#[derive(Debug, Clone)]
pub struct Searched(String);

impl Searched {
    /// Of the post of `view`, or what it boosts.
    pub fn of(view: &View) -> Self {
        Self(searched(view.post()))
    }
}

fn searched(post: &View) -> String {
    let mut all = format!("{}\n{}", post.status.spoiler, text::plain(&post.status.content));
    if let Some(poll) = &post.poll {
        all.push('\n');
        all.push_str(&poll.options.join("\n"));
    }
    for media in &post.media {
        all.push('\n');
        all.push_str(media.description.as_deref().unwrap_or_default());
    }
    all.to_lowercase()
}

fn found(haystack: &str, word: &Word) -> bool {
    let needle = word.folded.as_str();
    if needle.is_empty() {
        return false;
    }
    if !word.whole {
        return haystack.contains(needle);
    }
    // A boundary counts only where the word itself begins or ends with a letter or digit.
    let letter = |c: char| c.is_alphanumeric() || c == '_';
    let (head, tail) = (needle.chars().next().is_some_and(letter), needle.ends_with(letter));
    haystack.match_indices(needle).any(|(at, _)| {
        let before = haystack[..at].chars().next_back();
        let after = haystack[at + needle.len()..].chars().next();
        let within = (head && before.is_some_and(letter)) || (tail && after.is_some_and(letter));
        !within
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_match_at_boundaries_only() {
        let word = |text: &str, whole| Word {
            as_written: text.into(),
            folded: text.to_lowercase(),
            whole,
        };
        assert!(found("a cat sat", &word("Cat", true)));
        assert!(!found("concatenate", &word("cat", true)));
        assert!(found("concatenate", &word("cat", false)));
        assert!(found("see #cat!", &word("#cat", true)));
        assert!(found("größe über alles", &word("ÜBER", true)));
        assert!(!found("anything", &word("", false)));
    }
}
