//! Work that nobody waits for is done in pieces, with rests between them.
//!
//! A thread that works for a second at a time keeps whoever wakes up on its processor waiting for a
//! turn, some milliseconds where processors are few: more than all else that reads and writes take.
//! A short piece is hardly noticed.
//! Source: rests in proportion to the work before, as in PostgreSQL's cost-based delay of vacuum;
//! differs: there are none while anything is urgent or somebody waits, one under way ends when that
//! may have become so, and they are the shorter the more is to be done, so that it does not pile
//! up.

use super::background::{Background, Seen};
use esker_base::Clock;
use esker_base::sync::Mutex;
use esker_base::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

/// A piece of work is at least so long: below it a rest would cost more than it gives.
const PIECE_NS: u64 = 50_000;

/// A rest is at most so many times as long as the piece before it: of four hundred who wake up on
/// one of two processors, one meets a piece.
const REST_FACTOR_MAX: f64 = 200.0;

/// And at least so many times, however much is to be done.
const REST_FACTOR_MIN: f64 = 4.0;

/// And at most this long.
const REST_MAX_NS: u64 = 20_000_000;

/// It is asked so often whether anything is urgent, even if no thread in the background was told of
/// a change.
const ASK_NS: u64 = 1_000_000_000;

/// How one thread does a job at leisure.
pub(super) struct Leisure {
    background: Arc<Background>,
    clock: Arc<dyn Clock>,
    /// True if threads in the background have something else to do, and soon.
    is_urgent: Box<dyn Fn() -> bool + Send + Sync>,
    /// A rest is so many times as long as the piece before it, for each thread that works at
    /// leisure.
    factor: u64,
    /// Held by the one thread that works, but not while it rests.
    pieces: Mutex<Pieces>,
}

#[derive(Clone, Copy)]
struct Pieces {
    /// When the one under way was begun.
    since_ns: u64,
    rested_ns: u64,
    /// What was so when it was last asked whether anything is urgent, the moment, and the answer.
    seen: Seen,
    asked_ns: u64,
    urgent: bool,
}

impl Leisure {
    /// The first piece begins now. `to_do` is the share of all that such work is done to, of which
    /// there is some to be done: up to a fourteenth, rests are as long as they may be, from a half
    /// on, as short.
    pub(super) fn new(
        background: Arc<Background>,
        clock: Arc<dyn Clock>,
        is_urgent: Box<dyn Fn() -> bool + Send + Sync>,
        to_do: f64,
    ) -> Leisure {
        let seen = background.seen();
        let now_ns = clock.now_ns();
        let pieces =
            Pieces { since_ns: now_ns, rested_ns: 0, seen, asked_ns: now_ns, urgent: is_urgent() };
        let factor = (1.0 / (to_do * to_do)).clamp(REST_FACTOR_MIN, REST_FACTOR_MAX) as u64;
        background.at_leisure.fetch_add(1, Ordering::Relaxed);
        Leisure { background, clock, is_urgent, factor, pieces: Mutex::new(pieces) }
    }

    /// Rests, if the piece under way was long enough, and begins the next one.
    pub(super) fn rest(&self) {
        let mut pieces = *self.pieces.lock();
        let from_ns = self.clock.now_ns();
        let worked_ns = from_ns.saturating_sub(pieces.since_ns);
        if worked_ns < PIECE_NS {
            return;
        }
        let is_late = from_ns.saturating_sub(pieces.asked_ns) >= ASK_NS;
        if self.background.has_changed(&mut pieces.seen) || is_late {
            pieces.asked_ns = from_ns;
            pieces.urgent = (self.is_urgent)();
        }
        pieces.since_ns = from_ns;
        if !pieces.urgent && self.background.rest(pieces.seen, self.rest_for(worked_ns)) {
            pieces.since_ns = self.clock.now_ns();
            pieces.rested_ns += pieces.since_ns.saturating_sub(from_ns);
        }
        *self.pieces.lock() = pieces;
    }

    /// How long it rests after it has worked for so long. Of several threads each leaves the others
    /// their share.
    fn rest_for(&self, worked_ns: u64) -> Duration {
        let times = self.factor * self.background.at_leisure.load(Ordering::Relaxed);
        Duration::from_nanos(worked_ns.saturating_mul(times).min(REST_MAX_NS))
    }

    /// How long it has rested.
    pub(super) fn rested_ns(&self) -> u64 {
        self.pieces.lock().rested_ns
    }
}

impl Drop for Leisure {
    fn drop(&mut self) {
        self.background.at_leisure.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    /// A clock that goes on by itself, by a step each time it is asked.
    #[derive(Debug, Default)]
    struct Steps {
        now_ns: AtomicU64,
        step_ns: u64,
    }

    impl Clock for Steps {
        fn now_ns(&self) -> u64 {
            self.now_ns.fetch_add(self.step_ns, Ordering::Relaxed)
        }

        fn unix_seconds(&self) -> u64 {
            0
        }
    }

    /// By a clock of such steps, and with what says whether anything is urgent.
    fn leisure(step_ns: u64) -> (Leisure, Arc<AtomicBool>) {
        let background = Arc::new(Background::new(false));
        let clock = Arc::new(Steps { step_ns, ..Steps::default() });
        let urgent = Arc::new(AtomicBool::new(false));
        let asked = urgent.clone();
        let is_urgent = Box::new(move || asked.load(Ordering::Relaxed));
        (Leisure::new(background, clock, is_urgent, 1.0), urgent)
    }

    #[test]
    fn rests_are_the_shorter_the_more_is_to_be_done_and_the_longer_the_more_threads_work() {
        let background = Arc::new(Background::new(false));
        let factor = |to_do: f64| {
            let clock = Arc::new(Steps::default());
            Leisure::new(background.clone(), clock, Box::new(|| false), to_do)
        };
        let factors = [0.0, 0.05, 0.125, 0.25, 0.5, 1.0].map(|to_do| factor(to_do).factor);
        assert_eq!(factors, [200, 200, 64, 16, 4, 4]);
        let two = [factor(1.0), factor(1.0)];
        assert_eq!(two[0].rest_for(1_000), Duration::from_nanos(2 * 4_000));
        drop(two);
        assert_eq!(
            factor(1.0).rest_for(1_000),
            Duration::from_nanos(4_000),
            "they are not there any more"
        );
        assert_eq!(factor(0.0).rest_for(1 << 40), Duration::from_nanos(REST_MAX_NS));
    }

    #[test]
    fn short_pieces_are_one_and_a_long_one_is_followed_by_a_rest() {
        let (leisure, _) = leisure(PIECE_NS / 2);
        leisure.rest();
        assert_eq!(leisure.rested_ns(), 0, "half a piece");
        leisure.rest();
        assert_eq!(leisure.rested_ns(), PIECE_NS / 2, "by this clock, which was asked once more");
    }

    #[test]
    fn there_is_no_rest_while_anything_is_urgent() {
        let (leisure, urgent) = leisure(PIECE_NS);
        let mut rested_ns = 0;
        let mut rests = |expected: bool, why: &str| {
            leisure.rest();
            let before_ns = std::mem::replace(&mut rested_ns, leisure.rested_ns());
            assert_eq!(rested_ns > before_ns, expected, "{why}");
        };
        rests(true, "nothing is urgent");
        urgent.store(true, Ordering::Relaxed);
        rests(true, "nothing has changed, so nobody asks");
        leisure.background.wake_workers();
        rests(false, "something has, and is urgent");
        rests(false, "it still is");
        urgent.store(false, Ordering::Relaxed);
        leisure.background.wake_workers();
        rests(true, "that is done");
    }

    #[test]
    fn whether_anything_is_urgent_is_asked_now_and_then_without_a_change() {
        let (leisure, urgent) = leisure(ASK_NS);
        urgent.store(true, Ordering::Relaxed);
        leisure.rest();
        assert_eq!(leisure.rested_ns(), 0, "it is, and nobody was told");
    }
}
