//! What is kept of files in memory, bounded in bytes: a map of decoded parts that are found by
//! their place in the file, and [queues](Queues) of what has places of its own.
//!
//! Flow: table::block_cache -> [`Cache::get`], on a miss read and decode -> [`Cache::insert`].
//! Invariants: (1) a key names bytes that never change (files are immutable and their numbers are
//! used once), so that no entry is ever stale; those of removed files are forgotten for the room
//! that they take; (2) the weights of resident entries stay within the capacity.
//! Threads: any; sharded, a hit takes one shard's lock for reading.
//!
//! Eviction from the map is Clock-PRO like (crate `quick_cache`), so that one long scan does not
//! wash out what gets use. Model checkers cannot see into that crate's locks; for them `stand_in`
//! takes its place, which drops entries under a lock and in turn.

mod entry;
#[cfg(not(any(esker_loom, esker_shuttle)))]
mod evicting;
mod queues;
#[cfg(any(esker_loom, esker_shuttle))]
mod stand_in;

pub(crate) use entry::weight;
pub use entry::{CacheKey, Weigh};
pub use queues::{Answer, Moment, Place, Queues, Rule};

#[cfg(not(any(esker_loom, esker_shuttle)))]
use evicting as inner;
#[cfg(any(esker_loom, esker_shuttle))]
use stand_in as inner;

/// A sharded cache of cheaply cloned entries.
pub struct Cache<V: Weigh + Clone> {
    inner: inner::Inner<V>,
}

impl<V: Weigh + Clone> Cache<V> {
    /// An empty cache that holds at most about `capacity_bytes`.
    pub fn new(capacity_bytes: u64) -> Cache<V> {
        Cache { inner: inner::new(capacity_bytes) }
    }

    /// The entry, if it is there.
    #[inline]
    pub fn get(&self, key: CacheKey) -> Option<V> {
        self.inner.get(&key)
    }

    /// Puts an entry in, evicting others as needed. One heavier than a shard is not kept.
    pub fn insert(&self, key: CacheKey, value: V) {
        self.inner.insert(key, value);
    }

    /// Lets go of what these files had. Looks at each entry.
    pub fn forget_files(&self, numbers: &[u64]) {
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable();
        inner::remove(&self.inner, |key| sorted.binary_search(&key.file).is_ok());
    }

    /// Bytes held now.
    pub fn usage_bytes(&self) -> u64 {
        self.inner.weight()
    }

    /// The most it may hold. Asks each shard.
    pub fn capacity_bytes(&self) -> u64 {
        self.inner.capacity()
    }

    /// Changes the capacity; evicts at once if it shrinks.
    pub fn set_capacity_bytes(&self, capacity_bytes: u64) {
        self.inner.set_capacity(capacity_bytes);
    }

    /// Number of entries held now.
    pub fn entries(&self) -> usize {
        self.inner.len()
    }
}

impl<V: Weigh + Clone> std::fmt::Debug for Cache<V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache")
            .field("usage_bytes", &self.usage_bytes())
            .field("capacity_bytes", &self.capacity_bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Clone)]
    struct Bytes(Arc<[u8]>);

    impl Weigh for Bytes {
        fn heap_bytes(&self) -> usize {
            self.0.len()
        }
    }

    fn entry(bytes: usize) -> Bytes {
        Bytes(vec![7; bytes].into())
    }

    fn key(file: u64, offset_bytes: u64) -> CacheKey {
        CacheKey { file, offset_bytes }
    }

    #[test]
    fn it_stays_within_its_bytes() {
        let cache: Cache<Bytes> = Cache::new(1 << 20);
        for i in 0..10_000 {
            cache.insert(key(1, i * 4096), entry(1_000 + (i % 7) as usize * 500));
            assert!(cache.usage_bytes() <= cache.capacity_bytes());
        }
        assert!(cache.usage_bytes() > cache.capacity_bytes() / 2);
        assert_eq!(cache.get(key(1, 9_999 * 4096)).map(|b| b.0.len()), Some(1_000 + 3 * 500));
        assert!(cache.get(key(2, 9_999 * 4096)).is_none());
    }

    #[test]
    fn what_files_had_is_forgotten() {
        let cache: Cache<Bytes> = Cache::new(8 << 20);
        for file in 1..=9 {
            (0..4).for_each(|i| cache.insert(key(file, i), entry(100)));
        }
        cache.forget_files(&[7, 2, 33, 9]);
        assert_eq!(cache.entries(), 24);
        for file in 1..=9 {
            let is_there = ![7, 2, 9].contains(&file);
            assert!((0..4).all(|i| cache.get(key(file, i)).is_some() == is_there), "{file}");
        }
        assert_eq!(cache.usage_bytes(), 24 * weight(&entry(100)));
    }

    #[test]
    fn the_capacity_can_change() {
        let cache: Cache<Bytes> = Cache::new(8 << 20);
        for i in 0..1_000 {
            cache.insert(key(3, i), entry(4_096));
        }
        cache.set_capacity_bytes(1 << 20);
        assert!(cache.usage_bytes() <= 1 << 20);
    }

    #[test]
    fn an_entry_larger_than_the_cache_is_not_kept() {
        let cache: Cache<Bytes> = Cache::new(1 << 16);
        cache.insert(key(1, 0), entry(1 << 20));
        assert!(cache.usage_bytes() <= cache.capacity_bytes());
    }
}
