//! Imports go downwards: between crates, between the floors of the engine, and never in a circle.
//!
//! Paths that begin with `crate`, `self` or `super` are resolved to files, in `use` items, in code
//! and inside macro calls. `use` of a child by its bare name counts too. A re-export of a child
//! (`pub use`) is no import: it does not make the parent need the child. Tests may import anything.

use super::floors::{CrateFloor, Rules};
use super::tree::{File, Tree, is_test_only, visit_product};
use super::violation::Violation;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::Visit;

/// An import of another file of the same crate.
#[derive(Clone, Debug)]
struct Import {
    from: String,
    line: usize,
    to: String,
    reexport: bool,
}

/// Module path of a file below `src`: `db/mod.rs` and `db.rs` are both `db`.
fn module_of(file_below_src: &str) -> &str {
    let module = file_below_src.trim_end_matches(".rs");
    module.strip_suffix("/mod").unwrap_or(module)
}

/// The `src` directory a file belongs to, and the file's path below it.
fn split_src(path: &str) -> Option<(&str, &str)> {
    let at = path.find("/src/")?;
    Some((&path[..at + 4], &path[at + 5..]))
}

struct Collector<'a> {
    modules: &'a BTreeSet<String>,
    /// Where the visitor stands: module path of the file and the inline modules inside it.
    here: Vec<String>,
    file_module: String,
    reexport: bool,
    found: Vec<(usize, String, bool)>,
}

impl Collector<'_> {
    /// Resolves a path to the file's module it leads into.
    fn meet(&mut self, line: usize, segments: &[String]) {
        let mut rest = segments;
        let mut at = match rest.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("self" | "super") => self.here.clone(),
            // A bare name may be a child module; anything else is another crate or in scope.
            Some(first) if self.is_module_below(&self.here, first) => self.here.clone(),
            _ => return,
        };
        while let Some(first) = rest.first() {
            match first.as_str() {
                "crate" | "self" => {}
                "super" => {
                    at.pop();
                }
                _ => break,
            }
            rest = &rest[1..];
        }
        for segment in rest {
            if !self.is_module_below(&at, segment) {
                break;
            }
            at.push(segment.clone());
        }
        // Inline modules belong to their file.
        while !at.is_empty() && !self.modules.contains(&at.join("/")) {
            at.pop();
        }
        let module = if at.is_empty() { "lib".to_owned() } else { at.join("/") };
        if module != self.file_module {
            self.found.push((line, module, self.reexport));
        }
    }

    fn is_module_below(&self, at: &[String], name: &str) -> bool {
        let mut path = at.to_vec();
        path.push(name.to_owned());
        self.modules.contains(&path.join("/"))
    }

    fn meet_use(&mut self, tree: &syn::UseTree, above: &[String]) {
        let with = |ident: &syn::Ident| {
            let mut path = above.to_vec();
            path.push(ident.to_string());
            path
        };
        match tree {
            syn::UseTree::Path(path) => self.meet_use(&path.tree, &with(&path.ident)),
            syn::UseTree::Name(name) => {
                self.meet(name.ident.span().start().line, &with(&name.ident));
            }
            syn::UseTree::Rename(rename) => {
                self.meet(rename.ident.span().start().line, &with(&rename.ident));
            }
            syn::UseTree::Glob(glob) => {
                self.meet(glob.star_token.spans[0].start().line, above);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.meet_use(tree, above);
                }
            }
        }
    }

    /// Finds paths in the tokens of a macro call, which are no syntax tree.
    fn meet_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let (mut line, mut colons) = (0, 0);
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 && !path.is_empty() {
                        self.meet_rooted(line, &std::mem::take(&mut path));
                    }
                    if path.is_empty() {
                        line = ident.span().start().line;
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.meet_rooted(line, &std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.meet_tokens(group.stream());
                    }
                }
            }
        }
        self.meet_rooted(line, &path);
    }

    /// As `meet`, but a bare name is none of ours: it may be any variable.
    fn meet_rooted(&mut self, line: usize, path: &[String]) {
        if path.len() > 1 && matches!(path[0].as_str(), "crate" | "self" | "super") {
            self.meet(line, path);
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.reexport = !matches!(item.vis, syn::Visibility::Inherited);
        self.meet_use(&item.tree, &[]);
        self.reexport = false;
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if is_test_only(&item.attrs) {
            return;
        }
        self.here.push(item.ident.to_string());
        syn::visit::visit_item_mod(self, item);
        self.here.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test_only(&item.attrs) {
            syn::visit::visit_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        if let Some(first) = path.segments.first()
            && segments.len() > 1
        {
            self.meet(first.ident.span().start().line, &segments);
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.meet_tokens(item.tokens.clone());
        syn::visit::visit_macro(self, item);
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

/// Imports between the files of each crate, by its `src` directory.
fn collect(tree: &Tree) -> BTreeMap<String, Vec<Import>> {
    let mut by_crate: BTreeMap<&str, Vec<(&File, &syn::File, &str)>> = BTreeMap::new();
    for (file, rust) in tree.rust() {
        if let Some((src, below)) = split_src(&file.path)
            && !file.is_test
        {
            by_crate.entry(src).or_default().push((file, rust, module_of(below)));
        }
    }
    let mut imports = BTreeMap::new();
    for (src, files) in by_crate {
        let modules: BTreeSet<String> =
            files.iter().map(|(_, _, module)| (*module).to_owned()).collect();
        let mut found = Vec::new();
        for (file, rust, module) in files {
            let is_root = module == "lib" || module == "main";
            let mut collector = Collector {
                modules: &modules,
                here: if is_root {
                    Vec::new()
                } else {
                    module.split('/').map(str::to_owned).collect()
                },
                file_module: if is_root { "lib".to_owned() } else { module.to_owned() },
                reexport: false,
                found: Vec::new(),
            };
            visit_product(rust, &mut collector);
            found.extend(collector.found.into_iter().map(|(line, to, reexport)| Import {
                from: file.path.clone(),
                line,
                to,
                reexport,
            }));
        }
        imports.insert(src.to_owned(), found);
    }
    imports
}

/// Floors of the engine, and circles in every crate.
pub(super) fn check(tree: &Tree, rules: &Rules) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (src, imports) in collect(tree) {
        if src == rules.floors_src {
            check_floors(tree, rules, &imports, &mut violations);
        }
        check_circles(&src, rules, &imports, &mut violations);
    }
    violations
}

/// The row of the table for a module: the longest one that it is, or lies in.
fn floor_of<'a>(rules: &'a Rules, module: &str) -> Option<(&'a str, u8)> {
    let covers = |name: &str| {
        module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    rules.floors.iter().copied().filter(|(name, _)| covers(name)).max_by_key(|(name, _)| name.len())
}

fn check_floors(tree: &Tree, rules: &Rules, imports: &[Import], violations: &mut Vec<Violation>) {
    for file in tree.files.iter().filter(|file| file.rust.is_some() && !file.is_test) {
        if let Some((src, below)) = split_src(&file.path)
            && src == rules.floors_src
            && floor_of(rules, module_of(below)).is_none()
        {
            violations.push(Violation::new(
                &file.path,
                1,
                format!("module {} has no floor", module_of(below)),
                "give it one in xtask/src/tidy/floors.rs and docs/architecture.md",
            ));
        }
    }
    for import in imports.iter().filter(|import| !(import.reexport && is_below(import))) {
        let from = split_src(&import.from).map_or("", |(_, below)| module_of(below));
        let (Some(from), Some(to)) = (floor_of(rules, from), floor_of(rules, &import.to)) else {
            continue;
        };
        if from.0 != to.0 && from.1 <= to.1 {
            violations.push(Violation::new(
                &import.from,
                import.line,
                format!("{} (floor {}) imports {} (floor {})", from.0, from.1, to.0, to.1),
                "import only lower floors: move what both need down, or pass it in",
            ));
        }
    }
}

/// True if the import is of a module inside the importing one.
fn is_below(import: &Import) -> bool {
    let from = split_src(&import.from).map_or("", |(_, below)| module_of(below));
    from == "lib" || import.to.starts_with(&format!("{from}/"))
}

fn check_circles(src: &str, rules: &Rules, imports: &[Import], violations: &mut Vec<Violation>) {
    let mut edges: BTreeMap<&str, BTreeMap<&str, &Import>> = BTreeMap::new();
    for import in imports.iter().filter(|import| !(import.reexport && is_below(import))) {
        let from = split_src(&import.from).map_or("", |(_, below)| module_of(below));
        let from = if from == "main" { "lib" } else { from };
        edges.entry(from).or_default().entry(&import.to).or_insert(import);
    }
    let excused = |a: &str, b: &str| {
        let (a, b) = (format!("{src}/{a}"), format!("{src}/{b}"));
        rules.cycles.iter().any(|(x, y, _)| (*x == a && *y == b) || (*x == b && *y == a))
    };
    for (from, targets) in &edges {
        for (to, import) in targets {
            if excused(from, to) {
                continue;
            }
            if let Some(back) = way(&edges, to, from) {
                violations.push(Violation::new(
                    &import.from,
                    import.line,
                    format!("imports in a circle: {from} -> {}", back.join(" -> ")),
                    "move what both need into a file of its own, or list the pair with a reason \
                     in xtask/src/tidy/floors.rs",
                ));
            }
        }
    }
}

/// A way along imports, both ends named.
fn way<'a>(
    edges: &BTreeMap<&'a str, BTreeMap<&'a str, &Import>>,
    from: &'a str,
    to: &'a str,
) -> Option<Vec<&'a str>> {
    let mut open = vec![vec![from]];
    let mut seen = BTreeSet::from([from]);
    while let Some(path) = open.pop() {
        let last = *path.last()?;
        if last == to {
            return Some(path);
        }
        for next in edges.get(last).into_iter().flat_map(|targets| targets.keys()) {
            if seen.insert(next) {
                let mut longer = path.clone();
                longer.push(next);
                open.push(longer);
            }
        }
    }
    None
}

/// Crates depend on lower crates only, in every table of dependencies.
pub(super) fn check_crates(tree: &Tree, crates: &[CrateFloor]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let dir = file.path.trim_end_matches("/Cargo.toml");
        let Some((_, name, floor)) = crates.iter().find(|row| row.0 == dir) else {
            violations.push(Violation::new(
                &file.path,
                1,
                "crate has no floor",
                "give it one in xtask/src/tidy/floors.rs",
            ));
            continue;
        };
        let mut in_dependencies = false;
        for (i, line) in file.text.lines().enumerate() {
            if let Some(table) = line.strip_prefix('[') {
                in_dependencies = table.contains("dependencies");
            }
            let key = line.split(['.', '=', ' ']).next().unwrap_or("");
            let needed = crates.iter().find(|row| row.1 == key);
            if let Some((_, needed, needed_floor)) = needed
                && in_dependencies
                && needed_floor >= floor
            {
                violations.push(Violation::new(
                    &file.path,
                    i + 1,
                    format!("{name} (floor {floor}) depends on {needed} (floor {needed_floor})"),
                    "depend only on lower crates",
                ));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        floors_src: "crates/engine/src",
        floors: &[
            ("lib", 9),
            ("db", 8),
            ("work", 6),
            ("work/plan", 5),
            ("table", 2),
            ("block", 1),
            ("log", 1),
        ],
        cycles: &[("crates/engine/src/db/x", "crates/engine/src/db/y", "they were born together")],
    };

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, &str)> =
            files.iter().map(|(f, t)| (format!("crates/engine/src/{f}"), *t)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(f, t)| (f.as_str(), *t)).collect();
        check(&Tree::planted(&files), &RULES)
            .iter()
            .map(|v| {
                format!("{}:{} {}", v.file.trim_start_matches("crates/engine/src/"), v.line, v.what)
            })
            .collect()
    }

    #[test]
    fn downward_imports_and_tests_pass() {
        let files = [
            ("lib.rs", "pub mod db; pub mod block; mod table; pub use db::Db; use table::T;"),
            ("db/mod.rs", "mod open; pub use open::Db; pub struct Shared;"),
            ("db/open.rs", "use super::Shared; use crate::table::{T, U as V}; pub struct Db;"),
            ("table.rs", "use crate::block; #[cfg(test)] mod tests { use crate::db::Db; }"),
            (
                "block.rs",
                "#[cfg(test)] mod tests; pub struct B; impl B { fn f(&self) -> B { self::B } }",
            ),
            ("block/tests.rs", "use crate::db::Db;"),
            ("work/mod.rs", "mod plan; fn f() { plan::g(); crate::work::plan::g() }"),
            ("work/plan.rs", "pub fn g() { std::mem::drop(1) }"),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn upward_and_sideways_imports_are_found_however_written() {
        for upward in [
            "\nuse crate::table::T;",
            "\nuse crate::{log::Log, table};",
            "\nuse super::table::T;",
            "\nfn f() -> crate::table::T { todo() }",
            "\nfn f() { vec![crate::table::T]; }",
            "\nmod inner { fn f(t: super::super::table::T) {} }",
            "\npub use crate::table::T;",
        ] {
            let files = [("log.rs", ""), ("table.rs", ""), ("block.rs", upward)];
            let found = found(&files);
            assert!(
                found.contains(&"block.rs:2 block (floor 1) imports table (floor 2)".to_owned()),
                "{upward}: {found:?}"
            );
        }
        let files = [("log.rs", ""), ("block.rs", "use crate::log::Log;")];
        assert_eq!(found(&files), ["block.rs:1 block (floor 1) imports log (floor 1)"]);
        let files = [("work/mod.rs", ""), ("work/plan.rs", "use super::Job;")];
        assert_eq!(found(&files), ["work/plan.rs:1 work/plan (floor 5) imports work (floor 6)"]);
    }

    #[test]
    fn a_module_without_a_floor_is_found() {
        assert_eq!(
            found(&[("attic/old.rs", "")]),
            ["attic/old.rs:1 module attic/old has no floor"]
        );
    }

    #[test]
    fn circles_are_found_unless_listed() {
        let circle = [
            ("db/mod.rs", "use a::A;"),
            ("db/a.rs", "use super::b::B;"),
            ("db/b.rs", "\nuse super::Shared;"),
            ("db/x.rs", "use super::y::Y;"),
            ("db/y.rs", "use crate::db::x::X;"),
        ];
        assert_eq!(
            found(&circle),
            [
                "db/mod.rs:1 imports in a circle: db -> db/a -> db/b -> db",
                "db/a.rs:1 imports in a circle: db/a -> db/b -> db -> db/a",
                "db/b.rs:2 imports in a circle: db/b -> db -> db/a -> db/b",
            ]
        );
    }

    #[test]
    fn crates_depend_downwards() {
        let crates: &[CrateFloor] = &[("crates/low", "low", 0), ("crates/high", "high", 1)];
        let tree = Tree::planted(&[
            (
                "crates/low/Cargo.toml",
                "[package]\nname = \"low\"\n[dev-dependencies]\nhigh.workspace = true\n",
            ),
            ("crates/high/Cargo.toml", "[dependencies]\nlow = { path = \"../low\" }\n"),
            ("crates/new/Cargo.toml", "[package]\n"),
        ]);
        let found: Vec<String> = check_crates(&tree, crates)
            .iter()
            .map(|v| format!("{}:{} {}", v.file, v.line, v.what))
            .collect();
        assert_eq!(
            found,
            [
                "crates/low/Cargo.toml:4 low (floor 0) depends on high (floor 1)",
                "crates/new/Cargo.toml:1 crate has no floor",
            ]
        );
    }
}
