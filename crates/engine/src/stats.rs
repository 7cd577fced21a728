//! Counters of what the engine did: relaxed, striped by thread, read seldom.
//!
//! Flow: readers -> [`TableCounters::local`] -> `add`;  statistics -> [`TableCounters::total`].
//! Invariants: (1) counters only grow; (2) a stripe fills exactly one cache line; (3) every stripe
//! but the last belongs to at most one living thread, which alone writes it.
//! Threads: any. A total taken while others count may miss what they count at that moment, never
//! more.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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
    /// Bytes read from table files and of separated values.
    ReadBytes = 6,
    /// Values read from where they stand apart from the tree.
    ValueReads = 7,
}

const COUNTERS: usize = 8;
/// Threads that count at once without sharing; the last stripe is for all others.
const STRIPES: usize = 32;
const SHARED: usize = STRIPES - 1;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe([AtomicU64; COUNTERS]);

const _: () = assert!(size_of::<Stripe>() == 64);

/// The calling thread's share of the counters.
#[derive(Debug)]
pub struct LocalCounters<'a> {
    stripe: &'a Stripe,
    shared: bool,
}

impl LocalCounters<'_> {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, which: TableCounter, n: u64) {
        let counter = &self.stripe.0[which as usize];
        if self.shared {
            counter.fetch_add(n, Ordering::Relaxed);
        } else {
            // Nobody else writes here. A locked addition would hold back the loads around it, which
            // are what a read waits for.
            counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        }
    }
}

/// Counters shared by all tables of a database.
#[derive(Debug, Default)]
pub struct TableCounters {
    stripes: [Stripe; STRIPES],
}

/// A bit for each stripe that a thread has to itself.
static TAKEN: AtomicU32 = AtomicU32::new(1 << SHARED);

/// A thread's stripe, given back when the thread ends.
struct Seat(Cell<usize>);

const NO_SEAT: usize = usize::MAX;

thread_local! {
    static SEAT: Seat = const { Seat(Cell::new(NO_SEAT)) };
}

impl Seat {
    #[cold]
    fn take(&self) -> usize {
        let mut taken = TAKEN.load(Ordering::Relaxed);
        let seat = loop {
            let free = taken.trailing_ones() as usize;
            if free >= SHARED {
                break SHARED;
            }
            // Acquire: what the thread before counted is seen before it is added to.
            let with = taken | 1 << free;
            let swap = TAKEN.compare_exchange(taken, with, Ordering::Acquire, Ordering::Relaxed);
            match swap {
                Ok(_) => break free,
                Err(now) => taken = now,
            }
        };
        self.0.set(seat);
        seat
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let seat = self.0.get();
        if seat < SHARED {
            TAKEN.fetch_and(!(1 << seat), Ordering::Release);
        }
    }
}

impl TableCounters {
    /// All zero.
    pub fn new() -> TableCounters {
        TableCounters::default()
    }

    /// The calling thread's share; fetch it once for several additions.
    #[inline]
    pub fn local(&self) -> LocalCounters<'_> {
        let seat = SEAT.try_with(|seat| match seat.0.get() {
            NO_SEAT => seat.take(),
            at => at,
        });
        // A thread that is being torn down has given its stripe back.
        let at = seat.unwrap_or(SHARED).min(SHARED);
        LocalCounters { stripe: &self.stripes[at], shared: at == SHARED }
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
            for _ in 0..50 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        counters.local().add(TableCounter::Reads, 1);
                        counters.local().add(TableCounter::ReadBytes, 3);
                    }
                });
            }
        });
        assert_eq!(counters.total(TableCounter::Reads), 50_000);
        assert_eq!(counters.total(TableCounter::ReadBytes), 150_000);
        assert_eq!(counters.total(TableCounter::FilterChecks), 0);
    }
}
