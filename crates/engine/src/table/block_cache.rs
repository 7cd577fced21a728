//! The block cache: decoded parts of tables in memory, shared by all tables of a database, bounded
//! in bytes.
//!
//! Indexes and filters that are not pinned are found by their place in the file, in a [`Cache`].
//! Data blocks stand in the slots of their index, which is at hand when one is looked for;
//! [`Queues`] decide which stay. When an index leaves, its blocks leave with it, and count until
//! the queues come by. What a file had is forgotten when the file goes.
//! Invariants: (1) a block is put into its slot before the queues have an entry that names the
//! slot, and queues empty the slot when they drop that entry: so a slot keeps nothing for long that
//! the cache does not account for; (2) what indexes and filters take, blocks do not have.
//! Threads: any. Lock order: the right to change shares, then a shard of the queues, then a slot.

use super::filter::FilterBlock;
use super::index::{DataIndex, SlotRef};
use crate::block::Block;
use crate::cache::{Cache, CacheKey, Queues, Weigh, weight};
use esker_base::checksum::mix64;
use esker_base::heap::Heap;
use esker_base::sync::Mutex;
use std::sync::Arc;

/// Bytes that the queues spend on a block, about.
const BLOCK_OVERHEAD_BYTES: u64 = 48;

/// A decoded part of a table that is found by its place in the file.
#[derive(Clone, Debug)]
pub(super) enum CachedPart {
    /// The index of a partition.
    Index(Arc<DataIndex>),
    /// The filter of a partition.
    Filter(Arc<FilterBlock>),
}

impl Weigh for CachedPart {
    #[inline]
    fn heap_bytes(&self) -> usize {
        match self {
            CachedPart::Index(index) => index.memory_bytes(),
            CachedPart::Filter(filter) => filter.memory_bytes(),
        }
    }
}

/// The block cache.
#[derive(Debug)]
pub struct BlockCache {
    parts: Cache<CachedPart>,
    blocks: Queues<SlotRef>,
    /// The capacity. Held by whoever changes what parts take and blocks may.
    capacity_bytes: Mutex<u64>,
    heap: Heap,
    impatient_heap: Heap,
}

impl BlockCache {
    /// An empty cache that holds at most about `capacity_bytes`.
    pub fn new(capacity_bytes: u64) -> BlockCache {
        BlockCache::between(capacity_bytes, capacity_bytes)
    }

    /// One that holds at most about `capacity_bytes`, and never less than `least_bytes`, of which
    /// indexes and filters have their share: theirs does not follow the capacity, since what left
    /// is remembered for so many as there is room for, and less with each change of that.
    pub(crate) fn between(least_bytes: u64, capacity_bytes: u64) -> BlockCache {
        let heap = Heap::new(capacity_bytes);
        BlockCache {
            parts: Cache::new(parts_max(least_bytes)),
            blocks: Queues::new(capacity_bytes),
            capacity_bytes: Mutex::new(capacity_bytes),
            impatient_heap: heap.impatient(),
            heap,
        }
    }

    /// Where memory for entries should come from, and for what is kept beside the cache.
    #[inline]
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    /// The same for entries that are soon made anew; those that are
    /// [in passing](esker_base::heap::SharedBytes::is_in_passing) should not be put in.
    #[inline]
    pub fn impatient_heap(&self) -> &Heap {
        &self.impatient_heap
    }

    /// An index or a filter, if it is there.
    #[inline]
    pub(super) fn part(&self, key: CacheKey) -> Option<CachedPart> {
        self.parts.get(key)
    }

    /// Puts an index or a filter in, unless there is one. One that is heavier than a shard is not
    /// kept.
    pub(super) fn insert_part(&self, key: CacheKey, part: CachedPart) {
        let capacity_bytes = self.capacity_bytes.lock();
        if self.parts.get(key).is_some() {
            return;
        }
        // Room first, so that there is never more than there may be.
        let with_it = self.parts.usage_bytes() + weight(&part);
        let with_it = with_it.min(self.parts.capacity_bytes()).min(*capacity_bytes);
        self.blocks.set_capacity_bytes(*capacity_bytes - with_it);
        self.parts.insert(key, part);
        if self.parts.get(key).is_none() {
            self.leave_to_blocks(*capacity_bytes);
        }
    }

    /// Forgets the indexes and filters of these files, which are gone: what they took is for blocks
    /// again.
    pub fn forget_files(&self, numbers: &[u64]) {
        let capacity_bytes = self.capacity_bytes.lock();
        if !numbers.is_empty() && self.parts.entries() > 0 {
            self.parts.forget_files(numbers);
            self.leave_to_blocks(*capacity_bytes);
        }
    }

    /// Blocks may have what indexes and filters do not take now.
    fn leave_to_blocks(&self, capacity_bytes: u64) {
        let parts = self.parts.usage_bytes().min(capacity_bytes);
        self.blocks.set_capacity_bytes(capacity_bytes - parts);
    }

    /// Puts a block into its slot, and others out of theirs to make room; but not one that is
    /// there, or in passing, or shares its bytes with others, or is heavier than a shard.
    pub(super) fn insert_block(
        &self,
        key: CacheKey,
        index: &Arc<DataIndex>,
        at: usize,
        block: &Block,
    ) {
        if block.is_in_passing() {
            return;
        }
        let slot = index.slot(at);
        let Some(left) = slot.fill(block) else { return };
        let place = SlotRef::new(index, at);
        let bytes = block.heap_bytes() as u64 + BLOCK_OVERHEAD_BYTES;
        let hash = mix64(key.file ^ key.offset_bytes.rotate_left(32));
        if !self.blocks.insert(hash, place, bytes, left) {
            slot.clear();
        }
    }

    /// Bytes held now.
    pub fn usage_bytes(&self) -> u64 {
        self.usage_and_capacity_bytes().0
    }

    /// The same, and the most it may hold at that moment.
    pub fn usage_and_capacity_bytes(&self) -> (u64, u64) {
        let capacity_bytes = self.capacity_bytes.lock();
        (self.parts.usage_bytes() + self.blocks.usage_bytes(), *capacity_bytes)
    }

    /// The most it may hold.
    pub fn capacity_bytes(&self) -> u64 {
        *self.capacity_bytes.lock()
    }

    /// Changes the capacity; evicts at once if it shrinks.
    pub fn set_capacity_bytes(&self, capacity_bytes: u64) {
        let mut capacity = self.capacity_bytes.lock();
        *capacity = capacity_bytes;
        self.parts.set_capacity_bytes(parts_max(capacity_bytes));
        self.leave_to_blocks(capacity_bytes);
    }

    /// Has blocks take what is lent to them above the least, as it is found once nobody else
    /// changes it: of several who do, the last one has seen what the others know.
    pub(crate) fn lend_to_blocks(&self, capacity_bytes: impl FnOnce() -> u64) {
        let mut capacity = self.capacity_bytes.lock();
        *capacity = capacity_bytes();
        self.leave_to_blocks(*capacity);
    }

    /// Number of blocks held now.
    #[cfg(test)]
    pub(super) fn blocks(&self) -> usize {
        self.blocks.entries()
    }

    /// Number of entries held now.
    pub fn entries(&self) -> usize {
        self.parts.entries() + self.blocks.entries()
    }

    /// Number of indexes and filters held now.
    #[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
    pub(crate) fn parts(&self) -> usize {
        self.parts.entries()
    }

    /// What blocks may take.
    #[cfg(test)]
    pub(super) fn blocks_capacity_bytes(&self) -> u64 {
        self.blocks.capacity_bytes()
    }
}

/// What indexes and filters that are not pinned may take of a capacity: three quarters.
fn parts_max(capacity_bytes: u64) -> u64 {
    capacity_bytes / 4 * 3
}
