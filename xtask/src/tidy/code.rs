//! Rules on code: ignored tests give a reason, nothing is left to do, nothing is commented out.

use super::tree::{File, Tree};
use super::violation::Violation;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::str::FromStr;
use syn::spanned::Spanned;
use syn::visit::Visit;

struct Finder {
    /// Line, what, and how to mend it.
    found: Vec<(usize, &'static str, &'static str)>,
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if matches!(&attribute.meta, syn::Meta::Path(path) if path.is_ident("ignore")) {
            self.found.push((
                attribute.span().start().line,
                "test is ignored without a reason",
                "write `#[ignore = \"why\"]`",
            ));
        }
        syn::visit::visit_attribute(self, attribute);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        if item.path.segments.last().is_some_and(|last| last.ident == "todo") {
            self.found.push((
                item.path.span().start().line,
                "something is left to do",
                "do it, or return an error that says it is not there",
            ));
        }
        syn::visit::visit_macro(self, item);
    }
}

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (file, rust) in tree.rust() {
        let mut finder = Finder { found: Vec::new() };
        finder.visit_file(rust);
        finder.found.extend(
            commented_out(file)
                .into_iter()
                .map(|line| (line, "code is commented out", "remove it; the history remembers")),
        );
        violations.extend(
            finder
                .found
                .into_iter()
                .map(|(line, what, mend)| Violation::new(&file.path, line, what, mend)),
        );
    }
    violations
}

/// First lines of runs of `//` comments that are code: they end like code and they parse.
fn commented_out(file: &File) -> Vec<usize> {
    let inside_literals = literal_lines(&file.text);
    let mut found = Vec::new();
    let mut run: Vec<&str> = Vec::new();
    let mut start = 0;
    for (i, line) in file.text.lines().chain([""]).enumerate() {
        let comment = line.trim_start().strip_prefix("//");
        match comment {
            Some(text) if !text.starts_with(['/', '!']) && !inside_literals.contains(&(i + 1)) => {
                if run.is_empty() {
                    start = i + 1;
                }
                run.push(text.trim());
            }
            _ => {
                if is_code(&run) {
                    found.push(start);
                }
                run.clear();
            }
        }
    }
    found
}

fn is_code(run: &[&str]) -> bool {
    if !run.iter().any(|line| line.ends_with([';', '{', '}'])) {
        return false;
    }
    // Code may follow prose, or the other way round: any tail or head of the run counts.
    (0..run.len()).any(|at| parses(&run[at..]) || parses(&run[..=at]))
}

fn parses(lines: &[&str]) -> bool {
    let text = lines.join("\n");
    if !text.trim_end().ends_with([';', '}']) || !text.contains(['(', '=', '{', ':']) {
        return false;
    }
    syn::parse_str::<syn::File>(&text).is_ok()
        || syn::parse_str::<syn::Block>(&format!("{{{text}\n}}")).is_ok()
}

/// Lines on which a literal of several lines goes on: `//` there is no comment.
fn literal_lines(text: &str) -> BTreeSet<usize> {
    let mut lines = BTreeSet::new();
    if let Ok(tokens) = TokenStream::from_str(text) {
        let mut open = vec![tokens];
        while let Some(tokens) = open.pop() {
            for token in tokens {
                match token {
                    TokenTree::Group(group) => open.push(group.stream()),
                    TokenTree::Literal(literal) => {
                        let span = literal.span();
                        lines.extend(span.start().line + 1..=span.end().line);
                    }
                    TokenTree::Ident(_) | TokenTree::Punct(_) => {}
                }
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        check(&Tree::planted(&[("a.rs", text)]))
            .iter()
            .map(|v| format!("{} {}", v.line, v.what))
            .collect()
    }

    #[test]
    fn reasons_are_asked_for() {
        assert_eq!(found("#[test]\n#[ignore = \"slow\"]\nfn t() {}\n"), [""; 0]);
        assert_eq!(
            found("mod m {\n#[test]\n#[ignore]\nfn t() {}\n}\n"),
            ["3 test is ignored without a reason"]
        );
    }

    #[test]
    fn nothing_is_left_to_do() {
        assert_eq!(found("fn f() {\n    todo!()\n}\n"), ["2 something is left to do"]);
        assert_eq!(found("fn f() { let todo = 1; }\n"), [""; 0]);
    }

    #[test]
    fn commented_out_code_is_told_from_prose() {
        for code in [
            "// let x = f(1);\n",
            "// if a {\n//     b();\n// }\n",
            "// fn old() {}\n",
            "// Kept for later:\n// self.len = 0;\n",
        ] {
            assert_eq!(found(&format!("fn f() {{\n{code}}}\n")).len(), 1, "{code}");
        }
        for prose in [
            "// Takes the lock; then waits (see `f`).\n",
            "// a[shared] < b[shared]: cut after it;\n// the rest is {as it was};\n",
            "/// let x = f(1);\n",
            "//! let x = f(1);\n",
            "// SAFETY: the range is allocated.\n",
        ] {
            assert_eq!(found(&format!("{prose}fn f() {{}}\n")), [""; 0], "{prose}");
        }
        assert_eq!(found("const T: &str = \"\n// let x = f(1);\n\";\n"), [""; 0]);
    }
}
