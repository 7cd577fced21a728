//! Fences: where the tables of a run begin and end, close together in memory.
//!
//! A lookup passes every run, and in most of them only to learn that no table, or which one, may
//! hold its key. Keys lie one pointer behind their table, which lies one behind the run; so in
//! bytewise order the eight bytes after what all keys of the run share are kept as integers, side
//! by side. Whole keys are compared only where integers are equal. `table/index.rs` does the same
//! inside of a table.

use super::store::Table;
use esker_base::KeyOrder;
use esker_base::key::{prefix_behind, prefix_u64, shared_prefix_len};
use std::cmp::Ordering;
use std::sync::Arc;

/// The fences of one run; none in orders that are not bytewise.
#[derive(Clone, Debug, Default)]
pub(super) struct Fences {
    /// What all keys of the run begin with.
    common: Box<[u8]>,
    /// Of each table's largest key, the eight bytes after the common ones.
    largest: Box<[u64]>,
    /// The same of its smallest key.
    smallest: Box<[u64]>,
}

/// Where a key stands among the tables of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The first table that does not end before the key; as many as there are if all do.
    pub(super) position: usize,
    /// True if that table does not begin after the key.
    pub(super) inside: bool,
}

impl Fences {
    /// Of tables in order that do not overlap.
    pub(super) fn new(order: &KeyOrder, tables: &[Arc<Table>]) -> Fences {
        let (Some(first), Some(last)) = (tables.first(), tables.last()) else {
            return Fences::default();
        };
        if !order.is_bytewise() {
            return Fences::default();
        }
        let shared = shared_prefix_len(&first.meta.smallest, &last.meta.largest);
        let prefixes = |key: fn(&Table) -> &[u8]| {
            tables.iter().map(|table| prefix_u64(&key(table)[shared..])).collect()
        };
        Fences {
            common: first.meta.smallest[..shared].into(),
            largest: prefixes(|table| &table.meta.largest),
            smallest: prefixes(|table| &table.meta.smallest),
        }
    }

    /// True if there are none to look at.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.largest.is_empty()
    }

    /// Where `key` stands among the tables they are of.
    #[inline]
    pub(super) fn place(&self, tables: &[Arc<Table>], key: &[u8]) -> Place {
        let prefix = match prefix_behind(key, &self.common) {
            Ok(prefix) => prefix,
            Err(side) => {
                let position = if side.is_lt() { 0 } else { tables.len() };
                return Place { position, inside: false };
            }
        };
        let mut position = self.largest.partition_point(|&largest| largest < prefix);
        if self.largest.get(position) == Some(&prefix) {
            let equal = self.largest[position..].partition_point(|&largest| largest == prefix);
            let equals = &tables[position..position + equal];
            position += equals.partition_point(|t| t.ends_before(&KeyOrder::Bytewise, key));
        }
        let inside = match self.smallest.get(position).map(|smallest| smallest.cmp(&prefix)) {
            Some(Ordering::Less) => true,
            Some(Ordering::Equal) => tables[position].meta.smallest[..] <= *key,
            Some(Ordering::Greater) | None => false,
        };
        Place { position, inside }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventSink;
    use crate::options::{KeyspaceOptions, Options};
    use crate::version::{Run, TableMeta, TableStore};
    use esker_base::Env;
    use esker_base::checksum::mix64;
    use esker_base::vfs::strict::StrictVfs;

    /// Keys of up to five bytes of three, after 0, 3 or 11 that all share.
    fn keys(seed: u64, shared: usize) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = (0..60)
            .map(|i| {
                let random = mix64(seed << 8 | i);
                let len = random as usize % 6 + if i % 7 == 0 { 8 } else { 0 };
                let byte = |at: usize| [0, b'a', 0xff][(random >> (8 + 2 * at)) as usize % 3];
                [vec![b'k'; shared], (0..len).map(byte).collect()].concat()
            })
            .collect();
        keys.sort();
        keys.dedup();
        keys
    }

    #[test]
    fn a_key_stands_where_whole_keys_say() {
        let env = Env::with_vfs(Arc::new(StrictVfs::new()), 7);
        let shares = Options::default().memory_shares();
        let store = Arc::new(TableStore::new(env, "/db".into(), EventSink::new(None), 9, shares));
        let options = Arc::new(KeyspaceOptions::default());
        let order = &options.order;
        let mut inside = 0;
        for seed in 0..300 {
            let shared = [0, 3, 11][seed as usize % 3];
            let bounds = keys(seed, shared);
            let tables: Vec<Arc<Table>> = bounds
                .chunks_exact(2)
                .enumerate()
                .filter(|(at, _)| mix64(seed << 16 | *at as u64) % 4 < 3)
                .map(|(at, pair)| {
                    let meta = TableMeta {
                        number: at as u64,
                        smallest: pair[0].as_slice().into(),
                        largest: pair[1].as_slice().into(),
                        largest_exclusive: at % 4 == 0,
                        ..TableMeta::default()
                    };
                    store.table(meta, &options)
                })
                .collect();
            let plain = Run::new(1, tables.clone());
            let mut fenced = Run::new(1, tables);
            fenced.settle(order).expect("disjoint");
            let probes = [bounds, keys(seed + 1, shared), keys(seed, 0), keys(seed, 2)].concat();
            for key in probes {
                assert_eq!(fenced.position(order, &key), plain.position(order, &key), "{key:?}");
                let number = |run: &Run| run.table_for(order, &key).map(|t| t.meta.number);
                assert_eq!(number(&fenced), number(&plain), "{key:?}");
                inside += usize::from(number(&plain).is_some());
            }
        }
        assert!(inside > 10_000, "{inside} keys fall into a table");
    }
}
