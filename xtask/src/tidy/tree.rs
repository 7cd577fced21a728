//! The project in memory: every text file, and every Rust file parsed.

use super::violation::Violation;
use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};
use syn::punctuated::Punctuated;
use syn::visit::Visit;

/// Longest file that is taken for text.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// A text file of the project.
pub(super) struct File {
    /// Relative to the project, with `/`.
    pub(super) path: String,
    pub(super) text: String,
    /// For `.rs` files that parse.
    pub(super) rust: Option<syn::File>,
    /// Rust that is only compiled for tests.
    pub(super) is_test: bool,
}

#[derive(Default)]
pub(super) struct Tree {
    pub(super) files: Vec<File>,
    /// Files that are no text: for links.
    others: BTreeSet<String>,
    pub(super) unparsed: Vec<Violation>,
}

impl Tree {
    pub(super) fn read(root: &Path) -> io::Result<Tree> {
        let mut tree = Tree::default();
        tree.read_dir(root, "")?;
        tree.mark_tests();
        Ok(tree)
    }

    /// A tree of these files, for tests of rules.
    #[cfg(test)]
    pub(super) fn planted(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.add(path, (*text).to_owned());
        }
        tree.mark_tests();
        tree
    }

    /// True if a file or directory of this name is in the project.
    pub(super) fn exists(&self, path: &str) -> bool {
        let below = format!("{}/", path.trim_end_matches('/'));
        let mut paths = self.files.iter().map(|f| &f.path).chain(&self.others);
        path.is_empty() || paths.any(|p| p == path || p.starts_with(&below))
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = (&File, &syn::File)> {
        self.files.iter().filter_map(|f| f.rust.as_ref().map(|rust| (f, rust)))
    }

    fn read_dir(&mut self, root: &Path, below: &str) -> io::Result<()> {
        let mut entries: Vec<fs::DirEntry> =
            fs::read_dir(root.join(below))?.collect::<io::Result<_>>()?;
        entries.sort_unstable_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            let kind = entry.file_type()?;
            if kind.is_dir() {
                if name != ".git" && name != "__pycache__" && !name.starts_with("target") {
                    self.read_dir(root, &path)?;
                }
            } else if kind.is_file() && name != ".git" {
                let text = if entry.metadata()?.len() <= FILE_BYTES_MAX {
                    String::from_utf8(fs::read(entry.path())?).ok()
                } else {
                    None
                };
                match text {
                    Some(text) => self.add(&path, text),
                    None => {
                        self.others.insert(path);
                    }
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, path: &str, text: String) {
        let mut rust = None;
        if path.ends_with(".rs") {
            match syn::parse_file(&text) {
                Ok(parsed) => rust = Some(parsed),
                Err(error) => self.unparsed.push(Violation::new(
                    path,
                    error.span().start().line,
                    format!("does not parse ({error})"),
                    "write Rust that compiles",
                )),
            }
        }
        self.files.push(File { path: path.to_owned(), text, rust, is_test: false });
    }

    /// Marks `tests/` and `benches/` of a crate, and what is declared as `#[cfg(test)] mod name;`.
    fn mark_tests(&mut self) {
        let mut tests: BTreeSet<String> = BTreeSet::new();
        for (file, rust) in self.rust() {
            let dir = children_dir(&file.path);
            for item in &rust.items {
                if let syn::Item::Mod(module) = item
                    && module.content.is_none()
                    && is_test_only(&module.attrs)
                {
                    tests.insert(format!("{dir}/{}", module.ident));
                }
            }
        }
        for file in &mut self.files {
            file.is_test = file.path.contains("/tests/")
                || file.path.contains("/benches/")
                || tests.iter().any(|module| {
                    let rest = file.path.strip_prefix(module.as_str());
                    rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
                });
        }
    }
}

/// Where the files of a file's child modules stand.
pub(super) fn children_dir(path: &str) -> String {
    let stem = path.trim_end_matches(".rs");
    let (dir, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    match name {
        "mod" | "lib" | "main" => dir.to_owned(),
        _ => stem.to_owned(),
    }
}

/// True if the attributes say `#[cfg(test)]` (or `cfg(all(…, test, …))`) or `#[test]`.
pub(super) fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<syn::Meta>().is_ok_and(|meta| asks_for_test(&meta))
        }
        _ => false,
    })
}

/// True of `test`, and of `all(...)` with such a part.
fn asks_for_test(predicate: &syn::Meta) -> bool {
    match predicate {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => list
            .parse_args_with(Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated)
            .is_ok_and(|parts| parts.iter().any(asks_for_test)),
        _ => false,
    }
}

/// The attributes of an item, whatever it is.
pub(super) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(i) => &i.attrs,
        syn::Item::Enum(i) => &i.attrs,
        syn::Item::Fn(i) => &i.attrs,
        syn::Item::Impl(i) => &i.attrs,
        syn::Item::Macro(i) => &i.attrs,
        syn::Item::Mod(i) => &i.attrs,
        syn::Item::Static(i) => &i.attrs,
        syn::Item::Struct(i) => &i.attrs,
        syn::Item::Trait(i) => &i.attrs,
        syn::Item::Type(i) => &i.attrs,
        syn::Item::Use(i) => &i.attrs,
        _ => &[],
    }
}

/// Visits the items of a file that are not only for tests.
pub(super) fn visit_product<'a>(rust: &'a syn::File, visitor: &mut impl Visit<'a>) {
    for item in &rust.items {
        if !is_test_only(attributes(item)) {
            visitor.visit_item(item);
        }
    }
}
