//! Range tombstones of a memtable.
//!
//! Kept as one fragmented set and a short list of the latest ones, which is folded into the set
//! when it has grown to a share of it: a lookup costs one binary search and a short scan, and
//! inserting costs a rebuild only now and then.

use crate::range_tombstone::{RangeTombstone, RangeTombstones};
use esker_base::sync::RwLock;
use esker_base::{KeyOrder, Seq};
use std::sync::Arc;

/// The list is folded into the set when it is longer than this and than an eighth of the set.
const RECENT_MAX: usize = 32;

#[derive(Debug)]
pub(super) struct Ranges {
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    all: Vec<RangeTombstone>,
    set: Arc<RangeTombstones>,
    /// How many of `all` are in `set`.
    in_set: usize,
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
        // What the set notes of one that lies over many others.
        let bytes = bytes + 2 * size_of::<Seq>() * state.all.len().ilog2() as usize;
        if state.all.len() - state.in_set > RECENT_MAX.max(state.in_set / 8) {
            state.fold(order);
        }
        bytes as u64
    }

    pub(super) fn covering(&self, order: &KeyOrder, key: &[u8], seq: Seq) -> Option<Seq> {
        let state = self.state.read();
        let recent = state.all[state.in_set..]
            .iter()
            .filter(|t| t.seq <= seq && !order.less(key, &t.start) && order.less(key, &t.end))
            .map(|t| t.seq)
            .max();
        recent.max(state.set.covering(order, key, seq))
    }

    pub(super) fn all(&self, order: &KeyOrder) -> Arc<RangeTombstones> {
        let mut state = self.state.write();
        if state.in_set < state.all.len() {
            state.fold(order);
        }
        state.set.clone()
    }
}

impl State {
    fn fold(&mut self, order: &KeyOrder) {
        self.set = Arc::new(RangeTombstones::build(order, &self.all));
        self.in_set = self.all.len();
    }
}
