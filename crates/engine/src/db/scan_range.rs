//! What a scan covers and how it reads.

use super::snapshot::Snapshot;
use esker_base::key::prefix_end;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// What a scan covers and how it reads.
#[derive(Clone, Debug)]
pub struct ScanOptions<'a> {
    /// First key; `None` is the first of all.
    pub start: Option<Vec<u8>>,
    /// End, exclusive; `None` is after the last of all.
    pub end: Option<Vec<u8>>,
    /// The moment to read at; `None` is now.
    pub snapshot: Option<&'a Snapshot>,
    /// Keep blocks that are read in the block cache. Turn off for scans of everything, which would
    /// otherwise push out what others use. Default: true.
    pub fill_cache: bool,
    /// Read only what is in tables, which is what a crash cannot take from a store with
    /// `durability = external`; without a snapshot, as of the newest of them. Default: false.
    pub persisted: bool,
    /// Read no values: those of the cursor are empty. Of keys whose values are kept apart nothing
    /// but the key is read then. Default: false.
    pub keys_only: bool,
}

impl Default for ScanOptions<'_> {
    fn default() -> Self {
        ScanOptions {
            start: None,
            end: None,
            snapshot: None,
            fill_cache: true,
            persisted: false,
            keys_only: false,
        }
    }
}

impl<'a> ScanOptions<'a> {
    /// All keys of a range, such as `a..b`, `a..=b`, `a..`, `..b` or `..`, with keys of any byte
    /// type.
    pub fn range(range: impl ScanRange) -> ScanOptions<'a> {
        let (start, end) = range.into_bounds();
        ScanOptions { start, end, ..ScanOptions::default() }
    }

    /// All keys that start with `prefix`, in bytewise order.
    pub fn prefix(prefix: &[u8]) -> ScanOptions<'a> {
        ScanOptions {
            start: Some(prefix.to_vec()),
            end: prefix_end(prefix),
            ..ScanOptions::default()
        }
    }

    /// The same scan at a snapshot.
    pub fn at(self, snapshot: &'a Snapshot) -> ScanOptions<'a> {
        ScanOptions { snapshot: Some(snapshot), ..self }
    }
}

/// The first key of a range and the first after it; `None` is open.
type Ends = (Option<Vec<u8>>, Option<Vec<u8>>);

/// A range of keys. Bounds that are closed at their end or open at their start mean bytewise order.
pub trait ScanRange {
    /// First key, and end, exclusive.
    fn into_bounds(self) -> Ends;
}

/// The least key after `key` in bytewise order.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

impl<K: AsRef<[u8]>> ScanRange for Range<K> {
    fn into_bounds(self) -> Ends {
        (Some(self.start.as_ref().to_vec()), Some(self.end.as_ref().to_vec()))
    }
}

impl<K: AsRef<[u8]>> ScanRange for RangeInclusive<K> {
    fn into_bounds(self) -> Ends {
        (Some(self.start().as_ref().to_vec()), Some(after(self.end().as_ref())))
    }
}

impl<K: AsRef<[u8]>> ScanRange for RangeFrom<K> {
    fn into_bounds(self) -> Ends {
        (Some(self.start.as_ref().to_vec()), None)
    }
}

impl<K: AsRef<[u8]>> ScanRange for RangeTo<K> {
    fn into_bounds(self) -> Ends {
        (None, Some(self.end.as_ref().to_vec()))
    }
}

impl<K: AsRef<[u8]>> ScanRange for RangeToInclusive<K> {
    fn into_bounds(self) -> Ends {
        (None, Some(after(self.end.as_ref())))
    }
}

impl ScanRange for RangeFull {
    fn into_bounds(self) -> Ends {
        (None, None)
    }
}
