//! Block: a few KiB of sorted records, the unit that is read, checked, compressed and cached.
//!
//! Flow: table::builder -> [`BlockBuilder`] -> [`Sealer`] -> file;
//! file -> [`open_payload`] -> [`Block`] -> [`BlockCursor`] or [`Block::get`].
//! Format: docs/format/block.md (the only description). In short: restart table, then all keys,
//! then all values. Keys stand together so that a search touches few cache lines.
//! Invariants: (1) records are in internal-key order; (2) a [`Block`] exists only after its header
//! and restart table were found to lie inside its bytes; (3) no bytes can make any function here
//! panic or allocate more than a small multiple of what it was given.
//! Threads: a block is immutable and shared; a cursor belongs to one thread.

mod builder;
mod compress;
mod cursor;
mod search;
mod stored;
#[cfg(test)]
mod tests;

pub use builder::BlockBuilder;
pub(crate) use compress::{CODEC_MAX, CODEC_NONE, codec_name, expand, expand_into, expanded_bytes};
pub use compress::{Sealer, TRAILER_BYTES, copy_payload, open_payload};
pub use cursor::BlockCursor;
pub(crate) use search::{Layout, Record, restart};
pub(crate) use stored::StoredBlock;

use crate::value::Value;
use esker_base::heap::{Heap, SharedBytes};

/// Why bytes are not a block; the caller knows the file and the offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage(pub &'static str);

/// Bytes before the restart table: `u32` restarts, `u32` length of the keys.
pub(crate) const HEADER_BYTES: usize = 8;
/// One entry of the restart table: `u32` into the keys, `u32` into the values.
pub(crate) const RESTART_BYTES: usize = 8;
/// Head of a short record: tag and three lengths of one byte each.
pub(crate) const SHORT_HEAD_BYTES: usize = 4;
/// Set in a tag if the lengths are varints.
pub(crate) const TAG_LONG: u8 = 0x80;

/// A window of shared bytes that holds one uncompressed block payload.
#[derive(Clone, Debug)]
pub struct Payload {
    /// The bytes around it.
    pub data: SharedBytes,
    /// Where the payload begins.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
}

impl Payload {
    /// The payload itself.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.data[self.start..self.end]
    }
}

/// A checked, decoded block of records. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Block {
    data: SharedBytes,
    start: u32,
    end: u32,
}

impl Block {
    /// Takes a payload for a block after checking its header and its restart table.
    ///
    /// # Errors
    /// A reason if the parts do not lie inside the payload.
    pub fn new(payload: Payload) -> Result<Block, Damage> {
        let bytes = payload.bytes();
        if payload.end > u32::MAX as usize {
            return Err(Damage("block is longer than a block can be"));
        }
        if bytes.len() < HEADER_BYTES {
            return Err(Damage("block is shorter than its header"));
        }
        let layout = Layout::of(bytes);
        let Layout { restarts, keys_at, values_at } = layout;
        if restarts == 0 || keys_at > bytes.len() || values_at > bytes.len() {
            return Err(Damage("block parts do not fit in the block"));
        }
        let mut previous = None;
        for i in 0..restarts {
            let (key_at, value_at) = restart(bytes, &layout, i);
            let ordered = match previous {
                None => key_at == keys_at && value_at == layout.values_at,
                Some((k, v)) => key_at > k && value_at >= v,
            };
            if !ordered || key_at >= layout.values_at || value_at > bytes.len() {
                return Err(Damage("block restart table is out of order"));
            }
            previous = Some((key_at, value_at));
        }
        let (start, end) = (payload.start as u32, payload.end as u32);
        Ok(Block { data: payload.data, start, end })
    }

    /// True if its payload has at least `bytes_min` bytes and is one record.
    pub(crate) fn is_one_record_of(&self, bytes_min: usize) -> bool {
        let bytes = self.bytes();
        if bytes.len() < bytes_min {
            return false;
        }
        let layout = self.layout();
        let first = Record::decode(bytes, layout.values_at, layout.keys_at);
        first.is_ok_and(|record| record.suffix_end == layout.values_at)
    }

    /// The bytes and where the payload ends in them, if it begins where they begin.
    pub(crate) fn as_whole(&self) -> Option<(&SharedBytes, u32)> {
        (self.start == 0 && !self.is_small_window()).then_some((&self.data, self.end))
    }

    /// Heap bytes kept alive by this block.
    pub fn heap_bytes(&self) -> usize {
        self.data.heap_bytes()
    }

    /// True if its bytes are [in passing](SharedBytes::is_in_passing).
    pub(crate) fn is_in_passing(&self) -> bool {
        self.data.is_in_passing()
    }

    /// The same block in bytes of its own from `heap`, if it is a small window of larger ones.
    pub fn detached(self, heap: &Heap) -> Block {
        if !self.is_small_window() {
            return self;
        }
        let data = SharedBytes::copied(heap, self.bytes());
        let end = data.len() as u32;
        Block { data, start: 0, end }
    }

    /// True if the bytes kept alive are far more than the block.
    fn is_small_window(&self) -> bool {
        self.data.len() > (self.end - self.start) as usize + 64
    }

    /// Brings the line of byte `at` of the payload near, without waiting for it; there need be
    /// none.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: usize) {
        self.data.prefetch(self.start as usize + at);
    }

    /// A value that shares the block's bytes; `at` is relative to the payload.
    ///
    /// Copied if the block is a small window of a larger buffer, which nobody should keep alive.
    pub(crate) fn share(&self, at: usize, end: usize) -> Value {
        if self.is_small_window() {
            return Value::copied(&self.bytes()[at..end]);
        }
        let start = self.start as usize;
        Value::shared(self.data.clone(), start + at, start + end)
    }
}
