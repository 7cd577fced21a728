//! The index: leaves, and where to begin in them.

use super::entry::{Prefix, PrefixBuf, Slots};
use super::leaf::{Finished, LEAF_BYTES, Leaf, LeafBuilder, LongEntry};
use esker_base::key::{prefix_behind, prefix_u64, shared_prefix_len};
use esker_base::pages::{LINE_BYTES, Pages, prefetch};
use std::cmp::Ordering;
use std::sync::Arc;

/// Leaves of a chunk: as many as fill a huge page.
const CHUNK_LEAVES: usize = (2 << 20) / LEAF_BYTES;

/// Which runs may hold which keys. Immutable.
#[derive(Debug, Default)]
pub(crate) struct RunIndex {
    /// Leaves, in chunks of [`CHUNK_LEAVES`].
    chunks: Vec<Pages<u8>>,
    long: Vec<LongEntry>,
    /// What the first entries of all leaves begin with.
    base: Vec<u8>,
    /// The eight bytes behind it, of each leaf's first entry.
    heads: Vec<u64>,
    /// `None` until all leaves are there.
    directory: Option<Directory>,
    entries: u64,
    names: u64,
}

/// Where to search among the heads, as if they were evenly spread.
#[derive(Debug)]
struct Directory {
    digits: Box<Digits>,
    shift: u32,
    /// For each value of the leading bits of a head's rank, the first head that has it or a greater
    /// one; and the number of heads.
    starts: Vec<u32>,
}

/// Heads for each entry of the directory, were they evenly spread.
const HEADS_EACH: usize = 2;

impl Directory {
    fn new(heads: &[u64]) -> Directory {
        let digits = Box::new(Digits::of(heads));
        let greatest = heads.last().copied().unwrap_or(0);
        let (greatest, wanted) = (digits.rank(greatest), (heads.len() / HEADS_EACH).max(1) as u64);
        let mut shift = 0;
        while greatest >> shift > wanted {
            shift += 1;
        }
        let start =
            |value: u64| heads.partition_point(|&head| digits.rank(head) >> shift < value) as u32;
        let starts = (0..=(greatest >> shift) + 1).map(start).collect();
        Directory { digits, shift, starts }
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(&*self.digits) + self.starts.capacity() * size_of::<u32>()
    }

    /// The number of heads that are not greater than `head`.
    #[inline]
    fn not_after(&self, heads: &[u64], head: u64) -> usize {
        let value = (self.digits.rank(head) >> self.shift) as usize;
        let (Some(&low), Some(&high)) = (self.starts.get(value), self.starts.get(value + 1)) else {
            return heads.len();
        };
        let (low, high) = (low as usize, high as usize);
        low + heads[low..high].partition_point(|&other| other <= head)
    }
}

/// Heads as numbers whose digits are their bytes, of which only those count that occur at their
/// place. In text that leaves no gaps: hexadecimal digits are sixteen of a byte's 256 values.
#[derive(Debug)]
struct Digits([Digit; size_of::<u64>()]);

#[derive(Clone, Copy, Debug)]
struct Digit {
    /// For each byte, how many lesser ones occur here.
    lesser: [u8; 256],
    /// A bit for each byte: whether it occurs.
    occurs: [u64; 4],
    /// What one more of it counts.
    weight: u64,
}

impl Digits {
    fn of(heads: &[u64]) -> Digits {
        let mut digits = [Digit { lesser: [0; 256], occurs: [0; 4], weight: 1 }; size_of::<u64>()];
        for head in heads {
            for (digit, byte) in digits.iter_mut().zip(head.to_be_bytes()) {
                digit.occurs[usize::from(byte >> 6)] |= 1 << (byte & 63);
            }
        }
        let mut weight = 1u64;
        for digit in digits.iter_mut().rev() {
            let mut values = 0u64;
            for byte in 0..=u8::MAX {
                digit.lesser[usize::from(byte)] = values as u8;
                values += u64::from(digit.has(byte));
            }
            digit.weight = weight;
            // The product of all eight may be one too large, and is not used.
            weight = weight.wrapping_mul(values.max(1));
        }
        Digits(digits)
    }

    /// Grows with `head`, or stays. What does not occur ranks with the last before it.
    #[inline]
    fn rank(&self, head: u64) -> u64 {
        let mut rank = 0;
        for (digit, byte) in self.0.iter().zip(head.to_be_bytes()) {
            let lesser = u64::from(digit.lesser[usize::from(byte)]);
            if !digit.has(byte) {
                // Behind all that is less here, and before all that is more.
                return rank + (lesser * digit.weight).saturating_sub(1);
            }
            rank += lesser * digit.weight;
        }
        rank
    }
}

impl Digit {
    #[inline]
    fn has(&self, byte: u8) -> bool {
        self.occurs[usize::from(byte >> 6)] >> (byte & 63) & 1 != 0
    }
}

impl RunIndex {
    /// Entries.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Runs that entries name, each as often as it is named.
    pub(crate) fn names(&self) -> u64 {
        self.names
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let long = self.long.iter().map(|long| size_of_val(long) + long.prefix.bytes.capacity());
        let leaves = self.chunks.iter().map(|chunk| chunk.len());
        let own = self.heads.capacity() * size_of::<u64>()
            + self.directory.as_ref().map_or(0, Directory::memory_bytes)
            + self.base.capacity();
        (leaves.sum::<usize>() + long.sum::<usize>() + own) as u64
    }

    #[inline]
    fn leaves(&self) -> usize {
        self.heads.len()
    }

    #[inline]
    fn leaf(&self, leaf: usize) -> Leaf<'_> {
        let at = leaf % CHUNK_LEAVES * LEAF_BYTES;
        let chunk = &self.chunks[leaf / CHUNK_LEAVES];
        let bytes = chunk[at..].first_chunk().expect("chunks hold whole leaves");
        Leaf { bytes, long: &self.long }
    }

    /// The runs that may hold `key`.
    ///
    /// # Cost
    /// A binary search among integers, one for each leaf of some dozens of keys, and a walk in four
    /// cache lines.
    #[inline]
    pub(crate) fn slots(&self, key: &[u8]) -> Slots {
        match self.leaf_of(key) {
            Some(leaf) => self.leaf(leaf).search(key).1,
            None => 0,
        }
    }

    /// The last leaf that does not begin after `key`.
    #[inline]
    fn leaf_of(&self, key: &[u8]) -> Option<usize> {
        let head = match prefix_behind(key, &self.base) {
            Ok(head) => head,
            Err(Ordering::Less) => return None,
            Err(_) => return self.leaves().checked_sub(1),
        };
        let not_after = self.directory.as_ref()?.not_after(&self.heads, head);
        let leaf = not_after.checked_sub(1)?;
        let bytes = self.leaf(leaf).bytes;
        (0..LEAF_BYTES).step_by(LINE_BYTES).for_each(|at| prefetch(&raw const bytes[at]));
        if self.heads[leaf] < head {
            return Some(leaf);
        }
        self.leaf_among_alike(key, head, not_after)
    }

    /// The same where leaves have the key's head.
    #[inline(never)]
    fn leaf_among_alike(&self, key: &[u8], head: u64, not_after: usize) -> Option<usize> {
        let least = self.heads[..not_after].partition_point(|&other| other < head);
        let (mut low, mut high) = (least, not_after);
        while low < high {
            let middle = (low + high) / 2;
            match self.leaf(middle).compare_first(key) {
                Ordering::Less => high = middle,
                _ => low = middle + 1,
            }
        }
        low.checked_sub(1)
    }
}

/// Puts an index together from entries in their order.
#[derive(Debug, Default)]
pub(super) struct IndexBuilder {
    index: RunIndex,
    /// Leaves of the last chunk.
    chunk: Vec<u8>,
    leaf: LeafBuilder,
    /// What the first leaf begins with, and the bytes that all first entries share with it.
    first: Vec<u8>,
    shared: usize,
    leaves: usize,
    /// Of entries that do not fit into leaves.
    long_bytes: usize,
}

impl IndexBuilder {
    pub(super) fn add(&mut self, prefix: Prefix<'_>, slots: Slots) {
        self.leaf.add(prefix, slots);
        self.index.entries += 1;
        self.index.names += u64::from(slots.count_ones());
        if self.leaf.overflows() {
            self.finish_leaf();
        }
    }

    fn finish_leaf(&mut self) {
        let mut bytes = [0; LEAF_BYTES];
        match self.leaf.finish() {
            Finished::Leaf(leaf) => bytes = *leaf,
            Finished::Long(entry) => {
                let number = self.index.long.len() as u32;
                bytes[2..6].copy_from_slice(&number.to_le_bytes());
                self.long_bytes += size_of_val(&entry) + entry.prefix.bytes.capacity();
                self.index.long.push(entry);
            }
        }
        let first = Leaf { bytes: &bytes, long: &self.index.long }.first().bytes;
        if self.leaves == 0 {
            self.shared = first.len();
            self.first = first;
        } else {
            self.shared = self.shared.min(shared_prefix_len(&self.first, &first));
        }
        self.leaves += 1;
        self.chunk.extend_from_slice(&bytes);
        if self.chunk.len() == CHUNK_LEAVES * LEAF_BYTES {
            self.finish_chunk();
        }
    }

    fn finish_chunk(&mut self) {
        let mut pages = Pages::huge(self.chunk.len());
        pages.copy_from_slice(&self.chunk);
        self.index.chunks.push(pages);
        self.chunk.clear();
    }

    /// Bytes that the index takes so far.
    pub(super) fn heap_bytes(&self) -> u64 {
        (self.leaves * (LEAF_BYTES + size_of::<u64>()) + self.long_bytes) as u64
    }

    pub(super) fn finish(mut self) -> RunIndex {
        while !self.leaf.is_empty() {
            self.finish_leaf();
        }
        if !self.chunk.is_empty() {
            self.finish_chunk();
        }
        let index = &mut self.index;
        index.base = self.first[..self.shared].to_vec();
        let all = index.chunks.iter().flat_map(|chunk| chunk.chunks_exact(LEAF_BYTES));
        let leaves = all.filter_map(|bytes| {
            bytes.first_chunk().map(|bytes| Leaf { bytes, long: &index.long }.first().bytes)
        });
        index.heads = leaves.map(|first| prefix_u64(&first[self.shared..])).collect();
        index.heads.shrink_to_fit();
        index.directory = Some(Directory::new(&index.heads));
        self.index
    }
}

/// Walks the entries of an index, in both directions.
pub(crate) struct EntryCursor {
    index: Arc<RunIndex>,
    /// The leaf, and the number of the entry in it. Beyond the last leaf: on no entry.
    leaf: usize,
    nth: usize,
    /// Where the following entry of the leaf begins.
    next_at: usize,
    prefix: PrefixBuf,
    slots: Slots,
}

impl EntryCursor {
    /// Stands on nothing.
    pub(crate) fn new(index: Arc<RunIndex>) -> EntryCursor {
        let leaf = index.leaves();
        let prefix = PrefixBuf::default();
        EntryCursor { index, leaf, nth: 0, next_at: 0, prefix, slots: 0 }
    }

    /// True if it stands on an entry.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.leaf < self.index.leaves()
    }

    /// The runs that the entry names. Needs `valid`.
    #[inline]
    pub(crate) fn slots(&self) -> Slots {
        self.slots
    }

    /// The first key that the entry may stand for. Needs `valid`.
    #[inline]
    pub(crate) fn first_key(&self) -> &[u8] {
        &self.prefix.bytes
    }

    /// True if the entry stands for its first key only. Needs `valid`.
    #[inline]
    pub(crate) fn is_exact(&self) -> bool {
        self.prefix.exact
    }

    /// The keys that the entry stands for. Needs `valid`.
    #[inline]
    pub(super) fn prefix(&self) -> Prefix<'_> {
        self.prefix.get()
    }

    /// True if `key` is covered by the entry. Needs `valid`.
    #[inline]
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        self.prefix.get().covers(key)
    }

    /// Moves to the first entry.
    pub(crate) fn seek_to_first(&mut self) {
        self.enter(0, 0);
    }

    /// Moves to the last entry.
    pub(crate) fn seek_to_last(&mut self) {
        match self.index.leaves().checked_sub(1) {
            Some(last) => self.enter(last, self.index.leaf(last).entries() - 1),
            None => self.leave(),
        }
    }

    /// Moves to the first entry that covers `key` or comes after it.
    pub(crate) fn seek(&mut self, key: &[u8]) {
        self.seek_at_or_before(key);
        if !self.valid() {
            self.seek_to_first();
        } else if !self.covers(key) {
            self.next();
        }
    }

    /// Moves to the last entry that covers `key` or comes before it.
    pub(crate) fn seek_at_or_before(&mut self, key: &[u8]) {
        match self.index.leaf_of(key) {
            Some(leaf) => self.enter(leaf, self.index.leaf(leaf).search(key).0),
            None => self.leave(),
        }
    }

    /// Moves to the following entry; from the last one, to nothing. Needs `valid`.
    #[inline]
    pub(crate) fn next(&mut self) {
        let leaf = self.index.leaf(self.leaf);
        self.nth += 1;
        if self.nth < leaf.entries() {
            self.slots = leaf.decode_next(&mut self.prefix, &mut self.next_at);
        } else {
            self.enter(self.leaf + 1, 0);
        }
    }

    /// Moves to the preceding entry; from the first one, to nothing. Needs `valid`.
    pub(crate) fn prev(&mut self) {
        match (self.nth.checked_sub(1), self.leaf.checked_sub(1)) {
            (Some(nth), _) => self.enter(self.leaf, nth),
            (None, Some(leaf)) => self.enter(leaf, self.index.leaf(leaf).entries() - 1),
            (None, None) => self.leave(),
        }
    }

    /// Stands on nothing.
    pub(crate) fn leave(&mut self) {
        self.leaf = self.index.leaves();
    }

    /// Moves to entry `nth` of a leaf, by way of its group.
    #[inline(never)]
    fn enter(&mut self, leaf: usize, nth: usize) {
        self.leaf = leaf;
        self.nth = nth;
        if self.valid() {
            let leaf = self.index.leaf(leaf);
            self.slots = leaf.decode(nth, &mut self.prefix, &mut self.next_at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::checksum::mix64;

    /// Heads of one kind, in their order, and others between and around them.
    fn samples(kind: u64, n: u64) -> (Vec<u64>, Vec<u64>) {
        let head = |at: u64| match kind {
            0 => mix64(at),
            1 => prefix_u64(format!("{:08}", mix64(at) % 100_000_000).as_bytes()),
            2 => prefix_u64(format!("{:08x}", mix64(at) as u32).as_bytes()),
            3 => mix64(at) & 0x00ff_0000_0f0f_0001,
            _ => 7,
        };
        let mut heads: Vec<u64> = (0..n).map(head).collect();
        heads.sort_unstable();
        let near = heads.iter().flat_map(|&h| [h, h.wrapping_add(1), h.wrapping_sub(1), !h]);
        let others = (0..100).map(mix64).chain([0, u64::MAX]);
        (heads.clone(), near.chain(others).collect())
    }

    #[test]
    fn ranks_grow_with_heads_and_the_directory_finds_each() {
        for kind in 0..5 {
            for n in [1, 2, 10, 3_000] {
                let (heads, mut probes) = samples(kind, n);
                let directory = Directory::new(&heads);
                for &probe in &probes {
                    let expected = heads.partition_point(|&head| head <= probe);
                    assert_eq!(directory.not_after(&heads, probe), expected, "{kind} {probe:x}");
                }
                probes.sort_unstable();
                let ranks: Vec<u64> = probes.iter().map(|&p| directory.digits.rank(p)).collect();
                assert!(ranks.is_sorted(), "{kind}");
            }
        }
        assert_eq!(Directory::new(&[]).not_after(&[], 5), 0);
    }

    #[test]
    fn text_is_spread_as_evenly_as_random_bytes() {
        for kind in 0..3 {
            let (heads, _) = samples(kind, 30_000);
            let directory = Directory::new(&heads);
            let most = directory.starts.windows(2).map(|pair| pair[1] - pair[0]).max();
            assert!(most < Some(20), "{most:?} heads of kind {kind} in one place");
            assert!(directory.starts.len() < 2 * heads.len(), "{kind}");
        }
    }
}
