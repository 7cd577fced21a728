//! What a cache holds: keys, and values that know their weight.

use std::hash::Hasher;

/// Bytes that the cache itself spends on an entry: slot, table share and ghost, about.
const ENTRY_OVERHEAD_BYTES: usize = 160;

/// Says what an entry really holds on the heap.
pub trait Weigh {
    /// Heap bytes, without the cache's own overhead.
    fn heap_bytes(&self) -> usize;
}

/// Names a block of a file for ever: the file's number, which is never used again, and the offset.
///
/// A file's salt would not do. It is random, but two files have the same where randomness repeats:
/// of clones of one machine, or in a simulation that starts every run from one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheKey {
    /// The file's number.
    pub file: u64,
    /// Where in the file the block begins.
    pub offset_bytes: u64,
}

impl std::hash::Hash for CacheKey {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.file ^ self.offset_bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}

/// No shard is smaller than this, or a large entry would not fit in it.
const SHARD_BYTES_MIN: u64 = 4 << 20;
const SHARDS_MAX: u64 = 64;

/// Into how many shards a capacity is divided: a power of two.
pub(super) fn shards(capacity_bytes: u64) -> usize {
    let shards = (capacity_bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
    1 << shards.ilog2()
}

/// What an entry takes of the capacity.
#[inline]
pub(crate) fn weight<V: Weigh>(value: &V) -> u64 {
    (value.heap_bytes() + ENTRY_OVERHEAD_BYTES) as u64
}
