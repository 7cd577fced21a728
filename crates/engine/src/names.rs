//! Names of the files in a database directory.
//!
//! ```text
//! CURRENT            which manifest is in force
//! CURRENT.tmp        the next CURRENT while it is written
//! LOCK               held while the database is open
//! MANIFEST-000005    log of version edits
//! 000007.wal         write-ahead log, and what is left of one for the sake of its values
//! 000008.val         values
//! 000009.tbl         table
//! lost/              what repair could not use
//! ```

use esker_base::key::SEQ_MAX;
use esker_base::{Error, KeyspaceId, Result};
use std::path::{Path, PathBuf};

/// The longest name of a keyspace.
const KEYSPACE_BYTES_MAX: usize = 255;

/// Begins the name of a keyspace that holds an index, and parts its words. No user can give such a
/// name.
const INDEX_MARK: char = '\u{1f}';

/// What a file in the directory is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// Which manifest is in force.
    Current,
    /// The lock.
    Lock,
    /// A log of version edits.
    Manifest(u64),
    /// A write-ahead log.
    Wal(u64),
    /// A table.
    Table(u64),
    /// A file of values alone.
    Values(u64),
    /// A `CURRENT` that was being written when the process ended.
    Temporary,
}

/// Path of `CURRENT`.
pub fn current(dir: &Path) -> PathBuf {
    dir.join("CURRENT")
}

/// Path of what becomes `CURRENT` when it is whole: see [`esker_base::vfs::write_atomic`].
pub fn temporary(dir: &Path) -> PathBuf {
    current(dir).with_extension("tmp")
}

/// Path of the lock.
pub fn lock(dir: &Path) -> PathBuf {
    dir.join("LOCK")
}

/// Path of a manifest.
pub fn manifest(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("MANIFEST-{number:06}"))
}

/// Path of a write-ahead log.
pub fn wal(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.wal"))
}

/// Path of a file of values.
pub fn values(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.val"))
}

/// Path of a table.
pub fn table(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.tbl"))
}

/// Checks the name of a keyspace that is to be created.
///
/// # Errors
/// `InvalidArgument`: says what a name may be.
pub fn check_keyspace(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > KEYSPACE_BYTES_MAX || name.chars().any(char::is_control) {
        return Err(Error::invalid(
            "a keyspace's name has 1 to 255 bytes and no control characters",
        ));
    }
    Ok(())
}

/// Name of the keyspace that holds the index of a field of the keyspace `of`.
pub fn index(of: KeyspaceId, field: &str) -> String {
    format!("{INDEX_MARK}index{INDEX_MARK}{}{INDEX_MARK}{field}", of.0)
}

/// True if this is the name of a keyspace that holds an index, or could become one.
pub fn is_index(name: &str) -> bool {
    name.starts_with(INDEX_MARK)
}

/// Fails for the name of an index.
///
/// # Errors
/// `InvalidArgument`: says how indexes are reached.
pub fn check_no_index(name: &str) -> Result<()> {
    if is_index(name) {
        return Err(Error::invalid(format!(
            "the name {name:?} is kept for indexes, which are reached through the keyspace they are of"
        )));
    }
    Ok(())
}

/// The keyspace that is indexed and the field, if this is the name of an index.
pub fn parse_index(name: &str) -> Option<(KeyspaceId, &str)> {
    let words = name.strip_prefix(INDEX_MARK)?.strip_prefix("index")?.strip_prefix(INDEX_MARK)?;
    let (of, field) = words.split_once(INDEX_MARK)?;
    Some((KeyspaceId(of.parse().ok()?), field))
}

/// No file of ours has a number from here on.
const NUMBERS_END: u64 = SEQ_MAX >> 4;

/// The kind of a file, or `None` if the name is not one of ours.
pub fn parse(name: &str) -> Option<FileKind> {
    match name {
        "CURRENT" => return Some(FileKind::Current),
        "LOCK" => return Some(FileKind::Lock),
        "CURRENT.tmp" => return Some(FileKind::Temporary),
        _ => {}
    }
    if let Some(number) = name.strip_prefix("MANIFEST-") {
        return parse_number(number).map(FileKind::Manifest);
    }
    let (stem, extension) = name.rsplit_once('.')?;
    match extension {
        "wal" => parse_number(stem).map(FileKind::Wal),
        "tbl" => parse_number(stem).map(FileKind::Table),
        "val" => parse_number(stem).map(FileKind::Values),
        _ => None,
    }
}

fn parse_number(digits: &str) -> Option<u64> {
    // As they are written, so that no two names are one file's.
    let is_padded = digits.len() > 6 && digits.starts_with('0');
    let plain = digits.len() >= 6 && !is_padded && digits.bytes().all(|b| b.is_ascii_digit());
    let number = plain.then(|| digits.parse().ok()).flatten()?;
    // No store comes so far, and what follows such a number would be none of a file.
    (number < NUMBERS_END).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_indexes_parse_back_and_nobody_can_give_them() {
        for field in ["price", "\u{1f}", "", "a\u{1f}b"] {
            let name = index(KeyspaceId(70_000), field);
            assert!(is_index(&name) && check_keyspace(&name).is_err());
            assert_eq!(parse_index(&name), Some((KeyspaceId(70_000), field)));
        }
        for other in ["", "index", "\u{1f}index", "\u{1f}index\u{1f}x\u{1f}f", "7"] {
            assert_eq!(parse_index(other), None, "{other:?}");
        }
    }

    #[test]
    fn names_parse_back() {
        let dir = Path::new("d");
        for (path, kind) in [
            (current(dir), FileKind::Current),
            (lock(dir), FileKind::Lock),
            (temporary(dir), FileKind::Temporary),
            (manifest(dir, 5), FileKind::Manifest(5)),
            (wal(dir, 1_234_567), FileKind::Wal(1_234_567)),
            (table(dir, 9), FileKind::Table(9)),
        ] {
            let name = path.file_name().and_then(|n| n.to_str()).expect("name");
            assert_eq!(parse(name), Some(kind));
        }
        for foreign in [
            "",
            "x",
            "1.wal",
            "00000a.tbl",
            "-00001.wal",
            "LOCK2",
            "notes.txt",
            "notes.tmp",
            "000007.tmp",
            ".CURRENT.tmp",
            "18446744073709551615.wal",
            // What follows it could not be a file's.
            "72057594037927935.tbl",
        ] {
            assert_eq!(parse(foreign), None, "{foreign}");
        }
    }
}
