//! The world the engine lives in: file system, clock and randomness, all injected.

use crate::checksum::mix64;
use crate::vfs::Vfs;
use crate::vfs::posix::PosixVfs;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A source of time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// Nanoseconds since some fixed moment; never goes back.
    fn now_ns(&self) -> u64;

    /// Seconds since 1970-01-01T00:00:00Z, as the system believes.
    fn unix_seconds(&self) -> u64;
}

/// A source of random numbers (not for cryptography).
pub trait Entropy: Send + Sync + fmt::Debug {
    /// The next number.
    fn next_u64(&self) -> u64;
}

/// File system, clock and randomness together. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Env {
    /// Where files live.
    pub vfs: Arc<dyn Vfs>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where salts come from.
    pub entropy: Arc<dyn Entropy>,
}

impl Env {
    /// The real machine.
    pub fn posix() -> Env {
        Env {
            vfs: Arc::new(PosixVfs::new()),
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
        }
    }

    /// The real clock and seeded randomness over another file system: for tests.
    pub fn with_vfs(vfs: Arc<dyn Vfs>, seed: u64) -> Env {
        Env {
            vfs,
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SeededEntropy::new(seed)),
        }
    }
}

/// The system's clock.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock that starts now.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the real clock")]
    pub fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        // 584 years fit.
        self.start.elapsed().as_nanos() as u64
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that reads the real clock")]
    fn unix_seconds(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
    }
}

/// A clock that stands still until told to move: for tests and simulation.
#[derive(Debug, Default)]
pub struct ManualClock {
    now_ns: AtomicU64,
}

impl ManualClock {
    /// Moves time forward.
    pub fn advance_ns(&self, by: u64) {
        self.now_ns.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(Ordering::SeqCst)
    }

    fn unix_seconds(&self) -> u64 {
        self.now_ns() / 1_000_000_000
    }
}

/// Randomness seeded by the operating system.
#[derive(Debug)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[expect(clippy::disallowed_types, reason = "the one place that draws real randomness")]
    fn next_u64(&self) -> u64 {
        std::hash::RandomState::new().build_hasher().finish()
    }
}

/// Randomness that repeats from its seed (splitmix64).
#[derive(Debug)]
pub struct SeededEntropy {
    state: AtomicU64,
}

impl SeededEntropy {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> SeededEntropy {
        SeededEntropy { state: AtomicU64::new(seed) }
    }
}

impl Entropy for SeededEntropy {
    fn next_u64(&self) -> u64 {
        mix64(self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed))
    }
}
