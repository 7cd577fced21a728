//! Block cache: decoded parts of table files, shared by all tables, bounded in bytes.
//!
//! Flow: table::reader -> [`Cache::get`], on a miss read and decode -> [`Cache::insert`].
//! Invariants: (1) a key names bytes that never change (files are immutable and their salts are
//! random), so that an entry can be stale-free without ever being invalidated; entries of
//! removed files simply age out; (2) the weights of resident entries stay within the capacity.
//! Threads: any; sharded, a hit takes one shard's lock for reading.
//!
//! Eviction is Clock-PRO like (crate `quick_cache`), so that one long scan does not wash out what
//! gets use.

use quick_cache::sync::Cache as QuickCache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use std::hash::{BuildHasher, Hasher};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bytes that the cache itself spends on an entry: slot, table share and ghost, about.
pub const ENTRY_OVERHEAD_BYTES: usize = 160;

/// What a mean entry weighs; only sizes the first hash tables.
const ENTRY_BYTES_EXPECTED: u64 = 4_096;

/// No shard is smaller than this, or a large block would not fit in it.
const SHARD_BYTES_MIN: u64 = 4 << 20;
const SHARDS_MAX: u64 = 64;

/// Says what an entry really holds on the heap.
pub trait Weigh {
    /// Heap bytes, without the cache's own overhead.
    fn heap_bytes(&self) -> usize;

    /// Called when the cache drops the entry to make room; not when another replaces it.
    ///
    /// Runs under a lock of the cache: it must not call the cache.
    fn evicted(&self) {}
}

/// Names a block of a file for ever: the file's random salt and the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheKey {
    /// The file's salt.
    pub salt: u64,
    /// Where in the file the block begins.
    pub offset_bytes: u64,
}

impl std::hash::Hash for CacheKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.salt ^ self.offset_bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}

/// Mixes one integer. Salts are random already and nobody can choose them, so no secret is needed.
#[derive(Clone, Debug, Default)]
struct Mix;

#[derive(Debug, Default)]
struct MixHasher(u64);

impl BuildHasher for Mix {
    type Hasher = MixHasher;

    #[inline]
    fn build_hasher(&self) -> MixHasher {
        MixHasher(0)
    }
}

impl Hasher for MixHasher {
    #[inline]
    fn write_u64(&mut self, x: u64) {
        let wide = u128::from(self.0 ^ x).wrapping_mul(0xa076_1d64_78bd_642f_e703_7ed1_a0b4_28db);
        self.0 = (wide as u64) ^ ((wide >> 64) as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Clone, Debug)]
struct ByBytes;

impl<V: Weigh> Weighter<CacheKey, V> for ByBytes {
    #[inline]
    fn weight(&self, _: &CacheKey, value: &V) -> u64 {
        (value.heap_bytes() + ENTRY_OVERHEAD_BYTES) as u64
    }
}

/// Tells entries that they are dropped, and frees them once the lock is let go.
#[derive(Clone, Debug)]
struct Farewell<V>(PhantomData<fn(V)>);

impl<V: Weigh> Lifecycle<CacheKey, V> for Farewell<V> {
    /// An insertion mostly evicts one or two; more are freed under the lock.
    type RequestState = [Option<V>; 2];

    fn on_evict(&self, state: &mut Self::RequestState, _: CacheKey, value: V) {
        value.evicted();
        if let Some(free) = state.iter_mut().find(|s| s.is_none()) {
            *free = Some(value);
        }
    }
}

/// Epochs that pass while the contents turn over once.
const EPOCHS_PER_TURNOVER: u64 = 4;

/// A sharded cache of cheaply cloned entries.
pub struct Cache<V: Weigh + Clone> {
    inner: QuickCache<CacheKey, V, ByBytes, Mix, Farewell<V>>,
    /// Weight put in since the epoch began.
    epoch_bytes: AtomicU64,
    epoch: AtomicU32,
}

impl<V: Weigh + Clone> Cache<V> {
    /// An empty cache that holds at most about `capacity_bytes`.
    pub fn new(capacity_bytes: u64) -> Cache<V> {
        let shards = (capacity_bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        // Rounded down to a power of two, which the cache would otherwise round up to.
        let shards = 1usize << shards.ilog2();
        let items = (capacity_bytes / ENTRY_BYTES_EXPECTED).clamp(16, 1 << 22) as usize;
        let farewell = Farewell(PhantomData);
        let inner = match OptionsBuilder::new()
            .weight_capacity(capacity_bytes)
            .estimated_items_capacity(items)
            .shards(shards)
            .build()
        {
            Ok(options) => QuickCache::with_options(options, ByBytes, Mix, farewell),
            Err(_) => QuickCache::with(items, capacity_bytes, ByBytes, Mix, farewell),
        };
        Cache { inner, epoch_bytes: AtomicU64::new(0), epoch: AtomicU32::new(0) }
    }

    /// The entry, if it is there.
    #[inline]
    pub fn get(&self, key: CacheKey) -> Option<V> {
        self.inner.get(&key)
    }

    /// Puts an entry in, evicting others as needed. One heavier than a shard is not kept.
    pub fn insert(&self, key: CacheKey, value: V) {
        let weight = ByBytes.weight(&key, &value);
        let before = self.epoch_bytes.fetch_add(weight, Ordering::Relaxed);
        if before + weight > self.capacity_bytes() / EPOCHS_PER_TURNOVER {
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

    /// The most it may hold.
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

    fn key(salt: u64, offset_bytes: u64) -> CacheKey {
        CacheKey { salt, offset_bytes }
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
