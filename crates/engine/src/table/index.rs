//! Index blocks: which data block, or which partition, may hold a key.
//!
//! Format: docs/format/table.md, "Index block" and "Top index block".
//! Invariants: (1) entry `i` bounds its child from above: every record of the child is at or before
//! `(separator, trailer)` and every record of the next child is after it; (2) entries strictly
//! increase, which decoding checks; (3) whole keys take at most [`expansion_max`] of the bytes they
//! were encoded in, so that decoding cannot blow up.
//!
//! In memory the separators of a bytewise table are searched as integers: the eight bytes that
//! follow what all of them share. Whole keys are compared only among equal integers.

use crate::block::{Damage, TRAILER_BYTES};
use crate::cache::{Answer, Place, Rule};
use esker_base::coding::{put_varint, take_bytes, take_u64, take_varint, take_varint_u32};
use esker_base::heap::{Heap, HeapBox, SharedBytes};
use esker_base::key::{prefix_behind, prefix_u64, shared_prefix_len};
use esker_base::{KeyOrder, Trailer};
use std::cmp::Ordering;
use std::hint::black_box;
use std::sync::{Arc, Weak};

use super::format::Handle;
use super::slot::{SLOT_BYTES, SLOTS_PER_LINE, Slot};

/// A separator that stands between two user keys bounds with the least trailer.
const NO_STRADDLE: Trailer = Trailer(0);

const CUT_SHORT: Damage = Damage("index entry is cut short");

/// Prefixes in a group: as many as fill a cache line.
const GROUP: usize = 8;

/// Bytes of whole keys that `encoded` bytes of an index may stand for.
fn expansion_max(encoded: usize) -> usize {
    encoded.saturating_mul(16).saturating_add(64 << 10)
}

/// Writes separators, prefix-compressed against each other.
#[derive(Debug)]
pub(super) struct SeparatorWriter {
    pub(super) bytes: Vec<u8>,
    pub(super) entries: u64,
    last: Vec<u8>,
    last_trailer: Trailer,
    /// Bytes of the keys, where they do not share any.
    pub(super) whole_bytes: usize,
}

impl Default for SeparatorWriter {
    fn default() -> SeparatorWriter {
        SeparatorWriter {
            bytes: Vec::new(),
            entries: 0,
            last: Vec::new(),
            last_trailer: NO_STRADDLE,
            whole_bytes: 0,
        }
    }
}

impl SeparatorWriter {
    /// Adds a separator; the caller appends what it leads to.
    pub(super) fn put(&mut self, key: &[u8], trailer: Trailer) {
        let mut shared = shared_prefix_len(&self.last, key);
        self.whole_bytes += key.len();
        if self.whole_bytes > expansion_max(self.bytes.len()) {
            shared = 0;
        }
        let straddles = trailer != NO_STRADDLE;
        put_varint(&mut self.bytes, (shared as u64) << 1 | u64::from(straddles));
        put_varint(&mut self.bytes, (key.len() - shared) as u64);
        self.bytes.extend_from_slice(&key[shared..]);
        if straddles {
            self.bytes.extend_from_slice(&trailer.0.to_le_bytes());
        }
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
        self.last_trailer = trailer;
        self.entries += 1;
    }

    /// The separator added last.
    pub(super) fn last_bound(&self) -> (&[u8], Trailer) {
        (&self.last, self.last_trailer)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries = 0;
        self.last.clear();
        self.whole_bytes = 0;
    }
}

/// Reads separators and gathers them for searching.
struct SeparatorReader {
    encoded_bytes: usize,
    keys: Vec<u8>,
    ends: Vec<u32>,
    straddles: Vec<(u32, Trailer)>,
}

impl SeparatorReader {
    fn new(encoded_bytes: usize) -> SeparatorReader {
        SeparatorReader { encoded_bytes, keys: Vec::new(), ends: Vec::new(), straddles: Vec::new() }
    }

    fn take(&mut self, input: &mut &[u8]) -> Result<(), Damage> {
        let word = take_varint(input).ok_or(CUT_SHORT)?;
        let shared = usize::try_from(word >> 1).map_err(|_| CUT_SHORT)?;
        let unshared = take_varint_u32(input).ok_or(CUT_SHORT)?;
        let suffix = take_bytes(input, unshared as usize).ok_or(CUT_SHORT)?;
        let last = match self.ends.len() {
            0 | 1 => 0,
            n => self.ends[n - 2] as usize,
        };
        if shared > self.keys.len() - last {
            return Err(Damage("index key shares more than the key before has"));
        }
        // What is still to be read only adds to the bound.
        let whole = self.keys.len() + shared + suffix.len();
        let read = self.encoded_bytes - input.len();
        if shared > 0 && whole > expansion_max(read) || whole > u32::MAX as usize {
            return Err(Damage("index keys expand beyond all measure"));
        }
        self.keys.extend_from_within(last..last + shared);
        self.keys.extend_from_slice(suffix);
        if word & 1 != 0 {
            let trailer = take_u64(input).ok_or(CUT_SHORT)?;
            self.straddles.push((self.ends.len() as u32, Trailer(trailer)));
        }
        self.ends.push(self.keys.len() as u32);
        Ok(())
    }

    fn finish(self, heap: &Heap, order: &KeyOrder) -> Result<Separators, Damage> {
        let mut separators = Separators {
            prefixes: HeapBox::default(),
            samples: HeapBox::default(),
            shared: 0,
            keys: HeapBox::new(heap, self.keys),
            ends: HeapBox::new(heap, self.ends),
            straddles: HeapBox::new(heap, self.straddles),
        };
        for i in 1..separators.len() {
            let (a, b) = (separators.bound(i - 1), separators.bound(i));
            if order.compare_internal(a, b) != Ordering::Less {
                return Err(Damage("index keys are out of order"));
            }
        }
        if order.is_bytewise() && separators.len() > 0 {
            // Sorted, so that what the first and the last share is shared by all.
            let last = separators.key(separators.len() - 1);
            separators.shared = shared_prefix_len(separators.key(0), last);
            let prefix = |i| prefix_u64(&separators.key(i)[separators.shared..]);
            let prefixes: Vec<u64> = (0..separators.len()).map(prefix).collect();
            let samples = prefixes.chunks_exact(GROUP).map(|group| group[GROUP - 1]).collect();
            separators.samples = HeapBox::new(heap, samples);
            separators.prefixes = HeapBox::new(heap, prefixes);
        }
        Ok(separators)
    }
}

/// Sorted separators, ready to be searched.
#[derive(Debug)]
pub(super) struct Separators {
    /// Of each key, the eight bytes after the shared ones. Empty if the order is not bytewise.
    prefixes: HeapBox<u64>,
    /// The last of each full group of prefixes.
    samples: HeapBox<u64>,
    /// Bytes that all keys begin with. 0 if the order is not bytewise.
    shared: usize,
    /// All whole keys.
    keys: HeapBox<u8>,
    /// Where each key ends in `keys`.
    ends: HeapBox<u32>,
    /// Trailers of the separators that cut between two records of one user key.
    straddles: HeapBox<(u32, Trailer)>,
}

impl Separators {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whole key `i`.
    #[inline]
    pub(super) fn key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.keys[start..self.ends[i] as usize]
    }

    /// Key and trailer `i`: the last internal key that child `i` may hold.
    pub(super) fn bound(&self, i: usize) -> (&[u8], Trailer) {
        let trailer = match self.straddles.binary_search_by_key(&(i as u32), |s| s.0) {
            Ok(at) => self.straddles[at].1,
            Err(_) => NO_STRADDLE,
        };
        (self.key(i), trailer)
    }

    /// The first child that may hold a record at or after `(key, trailer)`; `len` if none.
    #[inline]
    pub(super) fn lower_bound(&self, order: &KeyOrder, key: &[u8], trailer: Trailer) -> usize {
        self.lower_bound_near(order, key, trailer, |_| ())
    }

    /// As [`Separators::lower_bound`]. In bytewise order `near` hears the first of the up to
    /// `GROUP` children that are likely to hold the answer before their prefixes are looked at.
    #[inline]
    fn lower_bound_near(
        &self,
        order: &KeyOrder,
        key: &[u8],
        trailer: Trailer,
        near: impl FnOnce(usize),
    ) -> usize {
        match order {
            KeyOrder::Bytewise => self.lower_bound_bytewise(key, trailer, near),
            KeyOrder::Custom(_) => self.partition(0, self.len(), |bound| {
                order.compare_internal(bound, (key, trailer)).is_lt()
            }),
        }
    }

    #[inline]
    fn lower_bound_bytewise(
        &self,
        key: &[u8],
        trailer: Trailer,
        near: impl FnOnce(usize),
    ) -> usize {
        if self.prefixes.is_empty() {
            return 0;
        }
        let prefix = match prefix_behind(key, &self.keys[..self.shared]) {
            Ok(prefix) => prefix,
            Err(side) => return if side.is_lt() { 0 } else { self.len() },
        };
        let group = self.samples.partition_point(|&p| p < prefix) * GROUP;
        near(group);
        let rest = &self.prefixes[group..];
        let below = match rest.first_chunk::<GROUP>() {
            Some(full) => full.iter().map(|&p| usize::from(p < prefix)).sum(),
            None => rest.iter().filter(|&&p| p < prefix).count(),
        };
        let low = group + below;
        if self.prefixes.get(low).is_none_or(|&p| p != prefix) {
            return low;
        }
        let run = self.prefixes[low..].partition_point(|&p| p == prefix);
        self.partition(low, low + run, |(k, t)| match k.cmp(key) {
            Ordering::Less => true,
            Ordering::Equal => t > trailer,
            Ordering::Greater => false,
        })
    }

    fn partition(
        &self,
        mut low: usize,
        mut high: usize,
        before: impl Fn((&[u8], Trailer)) -> bool,
    ) -> usize {
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.bound(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn memory_bytes(&self) -> usize {
        (self.prefixes.len() + self.samples.len()) * 8
            + self.keys.len()
            + self.ends.len() * 4
            + self.straddles.len() * size_of::<(u32, Trailer)>()
    }
}

/// The index of one partition: its data blocks, which stand one behind the other.
#[derive(Debug)]
pub(super) struct DataIndex {
    pub(super) separators: Separators,
    /// Where each block begins, and where the last one's trailer ends.
    starts: HeapBox<u64>,
    /// One for each block.
    slots: HeapBox<Slot>,
}

impl DataIndex {
    /// Encodes an index: `blocks` are separators, each followed by its block's stored length.
    pub(super) fn encode(out: &mut Vec<u8>, first_block_at: u64, blocks: &SeparatorWriter) {
        put_varint(out, first_block_at);
        put_varint(out, blocks.entries);
        out.extend_from_slice(&blocks.bytes);
    }

    /// `file_bytes` bounds where blocks may stand.
    pub(super) fn decode(
        heap: &Heap,
        order: &KeyOrder,
        payload: &[u8],
        file_bytes: u64,
    ) -> Result<DataIndex, Damage> {
        let mut input = payload;
        let mut at = take_varint(&mut input).ok_or(CUT_SHORT)?;
        let entries = take_entries(&mut input, 3)?;
        if entries == 0 {
            return Err(Damage("index without entries"));
        }
        let mut separators = SeparatorReader::new(payload.len());
        let mut starts = Vec::with_capacity(entries + 1);
        starts.push(at);
        for _ in 0..entries {
            separators.take(&mut input)?;
            let stored = take_varint_u32(&mut input).ok_or(CUT_SHORT)?;
            at = at.saturating_add(u64::from(stored) + TRAILER_BYTES as u64);
            if at > file_bytes {
                return Err(Damage("index leads beyond the end of the file"));
            }
            starts.push(at);
        }
        if !input.is_empty() {
            return Err(Damage("index is longer than its entries"));
        }
        let separators = separators.finish(heap, order)?;
        let slots = (0..entries).map(|_| Slot::default()).collect();
        let (starts, slots) = (HeapBox::new(heap, starts), HeapBox::new(heap, slots));
        Ok(DataIndex { separators, starts, slots })
    }

    /// Number of data blocks.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.separators.len()
    }

    /// Where block `i` stands.
    #[inline]
    pub(super) fn handle(&self, i: usize) -> Handle {
        let stored = self.starts[i + 1] - self.starts[i] - TRAILER_BYTES as u64;
        Handle { offset_bytes: self.starts[i], stored_bytes: stored as u32 }
    }

    /// The block that may hold the first record at or after `(key, trailer)`; `len` if none.
    ///
    /// Fetches the slots that it may name while it is still searching.
    #[inline]
    pub(super) fn find(&self, order: &KeyOrder, key: &[u8], trailer: Trailer) -> usize {
        self.separators.lower_bound_near(order, key, trailer, |group| {
            let slots = self.slots.get(group..).unwrap_or_default();
            slots.iter().take(GROUP).step_by(SLOTS_PER_LINE).for_each(Slot::warm);
        })
    }

    /// Brings what a search looks at first near, without waiting for it.
    #[inline]
    pub(super) fn warm(&self) {
        let Separators { samples, keys, .. } = &self.separators;
        let middle = samples.get(samples.len() / 2).copied().unwrap_or(0);
        black_box(middle | keys.first().copied().map_or(0, u64::from));
    }

    /// Brings the front of block `i` near, if there is such a block and it is cached, without
    /// waiting for it.
    #[inline]
    pub(super) fn warm_block(&self, i: usize) {
        if let Some(slot) = self.slots.get(i) {
            slot.warm_block();
        }
    }

    /// Where block `i` may be had from memory.
    #[inline]
    pub(super) fn slot(&self, i: usize) -> &Slot {
        &self.slots[i]
    }

    /// Heap bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let inside = self.separators.memory_bytes() + self.starts.len() * 8;
        size_of::<DataIndex>() + 16 + inside + self.slots.len() * SLOT_BYTES
    }

    /// Heap bytes of so many indexes with so many blocks in all, whose separators have so many
    /// bytes: no less than their `memory_bytes`, but for trailers, which few separators have.
    pub(super) fn memory_bytes_of(indexes: u64, blocks: u64, separator_bytes: u64) -> u64 {
        // A start more than there are blocks.
        let each = size_of::<DataIndex>() + 16 + 8;
        let block = 8 + 8 / GROUP + 4 + 8 + SLOT_BYTES;
        let blocks = blocks.saturating_mul(block as u64);
        indexes.saturating_mul(each as u64).saturating_add(blocks).saturating_add(separator_bytes)
    }
}

/// Where a partition's own blocks stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartitionHandles {
    pub(super) index: Handle,
    /// Right behind the index; `None` if the partition has no filter.
    pub(super) filter: Option<Handle>,
}

/// The index over partitions; always in memory.
#[derive(Debug)]
pub(super) struct TopIndex {
    pub(super) separators: Separators,
    pub(super) partitions: Box<[PartitionHandles]>,
}

impl TopIndex {
    /// Adds a partition to `out`.
    pub(super) fn put(
        out: &mut SeparatorWriter,
        bound: (&[u8], Trailer),
        handles: &PartitionHandles,
    ) {
        out.put(bound.0, bound.1);
        put_varint(&mut out.bytes, handles.index.offset_bytes);
        put_varint(&mut out.bytes, u64::from(handles.index.stored_bytes));
        // A filter is never empty, so that 0 says there is none.
        put_varint(&mut out.bytes, handles.filter.map_or(0, |f| u64::from(f.stored_bytes)));
    }

    pub(super) fn encode(out: &mut Vec<u8>, partitions: &SeparatorWriter) {
        put_varint(out, partitions.entries);
        out.extend_from_slice(&partitions.bytes);
    }

    pub(super) fn decode(
        order: &KeyOrder,
        payload: &[u8],
        file_bytes: u64,
    ) -> Result<TopIndex, Damage> {
        let mut input = payload;
        let entries = take_entries(&mut input, 5)?;
        let mut separators = SeparatorReader::new(payload.len());
        let mut partitions = Vec::with_capacity(entries);
        for _ in 0..entries {
            separators.take(&mut input)?;
            let offset_bytes = take_varint(&mut input).ok_or(CUT_SHORT)?;
            let stored_bytes = take_varint_u32(&mut input).ok_or(CUT_SHORT)?;
            let filter_bytes = take_varint_u32(&mut input).ok_or(CUT_SHORT)?;
            let index = Handle { offset_bytes, stored_bytes };
            let filter = (filter_bytes > 0)
                .then(|| Handle { offset_bytes: index.end_bytes(), stored_bytes: filter_bytes });
            if filter.unwrap_or(index).end_bytes() > file_bytes {
                return Err(Damage("top index leads beyond the end of the file"));
            }
            partitions.push(PartitionHandles { index, filter });
        }
        if !input.is_empty() {
            return Err(Damage("top index is longer than its entries"));
        }
        let separators = separators.finish(&Heap::global(), order)?;
        Ok(TopIndex { separators, partitions: partitions.into_boxed_slice() })
    }

    /// Heap bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.separators.memory_bytes() + self.partitions.len() * size_of::<PartitionHandles>()
    }
}

/// Takes a count of entries that each have at least `bytes_min`.
fn take_entries(input: &mut &[u8], bytes_min: usize) -> Result<usize, Damage> {
    let entries = take_varint(input).ok_or(CUT_SHORT)?;
    match usize::try_from(entries) {
        Ok(entries) if entries <= input.len() / bytes_min => Ok(entries),
        _ => Err(Damage("index declares more entries than it has room for")),
    }
}

/// Names a slot from a queue of the cache, without keeping the index alive.
#[derive(Debug)]
pub(super) struct SlotRef {
    index: Weak<DataIndex>,
    at: u32,
}

impl SlotRef {
    pub(super) fn new(index: &Arc<DataIndex>, at: usize) -> SlotRef {
        SlotRef { index: Arc::downgrade(index), at: at as u32 }
    }
}

impl Place for SlotRef {
    type Kept = SharedBytes;

    #[inline]
    fn is_gone(&self) -> bool {
        self.index.strong_count() == 0
    }

    #[inline]
    fn warm(&self) {
        if let Some(index) = self.index.upgrade() {
            index.slot(self.at as usize).warm();
        }
    }

    #[inline]
    fn warm_kept(&self) {
        if let Some(index) = self.index.upgrade() {
            index.slot(self.at as usize).warm_ends();
        }
    }

    #[inline]
    fn ask(&self, rule: Rule) -> Answer<SharedBytes> {
        match self.index.upgrade() {
            Some(index) => index.slot(self.at as usize).ask(rule),
            None => Answer::Gone,
        }
    }
}
