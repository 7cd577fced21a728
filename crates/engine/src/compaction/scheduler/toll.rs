//! When level 0 is compacted because scans pay for it.
//!
//! A scan seeks in every run, and pays again wherever it goes over from one run to another. Once
//! nobody writes any more, level 0 would keep its last few runs for ever. So what scans pay for
//! them is added up, and as soon as that is what a compaction costs, it is made: the rule for
//! whether to rent or to buy, which never costs more than twice as much as knowing beforehand how
//! much will be scanned.
//!
//! Source: LevelDB compacts a table after gets have looked into it in vain so many times, Pebble
//! after sampled reads. We count the time that is lost, and gets are left out: filters spare them
//! most of it.
//! Threads: any.

use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a seek in one more run costs.
const SEEK_NS: u64 = 2_000;
/// What it costs to go over from one run to another in the middle of a scan.
const SWITCH_NS: u64 = 30;
/// What it costs to compact a byte of a table.
const COMPACT_NS_PER_BYTE: u64 = 5;

/// The price of a compaction that reads so many bytes.
pub(crate) fn compaction_ns(input_bytes: u64) -> u64 {
    input_bytes.saturating_mul(COMPACT_NS_PER_BYTE)
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

    /// Adds what a scan has paid for `runs` that a compaction, or an index, would spare it.
    pub(crate) fn pay(&self, runs: u64, seeks: u64, switches: u64) {
        let ns = runs
            .saturating_mul(seeks)
            .saturating_mul(SEEK_NS)
            .saturating_add(switches.saturating_mul(SWITCH_NS));
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
        toll.pay(3, 1_000_000, 0);
        assert!(!toll.falls_due(), "there is nothing to compact");
        assert!(!toll.quote(None));
        assert!(!toll.quote(Some(5_000_000)));
        // Five milliseconds: 1 000 seeks in two runs are four of them.
        toll.pay(2, 1_000, 0);
        assert!(!toll.falls_due() && !toll.quote(Some(5_000_000)));
        assert!(toll.quote(Some(500_000)) && toll.falls_due());
        assert!(!toll.quote(Some(5_000_000)), "the price has gone up");
        toll.pay(2, 0, 40_000);
        assert!(toll.falls_due());
        assert!(!toll.falls_due(), "only once");
        assert!(toll.quote(Some(5_000_000)));
        toll.withhold();
        assert!(!toll.falls_due(), "others are at it");
        assert!(toll.quote(Some(5_000_000)) && toll.falls_due(), "what was paid counts later");
        toll.settle();
        assert!(!toll.falls_due() && !toll.quote(Some(5)));
    }
}
