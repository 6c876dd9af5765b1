//! What people type: words, "phrases", and operators like `from:`, `has:`, `before:`. What is no
//! operator is a word, and what is no word is nothing: no text is ever a mistake.

use weir_base::Timestamp;

use super::words::words;

/// The longest query that is read, in characters.
const QUERY_CHARACTERS_MAX: usize = 500;
/// Words, phrases and operators of a query.
const TERMS_MAX: usize = 24;
/// Words of a phrase.
const PHRASE_WORDS_MAX: usize = 16;
/// The shortest word that also finds what begins with it, in characters.
const PREFIX_CHARACTERS_MIN: usize = 4;

/// Among which posts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scope {
    /// All that may be found.
    #[default]
    All,
    /// Those one wrote, is mentioned in, or has favourited, bookmarked or boosted.
    Library,
    /// Public posts of those who allow it.
    Public,
}

/// A word or phrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) words: Vec<String>,
    /// Whether longer words that begin so fit too.
    pub(super) prefix: bool,
    pub(super) not: bool,
}

/// Something a post is or has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) name: String,
    pub(super) not: bool,
}

/// Whose posts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Author {
    /// `me`, or an address as people write it.
    pub(super) address: String,
    pub(super) not: bool,
}

/// A query, understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    pub(super) terms: Vec<Term>,
    pub(super) facts: Vec<Fact>,
    pub(super) authors: Vec<Author>,
    /// Posts of this moment and later.
    pub(super) from: Option<Timestamp>,
    /// Posts before this moment.
    pub(super) until: Option<Timestamp>,
    pub(super) scope: Scope,
}

impl Query {
    /// Understands `text`.
    pub fn parse(text: &str) -> Self {
        let mut query = Self::default();
        let text: String = text.chars().take(QUERY_CHARACTERS_MAX).collect();
        let text = text.replace(['\u{201C}', '\u{201D}', '\u{201E}'], "\"");
        let mut rest = text.as_str();
        for _ in 0..TERMS_MAX {
            rest = rest.trim_start();
            if rest.is_empty() {
                break;
            }
            let not = rest.starts_with('-') && rest.len() > 1;
            let term = rest.trim_start_matches(['-', '+']);
            if let Some(phrase) = term.strip_prefix('"') {
                let (phrase, after) = phrase.split_once('"').unwrap_or((phrase, ""));
                query.add_words(phrase, false, not);
                rest = after;
            } else {
                let end = term.find(char::is_whitespace).unwrap_or(term.len());
                let (word, after) = term.split_at(end);
                if !query.add_operator(word, not) {
                    query.add_words(word, true, not);
                }
                rest = after;
            }
        }
        query
    }

    /// Whether it asks for anything at all.
    pub fn is_empty(&self) -> bool {
        self.terms.iter().all(|term| term.not)
            && self.facts.is_empty()
            && self.authors.is_empty()
            && self.from.is_none()
            && self.until.is_none()
    }

    fn add_words(&mut self, text: &str, loose: bool, not: bool) {
        let words = words(text, PHRASE_WORDS_MAX);
        let Some(last) = words.last() else { return };
        let prefix = loose && !not && last.chars().count() >= PREFIX_CHARACTERS_MIN;
        self.terms.push(Term { words, prefix, not });
    }

    /// Whether `word` was an operator with a value that fits.
    fn add_operator(&mut self, word: &str, not: bool) -> bool {
        let Some((name, value)) = word.split_once(':') else { return false };
        let value = value.trim_matches('"');
        if value.is_empty() {
            return false;
        }
        match name.to_ascii_lowercase().as_str() {
            "from" => {
                self.authors.push(Author { address: value.to_owned(), not });
                true
            }
            "has" | "is" => self.add_fact(fact(value), not),
            "language" | "lang" => self.add_fact(language(value), not),
            "in" => match value.to_ascii_lowercase().as_str() {
                "all" => self.set_scope(Scope::All),
                "library" => self.set_scope(Scope::Library),
                "public" => self.set_scope(Scope::Public),
                _ => false,
            },
            "before" => self.add_days(value, |query, day| query.narrow(None, Some(day))),
            "after" => {
                self.add_days(value, |query, day| query.narrow(Some(day.plus_ms(DAY_MS)), None))
            }
            "during" | "on" => self.add_days(value, |query, day| {
                query.narrow(Some(day), Some(day.plus_ms(DAY_MS)));
            }),
            _ => false,
        }
    }

    fn add_fact(&mut self, name: Option<String>, not: bool) -> bool {
        let Some(name) = name else { return false };
        self.facts.push(Fact { name, not });
        true
    }

    fn set_scope(&mut self, scope: Scope) -> bool {
        self.scope = scope;
        true
    }

    fn add_days(&mut self, value: &str, add: impl FnOnce(&mut Self, Timestamp)) -> bool {
        let Ok(day) = format!("{value}T00:00:00Z").parse() else { return false };
        add(self, day);
        true
    }

    fn narrow(&mut self, from: Option<Timestamp>, until: Option<Timestamp>) {
        self.from = self.from.max(from);
        self.until = match (self.until, until) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
    }
}

const DAY_MS: i64 = 24 * 3_600 * 1_000;

/// What a post can be or have, under the name it is kept by.
fn fact(value: &str) -> Option<String> {
    let name = match value.to_ascii_lowercase().as_str() {
        "media" | "attachment" => "hm",
        "image" => "hi",
        "video" => "hv",
        "audio" => "ha",
        "poll" => "hp",
        "link" | "embed" => "hl",
        "reply" => "r",
        "sensitive" => "n",
        _ => return None,
    };
    Some(name.to_owned())
}

/// The name under which a language is kept; of `pt-BR` the part before the hyphen.
pub(super) fn language(code: &str) -> Option<String> {
    let base = code.split(['-', '_']).next()?.to_ascii_lowercase();
    let fits = (2..=3).contains(&base.len()) && base.bytes().all(|b| b.is_ascii_lowercase());
    fits.then(|| format!("g{base}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(words: &[&str], prefix: bool, not: bool) -> Term {
        Term { words: words.iter().map(|word| (*word).to_owned()).collect(), prefix, not }
    }

    #[test]
    fn words_phrases_and_operators_are_told_apart() {
        let query =
            Query::parse("Blåbær \"to be\" -not -\"the end\" don't of:x from:@bob@b.example");
        assert_eq!(
            query.terms,
            [
                term(&["blabær"], true, false),
                term(&["to", "be"], false, false),
                term(&["not"], false, true),
                term(&["the", "end"], false, true),
                term(&["don", "t"], false, false),
                term(&["of", "x"], false, false),
            ]
        );
        assert_eq!(query.authors, [Author { address: "@bob@b.example".into(), not: false }]);
        let query = Query::parse("has:media -is:reply language:pt-BR in:library before:2024-05-02");
        let fact = |name: &str, not| Fact { name: name.into(), not };
        assert_eq!(query.facts, [fact("hm", false), fact("r", true), fact("gpt", false)]);
        assert_eq!((query.scope, query.terms.len()), (Scope::Library, 0));
        assert_eq!(query.until, "2024-05-02T00:00:00Z".parse().ok());
        let day = Query::parse("during:2024-05-02");
        assert_eq!(day.from, query.until);
        assert_eq!(day.until, Some(day.from.unwrap().plus_ms(DAY_MS)));
    }

    #[test]
    fn nothing_that_is_typed_is_a_mistake() {
        for text in ["", "\"", "-", "--", "- -", "\"\"", "before:tomorrow", "has:", ":", "in:x"] {
            Query::parse(text);
        }
        assert!(Query::parse("- !!! -x").is_empty());
        proptest::proptest!(|(text in "\\PC{0,80}")| {
            let query = Query::parse(&text);
            proptest::prop_assert!(query.terms.len() <= TERMS_MAX);
        });
    }
}
