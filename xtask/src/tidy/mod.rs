//! `cargo xtask tidy`: the rules of the source that the compiler does not know.
//!
//! Flow: `tree` reads the project into memory; each rule is a function from it to violations.
//! A rule is tested on small trees planted in memory.

mod code;
mod floors;
mod imports;
mod lengths;
mod links;
mod text;
mod tree;
mod violation;

use std::path::Path;
use tree::Tree;
use violation::Violation;

fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    found.extend(tree.unparsed.iter().cloned());
    found.extend(imports::check(tree, &floors::RULES));
    found.extend(imports::check_crates(tree, floors::CRATES));
    found.extend(lengths::check(tree));
    found.extend(text::check(tree));
    found.extend(code::check(tree));
    found.extend(links::check(tree));
    found.sort_unstable();
    found
}

/// Checks the project and prints what it finds. True if that is nothing.
pub(crate) fn run(root: &Path) -> bool {
    let tree = match Tree::read(root) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: cannot read the project: {error}");
            return false;
        }
    };
    let found = check(&tree);
    for violation in &found {
        println!("{violation}");
    }
    println!("tidy: {} files, {} violations", tree.files.len(), found.len());
    found.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_project_is_tidy() {
        let found = check(&Tree::read(&crate::root()).expect("the project can be read"));
        let lines: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{}", lines.join("\n"));
    }
}
