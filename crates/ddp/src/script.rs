//! The types of Weir's collections, publications and methods in TypeScript.

use crate::table;

/// The file `types/ddp.ts`: `cargo xtask ddp-types` writes it, a test compares it.
pub fn typescript() -> String {
    let table = table();
    let all = table.described();
    let mut out = String::from(
        "// Made by `cargo xtask ddp-types` from crates/ddp; a test keeps it true.\n\
         // Ids are texts of decimal digits, newest last; dates are EJSON dates.\n\n",
    );
    for (_, text) in &all.interfaces {
        out.push_str(text);
        out.push('\n');
    }
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
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_in_git_are_those_of_the_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../types/ddp.ts");
        if std::env::var_os("WEIR_TEST_UPDATE").is_some() {
            std::fs::write(path, typescript()).unwrap();
        }
        let known = std::fs::read_to_string(path).unwrap_or_default();
        assert!(known == typescript(), "types/ddp.ts is old: run `cargo xtask ddp-types`");
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
