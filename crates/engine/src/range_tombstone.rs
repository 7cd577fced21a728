//! Range tombstones: one record that hides every older record of a key range.
//!
//! A set is kept *fragmented*: cut at every start and end, so that the fragments do not overlap.
//! Which tombstones lie over them stands in a segment tree over the fragments: a tombstone over
//! many of them is noted in a few of its nodes, so that n tombstones that nest take O(n log n) and
//! not n². A lookup is a binary search for the fragment, and a look into each node from there to
//! the root; a walk is one step for each fragment.
//!
//! Invariants: (1) fragments are sorted and disjoint; (2) over each lies a tombstone; (3) the
//! numbers of a node are descending.

use esker_base::{KeyOrder, Seq};
use std::ops::Range;
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
pub struct Span {
    /// First key covered.
    pub start: Arc<[u8]>,
    /// First key after `start` not covered.
    pub end: Arc<[u8]>,
}

/// A piece of key space, and of the tombstones over it those that are to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Where it lies.
    pub span: Span,
    /// Sequence numbers of the tombstones, descending; never empty.
    pub seqs: Vec<Seq>,
}

/// An immutable set of range tombstones. Cost in memory: [`RangeTombstones::memory_bytes`].
#[derive(Clone, Debug, Default)]
pub struct RangeTombstones {
    fragments: Vec<Span>,
    /// Where the numbers of each node of the tree begin in `seqs`, and where the last ones end.
    /// Node 1 is the root, those below `n` are `2n` and `2n + 1`, and the fragments are the nodes
    /// from their count on.
    nodes: Vec<u32>,
    seqs: Vec<Seq>,
}

impl RangeTombstones {
    /// Fragments `tombstones`, which may overlap and stand in any order. Empty ranges are left out.
    ///
    /// Cost: O(n log n).
    pub fn build(order: &KeyOrder, tombstones: &[RangeTombstone]) -> RangeTombstones {
        let live: Vec<&RangeTombstone> =
            tombstones.iter().filter(|t| order.less(&t.start, &t.end)).collect();
        let mut cuts: Vec<&Arc<[u8]>> = live.iter().flat_map(|t| [&t.start, &t.end]).collect();
        cuts.sort_unstable_by(|a, b| order.compare(a, b));
        cuts.dedup_by(|a, b| order.same(a, b));
        let cut = |key: &Arc<[u8]>| cuts.partition_point(|cut| order.less(cut, key));
        let ranges: Vec<Range<usize>> = live.iter().map(|t| cut(&t.start)..cut(&t.end)).collect();
        // How many lie between each two cuts: one more from where one starts, one less from where
        // it ends.
        let mut steps = vec![0i64; cuts.len()];
        for range in &ranges {
            steps[range.start] += 1;
            steps[range.end] -= 1;
        }
        let mut fragments = Vec::new();
        // Of each cut, how many fragments lie before it.
        let mut before = Vec::with_capacity(cuts.len());
        let mut over = 0;
        for (at, step) in steps.iter().enumerate() {
            before.push(fragments.len());
            over += step;
            if over > 0 {
                fragments.push(Span { start: cuts[at].clone(), end: cuts[at + 1].clone() });
            }
        }
        let placed: Vec<(Range<usize>, Seq)> = ranges
            .iter()
            .zip(&live)
            .map(|(range, t)| (before[range.start]..before[range.end], t.seq))
            .collect();
        RangeTombstones::over(fragments, &placed)
    }

    /// The tree over these fragments, with tombstones that each lie over some of them.
    fn over(fragments: Vec<Span>, placed: &[(Range<usize>, Seq)]) -> RangeTombstones {
        let count = fragments.len();
        let mut noted: Vec<(u32, Seq)> = Vec::with_capacity(placed.len());
        for (range, seq) in placed {
            nodes_over(count, range.clone(), |node| noted.push((node as u32, *seq)));
        }
        noted.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        noted.dedup();
        let mut nodes = vec![0; 2 * count + 1];
        for &(node, _) in &noted {
            nodes[node as usize + 1] += 1;
        }
        for node in 1..nodes.len() {
            nodes[node] += nodes[node - 1];
        }
        let seqs = noted.into_iter().map(|(_, seq)| seq).collect();
        RangeTombstones { fragments, nodes, seqs }
    }

    /// True if nothing is covered.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The fragments in order.
    pub fn fragments(&self) -> &[Span] {
        &self.fragments
    }

    /// Index of the first fragment that ends after `key`: the one over it, or the next.
    #[inline]
    pub fn position(&self, order: &KeyOrder, key: &[u8]) -> usize {
        self.fragments.partition_point(|f| order.compare(&f.end, key).is_le())
    }

    /// The newest tombstone over a fragment that is visible at `seq`. Cost: O(log² n).
    #[inline]
    pub fn newest_at(&self, fragment: usize, seq: Seq) -> Option<Seq> {
        let newest = |seqs: &[Seq]| seqs.get(seqs.partition_point(|&s| s > seq)).copied();
        self.nodes_from(fragment).filter_map(newest).max()
    }

    /// What stands in the nodes from a fragment to the root.
    #[inline]
    fn nodes_from(&self, fragment: usize) -> impl Iterator<Item = &[Seq]> {
        let mut node = fragment + self.fragments.len();
        std::iter::from_fn(move || {
            if node == 0 {
                return None;
            }
            let seqs = self.nodes[node] as usize..self.nodes[node + 1] as usize;
            node /= 2;
            Some(&self.seqs[seqs])
        })
    }

    /// The newest tombstone over `key` that is visible at `seq`.
    #[inline]
    pub fn covering(&self, order: &KeyOrder, key: &[u8], seq: Seq) -> Option<Seq> {
        if self.fragments.is_empty() {
            return None;
        }
        let at = self.position(order, key);
        let fragment = self.fragments.get(at)?;
        if order.compare(&fragment.start, key).is_gt() {
            return None;
        }
        self.newest_at(at, seq)
    }

    /// Of each fragment all tombstones.
    pub fn whole(&self) -> impl Iterator<Item = Fragment> + '_ {
        let seqs = |at| self.records_of(at).map(|tombstone| tombstone.seq).collect();
        let fragments = self.fragments.iter().enumerate();
        fragments.map(move |(at, span)| Fragment { span: span.clone(), seqs: seqs(at) })
    }

    /// Of each fragment the newest tombstone that each snapshot sees, and the newest of all: what
    /// the others hide is hidden by these. `snapshots` must be ascending.
    ///
    /// Cost: O(log² n) for each fragment and snapshot that sees a tombstone of its own.
    pub fn thinned<'a>(&'a self, snapshots: &'a [Seq]) -> impl Iterator<Item = Fragment> + 'a {
        self.fragments.iter().enumerate().map(|(at, span)| {
            let mut seqs = Vec::new();
            let mut next = self.newest_at(at, Seq::MAX);
            while let Some(seq) = next {
                seqs.push(seq);
                // The newest snapshot that does not see it sees the next.
                let unseen = snapshots.partition_point(|&snapshot| snapshot < seq);
                next = unseen.checked_sub(1).and_then(|nth| self.newest_at(at, snapshots[nth]));
            }
            Fragment { span: span.clone(), seqs }
        })
    }

    /// Of each fragment the newest tombstone alone.
    pub fn newest(self) -> RangeTombstones {
        let newest = |at| self.newest_at(at, Seq::MAX).unwrap_or_default();
        let placed: Vec<_> = (0..self.fragments.len()).map(|at| (at..at + 1, newest(at))).collect();
        RangeTombstones::over(self.fragments, &placed)
    }

    /// The tombstones as records, one for each fragment and sequence number, in internal-key order.
    pub fn records(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        (0..self.fragments.len()).flat_map(|at| self.records_of(at))
    }

    /// Those over one fragment, newest first.
    pub fn records_of(&self, fragment: usize) -> impl Iterator<Item = RangeTombstone> + use<> {
        let mut seqs: Vec<Seq> = self.nodes_from(fragment).flatten().copied().collect();
        seqs.sort_unstable_by(|a, b| b.cmp(a));
        seqs.dedup();
        let Span { start, end } = self.fragments[fragment].clone();
        seqs.into_iter().map(move |seq| RangeTombstone {
            start: start.clone(),
            end: end.clone(),
            seq,
        })
    }

    /// Heap bytes held, about.
    pub fn memory_bytes(&self) -> usize {
        let spans = self.fragments.iter().map(|f| size_of::<Span>() + f.start.len() + f.end.len());
        spans.sum::<usize>() + 4 * self.nodes.len() + 8 * self.seqs.len()
    }
}

/// The fewest nodes of a tree over `count` fragments that lie over those of a range, and over no
/// others.
fn nodes_over(count: usize, range: Range<usize>, mut take: impl FnMut(usize)) {
    let (mut start, mut end) = (range.start + count, range.end + count);
    while start < end {
        if start % 2 == 1 {
            take(start);
            start += 1;
        }
        if end % 2 == 1 {
            end -= 1;
            take(end);
        }
        start /= 2;
        end /= 2;
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
            let rebuilt = RangeTombstones::build(&order, &again);
            assert_eq!(rebuilt.fragments(), set.fragments());
            assert!(rebuilt.records().eq(again.iter().cloned()));
            let snapshots: Vec<Seq> = (0..random(4)).map(|nth| 3 + 5 * nth).collect();
            for (at, fragment) in set.thinned(&snapshots).enumerate() {
                let Fragment { span, seqs } = fragment;
                assert_eq!(span, set.fragments()[at]);
                let mut expected: Vec<Seq> = snapshots
                    .iter()
                    .chain([&Seq::MAX])
                    .filter_map(|&snapshot| set.newest_at(at, snapshot))
                    .rev()
                    .collect();
                expected.dedup();
                assert_eq!(seqs, expected);
            }
            let newest = set.clone().newest();
            for key in b'a' - 1..=b'n' {
                let of_all = set.covering(&order, &[key], Seq::MAX);
                assert_eq!(newest.covering(&order, &[key], Seq::MAX), of_all);
            }
        }
    }

    #[test]
    fn an_empty_or_reversed_range_covers_nothing() {
        let order = KeyOrder::Bytewise;
        let set = RangeTombstones::build(&order, &[tombstone("b", "b", 1), tombstone("c", "a", 2)]);
        assert!(set.is_empty());
        assert_eq!(set.covering(&order, b"b", 9), None);
    }

    #[test]
    fn tombstones_that_nest_take_little() {
        let order = KeyOrder::Bytewise;
        let ends: Vec<[u8; 4]> = (1..=20_000u32).map(u32::to_be_bytes).collect();
        let nested: Vec<RangeTombstone> = ends
            .iter()
            .zip(1..)
            .map(|(end, seq)| RangeTombstone { start: [].into(), end: end[..].into(), seq })
            .collect();
        let set = RangeTombstones::build(&order, &nested);
        assert_eq!(set.fragments().len(), ends.len());
        assert!(set.memory_bytes() < 300 * ends.len(), "{} bytes", set.memory_bytes());
        for (at, key) in [(0, 0u32), (1, 1), (9_999, 9_999), (19_999, 19_999)] {
            let key = key.to_be_bytes();
            assert_eq!(set.position(&order, &key), at);
            assert_eq!(set.covering(&order, &key, Seq::MAX), Some(20_000));
            // Those that end before it do not lie over it.
            assert_eq!(set.covering(&order, &key, at as Seq), None);
            assert_eq!(set.covering(&order, &key, at as Seq + 1), Some(at as Seq + 1));
        }
        assert!(set.thinned(&[]).all(|fragment| fragment.seqs == [20_000]));
    }
}
