//! `cargo xtask header`: the C headers, made of the Rust that they describe.
//!
//! Flow: the files of a face of `crates/capi` -> cbindgen -> `crates/capi/include`. A test fails
//! while a header is not what would be made.

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

const HEADERS: &[Header] = &[
    Header {
        path: "crates/capi/include/esker.h",
        sources: &[
            "native/error.rs",
            "native/store.rs",
            "native/data.rs",
            "native/batch.rs",
            "native/cursor.rs",
            "native/record.rs",
            "native/find.rs",
            "native/groups.rs",
            "native/upkeep.rs",
        ],
        guard: "ESKER_H_",
        head: ESKER_HEAD,
    },
    Header {
    path: "crates/capi/include/leveldb/c.h",
    sources: &[
        "leveldb/snapshot.rs",
        "leveldb/options.rs",
        "leveldb/policy.rs",
        "leveldb/batch.rs",
        "leveldb/db.rs",
        "leveldb/iterator.rs",
    ],
    guard: "ESKER_LEVELDB_C_H_",
    head: "\
/* LevelDB's C interface, version 1.23, on Esker. Made by `cargo xtask header`: change the Rust
   instead.

   Programs that were compiled with LevelDB's own header run on this library as they are; what
   differs stands in docs/c-api.md.

   Pointers to handles come from the functions that make them, and no pointer is NULL unless its
   function allows it. `errptr` leads to NULL, or to text that is freed when an error replaces it;
   where nothing fails it is left alone. Keys and values are bytes with a length. What is returned
   to be freed is freed with `leveldb_free`, or `free`. A database, a snapshot and options that
   nobody sets any more may be used by several threads at once, everything else by one at a time. */",
}];

const ESKER_HEAD: &str = "\
/* Esker, an embedded key-value store. Made by `cargo xtask header`: change the Rust instead.

   Functions that can fail return a code, which is ESKER_OK or says what to do next;
   esker_last_error has the text. After an error, what a result points to is NULL, 0 or false.
   Handles are opaque, come from the function that makes them and are closed by the function that is
   named for that, in any order. After esker_close whatever belongs to the database fails with
   ESKER_MISUSE, and still has to be closed. A handle that was closed, NULL, or of another kind is
   told with ESKER_MISUSE as well, as far as that can be seen; do not rely on it.

   Keys and values are any bytes, with a length. Text ends in a zero and is UTF-8, but for names and
   texts of fields that are given out, which have a length and no zero. What is to be freed is freed
   with esker_free, or free. Databases, keyspaces and snapshots may be used by several threads at
   once; every other handle by one at a time. A handle must not be closed while another thread uses
   it. No function unwinds, and none calls back. */";

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
        sys_includes: ["stdbool.h", "stddef.h", "stdint.h"].map(str::to_owned).to_vec(),
        no_includes: true,
        cpp_compat: true,
        usize_is_size_t: true,
        line_length: 120,
        documentation_style: DocumentationStyle::C,
        documentation_length: DocumentationLength::Full,
        ..Config::default()
    };
    // What no function names by its type.
    config.export.include = vec!["esker_field_type".to_owned()];
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
