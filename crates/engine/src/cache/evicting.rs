//! The cache's entries, in a sharded map that evicts (crate `quick_cache`).

use super::entry::{CacheKey, Weigh, shards, weight};
use quick_cache::sync::{Cache as QuickCache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use std::cell::RefCell;
use std::hash::{BuildHasher, Hasher};

/// What a mean entry weighs; only sizes the first hash tables.
const ENTRY_BYTES_EXPECTED: u64 = 16_384;

/// The map.
pub(super) type Inner<V> = QuickCache<CacheKey, V, ByBytes, Mix>;

/// An empty map.
pub(super) fn new<V: Weigh + Clone>(capacity_bytes: u64) -> Inner<V> {
    let items = (capacity_bytes / ENTRY_BYTES_EXPECTED).clamp(16, 1 << 22) as usize;
    let lifecycle = DefaultLifecycle::default();
    match OptionsBuilder::new()
        .weight_capacity(capacity_bytes)
        .estimated_items_capacity(items)
        .shards(shards(capacity_bytes))
        .build()
    {
        Ok(options) => QuickCache::with_options(options, ByBytes, Mix, lifecycle),
        Err(_) => QuickCache::with(items, capacity_bytes, ByBytes, Mix, lifecycle),
    }
}

/// Removes entries. What they hold is freed without a lock.
pub(super) fn remove<V: Weigh + Clone>(inner: &Inner<V>, is_one: impl Fn(&CacheKey) -> bool) {
    let removed = RefCell::new(Vec::new());
    inner.retain(|key, value| {
        let goes = is_one(key);
        if goes {
            removed.borrow_mut().push(value.clone());
        }
        !goes
    });
}

/// Mixes one integer, without a secret: files get their numbers and blocks their places one after
/// the other, and who chose lengths so that they collide would slow the cache for himself.
#[derive(Clone, Debug, Default)]
pub(super) struct Mix;

#[derive(Debug, Default)]
pub(super) struct MixHasher(u64);

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
pub(super) struct ByBytes;

impl<V: Weigh> Weighter<CacheKey, V> for ByBytes {
    #[inline]
    fn weight(&self, _: &CacheKey, value: &V) -> u64 {
        weight(value)
    }
}
