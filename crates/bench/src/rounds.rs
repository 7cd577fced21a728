//! What is seen of threads while they run, in rounds of a tenth of a second.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A round.
pub(crate) const ROUND: Duration = Duration::from_millis(100);

/// What is seen of a thread, on a line of its own.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Done {
    /// Its operations: of what goes over everything, walks.
    count: AtomicU64,
    /// The same as results count them: records.
    units: AtomicU64,
    /// The longest of those since somebody looked, in nanoseconds.
    longest_ns: AtomicU64,
}

impl Done {
    #[inline]
    pub(crate) fn note(&self, count: u64, units: u64, ns: u64) {
        self.count.store(count, Ordering::Relaxed);
        self.units.store(units, Ordering::Relaxed);
        if ns > self.longest_ns.load(Ordering::Relaxed) {
            self.longest_ns.store(ns, Ordering::Relaxed);
        }
    }
}

/// What is seen of all threads.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    /// When.
    at: Instant,
    pub(crate) count: u64,
    units: u64,
    /// The longest operation since somebody looked before.
    longest_ns: u64,
}

impl Seen {
    pub(crate) fn of(done: &[Done]) -> Seen {
        let sum =
            |of: fn(&Done) -> &AtomicU64| done.iter().map(|d| of(d).load(Ordering::Relaxed)).sum();
        let longest = done.iter().map(|done| done.longest_ns.swap(0, Ordering::Relaxed)).max();
        let (count, units) = (sum(|done| &done.count), sum(|done| &done.units));
        Seen { at: Instant::now(), count, units, longest_ns: longest.unwrap_or(0) }
    }
}

/// What is looked at from time to time.
pub(crate) struct Watch {
    start: Instant,
    /// Of each round: operations, the longest of them, and when it was over.
    pub(crate) pace: Vec<u64>,
    pub(crate) slowest_ns: Vec<u64>,
    pub(crate) ends_ns: Vec<u64>,
    last: u64,
}

impl Watch {
    /// Of threads that began then.
    pub(crate) fn since(start: Instant) -> Watch {
        let (pace, slowest_ns, ends_ns) = (Vec::new(), Vec::new(), Vec::new());
        Watch { start, pace, slowest_ns, ends_ns, last: 0 }
    }

    /// When the round is over that begins now.
    pub(crate) fn next(&self) -> Instant {
        self.start + next_end(self.start.elapsed())
    }

    pub(crate) fn round(&mut self, seen: Seen) {
        self.pace.push(seen.units - self.last);
        self.slowest_ns.push(seen.longest_ns);
        self.ends_ns.push(self.nanoseconds(seen.at));
        self.last = seen.units;
    }

    /// What ends after the last round counts to it.
    pub(crate) fn after_all(&mut self, seen: Seen, end: Instant) {
        let end = self.nanoseconds(end);
        let last = (self.pace.last_mut(), self.slowest_ns.last_mut(), self.ends_ns.last_mut());
        if let (Some(units), Some(longest), Some(last_end)) = last {
            *units += seen.units - self.last;
            *longest = (*longest).max(seen.longest_ns);
            *last_end = (*last_end).max(end);
        }
    }

    fn nanoseconds(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.start).as_nanos() as u64
    }
}

/// When the next round is over, this long after the first began: after a whole number of tenths of
/// a second, whatever looking took, but in no less than half a round.
fn next_end(gone: Duration) -> Duration {
    let whole = (gone + ROUND / 2).as_nanos() / ROUND.as_nanos();
    // There are not so many rounds in a lifetime.
    ROUND * (whole as u32 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_end_at_whole_tenths_of_a_second_although_looks_take_time() {
        let ends = [0, 1, 101, 149, 151, 1_020, 9_999].map(Duration::from_millis).map(next_end);
        let expected = [100, 100, 200, 200, 300, 1_100, 10_100].map(Duration::from_millis);
        assert_eq!(ends, expected);
    }

    #[test]
    fn each_round_tells_when_it_was_over() {
        let (start, ms) = (Instant::now(), Duration::from_millis);
        let mut watch = Watch::since(start);
        let seen = |at, units| Seen { at: start + ms(at), count: units, units, longest_ns: units };
        watch.round(seen(100, 30));
        watch.round(seen(240, 75));
        watch.after_all(seen(260, 80), start + ms(250));
        assert_eq!((watch.pace, watch.slowest_ns), (vec![30, 50], vec![30, 80]));
        assert_eq!(watch.ends_ns, [100_000_000, 250_000_000]);
    }
}
