//! The experiments of a course's LSM tree: gets with nothing, indexes, and indexes and filters in
//! memory, and how long puts take over time.
//!
//! Source: the report of a course project that measured gets at 16 Ki to 64 Ki entries and puts of
//! values of 1, 2 and 3 KiB. Its keys were put in order, so that filters had nothing to do, and its
//! puts waited for compactions. Here keys are put in random order, and compactions run beside them.

mod gets;
mod puts;

use crate::ablation::{CACHE_BYTES, SECONDS_MIN, cache_bytes, records, seconds_min};
use crate::place::{self, make_dir};
use crate::progress::Progress;
use esker_draw::Outcome;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is to be done.
#[derive(Clone, Debug, clap::Args)]
pub struct Choice {
    /// Records of the stores for gets; Ki and Mi may be used
    #[arg(long, value_delimiter = ',', default_value = "16Ki,64Ki,256Ki,1Mi,4Mi,16Mi", value_parser = records)]
    sizes: Vec<u64>,
    /// Gets of each kind
    #[arg(long, default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1..))]
    reads: u64,
    /// Go on with the gets for so many seconds at least: quick ones are over too soon to tell
    #[arg(long = "duration_min", alias = "duration-min", value_name = "SECONDS", default_value_t = SECONDS_MIN, value_parser = seconds_min)]
    duration_min: f64,
    /// Do the gets so often; tables show medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Bytes of memory for each kind of thing that is kept: more than the largest store has of it
    #[arg(long = "cache_size", alias = "cache-size", default_value_t = CACHE_BYTES, value_parser = cache_bytes)]
    cache_size: u64,
    /// Bytes that are put for each length of values; kB, MB and GB may be used
    #[arg(long, default_value = "4GB", value_parser = amount, value_name = "BYTES")]
    load: u64,
    /// Only gets
    #[arg(long, conflicts_with = "puts")]
    gets: bool,
    /// Only puts
    #[arg(long)]
    puts: bool,
    /// Where the stores go, one after the other. A temporary directory if not given
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Where tables, drawings and reports go
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(in crate::papers) fn amount(text: &str) -> Result<u64, String> {
    let wrong = || "write it as 500MB, 4GB or 1000000".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let all = number.checked_mul(scale).filter(|all| (1..=1 << 50).contains(all));
    all.ok_or_else(|| "must be between 1 and 2^50 bytes".to_owned())
}

/// Does all of it. Ends early if `stop` is set.
///
/// # Errors
/// Of a store, or of the file system.
pub fn run(choice: &Choice, stop: &AtomicBool, progress: &mut Progress) -> Outcome<()> {
    make_dir(&choice.out)?;
    let mut lab = Lab { choice, stop, progress, page: String::new() };
    if !choice.puts {
        lab.gets()?;
    }
    if !choice.gets && !stop.load(Ordering::Relaxed) {
        lab.puts()?;
    }
    Ok(())
}

struct Lab<'a> {
    choice: &'a Choice,
    stop: &'a AtomicBool,
    progress: &'a mut Progress,
    page: String,
}

impl Lab<'_> {
    /// Writes what is known so far.
    fn keep(&self) -> Outcome<()> {
        self.write("basics.md", &self.page)
    }

    fn write(&self, name: &str, text: &str) -> Outcome<()> {
        place::write(&self.choice.out.join(name), text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read() {
        assert_eq!(amount("1000"), Ok(1000));
        assert_eq!(amount("20kB"), Ok(20_000));
        assert_eq!(amount("500MB"), Ok(500_000_000));
        assert_eq!(amount("4GB"), Ok(4_000_000_000));
        for wrong in ["", "GB", "4GiB", "0", "0.5GB", "-1", "99999999999GB"] {
            assert!(amount(wrong).is_err(), "{wrong:?}");
        }
    }
}
