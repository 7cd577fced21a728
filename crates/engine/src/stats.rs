//! Counters of what the engine did: relaxed, striped by thread, read seldom.
//!
//! Flow: readers -> [`TableCounters::local`] -> `add`;  statistics -> [`TableCounters::total`].
//! Invariants: (1) counters only grow; (2) a stripe fills exactly one cache line.
//! Threads: any. A thread keeps to one stripe, so that two readers do not fight for a line; a
//! total taken while others count may miss what they count at that moment, never more.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// What is counted while tables are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum TableCounter {
    /// Blocks found in the block cache.
    BlockCacheHits = 0,
    /// Blocks that had to be read because the cache did not hold them.
    BlockCacheMisses = 1,
    /// Point lookups that asked a filter.
    FilterChecks = 2,
    /// Point lookups that a filter spared.
    FilterNegatives = 3,
    /// Point lookups that a filter let through although the key was not there.
    FilterFalsePositives = 4,
    /// Read calls made on table files.
    Reads = 5,
    /// Bytes read from table files.
    ReadBytes = 6,
}

const COUNTERS: usize = 8;
const STRIPES: usize = 8;

/// One thread's share of the counters.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct TableStripe([AtomicU64; COUNTERS]);

const _: () = assert!(size_of::<TableStripe>() == 64);

impl TableStripe {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, which: TableCounter, n: u64) {
        self.0[which as usize].fetch_add(n, Ordering::Relaxed);
    }
}

/// Counters shared by all tables of a database.
#[derive(Debug, Default)]
pub struct TableCounters {
    stripes: [TableStripe; STRIPES],
}

static NEXT_STRIPE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

#[cold]
fn choose_stripe() -> usize {
    let chosen = NEXT_STRIPE.fetch_add(1, Ordering::Relaxed) % STRIPES;
    // A thread that is being torn down counts somewhere, no matter where.
    let _ = STRIPE.try_with(|s| s.set(chosen));
    chosen
}

impl TableCounters {
    /// All zero.
    pub fn new() -> TableCounters {
        TableCounters::default()
    }

    /// The calling thread's share; fetch it once for several additions.
    #[inline]
    pub fn local(&self) -> &TableStripe {
        let at = STRIPE.try_with(Cell::get).unwrap_or(0);
        let at = if at == usize::MAX { choose_stripe() } else { at };
        &self.stripes[at % STRIPES]
    }

    /// The sum over all threads.
    pub fn total(&self, which: TableCounter) -> u64 {
        self.stripes.iter().map(|s| s.0[which as usize].load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_apart_and_sum_up() {
        let counters = TableCounters::new();
        std::thread::scope(|scope| {
            for _ in 0..10 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        counters.local().add(TableCounter::Reads, 1);
                        counters.local().add(TableCounter::ReadBytes, 3);
                    }
                });
            }
        });
        assert_eq!(counters.total(TableCounter::Reads), 10_000);
        assert_eq!(counters.total(TableCounter::ReadBytes), 30_000);
        assert_eq!(counters.total(TableCounter::FilterChecks), 0);
    }
}
