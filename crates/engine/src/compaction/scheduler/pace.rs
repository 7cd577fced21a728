//! How fast writes may come: slowed smoothly before anything has to stop them.
//!
//! Three things must not grow without bound: memory held by memtables, runs in level 0, and dead
//! values. As one nears its limit, the rate falls from twice what flushes (or compactions out of
//! level 0, or collections) were measured to drain, to a small part of it at the limit.
//!
//! ```text
//! fill 0 ......... START ............ 1
//! rate unlimited   | 2 x drained ... 1/8 x drained
//! ```
//!
//! Source: the idea of pacing by measured drain is bLSM's and that of RocksDB's delayed writes;
//! here the rate is a continuous function of the fill, so that it settles instead of oscillating.

/// Share of the memory for memtables from which writes are slowed.
pub(crate) const START: f64 = 0.5;

/// The slowest rate, whatever was measured: one mebibyte a second.
const RATE_MIN: f64 = (1 << 20) as f64;

/// The drain assumed before any was measured, in bytes per second.
pub(crate) const DRAIN_START: u64 = 200 << 20;

/// Bytes per second that were drained.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drained {
    /// Out of memtables.
    pub(crate) flushes: u64,
    /// Out of level 0.
    pub(crate) level0: u64,
}

/// Bytes per second that may be written; `None` is no limit. Memory is full at 1.0, level 0 at 1.0
/// and starts to matter above 0.0.
pub(crate) fn rate(memory_fill: f64, level0_fill: f64, drained: Drained) -> Option<f64> {
    let by_memory = (memory_fill > START)
        .then(|| paced(drained.flushes as f64, (memory_fill - START) / (1.0 - START)));
    let by_level0 = (level0_fill > 0.0).then(|| paced(drained.level0 as f64, level0_fill));
    by_memory.into_iter().chain(by_level0).min_by(f64::total_cmp)
}

/// Bytes per second of large values that may be written while files with values are by `fill` of
/// the way (0.0 to 1.0) over what they should take; `None` is no limit.
pub(crate) fn values_rate(fill: f64, freed: u64) -> Option<f64> {
    (fill > 0.0).then(|| paced(freed as f64, fill))
}

/// How far level 0 is from `slow` (0.0) to `max` (1.0) runs.
pub(crate) fn level0_fill(runs: usize, slow: u32, max: u32) -> f64 {
    let (slow, max) = (f64::from(slow), f64::from(max));
    ((runs as f64 - slow) / (max - slow)).clamp(0.0, 1.0)
}

/// True if level 0 has so many runs that writes stop: twice as many as where they are slowest.
pub(crate) fn level0_is_over(runs: usize, max: u32) -> bool {
    runs as u64 >= 2 * u64::from(max)
}

/// A measured rate after one more sample, a third of the way to it.
pub(crate) fn blended(old: u64, bytes: u64, duration_ns: u64) -> u64 {
    if bytes == 0 {
        return old;
    }
    let sample = (bytes as f64 * 1e9 / duration_ns.max(1) as f64) as u64;
    (2 * (old / 3)).saturating_add(sample / 3)
}

/// The rate at `fill` from 0.0 (just over the start) to 1.0 (at the limit).
fn paced(drained: f64, fill: f64) -> f64 {
    // 2 at the start, 1 at a quarter of the way, 1/8 at the limit.
    (drained * 2.0 * (0.0625f64).powf(fill.clamp(0.0, 1.0))).max(RATE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAINED: Drained = Drained { flushes: 100_000_000, level0: 50_000_000 };

    #[test]
    fn the_rate_falls_smoothly_with_the_fill() {
        let rates: Vec<f64> = (0..=100).map(|i| paced(1e8, f64::from(i) / 100.0)).collect();
        assert!((rates[0] - 2e8).abs() < 1.0 && (rates[100] - 1.25e7).abs() < 1.0);
        for pair in rates.windows(2) {
            assert!(pair[1] < pair[0] && pair[1] > pair[0] * 0.9, "no step");
        }
        assert!(paced(1.0, 1.0) >= RATE_MIN, "writes never stop");
    }

    #[test]
    fn whoever_is_fuller_sets_the_rate() {
        assert_eq!(rate(START, 0.0, DRAINED), None);
        let by_memory = rate(1.0, 0.0, DRAINED).expect("a limit");
        assert!((by_memory - 1.25e7).abs() < 1.0);
        let by_level0 = rate(0.4, 0.25, DRAINED).expect("a limit");
        assert!((by_level0 - 5e7).abs() < 1.0);
        assert_eq!(rate(1.0, 0.25, DRAINED), Some(by_memory));
        assert_eq!(rate(0.51, 0.25, DRAINED), Some(by_level0));
    }

    #[test]
    fn level_0_matters_between_slow_and_max() {
        let fills: Vec<f64> = [19, 20, 28, 36, 50].map(|runs| level0_fill(runs, 20, 36)).into();
        assert_eq!(fills, [0.0, 0.0, 0.5, 1.0, 1.0]);
        assert_eq!([36, 71, 72].map(|runs| level0_is_over(runs, 36)), [false, false, true]);
    }

    #[test]
    fn large_values_have_a_rate_of_their_own() {
        assert_eq!(values_rate(0.0, 100_000_000), None);
        assert_eq!(values_rate(-1.0, 100_000_000), None);
        let rate = values_rate(0.25, 100_000_000).expect("a limit");
        assert!((rate - 1e8).abs() < 1.0, "{rate}");
    }

    #[test]
    fn measures_move_a_third_of_the_way() {
        assert_eq!(blended(300, 600, 1_000_000_000), 400);
        assert_eq!(blended(300, 0, 1), 300, "nothing was measured");
        assert!(blended(u64::MAX, u64::MAX, 1) > u64::MAX / 2);
    }
}
