//! Rules on the text itself: file heads, and no trace of the machine it was written on.

use super::tree::Tree;
use super::violation::Violation;

/// Directories of somebody's machine, without their slashes (this file is checked too).
const MACHINE_DIRS: [&str; 3] = ["root", "work", "home"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &tree.files {
        if file.rust.is_some() && !file.text.starts_with("//!") {
            violations.push(Violation::new(
                &file.path,
                1,
                "has no head",
                "begin with `//!` and a line that says what the file is for",
            ));
        }
        for (i, line) in file.text.lines().enumerate() {
            for dir in MACHINE_DIRS {
                if names_absolute(line, dir) {
                    violations.push(Violation::new(
                        &file.path,
                        i + 1,
                        format!("names the directory /{dir} of a machine"),
                        "use a relative path",
                    ));
                }
            }
        }
    }
    violations
}

/// True if the line holds `/dir/` that does not go on a longer path.
fn names_absolute(line: &str, dir: &str) -> bool {
    let needle = format!("/{dir}/");
    line.match_indices(&needle).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '_' | '-' | '.' | '}' | ')'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_machine_paths_are_found() {
        let leak = format!("see \"/{}/me/x\"\nand docs/{}/y, a/./{}/z\n", "home", "work", "root");
        let tree = Tree::planted(&[
            ("a.rs", "//! Head.\nfn f() {}\n"),
            ("b.rs", "// Not a head.\nfn f() {}\n"),
            ("docs/c.md", &leak),
        ]);
        let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("b.rs:1: has no head"));
        assert!(found[1].starts_with("docs/c.md:1: names the directory"));
    }
}
