//! Where tables, and files of values, are ended so that they hold keys of one group only, as far as
//! that makes none too small.

use crate::options::{GroupPrefix, KeyspaceOptions};

/// Follows the groups of the keys that are written to tables, or whose values are to files.
///
/// A table is ended where the group changes, if it is at least `min_bytes` long by then. One that
/// is not goes on with the next group, and is ended in the midst of it as soon as that has
/// `min_bytes` of it: so no group shares more than that with others, and a table that is cut at all
/// is not shorter.
/// Source: PheonixLSM, which cuts at every change of the group, however short the table is.
#[derive(Debug)]
pub(super) struct Grouping {
    prefix: GroupPrefix,
    min_bytes: u64,
    /// The group of the last key; empty if it is in none.
    group: Vec<u8>,
    /// Where in the present table it begins; `None` if the table begins with it.
    begins_at: Option<u64>,
}

impl Grouping {
    pub(super) fn new(options: &KeyspaceOptions) -> Option<Grouping> {
        let min_bytes = options.group_table_bytes_min;
        options.groups.map(|prefix| Grouping {
            prefix,
            min_bytes,
            group: Vec::new(),
            begins_at: None,
        })
    }

    /// True if a new table should begin with this key, where the present one has so many bytes. To
    /// be asked for every key but the first of a table, in order.
    #[inline]
    pub(super) fn wants_cut(&mut self, key: &[u8], bytes: u64) -> bool {
        if self.goes_on(key) {
            // An estimate, which falls a little when a block is compressed.
            return self
                .begins_at
                .is_some_and(|begin| bytes.saturating_sub(begin) >= self.min_bytes);
        }
        self.enter(key);
        self.begins_at = Some(bytes);
        bytes >= self.min_bytes
    }

    /// A table begins with this key.
    #[inline]
    pub(super) fn begin_table(&mut self, key: &[u8]) {
        self.begins_at = None;
        if !self.goes_on(key) {
            self.enter(key);
        }
    }

    /// True if a key is in the group of the last one.
    #[inline]
    fn goes_on(&self, key: &[u8]) -> bool {
        if self.group.is_empty() {
            self.prefix.group_of(key).is_none()
        } else {
            key.starts_with(&self.group)
        }
    }

    fn enter(&mut self, key: &[u8]) {
        self.group.clear();
        self.group.extend_from_slice(self.prefix.group_of(key).unwrap_or(&[]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths of the tables into which groups of so many records of 10 bytes are cut, and the
    /// groups that each holds.
    fn cut(groups: &[(&str, usize)], min_bytes: u64) -> Vec<(usize, Vec<String>)> {
        let options = KeyspaceOptions {
            groups: Some(GroupPrefix::Delimiter { byte: b'/' }),
            group_table_bytes_min: min_bytes,
            ..KeyspaceOptions::default()
        };
        let mut grouping = Grouping::new(&options).expect("groups are given");
        let mut tables: Vec<(usize, Vec<String>)> = Vec::new();
        for &(group, records) in groups {
            for record in 0..records {
                let key = format!("{group}{record:03}");
                let bytes = tables.last().map_or(0, |(bytes, _)| *bytes);
                if tables.is_empty() || grouping.wants_cut(key.as_bytes(), bytes as u64) {
                    grouping.begin_table(key.as_bytes());
                    tables.push((0, Vec::new()));
                }
                let Some((bytes, held)) = tables.last_mut() else { continue };
                *bytes += 10;
                if held.last().is_none_or(|last| last != group) {
                    held.push(group.to_owned());
                }
            }
        }
        tables
    }

    fn held(groups: &[&str]) -> Vec<String> {
        groups.iter().map(|&group| group.to_owned()).collect()
    }

    #[test]
    fn groups_that_are_large_enough_have_tables_of_their_own() {
        let tables = cut(&[("a/", 30), ("b/", 20), ("c/", 40)], 100);
        assert_eq!(tables, [(300, held(&["a/"])), (200, held(&["b/"])), (400, held(&["c/"]))]);
    }

    #[test]
    fn small_groups_share_tables_and_large_ones_share_little() {
        let tables = cut(&[("a/", 3), ("b/", 3), ("c/", 50), ("d/", 2), ("", 3), ("e/", 9)], 100);
        assert_eq!(
            tables,
            [
                (160, held(&["a/", "b/", "c/"])),
                (400, held(&["c/"])),
                (140, held(&["d/", "", "e/"])),
            ]
        );
    }
}
