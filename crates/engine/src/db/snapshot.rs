//! Snapshots: sequence numbers that compaction must leave readable.

use super::background::Background;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, Ordering};
use esker_base::{Error, Result, Seq};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The open snapshots.
pub(super) struct SnapshotList {
    /// How many snapshots there are at each sequence number.
    open: Mutex<BTreeMap<Seq, usize>>,
    /// A compaction of tombstones waits until the oldest one is gone.
    is_waited_for: AtomicBool,
    background: Arc<Background>,
}

impl SnapshotList {
    pub(super) fn new(background: Arc<Background>) -> SnapshotList {
        let open = Mutex::new(BTreeMap::new());
        SnapshotList { open, is_waited_for: AtomicBool::new(false), background }
    }

    /// Workers are told when this snapshot, which was the oldest, is gone; at once if it is by now.
    pub(super) fn wait_for(&self, oldest: Seq) {
        let open = self.open.lock();
        let is_open = open.keys().next().is_some_and(|&first| first <= oldest);
        self.is_waited_for.store(is_open, Ordering::Relaxed);
        drop(open);
        if !is_open {
            self.background.wake_workers();
        }
    }

    /// Opens a snapshot at the sequence number that `now` returns.
    ///
    /// The number is taken under the lock, so that a flush or compaction that lists the snapshots
    /// either sees this one, or holds only records that this one sees the newest of anyway.
    pub(super) fn open(self: &Arc<SnapshotList>, now: impl FnOnce() -> Seq) -> Snapshot {
        let mut open = self.open.lock();
        let seq = now();
        *open.entry(seq).or_default() += 1;
        Snapshot { list: self.clone(), seq }
    }

    /// Does something while no snapshot is opened and nobody lists them.
    pub(super) fn at_once(&self, does: impl FnOnce()) {
        let _open = self.open.lock();
        does();
    }

    /// The sequence numbers of all open snapshots, ascending.
    pub(super) fn list(&self) -> Vec<Seq> {
        self.open.lock().keys().copied().collect()
    }

    pub(super) fn count(&self) -> usize {
        self.open.lock().values().sum()
    }
}

impl std::fmt::Debug for SnapshotList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

/// The database as it was at one moment.
///
/// Reads through it see every write acknowledged before it was taken and none after. It costs
/// a lock to take; while it lives, compaction keeps the records that it sees.
#[derive(Debug)]
pub struct Snapshot {
    list: Arc<SnapshotList>,
    seq: Seq,
}

impl Snapshot {
    /// Sequence number of the newest write it sees.
    pub fn seq(&self) -> Seq {
        self.seq
    }

    /// The same, for a database whose snapshots are `list`.
    ///
    /// # Errors
    /// `InvalidArgument` if it was taken elsewhere, where its number means another moment.
    #[inline]
    pub(super) fn seq_in(&self, list: &Arc<SnapshotList>) -> Result<Seq> {
        if Arc::ptr_eq(&self.list, list) {
            return Ok(self.seq);
        }
        Err(Error::invalid("the snapshot is of another database, or from before it was reopened"))
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut open = self.list.open.lock();
        if let Some(count) = open.get_mut(&self.seq) {
            *count -= 1;
            if *count > 0 {
                return;
            }
            open.remove(&self.seq);
            let was_oldest = open.keys().next().is_none_or(|oldest| *oldest > self.seq);
            drop(open);
            if was_oldest && self.list.is_waited_for.swap(false, Ordering::Relaxed) {
                self.list.background.wake_workers();
            }
        }
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_the_oldest_snapshot_is_woken_also_if_it_has_gone_before() {
        let background = Arc::new(Background::new(false));
        let list = Arc::new(SnapshotList::new(background.clone()));
        let mut seen = background.seen();
        let (first, second) = (list.open(|| 5), list.open(|| 7));
        drop(second);
        list.wait_for(5);
        assert!(!background.has_changed(&mut seen), "it is open, and nobody waits for the other");
        drop(first);
        assert!(background.has_changed(&mut seen));
        let third = list.open(|| 9);
        // Somebody has listed the first before it went.
        list.wait_for(5);
        assert!(background.has_changed(&mut seen));
        drop(third);
        assert!(!background.has_changed(&mut seen), "nobody waits");
    }
}
