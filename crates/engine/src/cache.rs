//! Block cache: decoded parts of table files, shared by all tables, bounded in bytes.
//!
//! Flow: table::reader -> [`Cache::get`], on a miss read and decode -> [`Cache::insert`].
//! Invariants: (1) a key names bytes that never change (files are immutable and their numbers are used
//! once), so that no entry is ever stale or invalidated; entries of removed files simply age out;
//! (2) the weights of resident entries stay within the capacity.
//! Threads: any; sharded, a hit takes one shard's lock for reading.
//!
//! Eviction is Clock-PRO like (crate `quick_cache`), so that one long scan does not wash out what
//! gets use. Model checkers cannot see into that crate's locks; for them `stand_in` takes its
//! place, which drops entries under a lock and in turn.

mod entry;
#[cfg(not(any(esker_loom, esker_shuttle)))]
mod evicting;
#[cfg(any(esker_loom, esker_shuttle))]
mod stand_in;

pub use entry::{CacheKey, ENTRY_OVERHEAD_BYTES, Weigh};

use entry::weight;
use esker_base::heap::Heap;
use esker_base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(any(esker_loom, esker_shuttle)))]
use evicting as inner;
#[cfg(any(esker_loom, esker_shuttle))]
use stand_in as inner;

/// Epochs that pass while the contents turn over once.
const EPOCHS_PER_TURNOVER: u64 = 4;

/// A sharded cache of cheaply cloned entries.
pub struct Cache<V: Weigh + Clone> {
    inner: inner::Inner<V>,
    heap: Heap,
    impatient_heap: Heap,
    /// Weight put in since the epoch began, and after how much the next one begins.
    epoch_bytes: AtomicU64,
    epoch_bytes_max: AtomicU64,
    epoch: AtomicU32,
}

impl<V: Weigh + Clone> Cache<V> {
    /// An empty cache that holds at most about `capacity_bytes`.
    pub fn new(capacity_bytes: u64) -> Cache<V> {
        let inner = inner::new(capacity_bytes);
        let heap = Heap::new(capacity_bytes);
        let epoch_bytes_max = AtomicU64::new(inner.capacity() / EPOCHS_PER_TURNOVER);
        let (epoch_bytes, epoch) = (AtomicU64::new(0), AtomicU32::new(0));
        let impatient_heap = heap.impatient();
        Cache { inner, heap, impatient_heap, epoch_bytes, epoch_bytes_max, epoch }
    }

    /// Where memory for entries should come from, and for what is kept beside the cache.
    #[inline]
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// The same for entries that are soon made anew; those that are [in passing](esker_base::heap::SharedBytes::is_in_passing)
    /// should not be put in.
    #[inline]
    pub fn impatient_heap(&self) -> &Heap {
        &self.impatient_heap
    }

    /// The entry, if it is there.
    #[inline]
    pub fn get(&self, key: CacheKey) -> Option<V> {
        self.inner.get(&key)
    }

    /// Puts an entry in, evicting others as needed. One heavier than a shard is not kept.
    pub fn insert(&self, key: CacheKey, value: V) {
        let weight = weight(&value);
        let before = self.epoch_bytes.fetch_add(weight, Ordering::Relaxed);
        if before + weight > self.epoch_bytes_max.load(Ordering::Relaxed) {
            self.epoch_bytes.store(0, Ordering::Relaxed);
            self.epoch.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.insert(key, value);
    }

    /// A number that moves on a few times while the contents turn over once, and stands still while
    /// nothing is put in.
    ///
    /// Who finds entries without asking the cache should ask it once an epoch, so that it knows
    /// what is in use.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
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
        self.epoch_bytes_max.store(self.capacity_bytes() / EPOCHS_PER_TURNOVER, Ordering::Relaxed);
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
