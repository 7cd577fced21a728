//! The write rate: slowing writes smoothly before anything has to stop them.
//!
//! Two things must not grow without bound: memory held by memtables, and runs in level 0. As either
//! nears its limit, writes are admitted at a rate that falls from a little above what flushes (or
//! compactions out of level 0) were measured to drain, to a small part of it at the limit. The
//! writer's wait is one timed wait on a condition variable, at most [`WAIT_MS_MAX`] long.
//!
//! ```text
//! fill 0 ......... START ............ 1
//! rate unlimited   | 2 x drained ... 1/8 x drained
//! ```
//!
//! Source: the idea of pacing by measured drain is bLSM's and that of RocksDB's delayed writes; here the
//! rate is a continuous function of the fill, so that it settles instead of oscillating.

use crate::event::{Event, EventSink};
use esker_base::Clock;
use esker_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use esker_base::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// Share of a limit from which writes are slowed.
pub(super) const START: f64 = 0.5;

/// Waits shorter than this are left to add up: a timed wait costs about as much.
const WAIT_NS_MIN: u64 = 500_000;

/// No write waits longer than this for its admission.
const WAIT_MS_MAX: u64 = 50;

/// The slowest rate, whatever was measured: one mebibyte a second.
const RATE_MIN: f64 = (1 << 20) as f64;

/// The drain assumed before any was measured, in bytes per second.
const DRAIN_START: u64 = 200 << 20;

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
    slowing: AtomicBool,
    /// When the next write may pass, in the clock's nanoseconds.
    gate: Mutex<u64>,
    wake: Condvar,
    slowed: AtomicU64,
    slowed_ns: AtomicU64,
    slowed_ns_max: AtomicU64,
}

impl Stall {
    pub(super) fn new(clock: Arc<dyn Clock>, events: EventSink) -> Stall {
        Stall {
            clock,
            events,
            flush_rate: AtomicU64::new(DRAIN_START),
            level0_rate: AtomicU64::new(DRAIN_START),
            level0_fill: AtomicU64::new(0),
            slowing: AtomicBool::new(false),
            gate: Mutex::new(0),
            wake: Condvar::new(),
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

    /// Notes how far level 0 of the fullest keyspace is from `slow` (0.0) to `max` (1.0).
    pub(super) fn set_level0_fill(&self, fill: f64) {
        self.level0_fill.store((fill.clamp(0.0, 1.0) * 1_000.0) as u64, Ordering::Relaxed);
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
        let level0_fill = self.level0_fill.load(Ordering::Relaxed);
        if memory_fill <= START && level0_fill == 0 {
            return None;
        }
        let by_memory = (memory_fill > START).then(|| {
            let drained = self.flush_rate.load(Ordering::Relaxed) as f64;
            paced(drained, (memory_fill - START) / (1.0 - START))
        });
        let by_level0 = (level0_fill > 0).then(|| {
            let drained = self.level0_rate.load(Ordering::Relaxed) as f64;
            paced(drained, level0_fill as f64 / 1_000.0)
        });
        by_memory.into_iter().chain(by_level0).min_by(f64::total_cmp)
    }

    /// False if writes pass at once for as long as memory is far from its limit.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.slowing.load(Ordering::Relaxed) || self.level0_fill.load(Ordering::Relaxed) > 0
    }

    /// Lets a write of so many bytes pass, after a wait if writes are being slowed. Memtables hold
    /// `held` of `limit` bytes.
    #[cold]
    pub(super) fn admit(&self, bytes: u64, held: u64, limit: u64) {
        let Some(rate) = self.rate(held as f64 / limit as f64) else {
            if self.slowing.swap(false, Ordering::Relaxed) {
                *self.gate.lock() = 0;
                self.wake.notify_all();
                self.events.emit(&Event::WriteRate { bytes_per_second: None });
            }
            return;
        };
        if !self.slowing.swap(true, Ordering::Relaxed) {
            self.events.emit(&Event::WriteRate { bytes_per_second: Some(rate as u64) });
        }
        let mut gate = self.gate.lock();
        let now = self.clock.now_ns();
        let cost_ns = (bytes as f64 * 1e9 / rate) as u64;
        // What was not used in the past is not saved up.
        let due = (*gate).max(now);
        *gate = due + cost_ns;
        let wait_ns = due - now;
        if wait_ns < WAIT_NS_MIN {
            return;
        }
        let wait = Duration::from_nanos(wait_ns.min(WAIT_MS_MAX * 1_000_000));
        // Woken early only when writes are no longer slowed.
        self.wake.wait_for(&mut gate, wait);
        drop(gate);
        self.note_wait(self.clock.now_ns() - now);
    }
}

/// The rate at `fill` from 0.0 (just over the start) to 1.0 (at the limit).
fn paced(drained: f64, fill: f64) -> f64 {
    // 2 at the start, 1 at a quarter of the way, 1/8 at the limit.
    (drained * 2.0 * (0.0625f64).powf(fill.clamp(0.0, 1.0))).max(RATE_MIN)
}

/// Moves a measured rate a third of the way to a new sample.
fn blend(rate: &AtomicU64, bytes: u64, duration_ns: u64) {
    if bytes == 0 {
        return;
    }
    let sample = (bytes as f64 * 1e9 / duration_ns.max(1) as f64) as u64;
    let old = rate.load(Ordering::Relaxed);
    rate.store((2 * (old / 3)).saturating_add(sample / 3), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_falls_smoothly_with_the_fill() {
        let rates: Vec<f64> = (0..=100).map(|i| paced(1e8, f64::from(i) / 100.0)).collect();
        assert!((rates[0] - 2e8).abs() < 1.0 && (rates[100] - 1.25e7).abs() < 1.0);
        for pair in rates.windows(2) {
            assert!(pair[1] < pair[0] && pair[1] > pair[0] * 0.9, "no step");
        }
        assert!(paced(1.0, 1.0) >= RATE_MIN, "writes never stop");
    }
}
