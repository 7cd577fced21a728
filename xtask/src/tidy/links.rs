//! Documents exist: links between them resolve, and so do mentions of them in code.

use super::tree::{File, Tree, attributes, is_test_only};
use super::violation::Violation;
use std::ops::RangeInclusive;
use syn::spanned::Spanned;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in &tree.files {
        let is_markdown = file.path.ends_with(".md");
        let mut fenced = false;
        let tests = test_lines(file);
        for (i, line) in file.text.lines().enumerate() {
            let targets: Vec<(String, String)> = if is_markdown {
                if line.trim_start().starts_with("```") {
                    fenced = !fenced;
                }
                if fenced { Vec::new() } else { links(&file.path, line) }
            } else if file.rust.is_some() && !tests.iter().any(|lines| lines.contains(&(i + 1))) {
                mentions(line).into_iter().map(|target| (target.clone(), target)).collect()
            } else {
                Vec::new()
            };
            for (written, target) in targets {
                if !tree.exists(&target) {
                    violations.push(Violation::new(
                        &file.path,
                        i + 1,
                        format!("{written} does not exist"),
                        "write the document or mend the link",
                    ));
                }
            }
        }
    }
    violations
}

/// Lines of what is only for tests: they may name documents made up for a test.
fn test_lines(file: &File) -> Vec<RangeInclusive<usize>> {
    let items = file.rust.iter().flat_map(|rust| &rust.items);
    items
        .filter(|item| is_test_only(attributes(item)))
        .map(|item| item.span().start().line..=item.span().end().line)
        .collect()
}

/// Relative links of a line of markdown: as written, and from the root of the project.
fn links(file: &str, line: &str) -> Vec<(String, String)> {
    let dir = file.rsplit_once('/').map_or("", |(dir, _)| dir);
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next())
        .filter(|link| !link.contains("://") && !link.starts_with(['#', '<']))
        .filter(|link| !link.starts_with("mailto:"))
        .map(|link| {
            let path = link.split('#').next().unwrap_or(link);
            (link.to_owned(), joined(dir, path))
        })
        .collect()
}

fn joined(dir: &str, path: &str) -> String {
    let mut parts: Vec<&str> = dir.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Documents a line of code names, from the root of the project.
fn mentions(line: &str) -> Vec<String> {
    line.match_indices("docs/")
        .filter(|(at, _)| {
            line[..*at].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '/')
        })
        .filter_map(|(at, _)| {
            let end = line[at..]
                .find(|c: char| !c.is_alphanumeric() && !matches!(c, '/' | '.' | '_' | '-'))
                .map_or(line.len(), |n| at + n);
            let path = line[at..end].trim_end_matches('.');
            path.ends_with(".md").then(|| path.to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_documents_are_found() {
        let code = "//! Format: docs/format/wal.md and `docs/format/gone.md`.\n";
        let tree = Tree::planted(&[
            ("src/a.rs", code),
            (
                "docs/format/wal.md",
                "[up](../index.md#top) [dir](../format) [web](https://e.org/x)\n",
            ),
            (
                "docs/index.md",
                "# Top\n[here](#top) [gone](format/nothing.md)\n```\n[x](y.md)\n```\n",
            ),
        ]);
        let found: Vec<String> =
            check(&tree).iter().map(|v| format!("{}:{} {}", v.file, v.line, v.what)).collect();
        assert_eq!(
            found,
            [
                "src/a.rs:1 docs/format/gone.md does not exist",
                "docs/index.md:2 format/nothing.md does not exist"
            ]
        );
    }
}
