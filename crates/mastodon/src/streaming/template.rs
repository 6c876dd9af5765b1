//! A post as text with gaps where readers differ.
//!
//! A post is written once, as somebody sees it who has done nothing with it; where it says so,
//! the text is cut. For a reader who did something the pieces are put together with what that
//! reader did, which costs a copy and no encoding of the post.

use std::sync::Arc;

use serde::Serialize;

use super::render::text;
use crate::Error;
use crate::entities::ReaderPart;

/// What a reader's poll part says for those who did not vote.
const NO_VOTES: &str = r#""voted":false,"own_votes":[]"#;

/// The pieces of a post's text.
pub(super) struct Template {
    whole: Arc<str>,
    pieces: Vec<Piece>,
}

enum Piece {
    /// As it is, and as it stands inside of a JSON text.
    Text(String, String),
    Reader,
    Votes,
}

/// What a reader did, as it fills the gaps.
pub(super) struct Filling {
    reader: String,
    votes: String,
}

impl Filling {
    pub(super) fn new(reader: &ReaderPart, votes: &[usize]) -> Result<Self, Error> {
        let voted = !votes.is_empty();
        let own = text(&votes)?;
        Ok(Self {
            reader: inside(reader)?,
            votes: format!("\"voted\":{voted},\"own_votes\":{own}"),
        })
    }
}

impl Template {
    /// Cuts `whole`, in which `neutral` is what the readers' parts say.
    pub(super) fn new(whole: String, neutral: &ReaderPart) -> Result<Self, Error> {
        let reader = inside(neutral)?;
        let mut pieces = Vec::new();
        // Inside of a string quotes are escaped, so neither mark is found where people wrote it.
        for (at, part) in whole.split(&reader).enumerate() {
            if at > 0 {
                pieces.push(Piece::Reader);
            }
            for (at, part) in part.split(NO_VOTES).enumerate() {
                if at > 0 {
                    pieces.push(Piece::Votes);
                }
                pieces.push(Piece::Text(part.to_owned(), escaped(part)?));
            }
        }
        Ok(Self { whole: whole.into(), pieces })
    }

    /// The post as it is for those who did nothing with it.
    pub(super) fn whole(&self) -> &str {
        &self.whole
    }

    /// The same as it stands inside of a JSON text.
    pub(super) fn whole_escaped(&self) -> Result<String, Error> {
        escaped(&self.whole)
    }

    /// The post of one reader.
    pub(super) fn filled(&self, filling: &Filling) -> String {
        let mut out = String::with_capacity(self.whole.len() + 256);
        for piece in &self.pieces {
            out.push_str(match piece {
                Piece::Text(plain, _) => plain,
                Piece::Reader => &filling.reader,
                Piece::Votes => &filling.votes,
            });
        }
        out
    }

    /// The same as it stands inside of a JSON text.
    pub(super) fn filled_escaped(&self, filling: &Filling) -> Result<String, Error> {
        let (reader, votes) = (escaped(&filling.reader)?, escaped(&filling.votes)?);
        let mut out = String::with_capacity(self.whole.len() * 5 / 4 + 256);
        for piece in &self.pieces {
            out.push_str(match piece {
                Piece::Text(_, escaped) => escaped,
                Piece::Reader => &reader,
                Piece::Votes => &votes,
            });
        }
        Ok(out)
    }
}

/// The members of an object, without its braces.
fn inside(object: &impl Serialize) -> Result<String, Error> {
    let text = text(object)?;
    Ok(text.trim_start_matches('{').strip_suffix('}').unwrap_or(&text).to_owned())
}

/// `plain` as it stands between the quotes of a JSON string.
pub(super) fn escaped(plain: &str) -> Result<String, Error> {
    let mut text = text(&plain)?;
    text.pop();
    text.remove(0);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn part(favourited: bool) -> ReaderPart {
        ReaderPart {
            favourited,
            reblogged: false,
            muted: false,
            bookmarked: false,
            pinned: None,
            filtered: Vec::new(),
        }
    }

    #[test]
    fn the_gaps_are_filled_and_what_people_wrote_is_not_taken_for_one() {
        let neutral = part(false);
        let forged = format!("{} and {NO_VOTES}", inside(&neutral).unwrap());
        let content = text(&forged).unwrap();
        let reader = inside(&neutral).unwrap();
        let whole = format!(
            "{{{reader},\"content\":{content},\"reblog\":{{{reader},\"poll\":{{{NO_VOTES}}}}}}}"
        );
        let template = Template::new(whole.clone(), &neutral).unwrap();
        let filling = Filling::new(&part(true), &[1]).unwrap();
        let filled: Value = serde_json::from_str(&template.filled(&filling)).unwrap();
        assert_eq!(filled["favourited"], true);
        assert_eq!(filled["content"], forged);
        assert_eq!(filled["reblog"]["favourited"], true);
        assert_eq!(filled["reblog"]["poll"], json!({ "voted": true, "own_votes": [1] }));
        let escaped = format!("\"{}\"", template.filled_escaped(&filling).unwrap());
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), template.filled(&filling));
        let nothing = Filling::new(&neutral, &[]).unwrap();
        assert_eq!(template.filled(&nothing), whole);
    }
}
