//! Pages of long results (XEP-0059).

use super::element::Element;
use super::error::{Condition, StanzaError};
use super::ns;

/// Which page is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wish {
    /// So many entries at most; 0 asks for the count alone.
    pub max: Option<usize>,
    /// Those after this one.
    pub after: Option<String>,
    /// Those before this one; empty: the last ones.
    pub before: Option<String>,
    /// Those from this place on.
    pub index: Option<usize>,
}

impl Wish {
    /// The wish inside of `around`; the first page where there is none.
    ///
    /// # Errors
    /// When a number is none.
    pub fn inside(around: &Element) -> Result<Self, StanzaError> {
        let Some(set) = around.child("set", ns::PAGES) else { return Ok(Self::default()) };
        let text = |name: &str| set.child(name, ns::PAGES).map(Element::text);
        let number = |name: &str| -> Result<Option<usize>, StanzaError> {
            let wrong = || {
                StanzaError::new(Condition::BadRequest)
                    .text(format!("write <{name}/> as a number (XEP-0059)"))
            };
            text(name).map(|text| text.trim().parse().map_err(|_| wrong())).transpose()
        };
        let (max, index) = (number("max")?, number("index")?);
        Ok(Self { max, index, after: text("after"), before: text("before") })
    }

    /// Whether the last entries are wanted, or those before one.
    pub fn backwards(&self) -> bool {
        self.before.is_some()
    }
}

/// `<set/>` of an answer: the names of its first and last entry, the place of the first among all,
/// and how many there are in all.
pub fn told(
    first: Option<&str>,
    last: Option<&str>,
    index: Option<usize>,
    count: Option<usize>,
) -> Element {
    let text = |name: &'static str, text: &str| Element::new(name, ns::PAGES).with_text(text);
    let mut set = Element::new("set", ns::PAGES);
    if let Some(first) = first {
        let first = text("first", first);
        set = set.with_child(first.with_attr_opt("index", index.map(|at| at.to_string())));
    }
    if let Some(last) = last {
        set = set.with_child(text("last", last));
    }
    if let Some(count) = count {
        set = set.with_child(text("count", &count.to_string()));
    }
    set
}

/// The page of `all` (each with its name) that is wished for, with its `<set/>`.
///
/// # Errors
/// When the entry to go on from is not there.
pub fn of<T: Clone>(
    all: &[(String, T)],
    wish: &Wish,
    page_max: usize,
) -> Result<(Vec<T>, Element), StanzaError> {
    let find = |name: &str| {
        let missing = || {
            StanzaError::new(Condition::ItemNotFound)
                .text("the entry to go on from is not there any more; begin anew")
        };
        all.iter().position(|(is, _)| is == name).ok_or_else(missing)
    };
    let limit = wish.max.unwrap_or(page_max).min(page_max);
    let (from, to) = match (&wish.after, wish.before.as_deref(), wish.index) {
        (Some(after), ..) => (find(after)? + 1, all.len()),
        (None, Some(""), _) => (all.len().saturating_sub(limit), all.len()),
        (None, Some(before), _) => {
            let end = find(before)?;
            (end.saturating_sub(limit), end)
        }
        (None, None, Some(index)) => (index.min(all.len()), all.len()),
        (None, None, None) => (0, all.len()),
    };
    let page = &all[from..to.min(from + limit)];
    let name = |entry: Option<&(String, T)>| entry.map(|(name, _)| name.clone());
    let (first, last) = (name(page.first()), name(page.last()));
    let index = first.as_ref().map(|_| from);
    let set = told(first.as_deref(), last.as_deref(), index, Some(all.len()));
    Ok((page.iter().map(|(_, entry)| entry.clone()).collect(), set))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(count: usize) -> Vec<(String, usize)> {
        (0..count).map(|at| (format!("n{at}"), at)).collect()
    }

    proptest! {
        #[test]
        fn pages_meet_without_a_seam(count in 0..40_usize, max in 1..9_usize) {
            let all = all(count);
            let mut seen = Vec::new();
            let mut wish = Wish { max: Some(max), ..Wish::default() };
            loop {
                let (page, _) = of(&all, &wish, 100).unwrap();
                let Some(last) = page.last() else { break };
                wish.after = Some(format!("n{last}"));
                seen.extend(page);
            }
            prop_assert_eq!(&seen, &(0..count).collect::<Vec<_>>());
            let mut seen = Vec::new();
            let mut wish = Wish { max: Some(max), before: Some(String::new()), ..Wish::default() };
            loop {
                let (page, _) = of(&all, &wish, 100).unwrap();
                let Some(first) = page.first() else { break };
                wish.before = Some(format!("n{first}"));
                seen.splice(0..0, page);
            }
            prop_assert_eq!(&seen, &(0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_entry_that_is_gone_is_an_error() {
        let wish = Wish { after: Some("x".into()), ..Wish::default() };
        assert_eq!(of(&all(3), &wish, 10).unwrap_err().condition, Condition::ItemNotFound);
    }

    #[test]
    fn a_number_that_is_none_is_refused() {
        let max = Element::new("max", ns::PAGES).with_text("many");
        let around = Element::new("query", "urn:x")
            .with_child(Element::new("set", ns::PAGES).with_child(max));
        assert_eq!(Wish::inside(&around).unwrap_err().condition, Condition::BadRequest);
    }
}
