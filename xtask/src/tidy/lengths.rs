//! Files and functions stay short enough to be read: a limit, and a ratchet for what is longer.
//!
//! `xtask/ratchet.txt` lists the exceptions with their sizes, which may only shrink. A line is
//! `<lines> <file>` or `<lines> <file> <function>`. Tests do not count.

use super::tree::{File, Tree, attributes, is_test_only, visit_product};
use super::violation::Violation;
use std::collections::BTreeMap;
use syn::spanned::Spanned;
use syn::visit::Visit;

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

/// Where the exceptions stand.
const RATCHET: &str = "xtask/ratchet.txt";

/// File, and function if it is one's length. Functions of one name in one file share the longest.
type Subject = (String, Option<String>);

struct Functions {
    found: Vec<(String, usize, usize)>,
}

impl Functions {
    fn meet(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let start = signature.span().start().line;
        let lines = block.span().end().line + 1 - start;
        self.found.push((signature.ident.to_string(), start, lines));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test_only(&item.attrs) {
            self.meet(&item.sig, &item.block);
            syn::visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.meet(&item.sig, &item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.meet(&item.sig, block);
        }
        syn::visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_only(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }
}

/// Lines of a file that are not only for tests.
fn lines_without_tests(file: &File, rust: &syn::File) -> usize {
    let tests: usize = rust
        .items
        .iter()
        .filter(|item| is_test_only(attributes(item)))
        .map(|item| item.span().end().line + 1 - item.span().start().line)
        .sum();
    file.text.lines().count() - tests
}

/// Everything longer than its limit: line and length.
fn too_long(tree: &Tree) -> BTreeMap<Subject, (usize, usize)> {
    let mut found = BTreeMap::new();
    for (file, rust) in tree.rust().filter(|(file, _)| !file.is_test) {
        let lines = lines_without_tests(file, rust);
        if lines > FILE_LINES_MAX {
            found.insert((file.path.clone(), None), (1, lines));
        }
        let mut functions = Functions { found: Vec::new() };
        visit_product(rust, &mut functions);
        for (name, line, lines) in functions.found {
            if lines > FUNCTION_LINES_MAX {
                let worst = found.entry((file.path.clone(), Some(name))).or_insert((line, lines));
                *worst = if lines > worst.1 { (line, lines) } else { *worst };
            }
        }
    }
    found
}

/// The listed exceptions: line in the ratchet and length.
fn listed(tree: &Tree) -> BTreeMap<Subject, (usize, usize)> {
    let text = tree.files.iter().find(|f| f.path == RATCHET).map_or("", |f| f.text.as_str());
    let mut listed = BTreeMap::new();
    for (i, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [lines, file, rest @ ..] = words.as_slice()
            && let Ok(lines) = lines.parse()
        {
            let function = rest.first().map(|name| (*name).to_owned());
            listed.insert(((*file).to_owned(), function), (i + 1, lines));
        }
    }
    listed
}

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let (long, listed) = (too_long(tree), listed(tree));
    for (subject, (line, lines)) in &long {
        let (what, max) = match &subject.1 {
            None => ("file".to_owned(), FILE_LINES_MAX),
            Some(name) => (format!("function {name}"), FUNCTION_LINES_MAX),
        };
        match listed.get(subject) {
            Some((_, allowed)) if lines == allowed => {}
            Some((_, allowed)) if lines > allowed => violations.push(Violation::new(
                &subject.0,
                *line,
                format!("{what} grew from {allowed} to {lines} lines"),
                "an exception may only shrink: take something out",
            )),
            Some((at, allowed)) => violations.push(Violation::new(
                RATCHET,
                *at,
                format!("{what} of {} shrank from {allowed} to {lines} lines", subject.0),
                format!("write {lines} here"),
            )),
            None => violations.push(Violation::new(
                &subject.0,
                *line,
                format!("{what} has {lines} lines without tests, more than {max}"),
                "divide it",
            )),
        }
    }
    for (subject, (at, _)) in listed.iter().filter(|(subject, _)| !long.contains_key(subject)) {
        violations.push(Violation::new(
            RATCHET,
            *at,
            format!("{} is within its limit", subject.1.as_ref().unwrap_or(&subject.0)),
            "remove this line",
        ));
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::planted(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn long_functions_and_files_are_found_and_tests_do_not_count() {
        let body = "    drop(1);\n".repeat(69);
        let fits = format!("fn f() {{\n{}}}\n", "    drop(1);\n".repeat(68));
        let long = format!("impl X {{\nfn f() {{\n{body}}}\n}}\n");
        let tested = format!("#[cfg(test)]\nmod tests {{\nfn f() {{\n{}}}\n}}\n", body.repeat(10));
        assert_eq!(found(&[("a.rs", &(fits.clone() + &tested)), ("x/tests/a.rs", &long)]), [""; 0]);
        assert_eq!(
            found(&[("a.rs", &long)]),
            ["a.rs:2: function f has 71 lines without tests, more than 70: divide it"]
        );
        assert_eq!(
            found(&[("a.rs", &("fn f() {}\n".repeat(601) + &tested))]),
            ["a.rs:1: file has 601 lines without tests, more than 600: divide it"]
        );
    }

    #[test]
    fn only_what_asks_for_tests_is_one() {
        let long = |cfg: &str| {
            let text = format!("#[cfg({cfg})]\nmod m {{\n{}}}\n", "fn f() {}\n".repeat(600));
            !found(&[("a.rs", &text)]).is_empty()
        };
        for cfg in ["test", "all(unix, test)", "all(test, not(any(a, b)))", "all(all(test), a)"] {
            assert!(!long(cfg), "{cfg}");
        }
        for cfg in ["unix", "not(test)", "any(test, a)", "all(a, any(test, b))", "all(not(test))"] {
            assert!(long(cfg), "{cfg}");
        }
    }

    #[test]
    fn the_ratchet_only_shrinks() {
        let long = format!("fn f() {{\n{}}}\n", "    drop(1);\n".repeat(78));
        let with = |ratchet| found(&[("a.rs", long.as_str()), (RATCHET, ratchet)]);
        assert_eq!(with("80 a.rs f\n"), [""; 0]);
        assert!(with("79 a.rs f\n")[0].contains("grew from 79 to 80"));
        assert!(with("90 a.rs f\n")[0].contains("shrank from 90 to 80"));
        assert!(with("80 a.rs f\n700 a.rs\n")[0].contains("ratchet.txt:2: a.rs is within"));
    }
}
