//! The figures of a trace.

use esker::trace::{Step, Trace, What};
use serde::Serialize;

/// Figures of the time in which the load was written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Seconds until the last byte of the load was taken.
    pub load_s: f64,
    /// Seconds until nothing was left to compact.
    pub settled_s: f64,
    /// Bytes that users wrote.
    pub user_bytes: u64,
    /// Bytes that flushes and compactions wrote for each byte of a user, until all was settled;
    /// `None` if users wrote nothing.
    pub write_amplification: Option<f64>,
    /// Bytes that a compaction read for each byte that left its level: the mean over compactions.
    pub job_amplification: f64,
    /// When nobody could write.
    pub stops: Stops,
    /// Level 0 first.
    pub levels: Vec<LevelSummary>,
}

/// Times in which nobody could write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Stops {
    /// How many.
    pub count: u64,
    /// All together, in seconds.
    pub total_s: f64,
    /// The longest, in seconds.
    pub longest_s: f64,
}

/// Figures of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LevelSummary {
    /// Compactions that made it smaller.
    pub jobs: u64,
    /// Bytes they read for each byte that left the level: the mean.
    pub job_amplification: f64,
    /// The time they took: the mean, in seconds.
    pub job_s: f64,
    /// The longest, in seconds.
    pub job_s_max: f64,
    /// Most tables it held.
    pub tables_max: u64,
    /// Most sorted runs it held.
    pub runs_max: u64,
}

impl Stops {
    /// Adds one of so many microseconds.
    pub(crate) fn add(&mut self, duration_us: u64) {
        let seconds = duration_us as f64 / 1e6;
        self.count += 1;
        self.total_s += seconds;
        self.longest_s = self.longest_s.max(seconds);
    }
}

/// How many times as much was written as users wrote, if they wrote anything.
pub(crate) fn amplification(written: u64, user: u64) -> Option<f64> {
    (user > 0).then(|| written as f64 / user as f64)
}

impl Summary {
    /// Bytes a second that users wrote; 0 where no time passed.
    pub fn throughput(&self) -> f64 {
        if self.load_s > 0.0 { self.user_bytes as f64 / self.load_s } else { 0.0 }
    }

    /// Compactions of all levels.
    pub fn jobs(&self) -> u64 {
        self.levels.iter().map(|level| level.jobs).sum()
    }

    /// The figures of a trace.
    pub fn of(trace: &Trace) -> Summary {
        // Threads tell their steps side by side: the newest need not be the last.
        let newest = |of: fn(&Step) -> u64| trace.steps.iter().map(of).max().unwrap_or(0);
        let mut summary = Summary {
            load_s: trace.loaded_us as f64 / 1e6,
            settled_s: newest(|step| step.at_us) as f64 / 1e6,
            user_bytes: newest(|step| step.user_bytes),
            ..Summary::default()
        };
        let written: u64 = trace.steps.iter().map(|step| written(&step.what)).sum();
        summary.write_amplification = amplification(written, summary.user_bytes);
        for step in trace.steps.iter().filter(|step| step.at_us <= trace.loaded_us) {
            summary.add(step);
        }
        let jobs = summary.jobs().max(1) as f64;
        let of_jobs = summary.levels.iter().map(|level| level.job_amplification);
        // An empty sum would be below zero.
        let sum = of_jobs.fold(0.0, |sum, of| sum + of);
        summary.job_amplification = sum / jobs;
        for level in &mut summary.levels {
            let jobs = level.jobs.max(1) as f64;
            level.job_amplification /= jobs;
            level.job_s /= jobs;
        }
        summary
    }

    /// Adds up; means are sums until the end.
    fn add(&mut self, step: &Step) {
        let depth = step.levels.len().max(self.levels.len());
        self.levels.resize(depth, LevelSummary::default());
        for (level, shape) in self.levels.iter_mut().zip(&step.levels) {
            level.tables_max = level.tables_max.max(shape.tables);
            level.runs_max = level.runs_max.max(shape.runs);
        }
        match step.what {
            What::Compacted { level, taken, rewritten, duration_us, .. } => {
                // The tree may have lost the level by it.
                self.levels.resize(depth.max(level + 1), LevelSummary::default());
                let level = &mut self.levels[level];
                let seconds = duration_us as f64 / 1e6;
                level.jobs += 1;
                let read = (taken.bytes + rewritten.bytes) as f64;
                level.job_amplification += read / taken.bytes.max(1) as f64;
                level.job_s += seconds;
                level.job_s_max = level.job_s_max.max(seconds);
            }
            What::Stopped { duration_us } => self.stops.add(duration_us),
            What::Flushed { .. } | What::Started | What::Moved { .. } => {}
        }
    }
}

/// Bytes that a step wrote to tables.
pub(crate) fn written(what: &What) -> u64 {
    match what {
        What::Flushed { written, .. } | What::Compacted { written, .. } => written.bytes,
        What::Started | What::Moved { .. } | What::Stopped { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::trace::{Amount, Shape};

    fn amount(tables: u64, bytes: u64) -> Amount {
        Amount { tables, bytes }
    }

    fn step(at_us: u64, what: What, tables: &[u64]) -> Step {
        let shape =
            |&tables: &u64| Shape { runs: tables, tables, bytes: 10 * tables, ..Shape::default() };
        let levels = tables.iter().map(shape).collect();
        Step {
            at_us,
            what,
            user_bytes: 100,
            memtable_bytes: 0,
            slowed_to: None,
            turn: None,
            levels,
            running: Vec::new(),
        }
    }

    fn job(level: usize, taken: u64, rewritten: u64, duration_us: u64) -> What {
        What::Compacted {
            level,
            output_level: level + 1,
            taken: amount(1, taken),
            rewritten: amount(1, rewritten),
            written: amount(1, taken + rewritten),
            duration_us,
        }
    }

    #[test]
    fn figures_are_of_the_load() {
        let flushed = What::Flushed { written: amount(1, 100), duration_us: 5 };
        let trace = Trace {
            loaded_us: 4_000_000,
            steps: vec![
                step(500_000, flushed, &[4]),
                step(1_000_000, What::Stopped { duration_us: 250_000 }, &[4]),
                step(2_000_000, job(0, 40, 0, 1_000_000), &[0, 4]),
                step(3_000_000, job(0, 40, 120, 3_000_000), &[0, 7]),
                step(4_000_000, job(1, 10, 110, 500_000), &[0, 6, 1]),
                step(9_000_000, job(1, 10, 10, 90_000_000), &[0, 5, 90]),
                // Told late, by a thread that was kept from it.
                Step { user_bytes: 90, ..step(3_500_000, What::Started, &[0, 6]) },
            ],
            ..Trace::default()
        };
        let summary = Summary::of(&trace);
        assert_eq!((summary.load_s, summary.settled_s, summary.user_bytes), (4.0, 9.0, 100));
        assert_eq!(summary.throughput(), 25.0);
        assert_eq!(summary.write_amplification, Some(4.4), "what was left behind counts");
        assert_eq!(Summary::of(&Trace::default()).write_amplification, None, "nobody wrote");
        assert_eq!(summary.jobs(), 3, "the last one came after the load");
        assert_eq!(summary.job_amplification, (1.0 + 4.0 + 12.0) / 3.0);
        let stops = Stops { count: 1, total_s: 0.25, longest_s: 0.25 };
        assert_eq!(summary.stops, stops);
        let [top, next, deepest] = summary.levels[..] else { panic!("{:?}", summary.levels) };
        assert_eq!((top.jobs, top.job_amplification, top.tables_max), (2, 2.5, 4));
        assert_eq!((top.job_s, top.job_s_max), (2.0, 3.0));
        assert_eq!((next.jobs, next.job_amplification, next.runs_max), (1, 12.0, 7));
        assert_eq!((deepest.jobs, deepest.tables_max), (0, 1));
    }

    #[test]
    fn an_empty_trace_has_figures_too() {
        assert_eq!(Summary::of(&Trace::default()), Summary::default());
    }
}
