//! Runs a workload: threads that do its operations, one clock reading each, and a watcher beside
//! them.
//!
//! An operation's latency is the time from the end of the one before, so that making its key and
//! value is in it, as in `db_bench`. With a rate it is the time from when the operation was due, so
//! that one that had to wait behind a slow one is slow too; at a rate that the store does not keep
//! up it grows for as long as the run lasts. The longest in each tenth of a second is therefore of
//! the time from when an operation was begun.

use crate::keys::{Draw, KeyShape, Known};
use crate::machine::{Peak, Usage, disk_bytes, forget_peak_memory, memory_peak_bytes};
use crate::progress::Progress;
use crate::race::{Race, Runner};
use crate::result::{Latency, Measured};
use crate::rounds::{Done, ROUND, Seen, Watch};
use crate::store::{OwnCounters, Store, Walk};
use crate::values::Values;
use crate::workload::{Operation, Operations, Shape, Workload};
use esker::base::checksum::mix64;
use esker_draw::Outcome;
use hdrhistogram::Histogram;
use rand::SeedableRng;
use rand::rngs::Xoshiro256PlusPlus as Random;
use std::hint::black_box;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Numbers of scattered keys have at most 16 digits.
const SCATTER: u64 = 10_000_000_000_000_000;
/// Longest latency told apart from longer ones, in nanoseconds: 100 s.
const LATENCY_NS_MAX: u64 = 100_000_000_000;
/// Digits of a latency that are kept.
const LATENCY_DIGITS: u8 = 2;

/// What is run, besides the workload.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Keys, and how they are drawn.
    pub shape: Shape,
    /// What keys look like.
    pub keys: KeyShape,
    /// Keys that are got at once by those who get several.
    pub batch_keys: u64,
    /// Length of values.
    pub value_bytes: usize,
    /// What values compress to.
    pub compression_ratio: f64,
    /// Threads that are measured.
    pub threads: u64,
    /// Operations of all threads together.
    pub operations: u64,
    /// Whether a write must be on disk before the next.
    pub sync: bool,
    /// End after this time, whatever is left.
    pub seconds_max: Option<f64>,
    /// Go on for this time at least, with more operations than these.
    pub seconds_min: Option<f64>,
    /// Operations a second of all threads together.
    pub rate: Option<f64>,
    /// Decides every key and value.
    pub seed: u64,
    /// The place among the steps of the run.
    pub step: usize,
    /// Whether to wait in the end until the store has no more work, so that all it wrote is
    /// counted.
    pub settle: bool,
}

/// What one thread does and has seen.
struct Worker<'a> {
    store: &'a dyn Store,
    keys: KeyShape,
    scattered: bool,
    sync: bool,
    values: Values,
    key: Vec<u8>,
    /// Those that are got at once.
    batch: Vec<Vec<u8>>,
    num: u64,
    reads: Histogram<u64>,
    writes: Histogram<u64>,
    reads_max: u64,
    writes_max: u64,
    found: u64,
    /// Keys that were got, but for those that are known to be missing.
    sought: u64,
    /// Records of walks over everything, and keys that were got several at once.
    records: u64,
    user_written_bytes: u64,
}

impl<'a> Worker<'a> {
    fn new(
        store: &'a dyn Store,
        workload: &Workload,
        plan: &Plan,
        random: &mut Random,
    ) -> Outcome<Worker<'a>> {
        let histogram = || Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS);
        Ok(Worker {
            store,
            keys: plan.keys,
            scattered: workload.scattered,
            sync: plan.sync,
            values: Values::new(random, plan.value_bytes, plan.compression_ratio),
            key: Vec::new(),
            batch: (0..plan.batch_keys).map(|_| Vec::new()).collect(),
            num: plan.shape.num,
            reads: histogram()?,
            writes: histogram()?,
            reads_max: 0,
            writes_max: 0,
            found: 0,
            sought: 0,
            records: 0,
            user_written_bytes: 0,
        })
    }

    #[inline]
    fn make_key(&mut self, number: u64) {
        let number = if self.scattered { mix64(number) % SCATTER } else { number };
        self.keys.write(number, &mut self.key);
    }

    fn put(&mut self) -> Outcome<()> {
        let value = self.values.give();
        self.user_written_bytes += (self.key.len() + value.len()) as u64;
        self.store.put(&self.key, value, self.sync)
    }

    fn get(&mut self) -> Outcome<()> {
        // Both ends of the value, so that it has to be there.
        let mut see = |value: &[u8]| {
            black_box((value.first().copied(), value.last().copied()));
        };
        self.found += u64::from(self.store.get(&self.key, &mut see)?);
        Ok(())
    }

    fn get_several(&mut self, seed: u64) -> Outcome<()> {
        for (nth, key) in (0..).zip(&mut self.batch) {
            self.keys.write(mix64(seed.wrapping_add(nth)) % self.num, key);
        }
        let mut see = |value: &[u8]| {
            black_box((value.first().copied(), value.last().copied()));
        };
        self.found += self.store.multi_get(&self.batch, &mut see)?;
        self.records += self.batch.len() as u64;
        self.sought += self.batch.len() as u64;
        Ok(())
    }

    fn walk(&mut self, from: bool, records_max: u64, backwards: bool) -> Outcome<u64> {
        let from = from.then_some(&self.key[..]);
        let mut see = |key: &[u8], value: &[u8]| {
            black_box((key.len(), value.first().copied(), value.last().copied()));
        };
        self.store.walk(Walk { from, records_max, backwards }, &mut see)
    }

    /// Does one operation; true if it writes.
    #[inline]
    fn run(&mut self, operation: Operation) -> Outcome<bool> {
        match operation {
            Operation::Put(number) => {
                self.make_key(number);
                self.put()?;
                return Ok(true);
            }
            Operation::Get(number) => {
                self.make_key(number);
                self.sought += 1;
                self.get()?;
            }
            Operation::MultiGet(seed) => self.get_several(seed)?,
            Operation::GetMissing(number) => {
                self.make_key(number);
                self.key.push(b'.');
                self.get()?;
            }
            Operation::Delete(number) => {
                self.make_key(number);
                self.user_written_bytes += self.key.len() as u64;
                self.store.delete(&self.key, self.sync)?;
                return Ok(true);
            }
            Operation::ReadModifyWrite(number) => {
                self.make_key(number);
                self.sought += 1;
                self.get()?;
                self.put()?;
                return Ok(true);
            }
            Operation::Scan(number, records) => {
                self.make_key(number);
                self.found += self.walk(true, records, false)?;
            }
            Operation::Everything { backwards } => {
                let seen = self.walk(false, u64::MAX, backwards)?;
                self.found += seen;
                self.records += seen;
            }
            Operation::Unordered => {
                let mut see = |key: &[u8], value: &[u8]| {
                    black_box((key.len(), value.first().copied(), value.last().copied()));
                };
                let seen = match self.store.walk_unordered(&mut see)? {
                    Some(seen) => seen,
                    None => self.walk(false, u64::MAX, false)?,
                };
                self.found += seen;
                self.records += seen;
            }
            Operation::Compact => self.store.compact()?,
        }
        Ok(false)
    }

    #[inline]
    fn note(&mut self, write: bool, ns: u64) {
        let (histogram, max) = match write {
            true => (&mut self.writes, &mut self.writes_max),
            false => (&mut self.reads, &mut self.reads_max),
        };
        histogram.saturating_record(ns);
        *max = (*max).max(ns);
    }
}

/// Runs a workload on an open store.
///
/// `stop` ends it early, as does `plan.seconds_max`. `known` are the keys that exist.
///
/// # Errors
/// Of the engine, from the first thread that has one.
pub fn run(
    (engine, store): (&str, &dyn Store),
    dir: &Path,
    workload: &Workload,
    plan: &Plan,
    known: &Known,
    stop: &AtomicBool,
    progress: &mut Progress,
) -> Outcome<Measured> {
    forget_peak_memory();
    let (memory, most_disk) = (Peak::of_own_memory(), Peak::of_disk(dir));
    let Ran { begun, workers, end, run_usage, watch } =
        work_together(store, (workload, plan), known, (stop, progress))?;
    let measured = &workers[..plan.threads as usize];
    let idle_since = if plan.settle { store.settle()? } else { Some(end) };
    let settled = idle_since.unwrap_or_else(Instant::now);
    let usage = Usage::now().since(begun.usage);
    let own = store.counters();
    let disk = disk_bytes(dir);
    let mut total = Totals::new()?;
    measured.iter().for_each(|worker| total.add(worker));
    let written: u64 = workers.iter().map(|worker| worker.user_written_bytes).sum();
    let operations = total.operations(workload);
    let each = |cpu_ns: u64| cpu_ns as f64 / 1e3 / operations.max(1) as f64;
    Ok(Measured {
        engine: engine.to_owned(),
        workload: workload.name.to_owned(),
        step: plan.step,
        num: plan.shape.num,
        threads: plan.threads,
        operations,
        found: total.found,
        sought: Some(total.sought),
        seconds: end.duration_since(begun.at).as_secs_f64(),
        cpu_us_per_operation: each(run_usage.cpu_ns),
        settled_cpu_us_per_operation: Some(each(usage.cpu_ns)),
        reads: Latency::of(&total.reads, total.reads_max),
        writes: Latency::of(&total.writes, total.writes_max),
        user_written_bytes: written,
        written_bytes: usage.written_bytes,
        own_written_bytes: difference(own.written_bytes, begun.own.written_bytes),
        stalled_ns: difference(own.stalled_ns, begun.own.stalled_ns),
        settle_seconds: settled.saturating_duration_since(end).as_secs_f64(),
        disk_bytes: disk,
        disk_peak_bytes: most_disk.bytes().max(disk),
        memory_peak_bytes: memory_peak_bytes(),
        own_memory_peak_bytes: Some(memory.bytes()),
        pace: watch.pace,
        slowest_ns: watch.slowest_ns,
        round_ends_ns: watch.ends_ns,
    })
}

/// What the clocks said when the threads began.
struct Begun {
    own: OwnCounters,
    usage: Usage,
    at: Instant,
}

/// What came of one thread.
struct Ended<'a> {
    worker: Worker<'a>,
    /// When its last operation ended.
    at: Instant,
    /// What the process had used then, of the last thread that is measured.
    usage: Option<Usage>,
}

/// What came of all threads.
struct Ran<'a> {
    begun: Begun,
    /// Those that are measured are first.
    workers: Vec<Worker<'a>>,
    /// When the last operation that is measured ended.
    end: Instant,
    /// What the process had used until then.
    run_usage: Usage,
    watch: Watch,
}

/// Starts all threads and watches them until they are done.
fn work_together<'a>(
    store: &'a dyn Store,
    (workload, plan): (&Workload, &Plan),
    known: &Known,
    (stop, progress): (&AtomicBool, &mut Progress),
) -> Outcome<Ran<'a>> {
    let threads = plan.threads + workload.company();
    let measured = plan.threads as usize;
    let draw = workload.keys(plan.shape, known.count(), plan.operations)?;
    let done: Vec<Done> = (0..threads).map(|_| Done::default()).collect();
    let over = AtomicBool::new(false);
    let (race, runners) = Race::of(measured, workload.company() as usize);
    let (begun, ended, mut watch) = std::thread::scope(|scope| {
        // Goes before the threads are waited for, so that none waits in vain for the others.
        let race = race;
        let workers: Vec<_> = (0..threads)
            .zip(runners)
            .map(|(thread, runner)| {
                let (done, over) = (&done[thread as usize], &over);
                scope.spawn(move || {
                    let seat = Seat { thread, threads, measured: plan.threads };
                    work(store, (workload, plan), (known, draw), seat, runner, done, &|| {
                        over.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed)
                    })
                })
            })
            .collect();
        let begun = race.start(|| {
            let (own, usage) = (store.counters(), Usage::now());
            Begun { own, usage, at: Instant::now() }
        });
        let mut watch = Watch::since(begun.at);
        loop {
            let ended = race.is_over_by(watch.next());
            let seen = Seen::of(&done[..measured]);
            progress.at(workload.name, seen.count, plan.operations);
            watch.round(seen);
            let late = plan.seconds_max.is_some_and(|max| begun.at.elapsed().as_secs_f64() >= max);
            if late || ended {
                over.store(true, Ordering::Relaxed);
                break;
            }
        }
        let ended = workers.into_iter().map(joined).collect::<Outcome<Vec<Ended<'_>>>>();
        ended.map(|ended| (begun, ended, watch))
    })?;
    let counted = &ended[..measured];
    let end = counted.iter().map(|ended| ended.at).max().unwrap_or(begun.at);
    watch.after_all(Seen::of(&done[..measured]), end);
    let run_usage = counted.iter().find_map(|ended| ended.usage).unwrap_or_else(Usage::now);
    let run_usage = run_usage.since(begun.usage);
    let workers = ended.into_iter().map(|ended| ended.worker).collect();
    Ok(Ran { begun, workers, end, run_usage, watch })
}

fn joined<T>(worker: ScopedJoinHandle<'_, Outcome<T>>) -> Outcome<T> {
    worker.join().unwrap_or_else(|_| Err("a thread of the benchmark panicked".into()))
}

fn difference(after: Option<u64>, before: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

/// Which thread this is.
#[derive(Clone, Copy)]
struct Seat {
    thread: u64,
    threads: u64,
    measured: u64,
}

impl Seat {
    /// This thread's part of all operations; without end for those that keep company.
    fn operations(self, all: u64) -> u64 {
        if self.thread >= self.measured {
            return u64::MAX;
        }
        all / self.measured + u64::from(self.thread < all % self.measured)
    }
}

/// One thread: makes ready, and begins with the others its operations until they are done or
/// `ended`.
fn work<'a>(
    store: &'a dyn Store,
    (workload, plan): (&Workload, &Plan),
    keys: (&Known, Draw),
    seat: Seat,
    mut runner: Runner,
    done: &Done,
    ended: &dyn Fn() -> bool,
) -> Outcome<Ended<'a>> {
    let mut random = Random::seed_from_u64(mix64(plan.seed) ^ seat.thread);
    let mut worker = Worker::new(store, workload, plan, &mut random)?;
    let place = (seat.thread, seat.threads);
    let mut operations = Operations::new(workload, plan.shape, keys, place, random);
    runner.begin()?;
    let mut timetable = plan.rate.and_then(|rate| Timetable::new(rate, seat));
    let mut last = Instant::now();
    let until = plan.seconds_min.map_or(last, |seconds| last + Duration::from_secs_f64(seconds));
    let mut count = 0;
    while (count < seat.operations(plan.operations) || last < until) && !ended() {
        let mut late_ns = 0;
        if let Some(timetable) = &mut timetable {
            let Some(turn) = timetable.wait(ended) else { break };
            (last, late_ns) = (turn.due, turn.late_ns);
        }
        let write = worker.run(operations.draw())?;
        let now = Instant::now();
        let ns = now.duration_since(last).as_nanos() as u64;
        worker.note(write, ns);
        last = now;
        count += 1;
        let units = if workload.counts_records() { worker.records } else { count };
        done.note(count, units, ns - late_ns);
    }
    let usage = runner.end().then(Usage::now);
    Ok(Ended { worker, at: last, usage })
}

/// When an operation was to begin, and by how much later it does.
struct Turn {
    due: Instant,
    late_ns: u64,
}

/// When the operations of a thread are due.
struct Timetable {
    next: Instant,
    interval: Duration,
}

impl Timetable {
    /// Threads take turns. `None` for those that only keep company.
    fn new(rate: f64, seat: Seat) -> Option<Timetable> {
        if seat.thread >= seat.measured {
            return None;
        }
        // By default the system lets a thread sleep 50 us too long, more than most operations take.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let interval = Duration::from_secs_f64(seat.measured as f64 / rate);
        let share = seat.thread as f64 / seat.measured as f64;
        Some(Timetable { next: Instant::now() + interval.mul_f64(share), interval })
    }

    /// Sleeps until the next operation is due, unless it is late already; `None` if the workload
    /// ends before.
    fn wait(&mut self, ended: &dyn Fn() -> bool) -> Option<Turn> {
        let due = self.next;
        self.next += self.interval;
        loop {
            let now = Instant::now();
            let early = due.saturating_duration_since(now);
            if early.is_zero() {
                return Some(Turn { due, late_ns: now.duration_since(due).as_nanos() as u64 });
            }
            if ended() {
                return None;
            }
            std::thread::sleep(early.min(ROUND));
        }
    }
}

/// What all threads saw.
struct Totals {
    reads: Histogram<u64>,
    writes: Histogram<u64>,
    reads_max: u64,
    writes_max: u64,
    found: u64,
    sought: u64,
    records: u64,
}

impl Totals {
    fn new() -> Outcome<Totals> {
        let histogram = || Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS);
        let (reads, writes) = (histogram()?, histogram()?);
        let (found, sought, records) = (0, 0, 0);
        Ok(Totals { reads, writes, reads_max: 0, writes_max: 0, found, sought, records })
    }

    fn add(&mut self, worker: &Worker<'_>) {
        // Bounds are the same, so that nothing can be out of them.
        self.reads += &worker.reads;
        self.writes += &worker.writes;
        self.reads_max = self.reads_max.max(worker.reads_max);
        self.writes_max = self.writes_max.max(worker.writes_max);
        self.found += worker.found;
        self.sought += worker.sought;
        self.records += worker.records;
    }

    fn operations(&self, workload: &Workload) -> u64 {
        match workload.counts_records() {
            true => self.records,
            false => self.reads.len() + self.writes.len(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::config::Config;
    use crate::workload;
    use std::sync::atomic::AtomicU64;
    use std::sync::{Arc, Mutex};
    use std::thread::sleep;

    /// A store that keeps nothing, and takes its time: for every put, and for each hundredth more.
    #[derive(Default)]
    pub(crate) struct Slow {
        put: Duration,
        hundredth: Duration,
        /// Whether a processor is busy with a put.
        is_busy: bool,
        puts: AtomicU64,
        /// When the last get ended, and when it was settled, which it only is where it has a time
        /// for that.
        got: Mutex<Option<Instant>>,
        settled: Mutex<Option<Instant>>,
        settle: Option<Duration>,
        /// Set by a get: the user asks for the end meanwhile.
        asked: Option<Arc<AtomicBool>>,
    }

    impl Slow {
        /// One that is not slow, and sets this at each get.
        pub(crate) fn asking(asked: Arc<AtomicBool>) -> Slow {
            Slow { settle: Some(Duration::ZERO), asked: Some(asked), ..Slow::default() }
        }
    }

    impl Store for Slow {
        fn put(&self, _: &[u8], _: &[u8], _: bool) -> Outcome<()> {
            let puts = self.puts.fetch_add(1, Ordering::Relaxed) + 1;
            let more = if puts.is_multiple_of(100) { self.hundredth } else { Duration::ZERO };
            let until = Instant::now() + self.put + more;
            while self.is_busy && Instant::now() < until {}
            sleep(until.saturating_duration_since(Instant::now()));
            Ok(())
        }

        fn get(&self, _: &[u8], _: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
            *self.got.lock().unwrap() = Some(Instant::now());
            if let Some(asked) = &self.asked {
                asked.store(true, Ordering::Relaxed);
            }
            Ok(false)
        }

        fn delete(&self, _: &[u8], _: bool) -> Outcome<()> {
            Ok(())
        }

        fn walk(&self, _: Walk<'_>, _: &mut dyn FnMut(&[u8], &[u8])) -> Outcome<u64> {
            Ok(0)
        }

        fn settle(&self) -> Outcome<Option<Instant>> {
            sleep(self.settle.ok_or("asked to settle")?);
            *self.settled.lock().unwrap() = Some(Instant::now());
            Ok(None)
        }

        fn compact(&self) -> Outcome<()> {
            Ok(())
        }

        fn close(self: Box<Self>) -> Outcome<()> {
            Ok(())
        }
    }

    fn measured(workload: &str, (put_ms, hundredth_ms): (u64, u64), flags: &[&str]) -> Measured {
        let [put, hundredth] = [put_ms, hundredth_ms].map(Duration::from_millis);
        measured_on(&Slow { put, hundredth, ..Slow::default() }, workload, flags)
    }

    fn measured_on(store: &Slow, workload: &str, flags: &[&str]) -> Measured {
        let workload = workload::find(workload).expect("a workload");
        let config = Config::of(flags).expect("flags");
        let plan = config.plan(workload, 0).expect("a plan");
        let (known, dir) = (Known::new(config.num), Path::new("nowhere"));
        let settle = store.settle.is_some();
        let (plan, stop) = (Plan { settle, ..plan }, AtomicBool::new(false));
        let mut progress = Progress::start(true);
        run(("slow", store), dir, workload, &plan, &known, &stop, &mut progress).expect("a run")
    }

    #[test]
    fn each_tenth_of_a_second_has_its_longest() {
        let run = measured("fillrandom", (1, 150), &["--num", "350"]);
        assert_eq!(run.slowest_ns.len(), run.pace.len());
        assert_eq!(run.round_ends_ns.len(), run.pace.len());
        assert_eq!(run.slowest_ns.iter().max(), Some(&run.writes.max), "{run:?}");
        let slow = run.slowest_ns.iter().filter(|&&ns| ns >= 150_000_000).count();
        assert_eq!(slow, 3, "one for each hundred: {:?}", run.slowest_ns);
        for (puts, ns) in run.pace.iter().zip(&run.slowest_ns).filter(|(puts, _)| **puts > 0) {
            assert!(*ns >= 1_000_000, "{puts} puts, none of which took {ns} ns");
        }
    }

    #[test]
    fn what_the_last_round_did_not_see_is_there() {
        let flags = ["--num", "1000", "--duration", "0.1"];
        let run = measured("fillrandom", (600, 0), &flags);
        assert_eq!(run.slowest_ns.iter().max(), Some(&run.writes.max), "{run:?}");
        assert!(run.writes.max >= 600_000_000, "{run:?}");
    }

    #[test]
    fn with_a_rate_waiting_for_ones_turn_is_not_in_the_longest() {
        let flags = ["--num", "1000000", "--rate", "10000", "--duration", "1"];
        let run = measured("fillrandom", (2, 0), &flags);
        let longest = run.slowest_ns.iter().max().copied().unwrap_or(0);
        assert!(longest >= 2_000_000, "{longest}");
        assert!(run.writes.max > 600_000_000, "the queue is as long as the run: {run:?}");
        assert!(longest < run.writes.max / 2, "{longest} of {}", run.writes.max);
    }

    #[test]
    fn what_only_reads_can_be_prolonged() {
        let flags = ["--num", "10", "--reads", "10", "--duration_min", "0.3"];
        let run = measured("readrandom", (0, 0), &flags);
        assert!(run.operations > 10 && run.seconds >= 0.3, "{run:?}");
        assert_eq!(measured("fillrandom", (0, 0), &flags).operations, 10);
    }

    #[test]
    fn company_has_no_part_in_the_longest() {
        let flags = ["--num", "1000", "--reads", "1000000000", "--duration", "0.5"];
        let run = measured("readwhilewriting", (100, 0), &flags);
        assert!(run.operations > 0 && run.writes.count == 0, "{run:?}");
        assert_eq!(run.slowest_ns.iter().max(), Some(&run.reads.max), "{run:?}");
    }

    #[test]
    fn what_is_left_counts_from_the_end_of_the_last_operation() {
        // The company is in its put for long when the gets are over.
        let (put, settle) = (Duration::from_millis(300), Some(Duration::from_millis(10)));
        let store = Slow { put, settle, ..Slow::default() };
        let run = measured_on(&store, "readwhilewriting", &["--num", "10", "--reads", "10"]);
        let [got, settled] =
            [&store.got, &store.settled].map(|at| at.lock().unwrap().expect("a time"));
        let left = settled.duration_since(got).as_secs_f64();
        assert!(run.settle_seconds > left - 0.1, "{left} s: {run:?}");
    }

    #[test]
    fn work_after_the_last_operation_is_not_in_what_one_costs() {
        let put = Duration::from_millis(500);
        let store = Slow { put, is_busy: true, ..Slow::default() };
        let run = measured_on(&store, "readwhilewriting", &["--num", "10", "--reads", "10"]);
        let cpu_seconds = run.cpu_us_per_operation * 1e-6 * run.operations as f64;
        assert!(cpu_seconds < 0.25, "{cpu_seconds} s: {run:?}");
    }

    #[test]
    fn making_ready_is_not_measured() {
        const BYTES: usize = 64 << 20;
        let start = Instant::now();
        black_box(Values::new(&mut Random::seed_from_u64(1), BYTES, 0.5));
        let ready = start.elapsed().as_secs_f64();
        let flags = ["--num", "1", "--value_size", &BYTES.to_string()];
        let run = measured("fillrandom", (0, 0), &flags);
        assert!(run.seconds < ready / 2.0, "{ready} s to make ready: {run:?}");
    }
}
