//! What keeping indexes, filters and blocks in memory is worth, at several sizes, for gets that
//! find their key and for gets that do not.
//!
//! Source of the question: a student's LSM tree, which measured gets with nothing, the index, and
//! index and filter in memory, but with keys inserted in order, so that key ranges alone said which
//! table to read and filters had nothing to do. Here keys are inserted in random order, and every
//! store is left as it lies.

use crate::config::Config;
use crate::esker_store::{Kept, KeptEsker};
use crate::place::Place;
use crate::progress::Progress;
use crate::report::Report;
use crate::result::Measured;
use crate::session;
use crate::store::Engine;
use esker_draw::Outcome;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What is to be measured.
#[derive(Clone, Debug, clap::Args)]
pub struct Choice {
    /// Records of the stores; Ki and Mi may be used
    #[arg(long, value_delimiter = ',', default_value = "16Ki,64Ki,256Ki,1Mi,4Mi", value_parser = records)]
    pub(crate) sizes: Vec<u64>,
    /// Gets of each kind
    #[arg(long, default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) reads: u64,
    /// Go on with the gets for so many seconds at least: quick ones are over too soon to tell
    #[arg(long = "duration_min", alias = "duration-min", value_name = "SECONDS", default_value_t = SECONDS_MIN, value_parser = seconds_min)]
    pub(crate) duration_min: f64,
    /// Bytes of a value
    #[arg(long = "value_size", alias = "value-size", default_value_t = 100)]
    pub(crate) value_size: usize,
    /// Bytes of memory for each kind of thing that is kept: more than the largest store has of it.
    /// It is taken as it is used
    #[arg(long = "cache_size", alias = "cache-size", default_value_t = CACHE_BYTES, value_parser = cache_bytes)]
    pub(crate) cache_size: u64,
    /// Do the gets so often; tables show medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Where the stores go, one after the other. A temporary directory if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) db: Option<PathBuf>,
}

/// Memory for each kind of thing that is kept, unless told otherwise.
pub(crate) const CACHE_BYTES: u64 = 16 << 30;

/// How long gets go on at least, unless told otherwise.
pub(crate) const SECONDS_MIN: f64 = 1.0;

pub(crate) fn seconds_min(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "must be between 0 and 86400".to_owned())
}

pub(crate) fn cache_bytes(text: &str) -> Result<u64, String> {
    let bytes = text.parse().ok().filter(|bytes| (1 << 20..=1 << 40).contains(bytes));
    bytes.ok_or_else(|| "must be between 1048576 and 2^40".to_owned())
}

/// Gets bring into memory what is to be kept there: for a second, or for one for so many records.
const RECORDS_PER_WARMUP_SECOND: u64 = 2 << 20;

pub(crate) fn records(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        _ => return Err("write it as 16Ki, 4Mi or 1000000".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "write it as 16Ki, 4Mi or 1000000".to_owned())?;
    let all = number.checked_mul(scale).filter(|all| (1..=1 << 40).contains(all));
    all.ok_or_else(|| "must be between 1 and 2^40".to_owned())
}

impl Choice {
    fn config(&self, num: u64, dir: &Path, more: &[&str]) -> Outcome<Config> {
        let (num, reads) = (num.to_string(), self.reads.to_string());
        let (value_size, dir) = (self.value_size.to_string(), dir.to_string_lossy().into_owned());
        let cache_size = self.cache_size.to_string();
        let flags = ["--num", &num, "--reads", &reads, "--value_size", &value_size];
        let place = ["--cache_size", &cache_size, "--db", &dir];
        Config::of(&[&flags[..], &place, more].concat())
    }

    /// Fills a store and measures all that can be measured on it.
    fn measure(
        &self,
        num: u64,
        filters: bool,
        dir: &Path,
        stop: &AtomicBool,
        progress: &mut Progress,
    ) -> Outcome<Report> {
        let bits = if filters { "10" } else { "0" };
        let fill = ["--benchmarks", "filluniquerandom", "--bloom_bits", bits];
        let fill = self.config(num, dir, &fill)?;
        let kept = Kept::ALL.into_iter().filter(|kept| kept.filters() == filters);
        let engines: Vec<KeptEsker> = kept.map(KeptEsker).collect();
        session::run(&engines[0], &fill, stop, progress, &mut |_| ())?;
        let store = dir.join("store");
        let read = ["--benchmarks", "readrandom,readmissing", "--use_existing_db"];
        let warmup = (num / RECORDS_PER_WARMUP_SECOND).max(1).to_string();
        let seconds_min = self.duration_min.to_string();
        let how = ["--warmup", &warmup, "--duration_min", &seconds_min, "--bloom_bits", bits];
        let read = [&read[..], &how].concat();
        let read = self.config(num, &store, &read)?;
        let mut report = Report::new(&read);
        for engine in &engines {
            report.engines.push((engine.name(), engine.setup(&read.settings(true))));
        }
        for engine in (0..self.repeat).flat_map(|_| &engines) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let mut each = |run: Measured| report.runs.push(run);
            session::run(engine, &read, stop, progress, &mut each)?;
        }
        Ok(report)
    }
}

/// Measures everything; `reports` gets one for each size, as soon as there is something of it. Ends
/// early if `stop` is set.
///
/// # Errors
/// Of the engine or the file system. Reports have what was measured before.
pub fn run(
    choice: &Choice,
    stop: &AtomicBool,
    progress: &mut Progress,
    reports: &mut Vec<Report>,
) -> Outcome<()> {
    let place = Place::new("ablation", choice.db.as_deref());
    for &num in &choice.sizes {
        for filters in [false, true] {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let name = format!("{num}-{}", if filters { "filters" } else { "plain" });
            let measure = |dir: &Path| choice.measure(num, filters, dir, stop, progress);
            let measured = place.within(&name, measure)?;
            match reports.last_mut().filter(|report| report.config.num == num) {
                Some(report) => {
                    report.engines.extend(measured.engines);
                    report.runs.extend(measured.runs);
                }
                None if measured.runs.is_empty() => {}
                None => reports.push(measured),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_may_be_as_large_as_the_flag_says() {
        assert!(cache_bytes("1").is_err() && cache_bytes("much").is_err());
        let choice = Choice {
            sizes: vec![1_000],
            reads: 10,
            duration_min: 0.0,
            value_size: 100,
            cache_size: cache_bytes("7340032").expect("7 MiB"),
            repeat: 1,
            db: None,
        };
        let config = choice.config(1_000, Path::new("nowhere"), &[]).expect("flags");
        let setup = KeptEsker(Kept::Indexes).setup(&config.settings(false));
        assert!(setup.contains("block_cache_bytes = Some(0), pinned_bytes_max = Some(7340032)"));
        let setup = KeptEsker(Kept::Blocks).setup(&config.settings(false));
        assert!(setup.contains("block_cache_bytes = Some(7340032)"), "{setup}");
    }

    #[test]
    fn seconds_are_read() {
        assert_eq!((seconds_min("0"), seconds_min("0.5")), (Ok(0.0), Ok(0.5)));
        for wrong in ["", "-1", "86401", "NaN", "a second"] {
            assert!(seconds_min(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(records("1000"), Ok(1000));
        assert_eq!(records("16Ki"), Ok(16 << 10));
        assert_eq!(records("64Mi"), Ok(64 << 20));
        for wrong in ["", "Ki", "1Gi", "1.5Mi", "0", "-1", "99999999999999Mi"] {
            assert!(records(wrong).is_err(), "{wrong:?}");
        }
    }
}
