//! The experiments of Slot: a level's compactions in turns of time slices, against level 0 before all others.
//!
//! Source: a thesis on scheduling compactions in LSM-trees by rotating time slices, measured on RocksDB 2.5 with 1 kB
//! records on one disk. It calls level 0 C1, level 1 C2, and so on; tables of 2 MB, of which the levels may hold
//! 4, 5, 50, 500; writes are slowed at 8 and stopped at 12 runs in level 0. Simulated, everything is as there. The
//! real store has everything smaller by one factor, on a disk that is slowed to the same 100 MB a second, and
//! slows writers in its own way instead of stopping them.

use crate::keys::{KeyShape, Shuffled};
use crate::progress::Progress;
use esker::base::Env;
use esker::base::env::{Clock, SystemClock};
use esker::base::vfs::strict::StrictVfs;
use esker::base::vfs::throttled::{DiskModel, ThrottledVfs};
use esker::event::Event;
use esker::simulate::{self, Keys, Load, Machine, Plan, Writers};
use esker::trace::Trace;
use esker::{Compression, Db, KeyspaceOptions, Options, Scheduler, Setup, TimeSlice};
use esker_draw::units::{bytes, duration};
use esker_draw::{Axes, Group, Line, Outcome, Palette, RATES, bars, chart};
use esker_lab::Summary;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

const GB: u64 = 1_000_000_000;
const MIB: u64 = 1 << 20;
const TABLE_BYTES: u64 = 2 * MIB;
const RECORD_BYTES: u64 = 1 << 10;
const KEY_BYTES: usize = 24;
const DISK_BYTES_PER_SECOND: u64 = 100_000_000;

/// Slices that the thesis tried, in milliseconds.
const SLICES_MS: [u64; 10] = [200, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 24_000, 32_000, 64_000];

/// The slice that the thesis chose.
const CHOSEN_MS: u64 = 8_000;

/// What the thesis measured: gigabytes, and how many times as much was written a second with the slice.
const MEASURED: [(u64, &str); 2] = [(5, "x 4.86"), (50, "x 20.17")];

/// What is to be done.
#[derive(Clone, Debug, clap::Args)]
pub struct Choice {
    /// Gigabytes that are simulated
    #[arg(long, value_delimiter = ',', default_value = "5,10,20,50")]
    sizes: Vec<u64>,
    /// Only simulate
    #[arg(long)]
    simulated: bool,
    /// On the real store everything is so many times smaller
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=32))]
    scale: u64,
    /// Where tables and drawings go
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// The schedules that are compared.
fn schedules(scale: u64) -> [(&'static str, Scheduler); 4] {
    [
        ("priority", Scheduler::Priority),
        ("slice of 8 s", slice(CHOSEN_MS / scale)),
        ("dynamic slice", Scheduler::TimeSlice(TimeSlice::default())),
        ("ratio", Scheduler::Ratio),
    ]
}

fn slice(ms: u64) -> Scheduler {
    Scheduler::TimeSlice(TimeSlice { slice_ms: Some(ms), ..TimeSlice::default() })
}

/// The tree of the thesis, so many times smaller.
fn options(scheduler: Scheduler, scale: u64) -> KeyspaceOptions {
    KeyspaceOptions {
        scheduler,
        memtable_bytes: TABLE_BYTES / scale,
        table_bytes_max: TABLE_BYTES / scale,
        level_base_bytes: 5 * TABLE_BYTES / scale,
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
    let (Some(&least), Some(&most)) = (sizes.first(), sizes.last()) else {
        return Err("--sizes: name at least one".into());
    };
    fs::create_dir_all(&choice.out)
        .map_err(|error| format!("{}: {error}", choice.out.display()))?;
    let mut lab = Lab { out: &choice.out, stop, progress, page: String::new() };
    let done = lab.sizes(&sizes)? && lab.slices(least, most)?;
    if !done || choice.simulated {
        return Ok(done);
    }
    lab.real(least, choice.scale)
}

struct Lab<'a> {
    out: &'a Path,
    stop: &'a AtomicBool,
    progress: &'a mut Progress,
    page: String,
}

impl Lab<'_> {
    /// Every schedule at every size, simulated.
    fn sizes(&mut self, sizes: &[u64]) -> Outcome<bool> {
        let mut all = Vec::new();
        for &size in sizes {
            let mut traces = Vec::new();
            for (name, scheduler) in schedules(1) {
                let Some(trace) = self.simulate(name, scheduler, size)? else { return Ok(false) };
                traces.push((name.to_owned(), trace));
            }
            if size == sizes[0] {
                esker_lab::draw("Slot, simulated", &traces[..2], &self.out.join("simulated"))?;
            }
            let summed = |(name, trace): &(String, Trace)| (name.clone(), Summary::of(trace));
            all.push((size, traces.iter().map(summed).collect::<Vec<_>>()));
        }
        self.draw_sizes(&all)?;
        self.page.push_str("## Simulated, at the sizes of the thesis\n\n");
        self.page.push_str(
            "| written | schedule | a second | beside priority | measured there | amplification of a job | \
             most tables in level 1 | mean job out of level 0 | longest | jobs out of level 0 | longest stop |\n\
             |---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        for (size, summaries) in &all {
            let measured = MEASURED.iter().find(|(gb, _)| gb == size).map_or("", |(_, text)| text);
            for (at, (name, summary)) in summaries.iter().enumerate() {
                let measured = if at == 1 { measured } else { "" };
                let written = format!("{size} GB");
                self.row(&[&written, name], summary, &summaries[0].1, &[measured]);
            }
        }
        self.keep()
    }

    fn row(&mut self, names: &[&str], summary: &Summary, base: &Summary, more: &[&str]) {
        let level = |at: usize| summary.levels.get(at).copied().unwrap_or_default();
        let gain = summary.throughput() / base.throughput();
        let _ = writeln!(
            self.page,
            "| {} | {} | x {gain:.2} | {} | {:.1} | {} | {} | {} | {} | {} |",
            names.join(" | "),
            bytes(summary.throughput() as u64),
            more.join(" | "),
            summary.job_amplification,
            level(1).tables_max,
            duration(level(0).job_s * 1e9),
            duration(level(0).job_s_max * 1e9),
            level(0).jobs,
            duration(summary.stops.longest_s * 1e9),
        );
    }

    fn draw_sizes(&self, all: &[(u64, Vec<(String, Summary)>)]) -> Outcome<()> {
        let palette = Palette::of(schedules(1).map(|(name, _)| name.to_owned()));
        type Figure = (&'static str, &'static str, fn(&Summary) -> (f64, String));
        let figures: [Figure; 2] = [
            ("throughput", "Bytes written a second", |s| {
                (s.throughput(), bytes(s.throughput() as u64))
            }),
            ("level-1", "Most tables in level 1", |s| {
                let tables = s.levels.get(1).map_or(0, |level| level.tables_max);
                (tables as f64, tables.to_string())
            }),
        ];
        for (file, heading, figure) in figures {
            let group = |(size, summaries): &(u64, Vec<(String, Summary)>)| {
                let bars = summaries.iter().map(|(name, summary)| (name.as_str(), figure(summary)));
                Group::new(format!("{size} GB"), bars)
            };
            let groups: Vec<Group> = all.iter().map(group).collect();
            self.write(&format!("{file}.svg"), &bars(heading, &groups, &palette)?)?;
        }
        Ok(())
    }

    /// Fixed slices against the dynamic one, at the least and the most that is written.
    fn slices(&mut self, least: u64, most: u64) -> Outcome<bool> {
        let mut lines: Vec<Line> = Vec::new();
        self.page.push_str("\n## Slices, simulated\n\n| slice |");
        let mut sizes = vec![least, most];
        sizes.dedup();
        let mut rows: Vec<String> = SLICES_MS.iter().map(|&ms| duration(ms as f64 * 1e6)).collect();
        rows.push("dynamic".to_owned());
        for size in sizes {
            let _ = write!(self.page, " {size} GB |");
            let mut points = Vec::new();
            for (at, row) in rows.iter_mut().enumerate() {
                let scheduler = match SLICES_MS.get(at) {
                    Some(&ms) => slice(ms),
                    None => Scheduler::TimeSlice(TimeSlice::default()),
                };
                let name = format!("{size} GB, slice {}", row.split(" |").next().unwrap_or(""));
                let Some(trace) = self.simulate(&name, scheduler, size)? else { return Ok(false) };
                let rate = Summary::of(&trace).throughput();
                let _ = write!(row, " | {}", bytes(rate as u64));
                if let Some(&ms) = SLICES_MS.get(at) {
                    points.push((ms as f64, rate));
                }
            }
            lines.push((format!("{size} GB"), points));
        }
        let columns = lines.len() + 1;
        let _ = writeln!(self.page, "\n|{}", "---|".repeat(columns));
        for row in rows {
            let _ = writeln!(self.page, "| {row} |");
        }
        let palette = Palette::of(lines.iter().map(|(name, _)| name.clone()));
        let axes = Axes {
            logarithmic_x: true,
            y_text: &|y: &f64| bytes(*y as u64),
            x_text: &|ms: &f64| duration(*ms * 1e6),
            ..RATES
        };
        let drawn =
            chart("Bytes written a second, by the length of a slice", &lines, &palette, &axes)?;
        self.write("slices.svg", &drawn)?;
        self.keep()
    }

    /// Every schedule on a real store.
    fn real(&mut self, gigabytes: u64, scale: u64) -> Outcome<bool> {
        let mut traces = Vec::new();
        for (name, scheduler) in schedules(scale) {
            self.progress.tell(&format!("on a real store: {name}"));
            let Some(trace) = self.load(name, scheduler, gigabytes * GB / scale, scale)? else {
                return Ok(false);
            };
            traces.push((name.to_owned(), trace));
        }
        esker_lab::draw("Slot, on a real store", &traces, &self.out.join("real"))?;
        let _ = write!(
            self.page,
            "\n## On a real store, everything {scale} times smaller\n\n\
             | schedule | a second | beside priority | write amplification | amplification of a job | \
             most tables in level 1 | mean job out of level 0 | longest | jobs out of level 0 | longest stop |\n\
             |---|---|---|---|---|---|---|---|---|---|\n"
        );
        let base = Summary::of(&traces[0].1);
        for (name, trace) in &traces {
            let summary = Summary::of(trace);
            let amplification = format!("{:.2}", summary.write_amplification);
            self.row(&[name], &summary, &base, &[&amplification]);
        }
        self.keep()
    }

    fn simulate(&mut self, name: &str, scheduler: Scheduler, size: u64) -> Outcome<Option<Trace>> {
        let plan = Plan {
            options: options(scheduler, 1),
            memtables_bytes_max: 2 * TABLE_BYTES,
            compaction_threads: 1,
            load: Load {
                bytes: size * GB,
                record_bytes: RECORD_BYTES,
                keys: Keys::Random,
                bytes_per_second: DISK_BYTES_PER_SECOND,
                log: false,
            },
            machine: Machine { bytes_per_second: DISK_BYTES_PER_SECOND, ..Machine::DISK },
            writers: Writers::Stopped,
        };
        let (stop, shown) = (self.stop, &mut self.progress);
        let mut steps = 0u64;
        let trace = simulate::run(&plan, |progress| {
            steps += 1;
            if steps.is_multiple_of(1_000) {
                shown.at(name, progress.user_bytes / MIB, size * GB / MIB);
            }
            !stop.load(Ordering::Relaxed)
        });
        match trace {
            Err(esker::Error::Cancelled) => Ok(None),
            trace => Ok(Some(trace?)),
        }
    }

    /// Loads a real store on a slow disk in memory.
    fn load(
        &mut self,
        name: &str,
        scheduler: Scheduler,
        bytes: u64,
        scale: u64,
    ) -> Outcome<Option<Trace>> {
        let clock = Arc::new(SystemClock::new());
        let model = DiskModel { bytes_per_second: DISK_BYTES_PER_SECOND, seek_ns: 0 };
        let disk = ThrottledVfs::new(Arc::new(StrictVfs::new()), clock.clone(), model);
        let env = Env { clock: clock.clone(), ..Env::with_vfs(Arc::new(disk), 1) };
        let steps = Arc::new(Mutex::new(Vec::new()));
        let kept = steps.clone();
        let listener = move |event: &Event| {
            if let Event::Step { step, .. } = event {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(step.clone());
            }
        };
        let options = Options {
            compaction_threads: 1,
            memory_budget_bytes: 64 * MIB,
            memtables_bytes_max: MIB.max(4 * TABLE_BYTES / scale),
            default_keyspace: options(scheduler, scale),
            ..Options::default()
        };
        let setup = Setup { env, listener: Some(Arc::new(listener)), inline_background: false };
        let db = Db::open_with("/slot", options, setup)?;
        let (shape, value) = (KeyShape::new(KEY_BYTES)?, vec![7; 1_000]);
        let records = bytes / RECORD_BYTES;
        let (shuffled, mut key) = (Shuffled::new(records), Vec::new());
        for at in 0..records {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            key.clear();
            shape.write(shuffled.at(at), &mut key);
            db.put(&key, &value)?;
            if at.is_multiple_of(256) {
                self.progress.at(name, at, records);
            }
        }
        let loaded_us = clock.now_ns() / 1_000;
        db.flush()?;
        db.wait_idle()?;
        db.close()?;
        let steps = std::mem::take(&mut *steps.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Some(Trace { loaded_us, steps, ..Trace::default() }))
    }

    /// Writes what is known so far.
    fn keep(&self) -> Outcome<bool> {
        self.write("slot.md", &self.page)?;
        Ok(true)
    }

    fn write(&self, name: &str, text: &str) -> Outcome<()> {
        let path = self.out.join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(())
    }
}
