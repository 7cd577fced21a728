//! Range tombstones of a memtable.
//!
//! Kept as a few fragmented sets, each several times as large as the next, and a short list of the
//! latest ones: a lookup costs a binary search in each and a short scan. A full list becomes a set;
//! a set that is no longer small beside the one before it is made one with it. So a tombstone is
//! built into a set some times for each size that sets grow through, and never by a reader.
//! Source: the logarithmic method of Bentley and Saxe, with fewer sets and more building.

use crate::range_tombstone::{RangeTombstone, RangeTombstones};
use esker_base::sync::RwLock;
use esker_base::{KeyOrder, Seq};
use std::ops::Range;
use std::sync::Arc;

/// The list becomes a set when it is so long.
const RECENT_MAX: usize = 32;

/// A set is at least so many times as large as the next.
const TIMES: usize = 8;

#[derive(Debug)]
pub(super) struct Ranges {
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    all: Vec<RangeTombstone>,
    /// Which of `all` each set is of: one follows the other.
    sets: Vec<(Range<usize>, Arc<RangeTombstones>)>,
}

impl Ranges {
    pub(super) fn new() -> Ranges {
        Ranges { state: RwLock::new(State::default()) }
    }

    /// Adds a tombstone; returns the bytes it takes.
    pub(super) fn insert(&self, order: &KeyOrder, tombstone: RangeTombstone) -> u64 {
        let bytes = 2 * (size_of::<RangeTombstone>() + tombstone.start.len() + tombstone.end.len());
        let mut state = self.state.write();
        state.all.push(tombstone);
        // What a set notes of one that lies over many others.
        let bytes = bytes + 2 * size_of::<Seq>() * state.all.len().ilog2() as usize;
        if state.recent().len() == RECENT_MAX {
            state.add_set(order);
        }
        bytes as u64
    }

    pub(super) fn covering(&self, order: &KeyOrder, key: &[u8], seq: Seq) -> Option<Seq> {
        let state = self.state.read();
        let recent = state
            .recent()
            .iter()
            .filter(|t| t.seq <= seq && !order.less(key, &t.start) && order.less(key, &t.end))
            .map(|t| t.seq);
        recent.chain(state.sets.iter().filter_map(|(_, set)| set.covering(order, key, seq))).max()
    }

    /// All of them, in a few sets.
    pub(super) fn sets(&self, order: &KeyOrder) -> Vec<Arc<RangeTombstones>> {
        let state = self.state.read();
        let recent = RangeTombstones::build(order, state.recent());
        let sets = state.sets.iter().map(|(_, set)| set.clone());
        sets.chain((!recent.is_empty()).then(|| Arc::new(recent))).collect()
    }

    /// All of them in one set, which takes time to build: for who needs it once.
    pub(super) fn united(&self, order: &KeyOrder) -> RangeTombstones {
        RangeTombstones::build(order, &self.state.read().all)
    }
}

impl State {
    /// Those that are in no set.
    fn recent(&self) -> &[RangeTombstone] {
        &self.all[self.sets.last().map_or(0, |(of, _)| of.end)..]
    }

    fn add_set(&mut self, order: &KeyOrder) {
        let mut of = self.sets.last().map_or(0, |(of, _)| of.end)..self.all.len();
        while let Some((before, _)) = self.sets.last()
            && before.len() < TIMES * of.len()
        {
            of.start = before.start;
            self.sets.pop();
        }
        let set = RangeTombstones::build(order, &self.all[of.clone()]);
        self.sets.push((of, Arc::new(set)));
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn sets_are_few_and_all_is_in_them() {
        let (ranges, order) = (Ranges::new(), KeyOrder::Bytewise);
        let key = |number: u64| Arc::from(number.to_be_bytes());
        let mut sets_max = 0;
        for seq in 1..=5_000 {
            let (start, end) = (key(seq), key(seq + 3));
            ranges.insert(&order, RangeTombstone { start, end, seq });
            sets_max = sets_max.max(ranges.sets(&order).len());
            if seq % 97 == 0 {
                let newest = |number: u64, at: Seq| {
                    let first = number.saturating_sub(2).max(1);
                    (first..=number.min(seq).min(at)).last()
                };
                for (number, at) in (1..=seq + 3).flat_map(|number| [(number, seq), (number, 7)]) {
                    let found = ranges.covering(&order, &number.to_be_bytes(), at);
                    assert_eq!(found, newest(number, at), "{number} at {at}");
                }
            }
        }
        // 4 096, 512 or more of the rest, 64 or more, 32, and those in no set.
        assert!((3..=5).contains(&sets_max), "{sets_max}");
        let of_sets: u64 = ranges.sets(&order).iter().flat_map(|set| set.records()).count() as u64;
        assert!(of_sets >= 5_000);
        let united = ranges.united(&order);
        assert_eq!(united.covering(&order, &5_002u64.to_be_bytes(), Seq::MAX), Some(5_000));
    }
}
