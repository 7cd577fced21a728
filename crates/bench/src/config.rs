//! What is to be run: the flags, by the names they have in `db_bench`.

use crate::drive::Plan;
use crate::keys::{KeyShape, Popularity};
use crate::store::Settings;
use crate::workload::{Count, Shape, Workload};
use clap::Parser;
use esker::base::checksum::mix64;
use esker_draw::Outcome;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Flags of a run. Kept in its report.
#[derive(Clone, Debug, clap::Args, Serialize, Deserialize)]
pub struct Config {
    /// Workloads in their order; `list` says which there are. `reopen` and `waitforcompaction` may
    /// stand between
    #[arg(long, value_delimiter = ',', default_value = DEFAULT_BENCHMARKS, value_name = "NAMES")]
    pub benchmarks: Vec<String>,
    /// Where the stores go: a new directory, or an existing store with --use_existing_db. A
    /// temporary one if not given
    #[arg(long, value_name = "DIR")]
    pub db: Option<PathBuf>,
    /// Begin with the store in --db, and keep it
    #[arg(long = "use_existing_db", alias = "use-existing-db", requires = "db")]
    pub use_existing_db: bool,
    /// Keys
    #[arg(long, default_value_t = 1_000_000)]
    pub num: u64,
    /// Operations of workloads that read, those that write as well among them; --num if not given
    #[arg(long)]
    pub reads: Option<u64>,
    /// Threads that are measured
    #[arg(long, default_value_t = 1)]
    pub threads: u64,
    /// Bytes of a key, 8 to 1024
    #[arg(long = "key_size", alias = "key-size", default_value_t = 16)]
    pub key_size: usize,
    /// Bytes of a value
    #[arg(long = "value_size", alias = "value-size", default_value_t = 100)]
    pub value_size: usize,
    /// What values compress to, 0 to 1
    #[arg(long = "compression_ratio", alias = "compression-ratio", default_value_t = 0.5)]
    pub compression_ratio: f64,
    /// Codec of tables: the engine's fastest, or none
    #[arg(long = "compression_type", alias = "compression-type", default_value = "fastest", value_parser = ["fastest", "none"])]
    pub compression_type: String,
    /// Make every write durable before the next, whatever the workload says
    #[arg(long)]
    pub sync: bool,
    /// Bytes of a memtable
    #[arg(long = "write_buffer_size", alias = "write-buffer-size", default_value_t = 64 << 20)]
    pub write_buffer_size: u64,
    /// Bytes of the block cache
    #[arg(long = "cache_size", alias = "cache-size", default_value_t = 512 << 20)]
    pub cache_size: u64,
    /// Filter bits for each key; 0 for no filter
    #[arg(long = "bloom_bits", alias = "bloom-bits", default_value_t = 10)]
    pub bloom_bits: u32,
    /// Bytes of a block before compression
    #[arg(long = "block_size", alias = "block-size", default_value_t = 4096)]
    pub block_size: u32,
    /// Threads that compact; flushes have one more, where an engine tells them apart
    #[arg(
        long = "max_background_compactions",
        alias = "max-background-compactions",
        default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(1..=64)
    )]
    #[serde(alias = "max_background_jobs")]
    pub max_background_compactions: u32,
    /// Which keys reads like
    #[arg(long, value_enum, default_value_t = Popularity::Uniform)]
    pub distribution: Popularity,
    /// Records that seekrandom reads from each key on
    #[arg(long = "seek_nexts", alias = "seek-nexts", default_value_t = 50)]
    pub seek_nexts: u64,
    /// Keys that multireadrandom gets at once
    #[arg(long = "batch_size", alias = "batch-size", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    #[serde(default)]
    pub batch_size: u64,
    /// Gets among the operations of readrandomwriterandom, in percent
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(0..=100))]
    pub readwritepercent: u32,
    /// End each workload after so many seconds; ycsb-load alone is run to its end
    #[arg(long, value_name = "SECONDS")]
    pub duration: Option<f64>,
    /// Go on for so many seconds at least with what only reads, over and over, but for the first
    /// workload after `reopen`, which is to find an empty cache
    #[arg(
        long = "duration_min",
        alias = "duration-min",
        value_name = "SECONDS",
        default_value_t = 0.0
    )]
    #[serde(default)]
    pub duration_min: f64,
    /// Use so many processors only
    #[arg(long, value_name = "NUMBER")]
    #[serde(default)]
    pub processors: Option<usize>,
    /// Operations a second of all threads together, spread evenly; as many as they can if not
    /// given. A latency is then the time from when the operation was due, so that waiting behind
    /// others counts
    #[arg(long, value_name = "OPERATIONS")]
    #[serde(default)]
    pub rate: Option<f64>,
    /// Before a workload that reads a filled store, do the same unmeasured for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub warmup: f64,
    /// Do everything so often; tables show medians
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Decides every key and value
    #[arg(long, default_value_t = 301)]
    pub seed: u64,
}

/// Flags as on the command line.
#[derive(Debug, clap::Parser)]
struct Flags {
    #[command(flatten)]
    config: Config,
}

/// Among workloads: closes the store and opens it again, so that what comes next finds an empty
/// cache.
pub const REOPEN: &str = "reopen";

/// `db_bench`'s, shortened to what differs here.
const DEFAULT_BENCHMARKS: &str = "fillseq,fillrandom,overwrite,reopen,readrandom,readmissing,readseq,readreverse,seekrandom,compact,readrandom";

impl Config {
    /// What these flags say; everything else is as by default.
    ///
    /// # Errors
    /// The flag, and what it may be.
    pub fn of(flags: &[&str]) -> Outcome<Config> {
        let config = Flags::try_parse_from([&[""], flags].concat())?.config;
        config.check()?;
        Ok(config)
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// The flag, and what it may be.
    pub fn check(&self) -> Outcome<()> {
        KeyShape::new(self.key_size)?;
        let wrong = |flag: &str, what: &str| Err(format!("--{flag}: {what}").into());
        if self.num == 0 {
            return wrong("num", "must be at least 1");
        }
        if self.threads == 0 || self.threads > 1024 {
            return wrong("threads", "must be between 1 and 1024");
        }
        if !(0.0..=1.0).contains(&self.compression_ratio) {
            return wrong("compression_ratio", "must be between 0 and 1");
        }
        if self.value_size == 0 || self.value_size > 64 << 20 {
            return wrong("value_size", "must be between 1 and 67108864");
        }
        if self.duration.is_some_and(|seconds| seconds.is_nan() || seconds <= 0.0) {
            return wrong("duration", "must be more than 0");
        }
        if self.rate.is_some_and(|rate| !(0.001..=1e9).contains(&rate)) {
            return wrong("rate", "must be between 0.001 and 1000000000");
        }
        if !(0.0..=86_400.0).contains(&self.warmup) {
            return wrong("warmup", "must be between 0 and 86400");
        }
        if !(0.0..=86_400.0).contains(&self.duration_min) {
            return wrong("duration_min", "must be between 0 and 86400");
        }
        if self.duration.is_some_and(|seconds| seconds < self.duration_min) {
            return wrong("duration_min", "must not be more than --duration");
        }
        Ok(())
    }

    /// How stores are set up.
    pub fn settings(&self, existing: bool) -> Settings {
        Settings {
            memtable_bytes: self.write_buffer_size,
            cache_bytes: self.cache_size,
            filter_bits_per_key: self.bloom_bits,
            block_bytes: self.block_size,
            compression: self.compression_type != "none",
            compaction_threads: self.max_background_compactions,
            existing,
        }
    }

    /// Whether a step is the first on an opened store.
    pub fn is_cold(&self, step: usize) -> bool {
        let before = step.checked_sub(1).and_then(|at| self.benchmarks.get(at));
        before.is_some_and(|name| name.trim() == REOPEN)
    }

    /// How a workload is run as step `step`.
    ///
    /// # Errors
    /// As [`Config::check`].
    pub fn plan(&self, workload: &Workload, step: usize) -> Outcome<Plan> {
        let reads = self.reads.unwrap_or(self.num);
        Ok(Plan {
            shape: Shape {
                num: self.num,
                popularity: self.distribution,
                read_percent: self.readwritepercent,
                seek_nexts: self.seek_nexts,
            },
            keys: KeyShape::new(self.key_size)?,
            batch_keys: self.batch_size,
            value_bytes: self.value_size,
            compression_ratio: self.compression_ratio,
            threads: self.threads,
            operations: match workload.count {
                Count::Num => self.num,
                Count::Reads => reads,
                Count::Batches => reads.div_ceil(self.batch_size),
                Count::NumAtMost(most) => self.num.min(most),
                Count::ReadsAtMost(most) => reads.min(most),
                Count::Once => self.threads,
            },
            seconds_max: self.duration.filter(|_| !workload.is_load()),
            seconds_min: Some(self.duration_min)
                .filter(|&min| min > 0.0 && workload.only_reads() && !self.is_cold(step)),
            rate: self.rate,
            sync: self.sync || workload.sync,
            // Each step draws keys of its own, and so does each workload where it is the first one
            // of several runs; the same step of another engine draws the same.
            seed: (self.seed + step as u64) ^ number_of(workload.name),
            step,
            settle: true,
        })
    }
}

/// A number that a name has on every machine.
fn number_of(name: &str) -> u64 {
    name.bytes().fold(0, |number, byte| mix64(number ^ u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::find;

    /// Gets of what a fill has put would find the keys of its first puts, in their order.
    #[test]
    fn gets_in_a_run_of_their_own_draw_other_keys_than_the_fill() {
        let config = Config::of(&["--num", "1000"]).expect("flags");
        let seed = |name: &str, step| {
            config.plan(find(name).expect("a workload"), step).expect("a plan").seed
        };
        assert_ne!(seed("fillrandom", 0), seed("readrandom", 0));
        assert_ne!(seed("readrandom", 1), seed("readrandom", 0));
        assert_eq!(seed("readrandom", 1), seed("readrandom", 1));
    }

    #[test]
    fn what_finds_an_empty_cache_is_not_prolonged() {
        let steps = "fillrandom,reopen,readrandom,readrandom,readseq,overwrite";
        let config = Config::of(&["--duration_min", "5", "--benchmarks", steps]).expect("flags");
        let least = |step: usize| {
            let workload = find(&config.benchmarks[step]).expect("a workload");
            config.plan(workload, step).expect("a plan").seconds_min
        };
        assert_eq!([0, 2, 3, 4, 5].map(least), [None, None, Some(5.0), Some(5.0), None]);
    }

    #[test]
    fn what_reads_are_asked_for_shortens_no_fill() {
        let config = Config::of(&["--num", "1000", "--reads", "10"]).expect("flags");
        let operations = |name: &str| {
            config.plan(find(name).expect("a workload"), 0).expect("a plan").operations
        };
        assert_eq!(["fillsync", "fillrandom", "deleteseq"].map(operations), [1000; 3]);
        assert_eq!(["readrandom", "seekrandom", "ycsb-e"].map(operations), [10; 3]);
    }

    #[test]
    fn a_workload_cannot_end_before_it_may() {
        let refused = Config::of(&["--duration", "1", "--duration_min", "2"]);
        assert!(refused.is_err_and(|error| error.to_string().contains("--duration_min")));
    }
}
