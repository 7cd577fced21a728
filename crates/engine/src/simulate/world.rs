//! The store on paper: memtables that fill, flushes and compactions that share a device, and the
//! time of what is next.

use super::plan::{Keys, Plan, Progress, Writers};
use super::rule::Rule;
use super::spread::{KEYS, Piece, Spread, key};
use crate::compaction::scheduler::pace::{self, Drained};
use crate::compaction::{choice, policy};
use crate::event::EventSink;
use crate::options::{KeyspaceOptions, Options};
use crate::trace::{Amount, Running, Step, Trace, What};
use crate::version::{CompactionSpec, Table, TableMeta, TableStore, Version};
use esker_base::sync::atomic::Ordering;
use esker_base::vfs::strict::StrictVfs;
use esker_base::{Env, Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// While writers are slowed by how full memory is, the rate is computed anew after this share of a
/// memtable.
const PACE_SHARE: f64 = 1.0 / 16.0;

/// A millisecond for each record, at worst.
const DELAY_NS: f64 = 1e6;

/// What remains of a number of bytes below this is rounding.
const DONE: f64 = 1e-3;

pub(super) struct World<'a> {
    plan: &'a Plan,
    options: Arc<KeyspaceOptions>,
    /// Bytes with which a memtable is full.
    memtable_bytes: f64,
    /// Tables need one; no file of theirs is ever opened.
    store: Arc<TableStore>,
    spread: Spread,
    rule: &'a mut dyn Rule,
    version: Version,
    next_run: u64,
    now_ns: f64,
    /// Bytes that writers have written.
    user: f64,
    /// Of the memtable that is being filled.
    active: f64,
    /// Bytes of the memtables that wait, oldest first.
    sealed: VecDeque<f64>,
    /// Records that were flushed.
    flushed: f64,
    flush: Option<Flush>,
    jobs: Vec<Job>,
    drained: Drained,
    /// Since when nobody can write.
    stopped_ns: Option<f64>,
    compactions: u64,
    trace: Trace,
}

/// The oldest memtable on its way to level 0.
struct Flush {
    memory: f64,
    pieces: Vec<Piece>,
    left: f64,
    started_ns: f64,
}

/// A compaction under way.
struct Job {
    spec: CompactionSpec,
    pieces: Vec<Piece>,
    /// Bytes it has still to read and write.
    left: f64,
    started_ns: f64,
}

impl Job {
    fn running(&self) -> Running {
        Running {
            level: self.spec.level,
            output_level: self.spec.output_level,
            input: Amount::of(self.spec.tables().map(|(_, table)| table.meta.file_bytes)),
            since_us: (self.started_ns / 1e3) as u64,
        }
    }
}

/// Bytes a nanosecond, of everything that goes on.
struct Rates {
    user: f64,
    flush: f64,
    /// Of each compaction.
    job: f64,
}

impl<'a> World<'a> {
    pub(super) fn new(plan: &'a Plan, rule: &'a mut dyn Rule) -> World<'a> {
        let env = Env::with_vfs(Arc::new(StrictVfs::new()), 1);
        let shares = Options::default().memory_shares();
        let store = TableStore::new(env, "/simulated".into(), EventSink::new(None), 16, shares);
        let distinct = match plan.load.keys {
            Keys::Out { of } => Some(of as f64),
            Keys::Random | Keys::Ascending => None,
        };
        let records_max = plan.options.table_bytes_max as f64 / plan.load.record_bytes as f64;
        World {
            plan,
            options: Arc::new(plan.options.clone()),
            memtable_bytes: plan.memtable_bytes() as f64,
            store: Arc::new(store),
            spread: Spread { distinct, records_max: records_max.max(1.0) },
            rule,
            version: Version::default(),
            next_run: 1,
            now_ns: 0.0,
            user: 0.0,
            active: 0.0,
            sealed: VecDeque::new(),
            flushed: 0.0,
            flush: None,
            jobs: Vec::new(),
            drained: Drained { flushes: pace::DRAIN_START, level0: pace::DRAIN_START },
            stopped_ns: None,
            compactions: 0,
            trace: Trace::default(),
        }
    }

    pub(super) fn run(mut self, mut progress: impl FnMut(&Progress) -> bool) -> Result<Trace> {
        loop {
            self.seal();
            self.start_flush();
            self.start_jobs();
            let rates = self.rates();
            self.note_stop(rates.user > 0.0);
            let Some(wait_ns) = self.next_event(&rates) else { break };
            self.advance(&rates, wait_ns);
            self.finish_flush();
            self.finish_jobs();
            let at_us = (self.now_ns / 1e3) as u64;
            let user_bytes = self.user.round() as u64;
            if !progress(&Progress { user_bytes, at_us, compactions: self.compactions }) {
                return Err(Error::Cancelled);
            }
        }
        Ok(self.trace)
    }

    fn load_left(&self) -> f64 {
        self.plan.load.bytes as f64 - self.user
    }

    /// Bytes of all memtables.
    fn held(&self) -> f64 {
        let flushing = self.flush.as_ref().map_or(0.0, |flush| flush.memory);
        self.active + self.sealed.iter().sum::<f64>() + flushing
    }

    /// A full memtable waits to be flushed; at the end of the load one that is not full too.
    fn seal(&mut self) {
        let full = self.active >= self.memtable_bytes - DONE;
        if full || (self.load_left() < DONE && self.active > 0.0) {
            self.sealed.push_back(std::mem::take(&mut self.active));
        }
        if self.load_left() < DONE && self.trace.loaded_us == 0 {
            self.trace.loaded_us = (self.now_ns / 1e3) as u64;
        }
    }

    fn start_flush(&mut self) {
        if self.flush.is_some() {
            return;
        }
        let Some(memory) = self.sealed.pop_front() else { return };
        let writes = memory / self.plan.load.record_bytes as f64;
        let all = Piece { first: 0, last: KEYS - 1, records: self.spread.left(writes, 1.0) };
        let run = match self.plan.load.keys {
            Keys::Ascending => self.next_in_order(writes),
            Keys::Random | Keys::Out { .. } => all,
        };
        self.flushed += writes;
        let pieces = self.spread.merge(&[run]);
        let left = self.bytes(&pieces);
        self.flush = Some(Flush { memory, pieces, left, started_ns: self.now_ns });
    }

    /// The stretch of the key space that comes after what was flushed.
    fn next_in_order(&self, writes: f64) -> Piece {
        let total = self.plan.load.bytes as f64 / self.plan.load.record_bytes as f64;
        let place = |records: f64| ((records / total).min(1.0) * KEYS as f64) as u64;
        let first = place(self.flushed).min(KEYS - 2);
        let last = place(self.flushed + writes).max(first + 2) - 1;
        Piece { first, last, records: writes }
    }

    fn bytes(&self, pieces: &[Piece]) -> f64 {
        pieces.iter().map(|piece| piece.records).sum::<f64>() * self.plan.load.record_bytes as f64
    }

    /// Starts what the policy and the schedule want, as long as there are threads.
    fn start_jobs(&mut self) {
        while self.jobs.len() < self.plan.compaction_threads as usize {
            let candidates = self.rule.candidates(&policy::scores(&self.version, &self.options));
            let chosen = choice::first(&self.version, &self.options, candidates);
            let Some((_, spec)) = chosen else { break };
            if spec.is_move {
                self.move_tables(&spec);
                continue;
            }
            for (_, table) in spec.tables() {
                table.compacting.store(true, Ordering::Relaxed);
            }
            let inputs = self.pieces(&spec);
            let pieces = self.spread.merge(&inputs);
            let left = spec.input_bytes() as f64 + self.bytes(&pieces);
            self.jobs.push(Job { spec, pieces, left, started_ns: self.now_ns });
            self.note(What::Started);
        }
    }

    /// What everybody gets of the device until something changes.
    fn rates(&self) -> Rates {
        let machine = &self.plan.machine;
        let (head, thread) = (machine.head(), machine.thread_bytes_per_second as f64 / 1e9);
        let capacity = head * f64::from(machine.heads);
        let log = if self.plan.load.log { 1.0 } else { 0.0 };
        let wanted = self.wanted();
        let user = if self.plan.load.log { wanted.min(capacity) } else { wanted };
        // The log is served at once; the others share what it leaves.
        let left = capacity - user * log;
        let most = head.min(thread);
        let jobs = self.jobs.len() as f64;
        let flushes = if self.flush.is_some() { 1.0 } else { 0.0 };
        let (flush, job) = match self.plan.writers {
            Writers::Stopped => {
                let flush = flushes * most.min(left);
                (flush, (left - flush) / jobs.max(1.0))
            }
            Writers::Paced => {
                let share = left / (jobs + flushes).max(1.0);
                (flushes * share, share)
            }
        };
        Rates { user, flush: flush.min(most), job: job.min(most) }
    }

    /// Bytes a nanosecond that writers are let write.
    fn wanted(&self) -> f64 {
        let full = self.held() >= self.plan.memtables_bytes_max as f64 - DONE;
        if full || self.load_left() < DONE {
            return 0.0;
        }
        let most = self.plan.load.bytes_per_second as f64 / 1e9;
        self.slowed_to().map_or(most, |rate| (rate / 1e9).min(most))
    }

    /// Bytes a second that writers are let write while there is room in memory, if they are held
    /// back.
    fn slowed_to(&self) -> Option<f64> {
        let runs = self.version.level(0).len();
        let (slow, max) = (self.options.level0_runs_slow, self.options.level0_runs_max);
        match self.plan.writers {
            Writers::Paced => {
                let fill = self.held() / self.plan.memtables_bytes_max as f64;
                pace::rate(fill, pace::level0_fill(runs, slow, max), self.drained)
            }
            Writers::Stopped if runs >= max as usize => Some(0.0),
            Writers::Stopped if runs >= slow as usize => {
                Some(self.plan.load.record_bytes as f64 * 1e9 / DELAY_NS)
            }
            Writers::Stopped => None,
        }
    }

    /// Writes down when writers could go on after a time in which they could not.
    fn note_stop(&mut self, can_write: bool) {
        if self.load_left() < DONE || can_write {
            if let Some(since) = self.stopped_ns.take()
                && self.now_ns > since
            {
                let duration_us = ((self.now_ns - since) / 1e3) as u64;
                self.note(What::Stopped { duration_us });
            }
        } else {
            self.stopped_ns.get_or_insert(self.now_ns);
        }
    }

    /// Nanoseconds until something is done or full; `None` if nothing goes on any more.
    fn next_event(&self, rates: &Rates) -> Option<f64> {
        let mut waits = Vec::with_capacity(self.jobs.len() + 4);
        if rates.user > 0.0 {
            waits.push(self.load_left() / rates.user);
            waits.push((self.memtable_bytes - self.active) / rates.user);
            let room = self.plan.memtables_bytes_max as f64 - self.held();
            waits.push(room / rates.user);
            let fill = self.held() / self.plan.memtables_bytes_max as f64;
            if self.plan.writers == Writers::Paced && fill >= pace::START {
                waits.push(self.memtable_bytes * PACE_SHARE / rates.user);
            } else if self.plan.writers == Writers::Paced {
                let start = self.plan.memtables_bytes_max as f64 * pace::START;
                waits.push((start - self.held()).max(1.0) / rates.user);
            }
        }
        if let Some(flush) = &self.flush {
            waits.push(flush.left / rates.flush);
        }
        waits.extend(self.jobs.iter().map(|job| job.left / rates.job));
        let least = waits.into_iter().fold(f64::INFINITY, f64::min);
        least.is_finite().then(|| least.max(1.0))
    }

    fn advance(&mut self, rates: &Rates, wait_ns: f64) {
        self.now_ns += wait_ns;
        let written = (rates.user * wait_ns).min(self.load_left());
        self.user += written;
        self.active += written;
        if let Some(flush) = &mut self.flush {
            flush.left -= rates.flush * wait_ns;
        }
        for job in &mut self.jobs {
            job.left -= rates.job * wait_ns;
        }
    }

    fn finish_flush(&mut self) {
        let Some(flush) = self.flush.take_if(|flush| flush.left < DONE) else { return };
        let duration_ns = self.now_ns - flush.started_ns;
        self.drained.flushes =
            pace::blended(self.drained.flushes, flush.memory as u64, duration_ns as u64);
        let run = self.new_run();
        let written = self.change(&[], 0, run, &flush.pieces);
        self.note(What::Flushed { written, duration_us: (duration_ns / 1e3) as u64 });
    }

    fn finish_jobs(&mut self) {
        while let Some(at) = self.jobs.iter().position(|job| job.left < DONE) {
            let Job { spec, pieces, started_ns, .. } = self.jobs.remove(at);
            let duration_ns = self.now_ns - started_ns;
            let (taken, rewritten) = (spec.taken(), spec.rewritten());
            if spec.level != spec.output_level {
                self.rule.note_job(spec.level, taken.bytes, duration_ns as u64);
            }
            if spec.level == 0 && spec.output_level > 0 {
                self.drained.level0 =
                    pace::blended(self.drained.level0, taken.bytes, duration_ns as u64);
            }
            let run = self.output_run(&spec);
            let written = self.change(&removed(&spec), spec.output_level, run, &pieces);
            self.compactions += 1;
            let (level, output_level) = (spec.level, spec.output_level);
            let duration_us = (duration_ns / 1e3) as u64;
            self.note(What::Compacted {
                level,
                output_level,
                taken,
                rewritten,
                written,
                duration_us,
            });
        }
    }

    fn move_tables(&mut self, spec: &CompactionSpec) {
        let pieces = self.pieces(spec);
        let run = self.output_run(spec);
        let taken = self.change(&removed(spec), spec.output_level, run, &pieces);
        let (level, output_level) = (spec.level, spec.output_level);
        self.note(What::Moved { level, output_level, taken });
    }

    fn new_run(&mut self) -> u64 {
        self.next_run += 1;
        self.next_run - 1
    }

    /// What a compaction has as inputs.
    fn pieces(&self, spec: &CompactionSpec) -> Vec<Piece> {
        let record_bytes = self.plan.load.record_bytes;
        spec.tables().map(|(_, table)| Piece::of(table, record_bytes)).collect()
    }

    /// The run that takes a compaction's output.
    fn output_run(&mut self, spec: &CompactionSpec) -> u64 {
        let joined = policy::output_run(&self.version, &self.options, spec);
        joined.unwrap_or_else(|| self.new_run())
    }

    /// Takes tables out and puts others in.
    fn change(&mut self, out: &[(u32, u64)], level: usize, run: u64, pieces: &[Piece]) -> Amount {
        let record_bytes = self.plan.load.record_bytes as f64;
        let table = |piece: &Piece| {
            let meta = TableMeta {
                number: self.store.new_number(),
                smallest: key(piece.first),
                largest: key(piece.last),
                entries: piece.records.round().max(1.0) as u64,
                file_bytes: (piece.records * record_bytes).round().max(1.0) as u64,
                ..TableMeta::default()
            };
            (level as u32, run, self.store.table(meta, &self.options))
        };
        let tables: Vec<(u32, u64, Arc<Table>)> = pieces.iter().map(table).collect();
        let written = Amount::of(tables.iter().map(|(_, _, table)| table.meta.file_bytes));
        let next = self.version.apply(&self.options.order, out, tables);
        self.version = next.expect("what a policy chooses fits the version it was chosen from");
        written
    }

    fn note(&mut self, what: What) {
        self.trace.steps.push(Step {
            at_us: (self.now_ns / 1e3) as u64,
            what,
            user_bytes: self.user.round() as u64,
            memtable_bytes: self.held() as u64,
            slowed_to: self.slowed_to().map(|rate| rate as u64),
            turn: self.rule.turn(),
            levels: policy::shape(&self.version, &self.options),
            running: self.jobs.iter().map(Job::running).collect(),
        });
    }
}

fn removed(spec: &CompactionSpec) -> Vec<(u32, u64)> {
    spec.tables().map(|(level, table)| (level as u32, table.meta.number)).collect()
}
