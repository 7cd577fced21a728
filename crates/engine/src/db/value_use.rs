//! What is counted of files with values, and who collects them.

use super::collect_report::CollectReport;
use super::patience::Patience;
use crate::options::Options;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Files are no longer than this part of what is alive, and than that where space is short, but for
/// [`FILE_BYTES_MIN`].
const FILES_MIN: u64 = 16;
const FILES_IF_SHORT: u64 = 64;
const FILE_BYTES_MIN: u64 = 8 << 20;

/// How much of what newer runs point to overwrites what older ones do, as compactions found: all,
/// before there was any.
#[derive(Debug)]
pub(super) struct Overwriting {
    /// In thousandths.
    share: AtomicU64,
}

impl Overwriting {
    pub(super) fn new() -> Overwriting {
        Overwriting { share: AtomicU64::new(1_000) }
    }

    pub(super) fn share(&self) -> f64 {
        self.share.load(Ordering::Relaxed) as f64 / 1_000.0
    }

    /// Notes that of runs which point to so many bytes so many died, or older ones under them. A
    /// share that grew counts at once, so that space stays bounded; of one that fell a third of the
    /// way is gone.
    pub(super) fn note(&self, newer_bytes: u64, died_bytes: u64) {
        if newer_bytes > 0 {
            let found = (1_000.0 * died_bytes as f64 / newer_bytes as f64).min(1_000.0) as u64;
            let old = self.share.load(Ordering::Relaxed);
            self.share.store(found.max((2 * old + found) / 3), Ordering::Relaxed);
        }
    }
}

/// Files that could not be collected since something was not to be read: they stay as they are.
#[derive(Debug, Default)]
pub(super) struct Unreadable(BTreeMap<u64, Left>);

/// For how long a file is left alone.
#[derive(Debug)]
enum Left {
    /// A live value is damaged: until fewer bytes are alive than there were then, when it may be
    /// needed no more, and that time is over.
    Damaged { live_bytes: u64, patience: Patience },
    /// The disk failed, and may not the next time.
    For(Patience),
    /// That time is over.
    Due(Patience),
}

impl Unreadable {
    /// A live value of the file is damaged; so many bytes are alive.
    pub(super) fn note_damage(&mut self, number: u64, live_bytes: u64, now_ns: u64) {
        let patience = self.after_failure(number, now_ns);
        self.0.insert(number, Left::Damaged { live_bytes, patience });
    }

    /// The disk failed.
    pub(super) fn note_failure(&mut self, number: u64, now_ns: u64) {
        if !matches!(self.0.get(&number), Some(Left::Damaged { .. })) {
            let patience = self.after_failure(number, now_ns);
            self.0.insert(number, Left::For(patience));
        }
    }

    fn after_failure(&self, number: u64, now_ns: u64) -> Patience {
        let mut patience = match self.0.get(&number) {
            Some(Left::Damaged { patience, .. } | Left::For(patience) | Left::Due(patience)) => {
                *patience
            }
            None => Patience::default(),
        };
        patience.note_failure(now_ns);
        patience
    }

    /// How much longer the next file is left alone; `None` if none is to be tried again.
    pub(super) fn left(&self, now_ns: u64) -> Option<Duration> {
        let left = |left: &Left| match left {
            Left::For(patience) => Some(patience.left(now_ns)),
            Left::Damaged { .. } | Left::Due(_) => None,
        };
        self.0.values().filter_map(left).min()
    }

    /// Has the files be tried again whose time is over. `live_bytes` says of each how much of it is
    /// alive, and `None` of those that are not there: these are forgotten.
    pub(super) fn renew(&mut self, now_ns: u64, live_bytes: impl Fn(u64) -> Option<u64>) {
        self.0.retain(|&number, left| {
            let now_live = live_bytes(number);
            if let Left::Damaged { live_bytes, patience } = left
                && now_live.is_some_and(|now_live| now_live < *live_bytes)
            {
                *left = Left::For(*patience);
            }
            now_live.is_some()
        });
        for left in self.0.values_mut() {
            if let Left::For(patience) = left
                && patience.left(now_ns).is_zero()
            {
                *left = Left::Due(*patience);
            }
        }
    }

    /// The files that are left alone.
    pub(super) fn numbers(&self) -> BTreeSet<u64> {
        let alone = self.0.iter().filter(|(_, left)| !matches!(left, Left::Due(_)));
        alone.map(|(number, _)| *number).collect()
    }

    /// Has all files be tried again: they may have been put back.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// What files with values take, as of the newest change of the versions.
#[derive(Debug)]
pub(super) struct ValueUse {
    /// Bytes of the values that tables point to.
    pub(super) live_bytes: AtomicU64,
    /// Bytes of the files that the manifest names.
    pub(super) file_bytes: AtomicU64,
    /// They may take more than they should, by the most that can be dead.
    pub(super) is_tight: Arc<AtomicBool>,
    /// Most of them may be dead, also where that is no reason to hurry.
    pub(super) is_wasteful: AtomicBool,
    /// Of what is dead, at least as much is known to be as is not.
    pub(super) is_known: AtomicBool,
    /// What these and logs that no table points into may take before writes are slowed, and where
    /// they are slowest.
    pub(super) slow_from_bytes: AtomicU64,
    pub(super) bytes_max: AtomicU64,
    /// Bytes of the values in logs that take no more records, and that a memtable needs.
    pub(super) retired_bytes: AtomicU64,
    /// Length at which a file is ended now: shorter in a small store, and where space is short.
    pub(super) length_max: AtomicU64,
    /// Something changed since a collection was last looked for.
    pub(super) changed: AtomicBool,
    /// The last collection failed, and nothing has succeeded since: nobody waits for the next.
    pub(super) failed: AtomicBool,
    /// Collections that run, and such as are looked for.
    collecting: AtomicU64,
    /// The files that are being collected, and what of each is dead.
    pub(super) taken: Mutex<BTreeMap<u64, u64>>,
    /// Files that could not be collected.
    pub(super) unreadable: Mutex<Unreadable>,
    /// What was collected since open.
    pub(super) collected: Mutex<CollectReport>,
}

impl ValueUse {
    pub(super) fn new(options: &Options) -> ValueUse {
        ValueUse {
            live_bytes: AtomicU64::new(0),
            file_bytes: AtomicU64::new(0),
            is_tight: Arc::new(AtomicBool::new(false)),
            is_wasteful: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
            slow_from_bytes: AtomicU64::new(u64::MAX),
            bytes_max: AtomicU64::new(u64::MAX),
            retired_bytes: AtomicU64::new(0),
            length_max: AtomicU64::new(length_max(options, 0, false)),
            changed: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            collecting: AtomicU64::new(0),
            taken: Mutex::default(),
            unreadable: Mutex::default(),
            collected: Mutex::new(CollectReport::default()),
        }
    }

    /// A collection is looked for, or begins.
    pub(super) fn begin(&self) {
        self.collecting.fetch_add(1, Ordering::AcqRel);
    }

    /// It ended, or there was none.
    pub(super) fn end(&self) {
        self.collecting.fetch_sub(1, Ordering::AcqRel);
    }

    /// True if a collection runs.
    pub(super) fn is_collecting(&self) -> bool {
        self.collecting.load(Ordering::Acquire) > 0
    }

    /// True if a collection runs, or may be due.
    pub(super) fn is_busy(&self) -> bool {
        self.changed.load(Ordering::Acquire) || self.is_collecting()
    }
}

/// Length at which a file is ended: a share of what is alive, since those that are being filled
/// take space too.
pub(super) fn length_max(options: &Options, live_bytes: u64, is_short: bool) -> u64 {
    let most = options.value_log_file_bytes;
    let files = if is_short { FILES_IF_SHORT } else { FILES_MIN };
    (live_bytes / files).clamp(FILE_BYTES_MIN.min(most), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_tried_again_but_not_damaged_ones() {
        const SECOND: u64 = 1_000_000_000;
        let mut unreadable = Unreadable::default();
        let now = |unreadable: &mut Unreadable, now_ns| {
            unreadable.renew(now_ns, |number| (number != 9).then_some(100));
            unreadable.numbers().into_iter().collect::<Vec<u64>>()
        };
        assert_eq!(unreadable.left(0), None);
        unreadable.note_damage(3, 100, 0);
        unreadable.note_failure(3, 0);
        assert_eq!(unreadable.left(0), None, "it stays damaged");
        unreadable.note_failure(5, 0);
        unreadable.note_failure(9, 0);
        assert_eq!(unreadable.numbers(), [3, 5, 9].into());
        assert_eq!(now(&mut unreadable, SECOND - 1), [3, 5], "one is gone");
        assert_eq!(unreadable.left(SECOND - 1), Some(Duration::from_nanos(1)));
        assert_eq!(now(&mut unreadable, SECOND), [3]);
        assert_eq!(unreadable.left(SECOND), None, "nobody need wait");
        unreadable.note_failure(5, SECOND);
        assert_eq!(now(&mut unreadable, 3 * SECOND - 1), [3, 5], "longer the second time");
        assert_eq!(now(&mut unreadable, 3 * SECOND), [3]);
        unreadable.clear();
        assert!(unreadable.numbers().is_empty());
    }

    #[test]
    fn damaged_files_are_tried_again_once_less_of_them_is_alive() {
        const SECOND: u64 = 1_000_000_000;
        let mut unreadable = Unreadable::default();
        let is_alone = |unreadable: &mut Unreadable, now_ns, live_bytes| {
            unreadable.renew(now_ns, |_| Some(live_bytes));
            unreadable.numbers().contains(&3)
        };
        unreadable.note_damage(3, 100, 0);
        assert!(is_alone(&mut unreadable, 9 * SECOND, 100), "all of it is needed as before");
        assert!(!is_alone(&mut unreadable, 9 * SECOND, 99));
        unreadable.note_damage(3, 99, 9 * SECOND);
        assert!(is_alone(&mut unreadable, 10 * SECOND, 50), "not each time that some more dies");
        assert_eq!(unreadable.left(10 * SECOND), Some(Duration::from_secs(1)), "but then");
        assert!(!is_alone(&mut unreadable, 11 * SECOND, 50));
    }

    #[test]
    fn what_overwrites_counts_at_once_and_is_forgotten_slowly() {
        let overwriting = Overwriting::new();
        let note = |newer, died| {
            overwriting.note(newer, died);
            (overwriting.share() * 1_000.0).round() as u64
        };
        assert_eq!(note(0, 0), 1_000, "nothing was found out");
        assert_eq!(note(1_000, 0), 666);
        assert_eq!(note(1_000, 100), 477);
        assert_eq!(note(1_000, 900), 900);
        assert_eq!(note(10, 500), 1_000, "deletes kill more than there is");
    }

    #[test]
    fn files_are_short_in_small_stores_and_where_space_is_short() {
        let mut options = Options { value_log_file_bytes: 64 << 20, ..Options::default() };
        let mib = |options: &Options, live: u64, is_short| {
            length_max(options, live << 20, is_short) >> 20
        };
        assert_eq!([0, 320, 1 << 20].map(|live| mib(&options, live, false)), [8, 20, 64]);
        assert_eq!([0, 320, 2_560, 1 << 20].map(|live| mib(&options, live, true)), [8, 8, 40, 64]);
        options.value_log_file_bytes = 4 << 20;
        assert_eq!(mib(&options, 1 << 20, false), 4);
    }
}
