//! What the store should hold: a walk of the file system that shares no step with the one that
//! loaded.

use crate::failure::{Failure, Result};
use crate::load::{Values, describe};
use esker::fields::Record;
use esker::{Db, ScanOptions};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Keys and values that the store should hold.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) records: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The keys in order, to choose from.
    pub(super) keys: Vec<Vec<u8>>,
    /// Files that changed while we looked are no failures.
    since_unix_seconds: u64,
}

/// What is overwritten holds this, without the field that is indexed.
pub(super) fn overwritten() -> Result<Vec<u8>> {
    Ok(Record::new().with("kind", "overwritten").encode()?)
}

/// How a scan differs from what was expected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Keys whose records differ.
    pub(super) keys: Vec<Vec<u8>>,
    /// Records compared.
    pub(super) compared: u64,
}

impl Expected {
    /// Walks a tree of files, depth first, directory by directory.
    pub(super) fn walk(root: &Path, since_unix_seconds: u64) -> Result<Expected> {
        let fail = |error: io::Error| Failure::io("read", root, &error);
        let device = fs::metadata(root).map_err(fail)?.dev();
        let mut records = BTreeMap::new();
        let mut open: Vec<PathBuf> = vec![root.to_path_buf()];
        while let Some(dir) = open.pop() {
            // Unreadable ones were left out when loading too.
            let Ok(entries) = fs::read_dir(&dir) else { continue };
            for entry in entries.flatten() {
                let path = entry.path();
                let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
                let Ok(value) = describe(&path, &metadata, Values::Fields) else { continue };
                if metadata.is_dir() && metadata.dev() == device {
                    open.push(path.clone());
                }
                records.insert(path.into_os_string().into_encoded_bytes(), value);
            }
        }
        Ok(Expected::new(records, since_unix_seconds))
    }

    pub(super) fn new(records: BTreeMap<Vec<u8>, Vec<u8>>, since_unix_seconds: u64) -> Expected {
        let keys = records.keys().cloned().collect();
        Expected { records, keys, since_unix_seconds }
    }

    /// The same moment, other records.
    pub(super) fn with(&self, records: BTreeMap<Vec<u8>, Vec<u8>>) -> Expected {
        Expected::new(records, self.since_unix_seconds)
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Compares a scan, forwards or backwards, with what it should yield.
    pub(super) fn compare(
        &self,
        db: &Db,
        options: &ScanOptions<'_>,
        reverse: bool,
    ) -> Result<Difference> {
        let mut difference = Difference::default();
        let mut cursor = db.default_keyspace().scan(options)?;
        let start = options.start.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let end = options.end.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.records.range::<Vec<u8>, _>((start, end));
        let mut expected: Box<dyn Iterator<Item = _>> = match reverse {
            true => Box::new(range.rev()),
            false => Box::new(range),
        };
        let before = |a: &[u8], b: &[u8]| if reverse { a > b } else { a < b };
        if reverse {
            cursor.seek_to_last()?;
        } else {
            cursor.seek_to_first()?;
        }
        let mut next = expected.next();
        while cursor.valid() || next.is_some() {
            difference.compared += 1;
            let (stored_due, expected_due) = match next {
                Some((key, _)) if cursor.valid() => {
                    (!before(key, cursor.key()), !before(cursor.key(), key))
                }
                Some(_) => (false, true),
                None => (true, false),
            };
            match next {
                Some((_, value)) if stored_due && expected_due && *value == cursor.value() => {}
                Some((key, _)) if expected_due => difference.keys.push(key.clone()),
                _ => difference.keys.push(cursor.key().to_vec()),
            }
            if expected_due {
                next = expected.next();
            }
            if stored_due && reverse {
                cursor.prev()?;
            } else if stored_due {
                cursor.next()?;
            }
        }
        Ok(difference)
    }

    /// True if the file may have changed since the tour began.
    pub(super) fn drifted(&self, key: &[u8]) -> bool {
        match fs::symlink_metadata(Path::new(OsStr::from_bytes(key))) {
            // The clock of the file system is coarse.
            Ok(metadata) => metadata.ctime() + 2 >= self.since_unix_seconds as i64,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::Options;

    #[test]
    fn differences_are_found_in_both_directions() {
        let dir = std::env::temp_dir().join(format!("esker-expect-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let db = Db::open(&dir, Options::default()).expect("open");
        for (key, value) in [("a", "1"), ("b", "changed"), ("d", "4"), ("z", "extra")] {
            db.put(key.as_bytes(), value.as_bytes()).expect("put");
        }
        let records = [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")];
        let records = records.map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec()));
        let expected = Expected::new(records.into(), 0);
        for reverse in [false, true] {
            let all = ScanOptions::default();
            let mut found = expected.compare(&db, &all, reverse).expect("compare");
            found.keys.sort();
            assert_eq!(found.keys, [b"b", b"c", b"z"], "reverse: {reverse}");
            assert_eq!(found.compared, 5);
        }
        db.close().expect("close");
        fs::remove_dir_all(&dir).expect("remove");
    }
}
