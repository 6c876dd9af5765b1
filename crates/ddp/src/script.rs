//! The types of Weir's collections, publications and methods in TypeScript.

use std::collections::BTreeSet;

use crate::table;

/// How each of them begins.
const MADE: &str = "// Made by `cargo xtask ddp-types` from crates/ddp; a test keeps it true.\n\
                    // Ids are texts of decimal digits, newest last; dates are EJSON dates.\n\n";

/// The files of `types/` with their names: `cargo xtask ddp-types` writes them, a test compares
/// them. Documents are in one, all that is asked and answered in the other, which gives both.
pub fn typescript() -> [(&'static str, String); 2] {
    let table = table();
    let all = table.described();
    let is_asked = |name: &str| name.ends_with("Params") || name.ends_with("Result");
    let (asked, documents): (Vec<_>, Vec<_>) =
        all.interfaces.iter().partition(|(name, _)| is_asked(name));
    let texts = |some: &[&(String, String)]| -> String {
        some.iter().map(|(_, text)| format!("{text}\n")).collect()
    };
    let documents = format!("{MADE}{}", texts(&documents));
    let mut out = String::from(MADE);
    let names: BTreeSet<&str> = all.collections.iter().map(|(_, document)| &**document).collect();
    out.push_str("import type {\n");
    for name in names {
        out.push_str(&format!("  {name},\n"));
    }
    out.push_str("} from \"./ddp_documents\";\n\nexport * from \"./ddp_documents\";\n\n");
    out.push_str(&texts(&asked));
    out.push_str("/** Documents by collection. */\nexport interface Collections {\n");
    for (name, document) in &all.collections {
        out.push_str(&format!("  {name}: {document};\n"));
    }
    out.push_str("}\n\n/** Publications and their one parameter. */\n");
    out.push_str("export interface Publications {\n");
    for (name, params) in &all.publications {
        out.push_str(&format!("  \"{name}\": {params};\n"));
    }
    out.push_str("}\n\n/** Methods: their one parameter and their result. */\n");
    out.push_str("export interface Methods {\n");
    for (name, params, result) in &all.methods {
        out.push_str(&format!("  \"{name}\": (params: {params}) => {result};\n"));
    }
    out.push_str("}\n");
    [("ddp.ts", out), ("ddp_documents.ts", documents)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_in_git_are_those_of_the_code() {
        for (name, text) in typescript() {
            let path = format!("{}/../../types/{name}", env!("CARGO_MANIFEST_DIR"));
            if std::env::var_os("WEIR_TEST_UPDATE").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            let known = std::fs::read_to_string(path).unwrap_or_default();
            assert!(known == text, "types/{name} is old: run `cargo xtask ddp-types`");
        }
    }

    #[test]
    fn every_publication_method_and_collection_is_in_the_documentation() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ddp.md");
        let docs = std::fs::read_to_string(path).unwrap();
        let table = table();
        let all = table.described();
        let names = (all.publications.iter().map(|one| one.0))
            .chain(all.methods.iter().map(|one| one.0))
            .chain(all.collections.iter().map(|one| one.0));
        for name in names {
            assert!(docs.contains(&format!("`{name}`")), "docs/ddp.md does not name {name}");
        }
    }
}
