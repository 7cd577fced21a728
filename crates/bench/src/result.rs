//! What was measured, as it stands in JSON.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Latencies of one kind of operation, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Operations.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Half of them took at most this.
    pub p50: u64,
    /// 99 in a hundred took at most this.
    pub p99: u64,
    /// 999 in a thousand took at most this.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl Latency {
    /// Of a histogram, whose longest is given exactly.
    pub fn of(histogram: &Histogram<u64>, max: u64) -> Latency {
        if histogram.is_empty() {
            return Latency::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile).min(max);
        Latency {
            count: histogram.len(),
            mean: histogram.mean(),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max,
        }
    }
}

/// One run of a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Name and version.
    pub engine: String,
    /// Name.
    pub workload: String,
    /// Its place among the steps of the run, from 0.
    pub step: usize,
    /// Keys of the store, by the flag.
    pub num: u64,
    /// Threads that were measured.
    pub threads: u64,
    /// Operations of them; records for walks over everything.
    pub operations: u64,
    /// Gets that found their key, or records that scans saw.
    pub found: u64,
    /// Gets that could, but for those of keys that are known to be missing. Not in files of older
    /// versions.
    #[serde(default)]
    pub sought: Option<u64>,
    /// From the first operation to the end of the last.
    pub seconds: f64,
    /// Processor time of the process for each operation, background work meanwhile included, in
    /// microseconds.
    pub cpu_us_per_operation: f64,
    /// The same with that of the work that was left then. Not in files of older versions.
    #[serde(default)]
    pub settled_cpu_us_per_operation: Option<f64>,
    /// Gets and scans.
    pub reads: Latency,
    /// Puts, deletes, and gets that are followed by one.
    pub writes: Latency,
    /// Bytes of keys and values that were written.
    pub user_written_bytes: u64,
    /// Bytes that the system wrote for the process until the store was settled; 0 if it does not
    /// say.
    pub written_bytes: u64,
    /// The same as the engine counts it, if it does.
    pub own_written_bytes: Option<u64>,
    /// Time that the engine says it held writers back, in nanoseconds.
    pub stalled_ns: Option<u64>,
    /// Time from the end of the last operation until the store had no more work, in seconds.
    pub settle_seconds: f64,
    /// Bytes of disk when the store was settled.
    pub disk_bytes: u64,
    /// The most of them meanwhile.
    pub disk_peak_bytes: u64,
    /// The most memory meanwhile, mapped files included as far as they are in memory.
    pub memory_peak_bytes: u64,
    /// The most of it that is no file's. Not in files of older versions.
    #[serde(default)]
    pub own_memory_peak_bytes: Option<u64>,
    /// Operations in each round: a tenth of a second, or about that if the machine was late. The
    /// last one is cut short.
    pub pace: Vec<u64>,
    /// The longest operation in each round, in nanoseconds; 0 if none ended. With a rate, the time
    /// from when it was begun, not from when it was due. Empty in files of older versions.
    #[serde(default)]
    pub slowest_ns: Vec<u64>,
    /// When each round was over, in nanoseconds since the first operation. Empty in files of older
    /// versions.
    #[serde(default)]
    pub round_ends_ns: Vec<u64>,
}

/// When a round was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// When it began, in seconds since the first operation.
    pub from: f64,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// How long a round takes where nothing else is known.
pub const ROUND_SECONDS: f64 = 0.1;

/// What the latencies of are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Gets and scans.
    Reads,
    /// Puts, deletes, and gets that are followed by one.
    Writes,
}

impl Kind {
    /// As tables and drawings call it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Reads => "gets",
            Kind::Writes => "puts",
        }
    }
}

impl Measured {
    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds.max(1e-9)
    }

    /// Operations a second with the time until the store had no more work.
    pub fn settled_rate(&self) -> f64 {
        self.operations as f64 / (self.seconds + self.settle_seconds).max(1e-9)
    }

    /// Processors that were busy for the process, on average.
    pub fn processors(&self) -> f64 {
        self.cpu_us_per_operation * 1e-6 * self.rate()
    }

    /// Nanoseconds for each operation of a thread.
    pub fn cost_ns(&self) -> f64 {
        1e9 * self.threads as f64 / self.rate()
    }

    /// Whether it read and wrote. How often it did either is chance where it is half and half, so
    /// that the two are told apart wherever engines stand side by side.
    pub fn is_mixed(&self) -> bool {
        self.writes.count > 0 && self.reads.count > 0
    }

    /// The kinds of operations that there were, gets first; gets if there were none at all.
    pub fn kinds(&self) -> &'static [Kind] {
        match (self.is_mixed(), self.writes.count) {
            (true, _) => &[Kind::Reads, Kind::Writes],
            (false, 0) => &[Kind::Reads],
            (false, _) => &[Kind::Writes],
        }
    }

    /// Latencies of a kind of operations.
    pub fn latency(&self, kind: Kind) -> &Latency {
        match kind {
            Kind::Reads => &self.reads,
            Kind::Writes => &self.writes,
        }
    }

    /// The longest that an operation took once it was begun, in nanoseconds; 0 if that is not
    /// known.
    pub fn slowest_ns_max(&self) -> u64 {
        self.slowest_ns.iter().max().copied().unwrap_or(0)
    }

    /// When each round was.
    pub fn rounds(&self) -> impl Iterator<Item = Round> {
        let end = |at: usize| self.round_ends_ns[at] as f64 * 1e-9;
        (0..self.pace.len()).map(move |at| {
            if at >= self.round_ends_ns.len() {
                return Round { from: at as f64 * ROUND_SECONDS, seconds: ROUND_SECONDS };
            }
            let from = at.checked_sub(1).map_or(0.0, end);
            Round { from, seconds: end(at) - from }
        })
    }

    /// The rounds that are whole, and the operations of each.
    pub fn whole_rounds(&self) -> impl Iterator<Item = (Round, u64)> {
        let whole = self.pace.len().saturating_sub(1);
        self.rounds().zip(self.pace.iter().copied()).take(whole)
    }

    /// Bytes written for each byte of the user's; `None` if nothing was.
    pub fn write_amplification(&self) -> Option<f64> {
        let user = self.user_written_bytes;
        (user > 0 && self.written_bytes > 0).then(|| self.written_bytes as f64 / user as f64)
    }

    /// The share of gets that found their key, if there were any gets that could.
    pub fn found_share(&self) -> Option<f64> {
        let sought = self.sought.filter(|&sought| sought > 0)?;
        Some(self.found as f64 / sought as f64)
    }

    /// The same as the engine counts it; `None` if it does not.
    pub fn own_write_amplification(&self) -> Option<f64> {
        let own = self.own_written_bytes.filter(|_| self.user_written_bytes > 0)?;
        Some(own as f64 / self.user_written_bytes as f64)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A run of a workload, as a file of before `slowest_ns` has it.
    fn kept(workload: &str) -> Value {
        let latency = json!({"count": 9, "mean": 2.0, "p50": 1, "p99": 2, "p999": 3, "max": 4});
        json!({
            "engine": "esker", "workload": workload, "step": 0, "num": 1000, "threads": 1,
            "operations": 9, "found": 0, "seconds": 3.0, "cpu_us_per_operation": 1.0,
            "reads": latency, "writes": latency, "user_written_bytes": 100,
            "written_bytes": 250, "own_written_bytes": 240, "stalled_ns": 7,
            "settle_seconds": 0.5, "disk_bytes": 1, "disk_peak_bytes": 2,
            "memory_peak_bytes": 3, "pace": [4, 0, 5]
        })
    }

    /// That run.
    pub(crate) fn measured(workload: &str) -> Measured {
        serde_json::from_value(kept(workload)).expect("a run")
    }

    #[test]
    fn which_kind_there_was_more_of_decides_nothing() {
        let counted = |reads, writes| {
            let mut run = measured("readrandomwriterandom");
            (run.reads.count, run.writes.count) = (reads, writes);
            run.kinds()
        };
        assert_eq!(counted(51, 49), [Kind::Reads, Kind::Writes]);
        assert_eq!(counted(49, 51), counted(51, 49));
        assert_eq!((counted(0, 9), counted(9, 0)), (&[Kind::Writes][..], &[Kind::Reads][..]));
        assert_eq!(counted(0, 0), [Kind::Reads]);
    }

    #[test]
    fn files_of_older_versions_are_read() {
        let run = measured("fillrandom");
        let from: Vec<f64> = run.rounds().map(|round| round.from).collect();
        assert_eq!(from, [0.0, ROUND_SECONDS, 2.0 * ROUND_SECONDS], "tenths of a second");
        assert_eq!((run.pace, run.slowest_ns), (vec![4, 0, 5], vec![]));
        let mut newer = kept("fillrandom");
        newer["slowest_ns"] = json!([8, 0, 9]);
        let run: Measured = serde_json::from_value(newer).expect("a run");
        assert_eq!((run.slowest_ns_max(), run.slowest_ns), (9, vec![8, 0, 9]));
    }

    #[test]
    fn rounds_take_the_time_that_they_took() {
        let round_ends_ns = vec![125_000_000, 250_000_000, 500_000_000];
        let run = Measured { round_ends_ns, ..measured("fillrandom") };
        let whole: Vec<(Round, u64)> = run.whole_rounds().collect();
        let round = |from| Round { from, seconds: 0.125 };
        assert_eq!(whole, [(round(0.0), 4), (round(0.125), 0)], "the last is cut short");
        assert_eq!(run.rounds().last(), Some(Round { from: 0.25, seconds: 0.25 }));
    }
}
