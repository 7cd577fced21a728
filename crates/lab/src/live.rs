//! What a trace has come to so far, for those who watch it grow.

use crate::summary::amplification;
use crate::summary::{Stops, written};
use esker::trace::{Step, What};
use std::collections::VecDeque;

/// So much of the past is remembered, in microseconds.
const PAST_US: u64 = 60_000_000;
/// The rate of writes now is that of the last ten seconds.
const NOW_US: u64 = 10_000_000;

/// One trace up to some step.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// The last step.
    pub step: Option<Step>,
    /// Memtables that became tables.
    pub flushes: u64,
    /// Compactions that were finished.
    pub compactions: u64,
    /// Bytes that both wrote.
    pub written_bytes: u64,
    /// When nobody could write.
    pub stops: Stops,
    /// Nothing follows, see [`Live::end`].
    pub ended: bool,
    /// Bytes that users had written, and when.
    past: VecDeque<(u64, u64)>,
}

impl Live {
    /// Goes on by a step.
    pub fn add(&mut self, step: Step) {
        match step.what {
            What::Flushed { .. } => self.flushes += 1,
            What::Compacted { .. } => self.compactions += 1,
            What::Stopped { duration_us } => self.stops.add(duration_us),
            What::Started | What::Moved { .. } => {}
        }
        self.written_bytes += written(&step.what);
        // Steps of several threads may come out of order.
        let (at_us, bytes) = self.past.back().copied().unwrap_or_default();
        self.past.push_back((step.at_us.max(at_us), step.user_bytes.max(bytes)));
        let from_us = step.at_us.saturating_sub(PAST_US);
        // One from before stays: what was written since is known by it.
        while self.past.get(1).is_some_and(|&(at_us, _)| at_us < from_us) {
            self.past.pop_front();
        }
        self.step = Some(step);
    }

    /// Nothing follows: what was under way was given up.
    pub fn end(&mut self) {
        self.ended = true;
        if let Some(step) = &mut self.step {
            step.running.clear();
            step.turn = None;
        }
    }

    /// When the last step was over, in microseconds since the start.
    pub fn at_us(&self) -> u64 {
        self.past.back().map_or(0, |&(at_us, _)| at_us)
    }

    /// Bytes that flushes and compactions wrote for each byte of a user; `None` if none has written
    /// any.
    pub fn write_amplification(&self) -> Option<f64> {
        let user = self.step.as_ref().map_or(0, |step| step.user_bytes);
        amplification(self.written_bytes, user)
    }

    /// Bytes a second that users wrote in the last ten seconds before the last step.
    pub fn rate(&self) -> f64 {
        let since_us = self.at_us().saturating_sub(NOW_US);
        self.rate_between(since_us, self.at_us())
    }

    /// The same in each of the last `count` seconds, the oldest first; those before the start are
    /// left out.
    pub fn rates(&self, count: u64) -> Vec<f64> {
        let (second, to_us) = (1_000_000, self.at_us());
        let count = count.min(to_us / second).min(PAST_US / second);
        let since = |back: u64| to_us - back * second;
        (0..count).rev().map(|back| self.rate_between(since(back + 1), since(back))).collect()
    }

    fn rate_between(&self, from_us: u64, to_us: u64) -> f64 {
        let bytes = self.bytes_at(to_us) - self.bytes_at(from_us);
        bytes * 1e6 / to_us.saturating_sub(from_us).max(1) as f64
    }

    /// Bytes that users had written at a time, as if they had written evenly between two steps.
    fn bytes_at(&self, at_us: u64) -> f64 {
        let after = self.past.partition_point(|&(step_us, _)| step_us < at_us);
        let (from_us, from) = match after.checked_sub(1) {
            Some(before) => self.past[before],
            None => (0, 0),
        };
        let Some(&(to_us, to)) = self.past.get(after) else { return from as f64 };
        let share = (at_us - from_us) as f64 / (to_us - from_us).max(1) as f64;
        from as f64 + (to - from) as f64 * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::trace::{Amount, Running};

    fn step(at_us: u64, user_bytes: u64, what: What) -> Step {
        Step {
            at_us,
            what,
            user_bytes,
            memtable_bytes: 0,
            slowed_to: None,
            turn: None,
            levels: Vec::new(),
            running: Vec::new(),
        }
    }

    #[test]
    fn steps_add_up() {
        let mut live = Live::default();
        assert_eq!((live.at_us(), live.rate(), live.rates(5)), (0, 0.0, Vec::new()));
        let written = Amount { tables: 1, bytes: 300 };
        live.add(step(1_000_000, 100, What::Flushed { written, duration_us: 5 }));
        live.add(step(2_000_000, 150, What::Stopped { duration_us: 500_000 }));
        live.add(step(4_000_000, 150, What::Started));
        assert_eq!((live.flushes, live.compactions, live.stops.count), (1, 0, 1));
        assert_eq!(live.stops.longest_s, 0.5);
        assert_eq!(live.write_amplification(), Some(2.0));
        assert_eq!(live.rates(60), [100.0, 50.0, 0.0, 0.0]);
        assert_eq!(live.rates(2), [0.0, 0.0]);
        assert_eq!(live.rate(), 150.0 / 4.0);
        let input = Amount { tables: 2, bytes: 5 };
        let running = vec![Running { level: 0, output_level: 1, input, since_us: 4_000_000 }];
        live.add(Step { running, turn: Some(0), ..step(4_500_000, 150, What::Started) });
        live.end();
        let last = live.step.expect("a step");
        assert_eq!((last.running, last.turn, live.ended), (Vec::new(), None, true));
    }

    #[test]
    fn the_far_past_is_forgotten() {
        let mut live = Live::default();
        for second in 1..=1_000 {
            live.add(step(second * 1_000_000, second * 7, What::Started));
        }
        assert!(live.past.len() < 70, "{}", live.past.len());
        assert_eq!(live.rates(100), [7.0; 60]);
        assert_eq!(live.rate(), 7.0);
        // Told late by another thread.
        live.add(step(999_000_000, 6_990, What::Started));
        assert_eq!((live.at_us(), live.rate()), (1_000_000_000, 7.0));
    }
}
