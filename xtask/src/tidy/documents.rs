//! Rules about documents: what they tell people to run must exist.

use std::collections::HashSet;

use super::tree::File;

pub(super) fn check(files: &[File]) -> Vec<String> {
    let Some(makefile) = files.iter().find(|file| file.path == "Makefile") else {
        return vec!["Makefile: there is none".into()];
    };
    let targets: HashSet<&str> = makefile
        .text
        .lines()
        .filter(|line| !line.starts_with(['\t', '#', '.', ' ']))
        .filter_map(|line| line.split_once(':'))
        .flat_map(|(targets, _)| targets.split_whitespace())
        .collect();
    let benches: HashSet<String> = files
        .iter()
        .filter_map(|file| file.path.strip_prefix("bench/"))
        .filter(|name| !name.contains(['/', '.']))
        .map(|name| format!("bench-{name}"))
        .collect();
    let exists = |target: &str| targets.contains(target) || benches.contains(target);
    let mut found = Vec::new();
    for document in files.iter().filter(|file| file.kind() == "md") {
        for (number, line) in (1..).zip(document.text.lines()) {
            for target in told(line).filter(|target| !exists(target)) {
                found.push(format!(
                    "{}:{number}: the Makefile has no target {target}",
                    document.path
                ));
            }
        }
    }
    found
}

/// The targets that `line` tells people to make: words after `make` in code.
fn told(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split('`').skip(1).step_by(2);
    let whole = line.starts_with("make ").then_some(line);
    code.chain(whole)
        .filter_map(|code| code.strip_prefix("make "))
        .filter_map(|rest| rest.split_whitespace().next())
        .filter(|target| target.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_not_there_is_found() {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let files = [
            file("Makefile", "serve: build\n\tcargo run\n"),
            file(
                "README.md",
                "Run `make serve` or `make sevre`, `make bench-NAME`.\n\
                 Or `make bench-jobs`.\nmake nothing\n",
            ),
            file("bench/jobs", ""),
        ];
        let found = check(&files);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("sevre") && found[1].contains("nothing"));
    }
}
