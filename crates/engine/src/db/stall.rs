//! Holding writers to the pace: they wait where writes must be slowed, and for nothing else.
//!
//! The rates come from [`pace`], of what flushes, compactions and collections of values were
//! measured to drain. The writer's wait is one timed wait on a condition variable for each, at most
//! [`WAIT_MS_MAX`] long. Large values are held to a pace of their own, which does not concern other
//! writes.

use crate::compaction::scheduler::pace::{self, Drained};
use crate::event::{Event, EventSink};
use esker_base::Clock;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// Waits shorter than this are left to add up: a timed wait costs about as much.
const WAIT_NS_MIN: u64 = 500_000;

/// No write waits longer than this for its admission.
const WAIT_MS_MAX: u64 = 50;

/// No write keeps those who come next waiting longer than this.
const COST_MS_MAX: u64 = 1_000;

/// Paces writes.
pub(super) struct Stall {
    clock: Arc<dyn Clock>,
    events: EventSink,
    /// Bytes per second that flushes drain, as measured.
    flush_rate: AtomicU64,
    /// Bytes per second that leave level 0, as measured.
    level0_rate: AtomicU64,
    /// How full level 0 of the fullest keyspace is, in thousandths of the way from slow to max.
    level0_fill: AtomicU64,
    /// It is so full somewhere that writes stop.
    level0_is_over: AtomicBool,
    /// Held by who finds these two out.
    measuring: Mutex<()>,
    /// Bytes per second that collections free, as measured.
    values_rate: AtomicU64,
    gate: Gate,
    /// For large values, in bytes as they are stored.
    values_gate: Gate,
    slowed: AtomicU64,
    slowed_ns: AtomicU64,
    slowed_ns_max: AtomicU64,
}

/// What writes wait at.
struct Gate {
    slowing: AtomicBool,
    /// When the next write may pass, in the clock's nanoseconds.
    next: Mutex<u64>,
    wake: Condvar,
}

impl Gate {
    fn new() -> Gate {
        Gate { slowing: AtomicBool::new(false), next: Mutex::new(0), wake: Condvar::new() }
    }
}

impl Stall {
    pub(super) fn new(clock: Arc<dyn Clock>, events: EventSink) -> Stall {
        Stall {
            clock,
            events,
            flush_rate: AtomicU64::new(pace::DRAIN_START),
            level0_rate: AtomicU64::new(pace::DRAIN_START),
            level0_fill: AtomicU64::new(0),
            level0_is_over: AtomicBool::new(false),
            measuring: Mutex::default(),
            values_rate: AtomicU64::new(pace::DRAIN_START),
            gate: Gate::new(),
            values_gate: Gate::new(),
            slowed: AtomicU64::new(0),
            slowed_ns: AtomicU64::new(0),
            slowed_ns_max: AtomicU64::new(0),
        }
    }

    /// Notes that a flush took so many bytes of memtables in this time.
    pub(super) fn note_flush(&self, bytes: u64, duration_ns: u64) {
        blend(&self.flush_rate, bytes, duration_ns);
    }

    /// Notes that a compaction took so many bytes out of level 0 in this time.
    pub(super) fn note_level0(&self, bytes: u64, duration_ns: u64) {
        blend(&self.level0_rate, bytes, duration_ns);
    }

    /// Notes that a collection of values freed so many bytes in this time.
    pub(super) fn note_collection(&self, bytes: u64, duration_ns: u64) {
        blend(&self.values_rate, bytes, duration_ns);
    }

    /// Finds out how full level 0 of the fullest keyspace is, from 0.0 to 1.0, and whether some is
    /// so full that writes stop. One at a time: of two that look, the later one knows better.
    pub(super) fn measure_level0(&self, look: impl FnOnce() -> (f64, bool)) {
        let _one_at_a_time = self.measuring.lock();
        let (fill, is_over) = look();
        self.level0_fill.store((fill * 1_000.0) as u64, Ordering::Relaxed);
        self.level0_is_over.store(is_over, Ordering::Relaxed);
    }

    /// True if writes should wait until compactions have made level 0 smaller.
    #[inline]
    pub(super) fn is_level0_over(&self) -> bool {
        self.level0_is_over.load(Ordering::Relaxed)
    }

    /// Notes that a write waited for memory.
    pub(super) fn note_wait(&self, ns: u64) {
        self.slowed.fetch_add(1, Ordering::Relaxed);
        self.slowed_ns.fetch_add(ns, Ordering::Relaxed);
        self.slowed_ns_max.fetch_max(ns, Ordering::Relaxed);
    }

    /// Writes slowed, the time they waited, and the longest wait, in nanoseconds.
    pub(super) fn totals(&self) -> (u64, u64, u64) {
        (
            self.slowed.load(Ordering::Relaxed),
            self.slowed_ns.load(Ordering::Relaxed),
            self.slowed_ns_max.load(Ordering::Relaxed),
        )
    }

    /// Bytes per second that may be written now; `None` is no limit.
    fn rate(&self, memory_fill: f64) -> Option<f64> {
        let level0_fill = self.level0_fill.load(Ordering::Relaxed) as f64 / 1_000.0;
        let drained = Drained {
            flushes: self.flush_rate.load(Ordering::Relaxed),
            level0: self.level0_rate.load(Ordering::Relaxed),
        };
        pace::rate(memory_fill, level0_fill, drained)
    }

    /// Bytes per second that may be written while memtables hold `held` of `limit` bytes; `None` is
    /// no limit.
    pub(super) fn slowed_to(&self, held: u64, limit: u64) -> Option<u64> {
        self.rate(held as f64 / limit as f64).map(|rate| rate as u64)
    }

    /// False if writes pass at once for as long as memory is far from its limit.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.gate.slowing.load(Ordering::Relaxed) || self.level0_fill.load(Ordering::Relaxed) > 0
    }

    /// Lets a write of so many bytes pass, after a wait if writes are being slowed. Memtables hold
    /// `held` of `limit` bytes.
    #[cold]
    pub(super) fn admit(&self, bytes: u64, held: u64, limit: u64) {
        self.pass(&self.gate, bytes, self.rate(held as f64 / limit as f64));
    }

    /// Lets large values of so many stored bytes pass, after a wait if collection is behind: by
    /// `fill` of what it may be, 0.0 and less for not at all.
    pub(super) fn admit_values(&self, bytes: u64, fill: f64) {
        if fill > 0.0 || self.values_gate.slowing.load(Ordering::Relaxed) {
            let freed = self.values_rate.load(Ordering::Relaxed);
            self.pass(&self.values_gate, bytes, pace::values_rate(fill, freed));
        }
    }

    fn pass(&self, gate: &Gate, bytes: u64, rate: Option<f64>) {
        let Some(rate) = rate else {
            if gate.slowing.swap(false, Ordering::Relaxed) {
                *gate.next.lock() = 0;
                gate.wake.notify_all();
                self.events.emit(&Event::WriteRate { bytes_per_second: None });
            }
            return;
        };
        if !gate.slowing.swap(true, Ordering::Relaxed) {
            self.events.emit(&Event::WriteRate { bytes_per_second: Some(rate as u64) });
        }
        let mut next = gate.next.lock();
        let now = self.clock.now_ns();
        let cost_ns = (bytes as f64 * 1e9 / rate) as u64;
        // What was not used in the past is not saved up.
        let due = (*next).max(now);
        // Who comes next pays for it, but neither for minutes nor for what many have left unpaid.
        *next = due.saturating_add(cost_ns).min(now + COST_MS_MAX * 1_000_000).max(due);
        let wait_ns = due - now;
        if wait_ns < WAIT_NS_MIN {
            return;
        }
        let wait = Duration::from_nanos(wait_ns.min(WAIT_MS_MAX * 1_000_000));
        // Woken early only when writes are no longer slowed.
        gate.wake.wait_for(&mut next, wait);
        drop(next);
        self.note_wait(self.clock.now_ns() - now);
    }
}

/// Takes a sample into a measured rate.
fn blend(rate: &AtomicU64, bytes: u64, duration_ns: u64) {
    let old = rate.load(Ordering::Relaxed);
    rate.store(pace::blended(old, bytes, duration_ns), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_base::env::ManualClock;

    #[test]
    fn nobody_pays_for_minutes_for_what_another_wrote() {
        let clock = Arc::new(ManualClock::default());
        let stall = Stall::new(clock.clone(), EventSink::default());
        stall.measure_level0(|| (1.0, false));
        stall.note_level0(1, 1_000_000_000);
        for _ in 0..30 {
            stall.note_level0(1, 1_000_000_000);
        }
        // At a mebibyte a second that is four minutes.
        stall.admit(256 << 20, 0, 1 << 30);
        assert_eq!(stall.totals().0, 0, "it passes itself");
        stall.admit(100, 0, 1 << 30);
        assert_eq!(stall.totals().0, 1, "the next one waits");
        clock.advance_ns(2_000_000_000);
        stall.admit(100, 0, 1 << 30);
        assert_eq!(stall.totals().0, 1, "two seconds later nobody does");
        for _ in 0..10 {
            stall.admit(256 << 20, 0, 1 << 30);
        }
        let (waits, ..) = stall.totals();
        clock.advance_ns(2_000_000_000);
        stall.admit(100, 0, 1 << 30);
        assert_eq!(stall.totals().0, waits, "nor for ten of them");
    }

    #[test]
    fn a_look_at_level_0_that_takes_long_does_not_undo_a_later_one() {
        let stall = Stall::new(Arc::new(ManualClock::default()), EventSink::default());
        let looks = std::sync::Barrier::new(2);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let (stall, looks) = (&stall, &looks);
            scope.spawn(move || {
                stall.measure_level0(|| {
                    looks.wait();
                    // Whoever looks later would be done by then, if it did not wait for this.
                    let _ = told.recv_timeout(Duration::from_millis(50));
                    (1.0, true)
                });
            });
            looks.wait();
            stall.measure_level0(|| (0.0, false));
            let _ = tell.send(());
        });
        assert!(!stall.is_level0_over());
    }

    #[test]
    fn large_values_wait_while_collection_is_behind_and_nobody_else_does() {
        let stall = Stall::new(Arc::new(ManualClock::default()), EventSink::default());
        let is_slowed = |bytes, fill| {
            let (before, ..) = stall.totals();
            stall.admit_values(bytes, fill);
            stall.totals().0 > before
        };
        assert!(!is_slowed(64 << 20, -1.0), "nothing is collected");
        assert!(!is_slowed(64 << 20, 0.0), "not over the limit");
        // The first passes and pays for the time that its bytes take; the next waits.
        assert!(!is_slowed(64 << 20, 0.5));
        assert!(is_slowed(1 << 10, 0.5));
        assert!(!stall.is_active(), "other writes pass");
        assert!(!is_slowed(1 << 10, -1.0), "what was owed is forgotten when collection ends");
        assert!(!is_slowed(1 << 10, 0.5));
    }
}
