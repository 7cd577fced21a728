//! The experiments in virtual time: every schedule at every size, and slices of every length.

use super::at_size::{AtSize, MEASURED, OURS, THEIRS, THEIRS_SLOW};
use super::theirs::Theirs;
use super::{
    CHOSEN_MS, COLUMNS, DISK_BYTES_PER_SECOND, DYNAMIC, GB, Lab, MIB, RECORD_BYTES, TABLE_MIB,
    figures, options, schedules, slice,
};
use esker::Scheduler;
use esker::simulate::{self, Keys, Load, Machine, Plan, Writers};
use esker::trace::Trace;
use esker_draw::Outcome;
use esker_draw::units::{bytes, duration};
use esker_lab::Summary;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Slices that the thesis tried at 5 GB, in milliseconds: all of them at the least size, and the
/// second list, with the chosen one, at the others.
const SLICES_MS: [u64; 10] = [200, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 24_000, 32_000, 64_000];
const SOME_SLICES_MS: [u64; 5] = [1_000, 4_000, 8_000, 16_000, 64_000];

/// The longest slice that the engine's options take.
const SLICE_MS_MAX: u64 = 3_600_000;

/// Two slices between which the thesis saw a difference at 50 GB.
const COMPARED_MS: [u64; 2] = [8_000, 64_000];

/// Bytes a second that the thesis's own figures speak of: 130 s for a compaction of level 0 with 1
/// 500 tables of level 1, 10 s with 100, 1.2 s for one of level 1.
const SLOW_DISK_BYTES_PER_SECOND: u64 = 45_000_000;

/// How many simulations run at once, at the most.
const THREADS_MAX: usize = 4;

/// One simulation.
struct Run {
    name: String,
    order: Order,
    gigabytes: u64,
    table_bytes: u64,
    base_tables: u64,
    disk_bytes_per_second: u64,
}

enum Order {
    Engine(Scheduler),
    Theirs { slice_ms: u64 },
}

impl Run {
    fn plan(&self) -> Plan {
        let scheduler = match &self.order {
            Order::Engine(scheduler) => scheduler.clone(),
            Order::Theirs { .. } => Scheduler::default(),
        };
        Plan {
            options: options(scheduler, self.table_bytes, self.base_tables),
            memtables_bytes_max: 2 * self.table_bytes,
            compaction_threads: 1,
            load: Load {
                bytes: self.gigabytes * GB,
                record_bytes: RECORD_BYTES,
                keys: Keys::Random,
                bytes_per_second: DISK_BYTES_PER_SECOND,
                log: false,
            },
            machine: Machine { bytes_per_second: self.disk_bytes_per_second, ..Machine::DISK },
            writers: Writers::Stopped,
        }
    }
}

impl Lab<'_> {
    /// All that is simulated, with tables and slices so many times larger than the thesis's.
    pub(super) fn simulated(&mut self, sizes: &[u64], longer: u64) -> Outcome<bool> {
        let mut all = Vec::new();
        for (at, &size) in sizes.iter().enumerate() {
            let (least, most) = (at == 0, at + 1 == sizes.len());
            let Some(done) = self.at_size(size, longer, least, most)? else { return Ok(false) };
            all.push(done);
            self.page.clear();
            self.tables(&all, longer);
            self.keep()?;
            for (name, drawing) in figures::sizes(&all)? {
                self.write(&name, &drawing)?;
            }
        }
        Ok(true)
    }

    fn at_size(
        &mut self,
        gigabytes: u64,
        longer: u64,
        least: bool,
        most: bool,
    ) -> Outcome<Option<AtSize>> {
        let run = |what: String, order, disk_bytes_per_second| Run {
            name: format!("{gigabytes} GB, {what}"),
            order,
            gigabytes,
            table_bytes: longer * TABLE_MIB * MIB,
            base_tables: self.base_tables,
            disk_bytes_per_second,
        };
        let mut runs: Vec<Run> = schedules(CHOSEN_MS * longer)
            .into_iter()
            .map(|(name, order)| run(name.to_owned(), Order::Engine(order), DISK_BYTES_PER_SECOND))
            .collect();
        let scheduled = runs.len();
        let ours: &[u64] = if least { &SLICES_MS } else { &SOME_SLICES_MS };
        // The thesis's own rotation is only simulated with the thesis's tables.
        let (theirs, theirs_slow): (&[u64], &[u64]) = match (least, most) {
            _ if longer > 1 => (&[], &[]),
            (true, _) => (&SLICES_MS, &SLICES_MS),
            (_, true) => (&[], &COMPARED_MS),
            _ => (&[], &[]),
        };
        let scaled = |slices: &[u64]| -> Vec<u64> {
            let scaled = slices.iter().map(|ms| ms * longer);
            scaled.filter(|&ms| ms <= SLICE_MS_MAX).collect()
        };
        let lines = [
            (OURS, scaled(ours), DISK_BYTES_PER_SECOND),
            (THEIRS, scaled(theirs), DISK_BYTES_PER_SECOND),
            (THEIRS_SLOW, scaled(theirs_slow), SLOW_DISK_BYTES_PER_SECOND),
        ];
        for (line, slices, disk) in &lines {
            for &slice_ms in slices {
                let order = match *line {
                    OURS => Order::Engine(slice(slice_ms)),
                    _ => Order::Theirs { slice_ms },
                };
                runs.push(run(
                    format!("{line} of {}", duration(slice_ms as f64 * 1e6)),
                    order,
                    *disk,
                ));
            }
        }
        let Some(traces) = self.simulate(&runs)? else { return Ok(None) };
        let named = |(name, _): &(&str, Scheduler)| (*name).to_owned();
        let names: Vec<String> = schedules(0).iter().map(named).collect();
        if least {
            let compared: Vec<(String, Trace)> =
                names.iter().cloned().zip(traces.iter().cloned()).take(3).collect();
            esker_lab::draw("Slot, simulated", &compared[..2], &self.out.join("simulated"))?;
            for (name, drawing) in figures::traces(gigabytes, &compared)? {
                self.write(&name, &drawing)?;
            }
        }
        let summaries = names.into_iter().zip(traces.iter().map(Summary::of)).collect();
        let mut rates = traces[scheduled..].iter().map(|trace| Summary::of(trace).throughput());
        let slices = lines
            .map(|(line, slices, _)| {
                (line, slices.iter().map(|&ms| ms as f64).zip(rates.by_ref()).collect())
            })
            .to_vec();
        Ok(Some(AtSize { gigabytes, summaries, slices }))
    }

    /// The traces of all, computed on several processors; `None` if interrupted.
    fn simulate(&mut self, runs: &[Run]) -> Outcome<Option<Vec<Trace>>> {
        let count = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let (next, stop) = (AtomicUsize::new(0), self.stop);
        let progress = Mutex::new(&mut *self.progress);
        let worker = || -> esker::Result<Vec<(usize, Trace)>> {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(run) = runs.get(at) else { return Ok(done) };
                let mut steps = 0u64;
                let tell = |now: &simulate::Progress| {
                    steps += 1;
                    if steps.is_multiple_of(1_000) {
                        let mut shown = progress.lock().unwrap_or_else(PoisonError::into_inner);
                        shown.at(&run.name, now.user_bytes / MIB, run.gigabytes * GB / MIB);
                    }
                    !stop.load(Ordering::Relaxed)
                };
                let plan = run.plan();
                let trace = match run.order {
                    Order::Engine(_) => simulate::run(&plan, tell),
                    Order::Theirs { slice_ms } => {
                        simulate::run_by(&mut Theirs::new(slice_ms), &plan, tell)
                    }
                };
                done.push((at, trace?));
            }
        };
        let parts = thread::scope(|scope| {
            let workers: Vec<_> = (0..count).map(|_| scope.spawn(worker)).collect();
            let joined = |worker: thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(joined).collect::<esker::Result<Vec<_>>>()
        });
        match parts {
            Err(esker::Error::Cancelled) => Ok(None),
            parts => {
                let mut done: Vec<(usize, Trace)> = parts?.into_iter().flatten().collect();
                done.sort_by_key(|(at, _)| *at);
                Ok(Some(done.into_iter().map(|(_, trace)| trace).collect()))
            }
        }
    }

    fn tables(&mut self, all: &[AtSize], longer: u64) {
        let _ = write!(
            self.page,
            "## Simulated, tables of {} MiB, of which level 1 may hold {}\n\n\
             | written | schedule | a second | beside priority | measured there | {COLUMNS}|{}\n",
            longer * TABLE_MIB,
            self.base_tables,
            "---|".repeat(12)
        );
        for done in all {
            let measured = MEASURED.iter().find(|(gb, _)| *gb == done.gigabytes);
            let measured = measured.map_or(String::new(), |(_, times)| format!("x {times}"));
            for (at, (name, summary)) in done.summaries.iter().enumerate() {
                let measured = if at == 1 { measured.as_str() } else { "" };
                let written = format!("{} GB", done.gigabytes);
                self.row(&[&written, name], summary, &done.summaries[0].1, &[measured]);
            }
        }
        self.slices_table(all, longer);
    }

    /// Slices in rows, sizes and lines in columns.
    fn slices_table(&mut self, all: &[AtSize], longer: u64) {
        let mut head = "| slice |".to_owned();
        let mut rows: Vec<String> =
            SLICES_MS.map(|ms| format!("| {} |", duration((ms * longer) as f64 * 1e6))).to_vec();
        let (mut dynamic, mut lacks) =
            ("| dynamic |".to_owned(), "| lacks of the best |".to_owned());
        let mut columns = 1;
        for done in all {
            for (line, points) in done.slices.iter().filter(|(_, points)| !points.is_empty()) {
                columns += 1;
                let of = if *line == OURS { String::new() } else { format!(", {line}") };
                let _ = write!(head, " {} GB{of} |", done.gigabytes);
                for (row, ms) in rows.iter_mut().zip(SLICES_MS) {
                    let point = points.iter().find(|point| point.0 == (ms * longer) as f64);
                    let rate = point.map_or(String::new(), |point| bytes(point.1 as u64));
                    let _ = write!(row, " {rate} |");
                }
                let ours = (*line == OURS).then(|| (done.of(DYNAMIC), done.deficit()));
                let (rate, share) = match ours {
                    Some((Some(summary), Some(share))) => {
                        (bytes(summary.throughput() as u64), format!("{:.1} %", share * 100.0))
                    }
                    _ => Default::default(),
                };
                let _ = write!(dynamic, " {rate} |");
                let _ = write!(lacks, " {share} |");
            }
        }
        let _ =
            writeln!(self.page, "\n## Slices, simulated\n\n{head}\n|{}", "---|".repeat(columns));
        for row in rows.into_iter().chain([dynamic, lacks]) {
            let _ = writeln!(self.page, "{row}");
        }
    }
}
