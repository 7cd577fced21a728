//! Range tombstones: one record that hides every older record of a key range.
//!
//! A set is kept *fragmented*: cut at every start and end, so that the fragments do not overlap and
//! each carries the sequence numbers of all tombstones over it, newest first. A lookup is then one
//! binary search, and a walk is one step.
//!
//! Invariants: (1) fragments are sorted and disjoint; (2) each has at least one sequence number.

use esker_base::{KeyOrder, Seq};
use std::sync::Arc;

/// All keys of `[start, end)` with a sequence number below `seq` are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// First key covered.
    pub start: Arc<[u8]>,
    /// First key after `start` not covered.
    pub end: Arc<[u8]>,
    /// When the range was deleted.
    pub seq: Seq,
}

/// A piece of key space under the same tombstones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// First key covered.
    pub start: Arc<[u8]>,
    /// First key after `start` not covered.
    pub end: Arc<[u8]>,
    /// Sequence numbers of the tombstones over it, descending; never empty.
    pub seqs: Vec<Seq>,
}

impl Fragment {
    /// The tombstones over it as records, newest first.
    pub fn records(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        let (start, end) = (&self.start, &self.end);
        let record = |&seq| RangeTombstone { start: start.clone(), end: end.clone(), seq };
        self.seqs.iter().map(record)
    }

    /// The newest tombstone visible at `seq`.
    #[inline]
    pub fn newest_at(&self, seq: Seq) -> Option<Seq> {
        self.seqs.iter().copied().find(|&s| s <= seq)
    }
}

/// An immutable set of range tombstones. Cost in memory: [`RangeTombstones::memory_bytes`].
#[derive(Clone, Debug, Default)]
pub struct RangeTombstones {
    fragments: Vec<Fragment>,
}

impl RangeTombstones {
    /// Fragments `tombstones`, which may overlap and stand in any order. Empty ranges are left out.
    ///
    /// Cost: O(n log n) for tombstones that overlap little; n² fragments-entries at the worst.
    pub fn build(order: &KeyOrder, tombstones: &[RangeTombstone]) -> RangeTombstones {
        let live: Vec<&RangeTombstone> =
            tombstones.iter().filter(|t| order.less(&t.start, &t.end)).collect();
        let mut cuts: Vec<&Arc<[u8]>> = live.iter().flat_map(|t| [&t.start, &t.end]).collect();
        cuts.sort_unstable_by(|a, b| order.compare(a, b));
        cuts.dedup_by(|a, b| order.same(a, b));
        let mut by_start = live;
        by_start.sort_unstable_by(|a, b| order.compare(&a.start, &b.start));

        let mut fragments = Vec::new();
        let mut open: Vec<&RangeTombstone> = Vec::new();
        let mut next = 0;
        for pair in cuts.windows(2) {
            let (start, end) = (pair[0], pair[1]);
            open.retain(|t| order.less(start, &t.end));
            while next < by_start.len() && order.same(&by_start[next].start, start) {
                open.push(by_start[next]);
                next += 1;
            }
            if open.is_empty() {
                continue;
            }
            let mut seqs: Vec<Seq> = open.iter().map(|t| t.seq).collect();
            seqs.sort_unstable_by(|a, b| b.cmp(a));
            seqs.dedup();
            fragments.push(Fragment { start: start.clone(), end: end.clone(), seqs });
        }
        RangeTombstones { fragments }
    }

    /// True if nothing is covered.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The fragments in order.
    pub fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// Index of the first fragment that ends after `key`: the one over it, or the next.
    #[inline]
    pub fn position(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.fragments.partition_point(|f| order.compare(&f.end, key).is_le())
    }

    /// The newest tombstone over `key` that is visible at `seq`.
    #[inline]
    pub fn covering(&self, order: &KeyOrder, key: &[u8], seq: Seq) -> Option<Seq> {
        if self.fragments.is_empty() {
            return None;
        }
        let fragment = self.fragments.get(self.position(order, key))?;
        if order.compare(&fragment.start, key).is_gt() {
            return None;
        }
        fragment.newest_at(seq)
    }

    /// Of each fragment the newest tombstone alone.
    pub fn newest(mut self) -> RangeTombstones {
        self.fragments.iter_mut().for_each(|fragment| fragment.seqs.truncate(1));
        self
    }

    /// The tombstones as records, one for each fragment and sequence number, in internal-key order.
    pub fn records(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.fragments.iter().flat_map(Fragment::records)
    }

    /// Heap bytes held, about.
    pub fn memory_bytes(&self) -> usize {
        self.fragments
            .iter()
            .map(|f| size_of::<Fragment>() + f.start.len() + f.end.len() + 8 * f.seqs.len())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tombstone(start: &str, end: &str, seq: Seq) -> RangeTombstone {
        RangeTombstone { start: start.as_bytes().into(), end: end.as_bytes().into(), seq }
    }

    #[test]
    fn fragments_agree_with_a_plain_scan() {
        let order = KeyOrder::Bytewise;
        let mut state = 7u64;
        let mut random = |n: u64| {
            state = esker_base::checksum::mix64(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
            state % n
        };
        for _ in 0..500 {
            let tombstones: Vec<RangeTombstone> = (0..random(12))
                .map(|_| {
                    let (a, b) = (b'a' + random(12) as u8, b'a' + random(12) as u8);
                    RangeTombstone {
                        start: [a].as_slice().into(),
                        end: [b].as_slice().into(),
                        seq: 1 + random(20),
                    }
                })
                .collect();
            let set = RangeTombstones::build(&order, &tombstones);
            for pair in set.fragments().windows(2) {
                assert!(pair[0].end <= pair[1].start && pair[0].start < pair[0].end);
            }
            for key in b'a' - 1..=b'n' {
                for seq in 0..22 {
                    let plain = tombstones
                        .iter()
                        .filter(|t| {
                            t.start[..] <= [key][..] && [key][..] < t.end[..] && t.seq <= seq
                        })
                        .map(|t| t.seq)
                        .max();
                    assert_eq!(set.covering(&order, &[key], seq), plain);
                }
            }
            let again: Vec<_> = set.records().collect();
            assert_eq!(RangeTombstones::build(&order, &again).fragments(), set.fragments());
        }
    }

    #[test]
    fn an_empty_or_reversed_range_covers_nothing() {
        let order = KeyOrder::Bytewise;
        let set = RangeTombstones::build(&order, &[tombstone("b", "b", 1), tombstone("c", "a", 2)]);
        assert!(set.is_empty());
        assert_eq!(set.covering(&order, b"b", 9), None);
    }
}
