//! Rules on the text itself: file heads, prose that is not too wide, and no trace of the machine
//! it was written on.

use super::tree::{File, Tree};
use super::violation::Violation;

/// Directories of somebody's machine, without their slashes (this file is checked too).
const MACHINE_DIRS: [&str; 3] = ["root", "work", "home"];

/// As wide as code, which the formatter sees to.
const PROSE_COLUMNS_MAX: usize = 100;

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
        violations.extend(wide_prose(file).into_iter().map(|line| {
            let what = format!("prose has more than {PROSE_COLUMNS_MAX} columns");
            Violation::new(&file.path, line, what, "wrap it")
        }));
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

/// Lines of prose that are too wide: of pages, and those of code that are nothing but a comment.
/// Drawings, tables, headings and what cannot be wrapped may be.
fn wide_prose(file: &File) -> Vec<usize> {
    let is_page = file.path.ends_with(".md");
    let mut wide = Vec::new();
    let mut is_fenced = false;
    for (i, line) in file.text.lines().enumerate().filter(|_| is_page || file.rust.is_some()) {
        let prose = line.trim_start();
        let prose = if is_page { Some(prose) } else { prose.strip_prefix("//") };
        let Some(prose) = prose else {
            is_fenced = false;
            continue;
        };
        let prose = prose.trim_start_matches(['/', '!']).trim_start();
        is_fenced ^= prose.starts_with("```");
        let may_be = is_fenced || prose.starts_with(['|', '#']) || !prose.contains(' ');
        if line.chars().count() > PROSE_COLUMNS_MAX && !may_be {
            wide.push(i + 1);
        }
    }
    wide
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

    #[test]
    fn wide_prose_is_found() {
        let (words, word) = ("word ".repeat(20), "word".repeat(25));
        let fits = "w ".repeat(48) + "x";
        let code = format!(
            "//! Head.\n//! {words}\n//! {word}\n//! | {words}\nfn f() {{}}\n\
             // ```text\n// {words}\n// ```\n    /// {words}\n// {words}\n\
             // ```\nconst C: &str = \"{words}\";\n// {words}\n// {fits}\n"
        );
        let page = format!(
            "# {words}\n\n{words}.\n{fits}xxx\n{fits}xxxx\n- {words}\n| {words} |\n\
             ```sh\n{words}\n```\n[{word}](x)\n"
        );
        let tree = Tree::planted(&[("a.rs", &code), ("b.md", &page), ("c.txt", &page)]);
        let found: Vec<String> =
            check(&tree).iter().map(|v| format!("{}:{}", v.file, v.line)).collect();
        let wanted = ["a.rs:2", "a.rs:9", "a.rs:10", "a.rs:13", "b.md:3", "b.md:5", "b.md:6"];
        assert_eq!(found, wanted);
    }
}
