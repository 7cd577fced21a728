//! Work that nobody waits for is done in pieces, with rests between them.
//!
//! A thread that works for a second at a time keeps whoever wakes up on its processor waiting for a turn, some
//! milliseconds where processors are few: more than all else that reads and writes take. A short piece is hardly noticed.
//! Source: rests in proportion to the work before, as in PostgreSQL's cost-based delay of vacuum; differs: they end as
//! soon as there may be other work, or somebody waits.

use super::background::{Background, Seen};
use esker_base::Clock;
use esker_base::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// A piece of work is at least so long: below it a rest would cost more than it gives.
const PIECE_NS: u64 = 50_000;

/// A rest is so many times as long as the piece before it.
const REST_FACTOR: u64 = 4;

/// And at most this long.
const REST_MAX_NS: u64 = 5_000_000;

/// What a thread without leisure has for the beginning of its piece.
const NO_LEISURE: u64 = u64::MAX;

/// How one thread does a job: at leisure, until there may be something else to do, and without a rest from then on.
pub(super) struct Leisure {
    background: Arc<Background>,
    clock: Arc<dyn Clock>,
    /// What was known when the job was chosen.
    seen: Seen,
    /// When the piece under way was begun.
    piece_since_ns: AtomicU64,
    rested_ns: AtomicU64,
}

impl Leisure {
    /// The first piece begins now.
    pub(super) fn new(background: Arc<Background>, clock: Arc<dyn Clock>, seen: Seen) -> Leisure {
        let now_ns = clock.now_ns();
        Leisure {
            background,
            clock,
            seen,
            piece_since_ns: AtomicU64::new(now_ns),
            rested_ns: AtomicU64::new(0),
        }
    }

    /// Rests, if the piece under way was long enough, and begins the next one.
    pub(super) fn rest(&self) {
        let since_ns = self.piece_since_ns.load(Ordering::Relaxed);
        if since_ns == NO_LEISURE {
            return;
        }
        let from_ns = self.clock.now_ns();
        let worked_ns = from_ns.saturating_sub(since_ns);
        if worked_ns < PIECE_NS {
            return;
        }
        let rest_ns = (worked_ns * REST_FACTOR).min(REST_MAX_NS);
        let at_leisure = self.background.rest(self.seen, Duration::from_nanos(rest_ns));
        let now_ns = self.clock.now_ns();
        self.rested_ns.fetch_add(now_ns.saturating_sub(from_ns), Ordering::Relaxed);
        let next = if at_leisure { now_ns } else { NO_LEISURE };
        self.piece_since_ns.store(next, Ordering::Relaxed);
    }

    /// How long it has rested.
    pub(super) fn rested_ns(&self) -> u64 {
        self.rested_ns.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(any(esker_loom, esker_shuttle))))]
mod tests {
    use super::*;

    /// A clock that goes on by itself, by a piece each time it is asked.
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

    fn leisure(step_ns: u64) -> Leisure {
        let background = Arc::new(Background::new(false));
        let seen = background.seen();
        let clock = Arc::new(Steps { step_ns, ..Steps::default() });
        Leisure::new(background, clock, seen)
    }

    #[test]
    fn short_pieces_are_one_and_a_long_one_is_followed_by_a_rest() {
        let leisure = leisure(PIECE_NS / 2);
        leisure.rest();
        assert_eq!(leisure.rested_ns(), 0, "half a piece");
        leisure.rest();
        assert_eq!(leisure.rested_ns(), PIECE_NS / 2, "by this clock, which was asked once more");
    }

    #[test]
    fn once_there_is_something_else_to_do_no_rest_follows() {
        let leisure = leisure(PIECE_NS);
        leisure.rest();
        let rested_ns = leisure.rested_ns();
        assert_eq!(rested_ns, PIECE_NS);
        leisure.background.wake_workers();
        leisure.rest();
        let asked_ns = leisure.clock.now_ns();
        for _ in 0..3 {
            leisure.rest();
        }
        assert_eq!(leisure.clock.now_ns(), asked_ns + PIECE_NS, "not even the clock is asked");
    }
}
