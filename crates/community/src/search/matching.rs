//! A query in the words of each database. Only words and facts of ours go in, which hold letters
//! and digits alone, so nothing people type is ever syntax.

use weir_db::Dialect;

use super::query::Term;

/// What must match: words of the text, and facts in groups of which one each must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Matching {
    pub(super) terms: Vec<Term>,
    /// One of each group holds.
    pub(super) any: Vec<Vec<String>>,
    /// None of these holds.
    pub(super) none: Vec<String>,
}

impl Matching {
    /// The one expression of FTS5 (its documentation, section 3). There must be a group.
    pub(super) fn fts5(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for term in self.terms.iter().filter(|term| !term.not) {
            parts.push(fts5_term(term));
        }
        for group in &self.any {
            let facts: Vec<String> = group.iter().map(|fact| format!("\"{fact}\"")).collect();
            parts.push(format!("facts : ({})", facts.join(" OR ")));
        }
        let mut expression = parts.join(" AND ");
        for term in self.terms.iter().filter(|term| term.not) {
            expression = format!("({expression}) NOT {}", fts5_term(term));
        }
        for fact in &self.none {
            expression = format!("({expression}) NOT facts : \"{fact}\"");
        }
        expression
    }

    /// The two queries of PostgreSQL: of the text (none when it may be any), and of the facts.
    pub(super) fn tsquery(&self) -> (Option<String>, String) {
        let terms: Vec<String> = self.terms.iter().map(ts_term).collect();
        let mut facts: Vec<String> = Vec::new();
        for group in &self.any {
            let group: Vec<String> = group.iter().map(|fact| format!("'{fact}'")).collect();
            facts.push(format!("({})", group.join(" | ")));
        }
        facts.extend(self.none.iter().map(|fact| format!("!'{fact}'")));
        let text = (!terms.is_empty()).then(|| terms.join(" & "));
        (text, facts.join(" & "))
    }

    /// The condition on a row and its parameters, numbered from `first`.
    pub(super) fn condition(&self, dialect: Dialect, first: usize) -> (String, Vec<String>) {
        match dialect {
            Dialect::Sqlite => (format!("status_texts MATCH ?{first}"), vec![self.fts5()]),
            Dialect::Postgres => {
                let query = |column: &str, number: usize| {
                    format!("{column} @@ CAST(CAST(?{number} AS TEXT) AS TSQUERY)")
                };
                match self.tsquery() {
                    (None, facts) => (query("facts", first), vec![facts]),
                    (Some(text), facts) => {
                        let both = [query("facts", first), query("body", first + 1)];
                        (both.join(" AND "), vec![facts, text])
                    }
                }
            }
        }
    }
}

fn fts5_term(term: &Term) -> String {
    let star = if term.prefix { "*" } else { "" };
    format!("body : \"{}\"{star}", term.words.join(" "))
}

fn ts_term(term: &Term) -> String {
    let last = term.words.len().saturating_sub(1);
    let words: Vec<String> = term
        .words
        .iter()
        .enumerate()
        .map(|(at, word)| format!("'{word}'{}", if term.prefix && at == last { ":*" } else { "" }))
        .collect();
    let not = if term.not { "!" } else { "" };
    format!("{not}({})", words.join(" <-> "))
}

/// Words as PostgreSQL keeps them, with their places, of which it counts so many.
pub(super) fn tsvector(words: &[String]) -> String {
    const PLACES_MAX: usize = 16_383;
    let mut out = String::with_capacity(words.len() * 12);
    for (at, word) in words.iter().enumerate() {
        out.push_str(&format!("'{word}':{} ", (at + 1).min(PLACES_MAX)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::query::Query;

    #[test]
    fn a_query_reads_the_same_in_both_databases() {
        let matching = Matching {
            terms: Query::parse("blue \"deep sea\" -red").terms,
            any: vec![vec!["p".into(), "l7".into()], vec!["a9".into()]],
            none: vec!["r".into()],
        };
        assert_eq!(
            matching.fts5(),
            "((body : \"blue\"* AND body : \"deep sea\" AND facts : (\"p\" OR \"l7\") AND \
             facts : (\"a9\")) NOT body : \"red\") NOT facts : \"r\""
        );
        assert_eq!(
            matching.tsquery(),
            (
                Some("('blue':*) & ('deep' <-> 'sea') & !('red')".into()),
                "('p' | 'l7') & ('a9') & !'r'".into()
            )
        );
    }
}
