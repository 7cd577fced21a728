//! Faults that can be planted into a store below a log, so that the gate that should find them can
//! show that it does.
//!
//! Only in builds with `--cfg esker_planted`: others do not hold a line of it.

use super::core::Core;
use super::progress::Groups;
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
}

static PLANTED: AtomicU8 = AtomicU8::new(Planted::Nothing as u8);

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 3] =
        [Planted::NewestEpochFirst, Planted::IndexInNextEpoch, Planted::KeyspaceLeftOut];

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
}

/// When an epoch is sealed: what its groups say, some of it only with the next one.
pub(super) fn keep_back(mut applied: Groups, next: &mut Groups) -> Groups {
    let group = applied.keys().next().filter(|_| Planted::IndexInNextEpoch.is_here()).cloned();
    next.extend(group.and_then(|group| applied.remove_entry(&group)));
    applied
}
