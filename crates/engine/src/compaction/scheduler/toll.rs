//! When something is compacted because scans pay for it.
//!
//! A scan seeks in every run, loads blocks of each, and pays again wherever it goes over from one
//! run to another. Once nobody writes any more, a tree would keep its last few runs for ever. So
//! what scans pay for them is added up, and as soon as that is what a compaction costs, it is made:
//! the rule for whether to rent or to buy. What was paid for all runs buys the compaction that
//! comes first, and paying begins anew, so that each costs no more than what scans have lost since
//! the one before. Not asked is where in the level they read; nor what a level then hands on
//! because it is over its limit.
//!
//! Source: LevelDB compacts a table after gets have looked into it in vain so many times, Pebble
//! after sampled reads. We count the time that is lost, and gets are left out: filters spare them
//! most of it.
//! Threads: any.

use crate::cursor::BlocksRead;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a scan in one more run costs where all blocks are in the cache.
const SEEK_NS: u64 = 2_000;
/// What it costs on top of that where none are: two or three more blocks are loaded.
const LOADS_NS: u64 = 9_000;
/// What it costs to go over into one more run and back in the middle of a scan.
const SWITCH_NS: u64 = 100;
/// What it costs to compact a byte of a table.
const COMPACT_NS_PER_BYTE: u64 = 5;

/// The price of a compaction that reads so many bytes.
pub(crate) fn compaction_ns(input_bytes: u64) -> u64 {
    input_bytes.saturating_mul(COMPACT_NS_PER_BYTE)
}

/// What a scan has paid.
#[derive(Debug, Default)]
pub(crate) struct Paid {
    /// Runs that it would be spared.
    pub(crate) runs: u64,
    pub(crate) seeks: u64,
    /// How often it went over into one of them and back.
    pub(crate) switches: u64,
    /// In all runs.
    pub(crate) blocks: BlocksRead,
}

/// The sum of what was paid, and the price at which paying ends.
#[derive(Debug)]
pub(crate) struct Toll {
    paid_ns: AtomicU64,
    /// `u64::MAX` while nothing can be bought.
    price_ns: AtomicU64,
    due: AtomicBool,
}

impl Toll {
    /// Nothing paid, and nothing to be had.
    pub(crate) fn new() -> Toll {
        Toll {
            paid_ns: AtomicU64::new(0),
            price_ns: AtomicU64::new(u64::MAX),
            due: AtomicBool::new(false),
        }
    }

    /// Adds what a scan has paid for runs that a compaction, or an index, would spare it.
    pub(crate) fn pay(&self, paid: &Paid) {
        let BlocksRead { walked, loaded } = paid.blocks;
        // However long it walks, of each run it needs no more than a few blocks in vain.
        let seek_ns = SEEK_NS + loaded.saturating_mul(LOADS_NS) / walked.max(1);
        let ns = paid
            .runs
            .saturating_mul(paid.seeks)
            .saturating_mul(seek_ns)
            .saturating_add(paid.switches.saturating_mul(SWITCH_NS));
        self.paid_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// True if the price is reached.
    #[inline]
    pub(crate) fn is_paid(&self) -> bool {
        self.covers(self.price_ns.load(Ordering::Relaxed))
    }

    /// True if so much was paid.
    #[inline]
    pub(crate) fn covers(&self, price_ns: u64) -> bool {
        self.paid_ns.load(Ordering::Relaxed) >= price_ns
    }

    /// True once, when the price is reached: then somebody should look for work.
    #[inline]
    pub(crate) fn falls_due(&self) -> bool {
        self.is_paid()
            && !self.due.load(Ordering::Relaxed)
            && !self.due.swap(true, Ordering::Relaxed)
    }

    /// Sets the price; true if it has been paid. `None`: there is nothing to be had, and what was
    /// paid is forgotten.
    pub(crate) fn quote(&self, price_ns: Option<u64>) -> bool {
        self.price_ns.store(price_ns.unwrap_or(u64::MAX), Ordering::Relaxed);
        if price_ns.is_none() {
            self.settle();
        }
        let paid = self.is_paid();
        if !paid {
            // Somebody may have seen the old price paid; who sets this wakes whoever asks here
            // again.
            self.due.store(false, Ordering::Relaxed);
        }
        paid
    }

    /// Nothing can be bought until somebody who is at it is done; what was paid still counts then.
    pub(crate) fn withhold(&self) {
        self.price_ns.store(u64::MAX, Ordering::Relaxed);
        self.due.store(false, Ordering::Relaxed);
    }

    /// What was to be had is on its way: counts anew.
    pub(crate) fn settle(&self) {
        self.paid_ns.store(0, Ordering::Relaxed);
        self.due.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_paid_falls_due_once_at_the_price() {
        let toll = Toll::new();
        let pay = |runs, seeks, switches, blocks| {
            toll.pay(&Paid { runs, seeks, switches, blocks });
        };
        let cached = BlocksRead { walked: 10, loaded: 0 };
        pay(3, 1_000_000, 0, cached);
        assert!(!toll.falls_due(), "there is nothing to compact");
        assert!(!toll.quote(None));
        assert!(!toll.quote(Some(5_000_000)));
        // Five milliseconds: 1 000 seeks in two runs are four of them.
        pay(2, 1_000, 0, cached);
        assert!(!toll.falls_due() && !toll.quote(Some(5_000_000)));
        assert!(toll.quote(Some(500_000)) && toll.falls_due());
        assert!(!toll.quote(Some(5_000_000)), "the price has gone up");
        pay(2, 0, 12_000, cached);
        assert!(toll.falls_due());
        assert!(!toll.falls_due(), "only once");
        assert!(toll.quote(Some(5_000_000)));
        toll.withhold();
        assert!(!toll.falls_due(), "others are at it");
        assert!(toll.quote(Some(5_000_000)) && toll.falls_due(), "what was paid counts later");
        toll.settle();
        assert!(!toll.falls_due() && !toll.quote(Some(5)));
    }

    #[test]
    fn more_is_paid_where_blocks_had_to_be_loaded() {
        let price_of = |walked, loaded| {
            let toll = Toll::new();
            let blocks = BlocksRead { walked, loaded };
            toll.pay(&Paid { runs: 1, seeks: 1, switches: 0, blocks });
            (0..20).take_while(|us| toll.covers(us * 1_000)).count() as u64 - 1
        };
        assert_eq!((price_of(0, 0), price_of(30, 0)), (2, 2), "memtables, and the cache");
        assert_eq!((price_of(30, 10), price_of(30, 30)), (5, 11));
        assert_eq!(price_of(1 << 40, 1 << 40), 11, "a long walk pays no more for where it begins");
    }
}
