//! The house rules, checked by a test: a rule that does not run decays.

mod crates;
mod documents;
mod source;
mod tree;

use std::path::Path;

/// What breaks a rule, a line each: the file, the line and the rule.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let files = tree::read(root).map_err(|error| error.to_string())?;
    let mut found = crates::check(&files)?;
    found.extend(source::check(&files));
    found.extend(documents::check(&files));
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_house_keeps_its_rules() {
        let found = super::check(&crate::root()).unwrap();
        assert!(found.is_empty(), "\n{}\n", found.join("\n"));
    }
}
