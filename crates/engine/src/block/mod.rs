//! Block: a few KiB of sorted records, the unit that is read, checked, compressed and cached.
//!
//! Flow: table::builder -> [`BlockBuilder`] -> [`Sealer`] -> file;
//! file -> [`open_payload`] -> [`Block`] -> [`BlockCursor`] or [`Block::get`].
//! Format: docs/format/block.md (the only description). In short: restart table, then all keys, then
//! all values. Keys stand together so that a search touches few cache lines.
//! Invariants: (1) records are in internal-key order; (2) a [`Block`] exists only after its header
//! and restart table were found to lie inside its bytes; (3) no bytes can make any function here
//! panic or allocate more than a small multiple of what it was given.
//! Threads: a block is immutable and shared; a cursor belongs to one thread.

mod builder;
mod compress;
mod cursor;
mod search;
#[cfg(test)]
mod tests;

pub use builder::BlockBuilder;
pub use compress::{Sealer, TRAILER_BYTES, open_payload};
pub(crate) use compress::{codec_name, zeroed};
pub use cursor::BlockCursor;

use crate::value::Value;
use esker_base::Trailer;
use esker_base::coding::take_varint;
use std::sync::Arc;

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
    pub data: Arc<[u8]>,
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
    data: Arc<[u8]>,
    start: u32,
    end: u32,
}

/// Where the parts of a payload begin, and how many restarts it has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) restarts: usize,
    pub(crate) keys_at: usize,
    /// Also the end of the keys.
    pub(crate) values_at: usize,
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
        let Some((restarts, keys_bytes)) = header(bytes) else {
            return Err(Damage("block is shorter than its header"));
        };
        let keys_at = HEADER_BYTES + RESTART_BYTES * restarts;
        if restarts == 0 || keys_at > bytes.len() || keys_bytes > bytes.len() - keys_at {
            return Err(Damage("block parts do not fit in the block"));
        }
        let layout = Layout { restarts, keys_at, values_at: keys_at + keys_bytes };
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

    /// A block that [`Block::as_whole`] took apart.
    #[inline]
    pub(crate) fn whole(data: Arc<[u8]>, end: u32) -> Block {
        Block { data, start: 0, end }
    }

    /// The bytes and where the payload ends in them, if it begins where they begin.
    pub(crate) fn as_whole(&self) -> Option<(&Arc<[u8]>, u32)> {
        (self.start == 0 && !self.is_small_window()).then_some((&self.data, self.end))
    }

    /// The payload.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.data[self.start as usize..self.end as usize]
    }

    /// Heap bytes kept alive by this block.
    pub fn heap_bytes(&self) -> usize {
        // The two counts of an `Arc`, and what an allocator adds.
        self.data.len() + 32
    }

    #[inline]
    pub(crate) fn layout(&self) -> Layout {
        // Checked by `new`.
        let (restarts, keys_bytes) = header(self.bytes()).unwrap_or((0, 0));
        let keys_at = HEADER_BYTES + RESTART_BYTES * restarts;
        Layout { restarts, keys_at, values_at: keys_at + keys_bytes }
    }

    /// The same block in bytes of its own, if it is a small window of larger ones.
    pub fn detached(self) -> Block {
        if !self.is_small_window() {
            return self;
        }
        let data: Arc<[u8]> = self.bytes().into();
        let end = data.len() as u32;
        Block { data, start: 0, end }
    }

    /// True if the bytes kept alive are far more than the block.
    fn is_small_window(&self) -> bool {
        self.data.len() > (self.end - self.start) as usize + 64
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

#[inline]
fn header(bytes: &[u8]) -> Option<(usize, usize)> {
    let head = bytes.first_chunk::<HEADER_BYTES>()?;
    let both = u64::from_le_bytes(*head);
    Some(((both as u32) as usize, (both >> 32) as usize))
}

/// Where restart `i` stands among keys and values, relative to the payload; not bounded.
#[inline]
pub(crate) fn restart(bytes: &[u8], layout: &Layout, i: usize) -> (usize, usize) {
    let at = HEADER_BYTES + RESTART_BYTES * i;
    let mut pair = [0; RESTART_BYTES];
    pair.copy_from_slice(&bytes[at..at + RESTART_BYTES]);
    let both = u64::from_le_bytes(pair);
    (layout.keys_at + both as u32 as usize, layout.values_at + (both >> 32) as usize)
}

/// The head of a record, taken apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) trailer: Trailer,
    /// Bytes taken over from the key before.
    pub(crate) shared: usize,
    /// Where the rest of the key stands.
    pub(crate) suffix_at: usize,
    /// Where it ends, which is where the next record begins.
    pub(crate) suffix_end: usize,
    pub(crate) value_bytes: usize,
}

const CUT_SHORT: Damage = Damage("block record is cut short");

impl Record {
    /// Takes apart the record at `at`; `keys_end` ends the keys.
    #[inline(always)]
    pub(crate) fn decode(bytes: &[u8], keys_end: usize, at: usize) -> Result<Record, Damage> {
        // The short form with eight readable bytes behind its head, which the values provide.
        if let Some(window) = bytes.get(at..at + 12)
            && let Some((head, seq)) = window.split_first_chunk::<SHORT_HEAD_BYTES>()
            && let Some(seq) = seq.first_chunk::<8>()
            && head[0] & TAG_LONG == 0
        {
            let seq_bytes = (head[0] >> 4) as usize;
            let seq = u64::from_le_bytes(*seq) & ((1u64 << (8 * seq_bytes)) - 1);
            let suffix_at = at + SHORT_HEAD_BYTES + seq_bytes;
            let suffix_end = suffix_at + head[2] as usize;
            if suffix_end > keys_end {
                return Err(CUT_SHORT);
            }
            return Ok(Record {
                trailer: Trailer(seq << 8 | u64::from(head[0] & 0x0f)),
                shared: head[1] as usize,
                suffix_at,
                suffix_end,
                value_bytes: head[3] as usize,
            });
        }
        Record::decode_any(bytes, keys_end, at)
    }

    /// The long form, and short records at the very end of a block.
    #[inline(never)]
    fn decode_any(bytes: &[u8], keys_end: usize, at: usize) -> Result<Record, Damage> {
        let mut input = bytes.get(at..keys_end).ok_or(CUT_SHORT)?;
        let (tag, lengths) = take_head(&mut input).ok_or(CUT_SHORT)?;
        let [shared, unshared, value_bytes] = lengths;
        let seq_bytes = ((tag & !TAG_LONG) >> 4) as usize;
        if seq_bytes > input.len() || unshared > input.len() - seq_bytes {
            return Err(CUT_SHORT);
        }
        let mut seq = [0; 8];
        seq[..seq_bytes].copy_from_slice(&input[..seq_bytes]);
        let suffix_at = keys_end - input.len() + seq_bytes;
        Ok(Record {
            trailer: Trailer(u64::from_le_bytes(seq) << 8 | u64::from(tag & 0x0f)),
            shared,
            suffix_at,
            suffix_end: suffix_at + unshared,
            value_bytes,
        })
    }
}

fn take_head(input: &mut &[u8]) -> Option<(u8, [usize; 3])> {
    let (&tag, rest) = input.split_first()?;
    *input = rest;
    let mut lengths = [0; 3];
    for length in &mut lengths {
        *length = if tag & TAG_LONG == 0 {
            let (&byte, rest) = input.split_first()?;
            *input = rest;
            byte as usize
        } else {
            // A u32, so that sums of lengths and offsets cannot overflow.
            u32::try_from(take_varint(input)?).ok()? as usize
        };
    }
    Some((tag, lengths))
}
