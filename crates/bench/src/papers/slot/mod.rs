//! The experiments of Slot: a level's compactions in turns of time slices, against level 0 before
//! all others.
//!
//! Source: a thesis on scheduling compactions in LSM-trees by rotating time slices, measured on
//! RocksDB 2.5 with 1 kB records on one disk. It calls level 0 C1, level 1 C2, and so on; tables of
//! 2 MB, of which the levels may hold 4, 5, 50, 500; writes are slowed at 8 and stopped at 12 runs
//! in level 0. Simulated, everything is as there. The real store has everything smaller by one
//! factor, on a disk that is slowed to the same 100 MB a second.

mod at_size;
mod figures;
mod real;
mod simulated;
mod theirs;

use crate::place::{self, make_dir};
use crate::progress::Progress;
use esker::{Compression, KeyspaceOptions, Scheduler, TimeSlice};
use esker_draw::units::{bytes, duration};
use esker_draw::{Outcome, Palette};
use esker_lab::{LevelSummary, Summary};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

const GB: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;
const TABLE_MIB: u64 = 2;
const TABLE_MIB_MAX: u64 = 900;

/// Tables that level 1 may hold, by the thesis's table 3-1.
const BASE_TABLES: u64 = 5;

const RECORD_BYTES: u64 = 1 << 10;
const DISK_BYTES_PER_SECOND: u64 = 100_000_000;

/// The slice that the thesis chose, in milliseconds.
const CHOSEN_MS: u64 = 8_000;

/// What is to be done.
#[derive(Clone, Debug, clap::Args)]
pub struct Choice {
    /// Gigabytes that are simulated
    #[arg(long, value_delimiter = ',', default_value = "5,10,20,50")]
    sizes: Vec<u64>,
    /// Only simulate
    #[arg(long, conflicts_with = "real")]
    simulated: bool,
    /// Only load real stores
    #[arg(long)]
    real: bool,
    /// Simulate tables of so many MiB, and slices longer by as much: the tree of a large load then
    /// has no more tables than can be computed in minutes. A multiple of 2
    #[arg(long, default_value_t = TABLE_MIB, value_parser = table_mib)]
    table_mib: u64,
    /// Level 1 may hold so many tables, and each level below ten times as many as the one above it
    #[arg(long, default_value_t = BASE_TABLES, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    base_tables: u64,
    /// On the real store everything is so many times smaller
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=32))]
    scale: u64,
    /// Where tables and drawings go
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Tables are larger than the thesis's by a whole factor, as slices are longer.
fn table_mib(text: &str) -> Result<u64, String> {
    let fits =
        |mib: &u64| (TABLE_MIB..=TABLE_MIB_MAX).contains(mib) && mib.is_multiple_of(TABLE_MIB);
    let mib = text.parse().ok().filter(fits);
    mib.ok_or_else(|| {
        format!("must be a multiple of {TABLE_MIB} between {TABLE_MIB} and {TABLE_MIB_MAX}")
    })
}

/// The names of the schedules that are compared.
const NAMES: [&str; 4] = ["priority", "slice of 8 s", DYNAMIC, "ratio"];
const DYNAMIC: &str = "dynamic slice";

/// The schedules that are compared, with slices as long as `slice_ms` says for those of 8 s.
fn schedules(slice_ms: u64) -> [(&'static str, Scheduler); 4] {
    let [priority, fixed, dynamic, ratio] = NAMES;
    [
        (priority, Scheduler::Priority),
        (fixed, slice(slice_ms)),
        (dynamic, Scheduler::TimeSlice(TimeSlice::default())),
        (ratio, Scheduler::Ratio),
    ]
}

fn slice(ms: u64) -> Scheduler {
    Scheduler::TimeSlice(TimeSlice { slice_ms: Some(ms), ..TimeSlice::default() })
}

/// The tree of the thesis, with tables of so many bytes, of which level 1 may hold so many.
fn options(scheduler: Scheduler, table_bytes: u64, base_tables: u64) -> KeyspaceOptions {
    KeyspaceOptions {
        scheduler,
        memtable_bytes: table_bytes,
        table_bytes_max: table_bytes,
        level_base_bytes: base_tables * table_bytes,
        level_fanout: 10,
        level0_runs_compact: 4,
        level0_runs_slow: 8,
        level0_runs_max: 12,
        compression: vec![Compression::None],
        compact_for_scans: false,
        tombstone_ratio_compact: 1.0,
        ..KeyspaceOptions::default()
    }
}

/// Does all of it. Returns false if it was interrupted.
///
/// # Errors
/// Of a store, or of the file system.
pub fn run(choice: &Choice, stop: &AtomicBool, progress: &mut Progress) -> Outcome<bool> {
    let mut sizes = choice.sizes.clone();
    sizes.sort_unstable();
    sizes.dedup();
    let Some(&least) = sizes.first() else {
        return Err("--sizes: name at least one".into());
    };
    make_dir(&choice.out)?;
    let longer = choice.table_mib / TABLE_MIB;
    let base_tables = choice.base_tables;
    let mut lab = Lab { out: &choice.out, base_tables, stop, progress, page: String::new() };
    if !choice.real && !lab.simulated(&sizes, longer)? {
        return Ok(false);
    }
    if choice.simulated {
        return Ok(true);
    }
    lab.real(least, choice.scale)
}

struct Lab<'a> {
    out: &'a Path,
    /// Level 1 may hold so many.
    base_tables: u64,
    stop: &'a AtomicBool,
    progress: &'a mut Progress,
    page: String,
}

impl Lab<'_> {
    fn row(&mut self, names: &[&str], summary: &Summary, base: &Summary, more: &[&str]) {
        let gain = summary.throughput() / base.throughput();
        let _ = writeln!(
            self.page,
            "| {} | {} | x {gain:.2} | {} | {:.1} | {} | {} | {} | {} | {} | {} |",
            names.join(" | "),
            bytes(summary.throughput() as u64),
            more.join(" | "),
            summary.job_amplification,
            level(summary, 1).tables_max,
            level(summary, 2).tables_max,
            duration(level(summary, 0).job_s * 1e9),
            duration(level(summary, 0).job_s_max * 1e9),
            level(summary, 0).jobs,
            duration(summary.stops.longest_s * 1e9),
        );
    }

    /// Writes what is known so far.
    fn keep(&self) -> Outcome<bool> {
        self.write("slot.md", &self.page)?;
        Ok(true)
    }

    fn write(&self, name: &str, text: &str) -> Outcome<()> {
        place::write(&self.out.join(name), text)
    }
}

/// The columns that [`Lab::row`] writes after its own.
const COLUMNS: &str = "amplification of a job | most tables in level 1 | in level 2 | mean job out of level 0 | longest | \
                       jobs out of level 0 | longest stop |\n";

fn level(summary: &Summary, at: usize) -> LevelSummary {
    summary.levels.get(at).copied().unwrap_or_default()
}

fn palette() -> Palette {
    Palette::of(NAMES.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_larger_by_a_whole_factor() {
        assert_eq!(["2", "256", "900"].map(table_mib), [Ok(2), Ok(256), Ok(900)]);
        for wrong in ["0", "3", "257", "902", "-2", "much"] {
            assert!(table_mib(wrong).is_err_and(|why| why.contains("multiple of 2")), "{wrong}");
        }
    }
}
