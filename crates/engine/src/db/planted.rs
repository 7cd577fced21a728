//! Faults that can be planted into a store below a log, so that the gate that should find them can
//! show that it does.
//!
//! Only in builds with `--cfg esker_planted`: others do not hold a line of it.

use super::core::Core;
use super::progress::Groups;
use crate::version::GroupState;
use esker_base::Seq;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A fault, of those that the promise of a store below a log excludes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// None.
    #[default]
    Nothing,
    /// The newest epoch becomes tables first.
    NewestEpochFirst,
    /// The index of a group becomes persistent with the epoch after the one that holds its
    /// requests.
    IndexInNextEpoch,
    /// An epoch is put in force without what it holds of one keyspace.
    KeyspaceLeftOut,
    /// The index of a group is that of requests which are still in memory.
    IndexAhead,
    /// An epoch is told to be persistent when it is sealed.
    ToldTooEarly,
    /// What is in memory is read as if it were persistent.
    PersistedSeesAll,
    /// A deleted group is not hidden where it shares tables with others.
    ErasedForgotten,
    /// Compactions keep nothing for snapshots.
    SnapshotsForgotten,
}

static PLANTED: AtomicU8 = AtomicU8::new(Planted::Nothing as u8);

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 8] = [
        Planted::NewestEpochFirst,
        Planted::IndexInNextEpoch,
        Planted::KeyspaceLeftOut,
        Planted::IndexAhead,
        Planted::ToldTooEarly,
        Planted::PersistedSeesAll,
        Planted::ErasedForgotten,
        Planted::SnapshotsForgotten,
    ];

    /// From now on every store of this process has this fault, and no other.
    pub fn plant(self) {
        PLANTED.store(self as u8, Ordering::SeqCst);
    }

    pub(super) fn is_here(self) -> bool {
        PLANTED.load(Ordering::SeqCst) == self as u8
    }
}

impl Core {
    /// Before an epoch is chosen for the flush.
    pub(super) fn plant_order(&self) {
        if Planted::NewestEpochFirst.is_here() {
            let mut epochs = self.epochs.lock();
            let count = epochs.sealed.len();
            epochs.sealed.rotate_right(count.min(1));
        }
    }

    /// When an epoch is sealed.
    pub(super) fn plant_telling(&self, applied: &Groups, seq: Seq) {
        if Planted::ToldTooEarly.is_here() {
            self.tell_persisted(applied, seq);
        }
    }

    /// What a snapshot of what is persistent sees.
    pub(super) fn plant_persisted_seq(&self, seq: Seq) -> Seq {
        let all = Planted::PersistedSeesAll.is_here();
        if all { self.visible_seq.load(Ordering::Acquire) } else { seq }
    }
}

/// When the index of a group is about to be persistent.
pub(super) fn run_ahead(
    (group, state): (Arc<[u8]>, GroupState),
    active: &Groups,
) -> (Arc<[u8]>, GroupState) {
    let ahead = active.get(&group).filter(|_| Planted::IndexAhead.is_here());
    let state = ahead.map_or(state, |progress| progress.state());
    (group, state)
}

/// What a compaction keeps records for.
pub(super) fn forget(mut snapshots: Vec<Seq>) -> Vec<Seq> {
    if Planted::SnapshotsForgotten.is_here() {
        snapshots.clear();
    }
    snapshots
}

/// When an epoch is sealed: what its groups say, some of it only with the next one.
pub(super) fn keep_back(mut applied: Groups, next: &mut Groups) -> Groups {
    let group = applied.keys().next().filter(|_| Planted::IndexInNextEpoch.is_here()).cloned();
    next.extend(group.and_then(|group| applied.remove_entry(&group)));
    applied
}
