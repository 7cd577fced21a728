//! How long what failed is left alone.

use std::time::Duration;

/// How long after one failure. Doubles with each failure in a row.
const WAIT_MIN: Duration = Duration::from_secs(1);

/// So often it doubles: a little over an hour is the most.
const DOUBLINGS: u32 = 12;

/// Something failed by the disk, which may do better another time, or by data that may be gone
/// then: it is left alone for a while, so that what always fails takes nothing from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Patience {
    /// In a row.
    failures: u32,
    until_ns: u64,
}

impl Patience {
    /// It failed once more, now.
    pub(super) fn note_failure(&mut self, now_ns: u64) {
        let wait = WAIT_MIN * 2_u32.pow(self.failures.min(DOUBLINGS));
        self.failures = self.failures.saturating_add(1);
        self.until_ns = now_ns.saturating_add(wait.as_nanos() as u64);
    }

    /// How much longer it is left alone.
    pub(super) fn left(&self, now_ns: u64) -> Duration {
        Duration::from_nanos(self.until_ns.saturating_sub(now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_left_alone_for_longer_each_time_up_to_an_hour() {
        let (mut patience, mut now_ns) = (Patience::default(), 7);
        assert_eq!(patience.left(now_ns), Duration::ZERO);
        for secs in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 4_096] {
            patience.note_failure(now_ns);
            let wait = Duration::from_secs(secs);
            assert_eq!(patience.left(now_ns), wait);
            assert_eq!(patience.left(now_ns + 1_000), wait - Duration::from_micros(1));
            now_ns += wait.as_nanos() as u64;
            assert_eq!(patience.left(now_ns), Duration::ZERO);
        }
    }
}
