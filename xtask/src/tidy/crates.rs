//! Rules about crates: which may know which, and under which licence each stands.

use super::tree::File;

/// The floors of the house, from the ground up. A crate may know those on floors below its own.
const FLOORS: &[&[&str]] = &[
    &["weir-base"],
    &["weir-db", "weir-fetch"],
    &["weir-jobs", "weir-live"],
    &["weir-community"],
    &["weir-http"],
    &["weir-mastodon", "weir-activitypub", "weir-pages", "weir-ddp", "weir-xmpp", "weir-console"],
    &["weir-storm"],
    &["weir"],
    &["xtask", "features"],
];

/// Crates that any program could use.
const PERMISSIVE: &[&str] = &["weir-base", "weir-db", "weir-fetch", "weir-jobs", "weir-live"];

pub(super) fn check(files: &[File]) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        found.extend(check_manifest(file)?);
    }
    Ok(found)
}

fn check_manifest(file: &File) -> Result<Vec<String>, String> {
    let path = &file.path;
    let manifest: toml::Table =
        file.text.parse().map_err(|error| format!("{path} is not TOML: {error}"))?;
    let Some(package) = manifest.get("package") else { return Ok(Vec::new()) };
    let text = |key: &str| package.get(key).and_then(toml::Value::as_str).unwrap_or_default();
    let name = text("name");
    let mut found = Vec::new();
    // Fuzz targets stand outside of the workspace and may know anything.
    if path.contains("/fuzz/") || path.starts_with("fuzz/") {
        return Ok(found);
    }
    let Some(floor) = floor(name) else {
        return Ok(vec![format!("{path}: {name} has no floor; give it one in {}", file!())]);
    };
    for (table, is_for_tests) in
        [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
    {
        let Some(table) = manifest.get(table).and_then(toml::Value::as_table) else { continue };
        for (known, known_floor) in table.keys().filter_map(|key| Some((key, self::floor(key)?))) {
            let is_fixture = is_for_tests && known == "weir-storm";
            if known_floor >= floor && !is_fixture {
                found.push(format!("{path}: {name} must not know {known}: it is not below it"));
            }
        }
    }
    let inherits = package.get("license").and_then(|license| license.get("workspace")).is_some();
    if PERMISSIVE.contains(&name) {
        if text("license") != "MIT OR Apache-2.0" {
            found.push(format!("{path}: write license = \"MIT OR Apache-2.0\""));
        }
    } else if !inherits {
        found.push(format!("{path}: write license.workspace = true"));
    }
    Ok(found)
}

fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|crates| crates.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(text: &str) -> usize {
        let file = File { path: "crates/x/Cargo.toml".into(), text: text.into() };
        check_manifest(&file).unwrap().len()
    }

    #[test]
    fn an_arrow_that_points_up_or_aside_is_found() {
        let head = "[package]\nlicense.workspace = true\nname = ";
        let knows = |name: &str, known: &str| {
            check_text(&format!("{head}\"{name}\"\n[dependencies]\n{known} = \"1\"\n"))
        };
        assert_eq!(knows("weir-mastodon", "weir-http"), 0);
        assert_eq!(knows("weir-mastodon", "weir-pages"), 1);
        assert_eq!(knows("weir-community", "weir-http"), 1);
        assert_eq!(knows("weir-mastodon", "serde"), 0);
        assert_eq!(knows("weir", "weir-storm"), 0);
    }

    #[test]
    fn engines_stand_under_their_own_licence_and_know_each_other_not() {
        let engine = "[package]\nlicense = \"MIT OR Apache-2.0\"\nname = \"weir-jobs\"\n";
        assert_eq!(check_text(engine), 0);
        assert_eq!(check_text(&format!("{engine}[dependencies]\nweir-live = \"1\"")), 1);
        assert_eq!(check_text(&format!("{engine}[dev-dependencies]\nweir-storm = \"1\"")), 0);
        assert_eq!(check_text("[package]\nlicense.workspace = true\nname = \"weir-jobs\""), 1);
    }
}
