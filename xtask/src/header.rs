//! `cargo xtask header`: the C headers, made of the Rust that they describe.
//!
//! Flow: the files of a face of `crates/capi` -> cbindgen -> `crates/capi/include`. A test fails while a header is not what
//! would be made.

use cbindgen::{Builder, Config, DocumentationLength, DocumentationStyle, Language, Style};
use std::path::Path;

/// A header: where it stands, what it is made of, and its head.
struct Header {
    path: &'static str,
    /// Below `crates/capi/src`.
    sources: &'static [&'static str],
    guard: &'static str,
    head: &'static str,
}

const HEADERS: &[Header] = &[Header {
    path: "crates/capi/include/leveldb/c.h",
    sources: &[
        "leveldb/options.rs",
        "leveldb/policy.rs",
        "leveldb/batch.rs",
        "leveldb/db.rs",
        "leveldb/iterator.rs",
    ],
    guard: "ESKER_LEVELDB_C_H_",
    head: "\
/* LevelDB's C interface, version 1.23, on Esker. Made by `cargo xtask header`: change the Rust instead.

   Programs that were compiled with LevelDB's own header run on this library as they are; what differs stands in
   docs/c-api.md.

   Pointers to handles come from the functions that make them, and no pointer is NULL unless its function allows it.
   `errptr` leads to NULL, or to text that is freed when an error replaces it; where nothing fails it is left alone.
   Keys and values are bytes with a length. What is returned to be freed is freed with `leveldb_free`, or `free`.
   A database and a snapshot may be used by several threads at once, everything else by one at a time. */",
}];

/// Writes all headers. True if that worked.
pub(crate) fn write(root: &Path) -> bool {
    HEADERS.iter().all(|header| {
        let written = make(root, header).and_then(|text| {
            std::fs::write(root.join(header.path), text).map_err(|e| e.to_string())
        });
        match &written {
            Ok(()) => println!("{}", header.path),
            Err(error) => eprintln!("{}: {error}", header.path),
        }
        written.is_ok()
    })
}

fn make(root: &Path, header: &Header) -> Result<Vec<u8>, String> {
    let mut config = Config {
        language: Language::C,
        style: Style::Type,
        header: Some(header.head.to_owned()),
        include_guard: Some(header.guard.to_owned()),
        sys_includes: vec!["stddef.h".to_owned(), "stdint.h".to_owned()],
        no_includes: true,
        cpp_compat: true,
        usize_is_size_t: true,
        line_length: 120,
        documentation_style: DocumentationStyle::C,
        documentation_length: DocumentationLength::Full,
        ..Config::default()
    };
    config.enumeration.prefix_with_name = false;
    let sources = header.sources.iter().map(|file| root.join("crates/capi/src").join(file));
    let builder = sources.fold(Builder::new().with_config(config), Builder::with_src);
    let mut text = Vec::new();
    builder.generate().map_err(|error| error.to_string())?.write(&mut text);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_what_would_be_made() {
        let root = crate::root();
        for header in HEADERS {
            let made = String::from_utf8(make(&root, header).expect("made")).expect("text");
            let stands = std::fs::read_to_string(root.join(header.path)).unwrap_or_default();
            assert!(stands == made, "{} is not up to date: run `cargo xtask header`", header.path);
        }
    }
}
