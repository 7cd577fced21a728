//! What a run index is worth, by how many runs there are; and how soon a store that has one answers
//! after it is opened.
//!
//! Source: LooseKV, a key-value store with tiers and an index of which run has which key. It was
//! measured beside other engines, which `compare/` does; here the same store is read with and
//! without the index, and nothing else differs. Each store has as many runs as it is to have, since
//! nothing is compacted.

mod lab;
mod opening;

use self::lab::Lab;
use crate::esker_store;
use crate::papers::basics::amount;
use crate::place::{Place, make_dir, write};
use crate::progress::Progress;
use crate::report::median;
use crate::store;
use esker::event::Event;
use esker::{Compaction, Db, KeyspaceOptions, Options, Setup};
use esker_draw::units::{bytes, duration};
use esker_draw::{Axes, Line, Outcome, Palette, RATES, chart};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is to be done.
#[derive(Clone, Debug, clap::Args)]
pub struct Choice {
    /// Parts; all if not given
    #[arg(long, value_delimiter = ',')]
    parts: Vec<Part>,
    /// Records that are put, some of them again
    #[arg(long, default_value_t = 4_000_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    num: u64,
    /// Bytes of a value
    #[arg(long = "value_size", alias = "value-size", default_value_t = 100)]
    value_size: usize,
    /// Sorted runs of the stores
    #[arg(long, value_delimiter = ',', default_value = "2,4,8,16,24,32,64", value_parser = clap::value_parser!(u64).range(2..u64::from(RUNS_MAX)))]
    runs: Vec<u64>,
    /// Gets of each kind, and scans
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(1..))]
    reads: u64,
    /// Bytes of the store that is opened, before compression
    #[arg(long = "store_size", alias = "store-size", default_value = "1GB", value_parser = amount, value_name = "BYTES")]
    store_size: u64,
    /// Read and open so often; tables show medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Bytes of memory for blocks: more than the store has
    #[arg(long = "cache_size", alias = "cache-size", default_value_t = 2 << 30, value_parser = clap::value_parser!(u64).range(1 << 20..=1 << 40))]
    cache_size: u64,
    /// Where the stores go, one after the other. A temporary directory if not given
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Where the table and drawings go
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// A part of the experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Reads, by the number of runs
    Runs,
    /// The first get after an open
    Opening,
}

/// What is measured: its name, the workload, and the records that a scan goes on by.
const READS: [(&str, &str, u64); 6] = [
    ("get", "readrandom", 0),
    ("get of an absent key", "readmissing", 0),
    ("seek and 1 next", "seekrandom", 1),
    ("seek and 10", "seekrandom", 10),
    ("seek and 50", "seekrandom", 50),
    ("next of a full scan", "readseq", 0),
];

/// Memory of memtables, and for the index.
const MEMTABLES_BYTES: u64 = 2 << 30;
const INDEX_BYTES: u64 = 1 << 30;

/// Runs that an index can tell apart.
const RUNS_MAX: u32 = 128;

/// Without the index, and with it.
const NAMES: [&str; 2] = ["without", "with"];

/// One store.
#[derive(Clone, Debug, Default)]
struct Row {
    runs: u64,
    /// Nanoseconds of each of [`READS`], without and with the index.
    costs: [[f64; 2]; READS.len()],
    index: Index,
}

/// The index of one store.
#[derive(Clone, Copy, Debug, Default)]
struct Index {
    records: u64,
    entries: u64,
    bytes: u64,
    made_ns: u64,
}

impl Index {
    /// The index as it was made in each of several rounds: it is the same each time, but for how
    /// long that took, of which this has the median.
    fn of_rounds(rounds: &[Index]) -> Index {
        let Some(&last) = rounds.last() else { return Index::default() };
        let made_ns = median(rounds.iter().map(|index| index.made_ns as f64).collect()) as u64;
        Index { made_ns, ..last }
    }
}

/// Does all of it. Ends early if `stop` is set; what was measured before is kept.
///
/// # Errors
/// Of a store, or of the file system.
pub fn run(choice: &Choice, stop: &AtomicBool, progress: &mut Progress) -> Outcome<()> {
    make_dir(&choice.out)?;
    let place = Place::new("loose", choice.db.as_deref());
    let chosen = |part| choice.parts.is_empty() || choice.parts.contains(&part);
    let mut rows = Vec::new();
    for &runs in choice.runs.iter().filter(|_| chosen(Part::Runs)) {
        let row = place.within(&format!("{runs}-runs"), |dir| {
            let (name, (num, value_size)) =
                (format!("{runs} runs"), (choice.num, choice.value_size));
            let lab = Lab { name, num, value_size, dir, stop, progress };
            Store { lab, choice, runs }.row()
        })?;
        let Some(row) = row else { return Ok(()) };
        rows.push(row);
        write(&choice.out.join("loose.md"), page(choice, &rows))?;
        for (at, (name, ..)) in READS.iter().enumerate() {
            let name = format!("{}.svg", name.replace(' ', "-"));
            write(&choice.out.join(name), drawing(at, &rows)?)?;
        }
    }
    if chosen(Part::Opening)
        && let Some(page) = place.within("opening", |dir| {
            opening::run((choice.store_size, choice.repeat), dir, stop, progress)
        })?
    {
        write(&choice.out.join("opening.md"), page)?;
    }
    Ok(())
}

/// A store of so many runs.
struct Store<'a> {
    lab: Lab<'a>,
    choice: &'a Choice,
    runs: u64,
}

impl Store<'_> {
    /// Makes a store and reads it; `None` if that was interrupted.
    fn row(&mut self) -> Outcome<Option<Row>> {
        // Tables get digests, but there is nothing to ask yet.
        let (store, _, _) = self.open(Some(RUNS_MAX))?;
        for run in 0..self.runs {
            let records =
                self.choice.num * (run + 1) / self.runs - self.choice.num * run / self.runs;
            if self.lab.run(&*store, "fillrandom", 0, run as usize, records)?.is_none() {
                return Ok(None);
            }
        }
        store.close()?;
        let mut row = Row { runs: self.runs, ..Row::default() };
        let mut costs: [[Vec<f64>; 2]; READS.len()] = Default::default();
        let mut indexes = Vec::new();
        for round in 0..self.choice.repeat {
            for indexed in [false, true] {
                let Some((measured, index)) = self.read(indexed, round as usize)? else {
                    return Ok(None);
                };
                for (costs, ns) in costs.iter_mut().zip(measured) {
                    costs[usize::from(indexed)].push(ns);
                }
                if indexed {
                    indexes.push(index);
                }
            }
        }
        row.index = Index::of_rounds(&indexes);
        row.costs = costs.map(|pair| pair.map(median));
        Ok(Some(row))
    }

    /// Reads the store; nanoseconds of each of [`READS`].
    fn read(&mut self, indexed: bool, round: usize) -> Outcome<Option<(Vec<f64>, Index)>> {
        let (store, db, made_ns) = self.open(indexed.then_some(2))?;
        store.settle()?;
        let runs: u64 = db.stats().keyspaces[0].levels.iter().map(|level| level.runs).sum();
        if runs != self.runs {
            let wanted = self.runs;
            return Err(format!(
                "{runs} runs instead of {wanted}: choose more records or fewer runs"
            )
            .into());
        }
        // Brings everything into memory.
        if self.lab.run(&*store, "readseq", 0, 0, 1)?.is_none() {
            return Ok(None);
        }
        let mut costs = Vec::with_capacity(READS.len());
        for (at, (_, workload, nexts)) in READS.iter().enumerate() {
            let reads = if *workload == "readseq" { 1 } else { self.choice.reads };
            let step = round * READS.len() + at;
            let Some(measured) = self.lab.run(&*store, workload, *nexts, step, reads)? else {
                return Ok(None);
            };
            costs.push(measured.cost_ns());
        }
        let mut index = Index { made_ns: made_ns.load(Ordering::Relaxed), ..Index::default() };
        let known = db.stats().keyspaces[0].run_index.clone();
        match (&known, indexed) {
            (Some(known), true) if known.runs == self.runs => {
                (index.records, index.entries, index.bytes) =
                    (known.records, known.entries, known.bytes);
            }
            (None, false) => {}
            _ => {
                return Err(format!("the index knows not all {} runs: {known:?}", self.runs).into());
            }
        }
        drop(db);
        store.close()?;
        Ok(Some((costs, index)))
    }

    /// Opens the store, with an index from so many runs on, or without; and the time that it took
    /// to make that, once it is made.
    fn open(
        &self,
        indexed_from: Option<u32>,
    ) -> Outcome<(Box<dyn store::Store>, Db, Arc<AtomicU64>)> {
        let made_ns = Arc::new(AtomicU64::new(0));
        let told = made_ns.clone();
        let listener = move |event: &Event| {
            if let Event::RunIndexMade { duration_us, .. } = event {
                told.store(duration_us * 1_000, Ordering::Relaxed);
            }
        };
        let setup = Setup { listener: Some(Arc::new(listener)), ..Setup::default() };
        let db = Db::open_with(self.lab.dir, options(self.choice.cache_size, indexed_from), setup)?;
        Ok((esker_store::store_of(db.clone()), db, made_ns))
    }
}

/// Nothing is compacted.
fn options(cache_bytes: u64, indexed_from: Option<u32>) -> Options {
    let memory_budget_bytes = MEMTABLES_BYTES + cache_bytes + INDEX_BYTES;
    Options {
        // An eighth of what memtables leave is not for what is kept.
        memory_budget_bytes: memory_budget_bytes + memory_budget_bytes / 7,
        memtables_bytes_max: MEMTABLES_BYTES,
        block_cache_bytes: Some(cache_bytes),
        run_index_bytes_max: Some(INDEX_BYTES),
        default_keyspace: KeyspaceOptions {
            compaction: Compaction::Tiered,
            memtable_bytes: MEMTABLES_BYTES,
            level0_runs_compact: 1_000,
            level0_runs_slow: 2_000,
            level0_runs_max: 4_000,
            compact_for_scans: false,
            run_index: indexed_from.is_some(),
            run_index_runs_min: indexed_from.unwrap_or(RUNS_MAX),
            ..KeyspaceOptions::default()
        },
        ..Options::default()
    }
}

fn page(choice: &Choice, rows: &[Row]) -> String {
    let names: Vec<&str> = READS.iter().map(|(name, ..)| *name).collect();
    let mut text = format!(
        "{}\n\n{} records put in random order, keys of 16 and values of {} bytes, everything in memory. Nanoseconds \
         without and with the index; medians of {} rounds.\n\n| runs | {} | bytes a key | made in, for each record |\n|{}\n",
        crate::machine::Machine::this(),
        choice.num,
        choice.value_size,
        choice.repeat,
        names.join(" | "),
        "---|".repeat(names.len() + 3),
    );
    for row in rows {
        let cell = |costs: &[f64; 2]| format!("{:.0}, {:.0}", costs[0], costs[1]);
        let cells: Vec<String> = row.costs.iter().map(cell).collect();
        let index = row.index;
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} ({}) | {} |",
            row.runs,
            cells.join(" | "),
            index.bytes as f64 / index.entries.max(1) as f64,
            bytes(index.bytes),
            duration(index.made_ns as f64 / index.records.max(1) as f64),
        );
    }
    text
}

/// What one of [`READS`] costs, against the number of runs.
fn drawing(at: usize, rows: &[Row]) -> Outcome<String> {
    let line = |with: usize| -> Line {
        let points = rows.iter().map(|row| (row.runs as f64, row.costs[at][with]));
        (NAMES[with].to_owned(), points.collect())
    };
    let lines = [line(0), line(1)];
    let heading =
        format!("{}: time against the number of runs, without and with the index", READS[at].0);
    let axes = Axes {
        logarithmic_x: true,
        x_text: &|runs: &f64| runs.to_string(),
        y_text: &|ns: &f64| duration(*ns),
        ..RATES
    };
    chart(&heading, &lines, &Palette::of(NAMES.map(str::to_owned)), &axes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn choice(out: &Path) -> Choice {
        Choice {
            parts: Vec::new(),
            store_size: 2_000_000,
            num: 3_000,
            value_size: 50,
            runs: vec![2, 5],
            reads: 100,
            repeat: 1,
            cache_size: 64 << 20,
            db: Some(out.join("db")),
            out: out.to_owned(),
        }
    }

    #[test]
    fn stores_have_the_runs_that_they_are_to_have_and_the_index_knows_them() {
        let out = std::env::temp_dir().join(format!("esker-loose-test-{}", std::process::id()));
        let choice = choice(&out);
        let (stop, mut progress) = (AtomicBool::new(false), Progress::start(true));
        run(&choice, &stop, &mut progress).expect("a run");
        let page = fs::read_to_string(out.join("loose.md")).expect("the page");
        let drawn = out.join("seek-and-1-next.svg").exists();
        let opening = fs::read_to_string(out.join("opening.md")).expect("the other page");
        fs::remove_dir_all(&out).expect("removed");
        assert!(page.contains("\n| 2 | ") && page.contains("\n| 5 | ") && drawn, "{page}");
        assert!(!page.contains("(0 B)") && !page.contains("| 0 ns |"), "{page}");
        assert!(opening.contains("first get") && !opening.contains("| 0 B"), "{opening}");
    }

    #[test]
    fn the_time_to_make_an_index_is_the_median_of_the_rounds() {
        let made_in = |made_ns| Index { records: 10, entries: 8, bytes: 36, made_ns };
        let index = Index::of_rounds(&[500, 700, 9_000, 100, 600].map(made_in));
        assert_eq!((index.made_ns, index.records, index.entries, index.bytes), (600, 10, 8, 36));
        assert_eq!(Index::of_rounds(&[]).made_ns, 0);
    }

    #[test]
    fn a_row_has_both_costs_of_every_kind() {
        let costs = std::array::from_fn(|at| [at as f64, 10.0 * at as f64]);
        let index = Index { records: 10, entries: 8, bytes: 36, made_ns: 500 };
        let text = page(&choice(Path::new("out")), &[Row { runs: 7, costs, index }]);
        let row = "| 7 | 0, 0 | 1, 10 | 2, 20 | 3, 30 | 4, 40 | 5, 50 | 4.50 (36 B) | 50 ns |";
        assert!(text.contains(row), "{text}");
        let widths: Vec<usize> = text
            .lines()
            .filter(|line| line.starts_with('|'))
            .map(|line| line.matches('|').count())
            .collect();
        assert_eq!(widths, [10; 3], "{text}");
    }
}
