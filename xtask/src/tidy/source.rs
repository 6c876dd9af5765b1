//! Rules about source files: their length and names, and what must not stand in them.

use std::collections::HashSet;

use super::tree::File;

const FILE_LINES_MAX: usize = 700;
const LINE_CHARS_MAX: usize = 100;

/// Names that say nothing of what is inside.
const EMPTY_NAMES: &[&str] = &["common", "util", "utils", "helper", "helpers", "misc"];

/// Marks of what is not finished, and tests that do not run. Written in two pieces, so that this
/// list does not find itself.
const MARKS: &[&str] = &[
    concat!("to", "do!("),
    concat!("unimpl", "emented!("),
    concat!("db", "g!("),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("#[ig", "nore"),
];

/// Words of the place where this was built, which mean nothing to who reads it.
const PLACE: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("DES", "IGN.md"),
    concat!("CONT", "RACT.md"),
    concat!("STY", "LE.md"),
    concat!("work", "tree"),
];

pub(super) fn check(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        found.extend(check_name(file));
        match file.kind() {
            "rs" => {
                found.extend(check_marks(file));
                found.extend(check_lengths(file));
                found.extend(check_rust(file));
            }
            "py" | "ts" | "tsx" => {
                found.extend(check_marks(file));
                found.extend(check_lengths(file));
            }
            "sh" | "html" | "css" | "md" | "toml" | "yml" | "" => found.extend(check_marks(file)),
            _ => {}
        }
    }
    found.extend(check_dead_files(files));
    found
}

fn check_name(file: &File) -> Option<String> {
    let parts = file.path.split('/').map(|part| part.split('.').next().unwrap_or(part));
    let empty = parts.into_iter().find(|part| EMPTY_NAMES.contains(part))?;
    Some(format!("{}: the name {empty} says nothing; name what is inside", file.path))
}

fn check_marks(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        for word in MARKS.iter().filter(|word| line.contains(**word)) {
            found.push(format!("{}:{number}: finish it: {word}", file.path));
        }
        for word in PLACE.iter().filter(|word| line.contains(**word)) {
            found.push(format!("{}:{number}: {word} means nothing to readers", file.path));
        }
    }
    found
}

fn check_lengths(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        found.push(format!("{}: {lines} lines; split it by subject", file.path));
    }
    for (number, line) in (1..).zip(file.text.lines()) {
        let chars = line.chars().count();
        // A long key or address cannot be broken.
        let breaks = line.split_whitespace().all(|word| word.chars().count() <= 60);
        if chars > LINE_CHARS_MAX && breaks {
            found.push(format!("{}:{number}: {chars} characters; break the line", file.path));
        }
    }
    found
}

fn check_rust(file: &File) -> Vec<String> {
    let path = &file.path;
    let mut found = Vec::new();
    let is_root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
    if is_root && !file.text.starts_with("//!") {
        found.push(format!("{path}: begin with //! and what the crate is for"));
    }
    let may_print =
        ["crates/weir/", "crates/storm/", "xtask/"].iter().any(|place| path.starts_with(place))
            || path.contains("/examples/");
    let lines: Vec<&str> = file.text.lines().collect();
    let mut in_tests = is_test_file(path);
    for (index, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        // Tests stand at the end of a file.
        in_tests |= code.starts_with("#[cfg(test)]")
            && lines.get(index + 1).is_some_and(|next| next.trim_end().ends_with('{'));
        if code.starts_with("//") {
            continue;
        }
        let mut say = |rule: &str| found.push(format!("{path}:{}: {rule}", index + 1));
        if in_tests {
            if code.contains("thread::sleep(") || code.contains("time::sleep(") {
                say("tests do not sleep; wait for what should happen, or move the clock");
            }
            continue;
        }
        let may_fail =
            code.contains(concat!(".unw", "rap()")) || code.contains(concat!(".exp", "ect("));
        if may_fail && !is_proven(&lines, index) {
            say("handle the failure, or prove in a comment above that there is none");
        }
        if !may_print && (code.contains("println!(") || code.contains("print!(")) {
            say("log with tracing; only programs print");
        }
    }
    found
}

fn is_test_file(path: &str) -> bool {
    path.contains("/tests/")
        || path.contains("/benches/")
        || path.ends_with("/tests.rs")
        || path.starts_with("crates/storm/src/fixture")
}

/// Whether a comment stands within the statement of the line, or right above it.
fn is_proven(lines: &[&str], index: usize) -> bool {
    if lines[index].contains("// ") {
        return true;
    }
    for line in lines[..index].iter().rev() {
        let line = line.trim();
        if line.starts_with("//") && !line.starts_with("///") {
            return true;
        }
        if line.is_empty() || line.ends_with([';', '{', '}']) {
            return false;
        }
    }
    false
}

/// Source files that no `mod` names are never compiled.
fn check_dead_files(files: &[File]) -> Vec<String> {
    let crate_of = |path: &str| path.split_once("/src/").map(|(name, _)| name.to_owned());
    let rust = || files.iter().filter(|file| file.kind() == "rs" && file.path.contains("/src/"));
    let mut named: HashSet<(String, String)> = HashSet::new();
    for file in rust() {
        let Some(of) = crate_of(&file.path) else { continue };
        for line in file.text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if let Some(at) = words.iter().position(|word| *word == "mod")
                && let Some(name) = words.get(at + 1).and_then(|word| word.strip_suffix(';'))
            {
                named.insert((of.clone(), name.to_owned()));
            }
        }
    }
    let is_dead = |file: &&File| {
        let Some(of) = crate_of(&file.path) else { return false };
        let path = file.path.trim_end_matches("/mod.rs").trim_end_matches(".rs");
        let stem = path.rsplit('/').next().unwrap_or(path);
        let is_root = ["lib", "main"].contains(&stem) || path.contains("/src/bin/");
        !is_root && !named.contains(&(of, stem.to_owned()))
    };
    rust()
        .filter(is_dead)
        .map(|file| format!("{}: no mod names it, so it is never compiled", file.path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&[File { path: path.into(), text: text.into() }])
    }

    fn rules(text: &str) -> usize {
        found("crates/x/src/lib.rs", &format!("//! A crate.\n{text}")).len()
    }

    #[test]
    fn unfinished_work_is_found() {
        assert_eq!(rules(concat!("// TO", "DO later")), 1);
        assert_eq!(rules(concat!("#[ig", "nore]\n")), 1);
        assert_eq!(found("README.md", concat!("see /wo", "rk/main")).len(), 1);
    }

    #[test]
    fn a_failure_needs_a_proof_outside_tests() {
        assert_eq!(rules("fn f() {\n    let a = b.unwrap();\n}"), 1);
        assert_eq!(rules("fn f() {\n    // There is always one.\n    let a = b.unwrap();\n}"), 0);
        assert_eq!(rules("fn f() {\n    // Always.\n    let a = b\n        .expect(\"x\");\n}"), 0);
        assert_eq!(rules("#[cfg(test)]\nmod tests {\n    a.unwrap();\n}"), 0);
        assert_eq!(rules("#[cfg(test)]\nmod tests;\nfn f() {\n    a.unwrap();\n}"), 1);
    }

    #[test]
    fn a_sleeping_test_is_found() {
        let sleep = concat!("thread::sl", "eep(x);");
        assert_eq!(rules(&format!("#[cfg(test)]\nmod tests {{\n    {sleep}\n}}")), 1);
        assert_eq!(found("crates/x/tests/a.rs", sleep).len(), 1);
        assert_eq!(rules(sleep), 0);
    }

    #[test]
    fn empty_names_long_files_long_lines_and_dead_files_are_found() {
        assert_eq!(found("tests/helpers/a.py", "").len(), 1);
        assert_eq!(rules(&"// a\n".repeat(FILE_LINES_MAX)), 1);
        assert_eq!(rules(&format!("// {}", "word ".repeat(20))), 1);
        assert_eq!(rules(&format!("// {}", "x".repeat(120))), 0);
        assert_eq!(found("crates/x/src/dead.rs", "").len(), 1);
        assert_eq!(rules("println!(\"x\");"), 1);
        assert_eq!(found("crates/x/src/lib.rs", "").len(), 1);
    }
}
