//! Work that nobody waits for is done in pieces, with rests between them.
//!
//! A thread that works for a second at a time keeps whoever wakes up on its processor waiting for a turn, some
//! milliseconds where processors are few: more than all else that reads and writes take. A short piece is hardly noticed.
//! Source: rests in proportion to the work before, as in PostgreSQL's cost-based delay of vacuum; differs: there are none
//! while anything is urgent or somebody waits, and one under way ends when that may have become so.

use super::background::{Background, Seen};
use esker_base::Clock;
use esker_base::sync::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// A piece of work is at least so long: below it a rest would cost more than it gives.
const PIECE_NS: u64 = 50_000;

/// A rest is so many times as long as the piece before it.
const REST_FACTOR: u64 = 4;

/// And at most this long.
const REST_MAX_NS: u64 = 5_000_000;

/// How one thread does a job at leisure.
pub(super) struct Leisure {
    background: Arc<Background>,
    clock: Arc<dyn Clock>,
    /// True if threads in the background have something else to do, and soon. Asked when something has changed.
    is_urgent: Box<dyn Fn() -> bool + Send + Sync>,
    /// Held by the one thread that works, but not while it rests.
    pieces: Mutex<Pieces>,
}

#[derive(Clone, Copy)]
struct Pieces {
    /// When the one under way was begun.
    since_ns: u64,
    rested_ns: u64,
    /// What was so when it was last asked whether anything is urgent, and the answer.
    seen: Seen,
    urgent: bool,
}

impl Leisure {
    /// The first piece begins now.
    pub(super) fn new(
        background: Arc<Background>,
        clock: Arc<dyn Clock>,
        is_urgent: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> Leisure {
        let seen = background.seen();
        let pieces = Pieces { since_ns: clock.now_ns(), rested_ns: 0, seen, urgent: is_urgent() };
        Leisure { background, clock, is_urgent, pieces: Mutex::new(pieces) }
    }

    /// Rests, if the piece under way was long enough, and begins the next one.
    pub(super) fn rest(&self) {
        let mut pieces = *self.pieces.lock();
        let from_ns = self.clock.now_ns();
        let worked_ns = from_ns.saturating_sub(pieces.since_ns);
        if worked_ns < PIECE_NS {
            return;
        }
        if self.background.has_changed(&mut pieces.seen) {
            pieces.urgent = (self.is_urgent)();
        }
        pieces.since_ns = from_ns;
        let rest = Duration::from_nanos((worked_ns * REST_FACTOR).min(REST_MAX_NS));
        if !pieces.urgent && self.background.rest(pieces.seen, rest) {
            pieces.since_ns = self.clock.now_ns();
            pieces.rested_ns += pieces.since_ns.saturating_sub(from_ns);
        }
        *self.pieces.lock() = pieces;
    }

    /// How long it has rested.
    pub(super) fn rested_ns(&self) -> u64 {
        self.pieces.lock().rested_ns
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
        (Leisure::new(background, clock, is_urgent), urgent)
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
}
