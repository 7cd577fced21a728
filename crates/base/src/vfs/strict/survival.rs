//! What a crash leaves of the things that were not synced, drawn from a seed.

use crate::checksum::mix64;

/// How much of what was not synced outlives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// A power cut that takes everything that was not synced.
    None,
    /// A power cut that keeps each unsynced block and each unsynced name with this chance,
    /// independently of all others.
    Some {
        /// 0 (as `None`) to 100 (as `All`).
        percent: u8,
    },
    /// A power cut that comes just after the disk had written everything.
    All,
    /// The process dies and the machine runs on: nothing is lost, and nothing becomes more durable
    /// than it was (a later power cut can still take what was never synced).
    ProcessDeath,
}

impl Survival {
    /// The same with the ends of the scale under their own names.
    pub(super) fn plain(self) -> Survival {
        match self {
            Survival::Some { percent: 0 } => Survival::None,
            Survival::Some { percent: 100.. } => Survival::All,
            other => other,
        }
    }
}

/// Repeatable randomness.
#[derive(Clone, Debug)]
pub(super) struct Rng {
    state: u64,
}

impl Rng {
    pub(super) fn new(seed: u64) -> Rng {
        Rng { state: mix64(seed ^ 0x5bd1_e995_9d1b_873f) }
    }

    fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.state)
    }

    /// A number below `limit`, which must not be 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next_u64() % limit
    }

    /// True `percent` times in a hundred.
    pub(super) fn percent(&mut self, percent: u8) -> bool {
        self.below(100) < u64::from(percent)
    }
}
