//! Time for progress and measurements, from the one clock the engine uses too.

use esker::base::env::{Clock, SystemClock};

/// A clock that starts when it is made.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    clock: SystemClock,
}

impl Stopwatch {
    /// Starts now.
    pub(crate) fn start() -> Stopwatch {
        Stopwatch::default()
    }

    /// Nanoseconds since the start.
    pub(crate) fn ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Seconds since the start.
    pub(crate) fn seconds(&self) -> f64 {
        self.ns() as f64 / 1e9
    }

    /// Seconds since 1970.
    pub(crate) fn unix_seconds(&self) -> u64 {
        self.clock.unix_seconds()
    }
}
