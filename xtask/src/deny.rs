//! Licences and bans of `deny.toml`, held against every crate that is built into Weir on Linux.
//! `cargo deny` checks the same and more where it is installed; this needs nothing but cargo.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use serde::Deserialize;

#[derive(Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Licenses {
    allow: HashSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    name: String,
}

/// A crate of the graph.
struct Package {
    name: String,
    version: String,
    license: String,
    /// Where it lies, unless on crates.io.
    source: String,
}

/// What breaks the rules, a line each.
pub fn check(root: &Path) -> Result<Vec<String>, String> {
    let text =
        std::fs::read_to_string(root.join("deny.toml")).map_err(|error| error.to_string())?;
    let rules: Rules = toml::from_str(&text).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for platform in ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"] {
        // Unlike `cargo metadata`, the tree leaves out what no feature asks for.
        let args = ["tree", "--workspace", "--all-features", "--prefix", "none", "--no-dedupe"];
        let args = [&args[..], &["--format", "{p}|{l}", "--target", platform]].concat();
        let tree = String::from_utf8(crate::output(&args)?).map_err(|error| error.to_string())?;
        let lines: BTreeSet<&str> = tree.lines().collect();
        found.extend(lines.into_iter().filter_map(package).flat_map(|one| judge(&rules, &one)));
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// Reads a line `name v1.0.0 (source)|licence`.
fn package(line: &str) -> Option<Package> {
    // A star marks what the tree showed before.
    let (package, license) = line.trim_end_matches(" (*)").rsplit_once('|')?;
    let mut words = package.splitn(3, ' ');
    let (name, version) = (words.next()?.to_owned(), words.next()?.to_owned());
    let source = words.next().unwrap_or_default().to_owned();
    Some(Package { name, version, license: license.to_owned(), source })
}

fn judge(rules: &Rules, package: &Package) -> Vec<String> {
    let Package { name, version, license, source } = package;
    let mut found = Vec::new();
    if rules.bans.deny.iter().any(|ban| ban.name == *name) {
        found.push(format!("{name} {version} is banned; `cargo tree -i {name}` tells who asks"));
    }
    if !is_allowed(license, &rules.licenses.allow) {
        found.push(format!("{name} {version} has the licence \"{license}\", which is not allowed"));
    }
    if source.contains("://") {
        found.push(format!("{name} {version} comes from {source}; use crates.io"));
    }
    found
}

/// Whether an SPDX expression can be satisfied with the licences of `allowed`.
fn is_allowed(expression: &str, allowed: &HashSet<String>) -> bool {
    // The old form "MIT/Apache-2.0" means OR.
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Expression { words: &words, at: 0, allowed };
    let answer = parser.either();
    answer && parser.at == words.len()
}

struct Expression<'a> {
    words: &'a [&'a str],
    at: usize,
    allowed: &'a HashSet<String>,
}

impl Expression<'_> {
    fn takes(&mut self, word: &str) -> bool {
        let takes = self.words.get(self.at) == Some(&word);
        self.at += usize::from(takes);
        takes
    }

    fn either(&mut self) -> bool {
        let mut answer = self.both();
        while self.takes("OR") {
            answer |= self.both();
        }
        answer
    }

    fn both(&mut self) -> bool {
        let mut answer = self.one();
        while self.takes("AND") {
            answer &= self.one();
        }
        answer
    }

    fn one(&mut self) -> bool {
        if self.takes("(") {
            return self.either() & self.takes(")");
        }
        let Some(license) = self.words.get(self.at) else { return false };
        self.at += 1;
        let mut license = (*license).to_owned();
        if self.takes("WITH") {
            let Some(exception) = self.words.get(self.at) else { return false };
            self.at += 1;
            license = format!("{license} WITH {exception}");
        }
        self.allowed.contains(&license)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dependency_keeps_the_rules() {
        assert_eq!(check(&crate::root()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn licence_expressions_are_understood() {
        let allowed: HashSet<_> =
            ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
        for fine in
            ["MIT", "MIT/GPL-2.0", "GPL-2.0 OR (MIT AND ISC)", "Apache-2.0 WITH LLVM-exception"]
        {
            assert!(is_allowed(fine, &allowed), "{fine}");
        }
        for not in ["", "GPL-2.0", "MIT AND GPL-2.0", "Apache-2.0", "(MIT", "MIT ISC", "MIT)"] {
            assert!(!is_allowed(not, &allowed), "{not}");
        }
    }

    #[test]
    fn a_ban_a_licence_and_a_source_are_found() {
        let text = "[licenses]\nallow = [\"MIT\"]\n[bans]\ndeny = [{ name = \"openssl\" }]";
        let rules: Rules = toml::from_str(text).unwrap();
        let found = |line| judge(&rules, &package(line).unwrap()).len();
        assert_eq!(found("fine v1.0.0|MIT"), 0);
        assert_eq!(found("made v1.0.0 (proc-macro)|MIT"), 0);
        assert_eq!(found("own v1.0.0 (/src/own)|MIT"), 0);
        assert_eq!(found("openssl v1.0.0|MIT"), 1);
        assert_eq!(found("other v1.0.0|GPL-2.0"), 1);
        assert_eq!(found("other v1.0.0|"), 1);
        assert_eq!(found("forked v1.0.0 (https://git.example/forked#1234)|MIT"), 1);
    }
}
