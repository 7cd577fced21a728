//! Background threads: one makes memory ready for memtables, one keeps a spare log ready, one
//! flushes, one builds indexes, the others compact.
//!
//! A panic in a job poisons the database and wakes whoever waits. A job that fails for want of
//! space, or by an I/O error that left nothing behind, is tried again.

use super::background::Asked;
use super::core::Core;
use super::flushing::FlushSet;
use super::panic_watch::PanicWatch;
use super::secondary::build::build_next;
use super::spare::prepare_next;
use super::turns::Turn;
use super::{collect, compact, indexing};
use crate::event::Event;
use esker_base::sync::atomic::Ordering;
use esker_base::sync::thread::{self, JoinHandle};
use esker_base::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// After so many jobs one looks whether a run index is due before the next of them, so that it
/// comes in time where there is always something to compact.
const JOBS_BEFORE_INDEX: u64 = 8;

/// As often as that it is looked whether files that are no longer needed have been let go.
const HELD_WAIT: Duration = Duration::from_millis(200);

/// How long one waits for a flush before looking again.
const FLUSH_WAIT: Duration = Duration::from_millis(100);

/// What is tried again is not looked for more often than this.
const RETRY_WAIT_MIN: Duration = Duration::from_millis(10);

impl Core {
    /// Waits until some job is done, or for this long. Without threads, does what there is to do.
    ///
    /// # Errors
    /// The failure of the last flush, if it failed; `Cancelled` if the database is closing.
    pub(super) fn wait_progress(&self, at_most: Duration) -> Result<()> {
        self.run_inline();
        self.background.wait_progress(at_most)
    }

    /// As `wait_progress`, for those to whom flushes are nothing.
    ///
    /// # Errors
    /// `Cancelled` if the database is closing.
    pub(super) fn wait_others(&self, at_most: Duration) -> Result<()> {
        self.run_inline();
        self.background.wait_others(at_most)
    }

    /// As `wait_progress`, for those who asked for what they wait for.
    ///
    /// # Errors
    /// The last failure since they asked; `Cancelled` if the database is closing.
    pub(super) fn wait_asked(&self, asked: Asked, at_most: Duration) -> Result<()> {
        self.run_inline();
        self.background.wait_asked(asked, at_most)
    }

    /// Somebody is about to seal memtables and wait for them: where the last flush failed, nothing
    /// more is sealed before one has succeeded, or sealed memtables would pile up, each with memory
    /// of its own.
    ///
    /// # Errors
    /// The flush fails again.
    pub(super) fn retry_failed_flush(&self) -> Result<()> {
        if !self.background.flushes_fail() {
            return Ok(());
        }
        let asked = self.background.ask_for_flushes();
        while self.background.flushes_fail() {
            self.check_writable()?;
            self.wait_asked(asked, FLUSH_WAIT)?;
        }
        Ok(())
    }

    /// Without threads: flushes and compacts until there is nothing left to do, or something fails.
    /// Indexes are built by those who wait for them: building writes, and whoever writes comes
    /// here.
    #[inline]
    pub(super) fn run_inline(&self) {
        if self.background.is_inline() {
            let watch = PanicWatch { core: self, what: "work in the background panicked" };
            self.run_all();
            std::mem::forget(watch);
        }
    }

    fn run_all(&self) {
        loop {
            let nexts: [Next; 3] = [flush_next, compact_next, prepare_next];
            let (mut done, mut no_space) = (false, None);
            for next in nexts {
                match next(self) {
                    Ok(true) => {
                        done = true;
                        break;
                    }
                    Ok(false) => {}
                    Err(Error::Cancelled) => return,
                    // Another job may make room.
                    Err(error @ Error::NoSpace { .. }) => no_space = no_space.or(Some(error)),
                    Err(error) => return retry_or_poison(self, error),
                }
            }
            if !done {
                return no_space.map_or((), |error| retry_or_poison(self, error));
            }
        }
    }
}

/// The running threads; ends them when stopped.
pub(super) struct Workers {
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts the threads of a database.
    pub(super) fn start(core: &Arc<Core>) -> Result<Workers> {
        let mut workers = Workers { threads: Vec::new() };
        // Not by those who work for the disk: writers and readers want their memory while they
        // wait.
        workers.spawn(core, "esker-memory".to_owned(), |core| {
            core.supply.serve(core.store.cache.heap());
        })?;
        let supply = Arc::downgrade(&core.supply);
        let want_heap = move || supply.upgrade().is_some_and(|supply| supply.want_heap());
        core.store.cache.heap().listen(want_heap);
        workers.spawn(core, "esker-log".to_owned(), |core| run(core, prepare_next))?;
        workers.spawn(core, "esker-flush".to_owned(), |core| run_and_look(core, flush_next))?;
        workers.spawn(core, "esker-index".to_owned(), |core| {
            run_while(core, build_next, || retry_in(core, core.next_index_retry()));
        })?;
        for i in 0..core.options.compaction_thread_count() {
            workers.spawn(core, format!("esker-compact-{i}"), |core| {
                run_while(core, compact_next, || {
                    let retries = [core.next_value_retry(), core.next_small_retry()];
                    retry_in(core, retries.into_iter().flatten().min())
                });
            })?;
        }
        Ok(workers)
    }

    fn spawn(&mut self, core: &Arc<Core>, name: String, work: fn(&Arc<Core>)) -> Result<()> {
        let on_thread = core.clone();
        let spawned = thread::Builder::new().name(name).spawn(move || work(&on_thread));
        match spawned {
            Ok(thread) => self.threads.push(thread),
            Err(error) => {
                self.stop(core);
                return Err(Error::io("start a thread for", &core.dir, error));
            }
        }
        Ok(())
    }

    /// Ends the threads and waits for them.
    pub(super) fn stop(&mut self, core: &Core) {
        core.background.stop();
        core.supply.end();
        for thread in self.threads.drain(..) {
            // A panic was caught and recorded inside.
            let _ = thread.join();
        }
    }
}

/// How long to wait for what is tried again, if it can be.
fn retry_in(core: &Core, left: Option<Duration>) -> Option<Duration> {
    let left = left.filter(|_| core.check_writable().is_ok());
    left.map(|left| left.max(RETRY_WAIT_MIN))
}

/// Does one piece of work, if there is any.
type Next = fn(&Core) -> Result<bool>;

fn run(core: &Arc<Core>, next: Next) {
    run_while(core, next, || None);
}

/// The same for who also removes files: others who let go of what is no longer needed tell nobody,
/// so it is looked.
fn run_and_look(core: &Arc<Core>, next: Next) {
    let has_held = || core.store.has_held() && core.check_writable().is_ok();
    run_while(core, next, || has_held().then_some(HELD_WAIT));
}

/// Works until the database is closed. `at_most`: how long nothing is done before it is asked again
/// for something to do.
fn run_while(core: &Arc<Core>, next: Next, at_most: impl Fn() -> Option<Duration>) {
    let mut failures = 0;
    loop {
        let seen = core.background.seen();
        if core.background.stopping() {
            return;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| next(core)));
        let go_on = match outcome {
            Ok(Ok(done)) => {
                failures = 0;
                done || core.background.wait_change(seen, at_most())
            }
            Ok(Err(Error::Cancelled)) => core.background.wait_change(seen, at_most()),
            Ok(Err(error)) => {
                failures += 1;
                retry_or_poison(core, error);
                core.background.wait_retry(seen, failures)
            }
            Err(panic) => {
                core.poison(format!("a background thread panicked: {}", panic_text(&panic)));
                return;
            }
        };
        if !go_on {
            return;
        }
    }
}

fn retry_or_poison(core: &Core, error: Error) {
    match error {
        Error::Corruption { .. } => core.poison(error.to_string()),
        error if error.is_sync_failure() => core.poison(error.to_string()),
        error => {
            core.background.note_failure(error.clone());
            core.events.emit(&Event::BackgroundRetry { error });
        }
    }
}

fn panic_text(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Flushes what was sealed first, if anything was.
fn flush_next(core: &Core) -> Result<bool> {
    // Without threads in the background there may be several who do this.
    let _one_at_a_time = core.flushing.lock();
    if core.check_writable().is_err() {
        return Ok(false);
    }
    let Some(next) = FlushSet::next(core) else {
        // What could not be flushed was dropped.
        core.background.forget_flush_failure();
        core.store.sweep();
        return Ok(false);
    };
    let result = next.flush(core);
    match &result {
        Err(Error::Cancelled) | Ok(()) => core.background.forget_flush_failure(),
        Err(error) => core.background.note_flush_failure(error.clone()),
    }
    core.store.sweep();
    core.background.wake_all();
    result.map(|()| true)
}

/// Helps with a compaction under way, or runs the most urgent one, if there is any; or collects
/// values, or makes a run index. Which of these is looked for first depends on who waits.
pub(super) fn compact_next(core: &Core) -> Result<bool> {
    if core.check_writable().is_err() {
        return Ok(false);
    }
    if core.background.help() {
        return Ok(true);
    }
    let turns = &core.background.turns;
    let turn = turns.turn();
    let mut result = job_next(core, turn);
    if matches!(result, Ok(false)) && turn != Turn::Usual {
        // There may be what only the usual turn looks for.
        result = job_next(core, Turn::Usual);
    }
    turns.note(&result);
    if matches!(result, Ok(true)) {
        core.value_use.failed.store(false, Ordering::Relaxed);
    }
    core.store.sweep();
    if !matches!(result, Ok(false)) {
        core.background.wake_all();
    }
    result
}

/// Does what comes first in this turn, if anything is to be done.
fn job_next(core: &Core, turn: Turn) -> Result<bool> {
    let jobs = core.background.jobs_since_index.fetch_add(1, Ordering::Relaxed);
    let merge = || merge_next(core, turn);
    let is_usual = turn == Turn::Usual;
    if turn == Turn::Values || (is_usual && core.is_collection_urgent()) {
        // There may be room for it alone, or writes wait for it.
        Ok(collect_next(core)? || merge()? || index_next(core)?)
    } else if is_usual && jobs >= JOBS_BEFORE_INDEX {
        Ok(index_next(core)? || merge()? || collect_next(core)?)
    } else {
        Ok(merge()? || collect_next(core)? || index_next(core)?)
    }
}

/// Runs the most urgent compaction, if there is any, or that whose turn it is.
fn merge_next(core: &Core, turn: Turn) -> Result<bool> {
    let Some(chosen) = compact::choose(core, turn)? else { return Ok(false) };
    let of_small = chosen.of_small_tables();
    let result = chosen.run(core);
    if let Some(keyspace) = of_small {
        keyspace.note_small_tables(core, &result);
    }
    core.background.end_compaction();
    result.map(|_| true)
}

/// Collects values, if a collection is due.
fn collect_next(core: &Core) -> Result<bool> {
    let Some(collection) = collect::choose(core)? else { return Ok(false) };
    collection.run(core).map(|_| true)
}

/// Makes a run index, if one is due.
fn index_next(core: &Core) -> Result<bool> {
    core.background.jobs_since_index.store(0, Ordering::Relaxed);
    let Some(job) = indexing::choose(core)? else { return Ok(false) };
    let result = job.run(core);
    core.background.end_compaction();
    result.map(|()| true)
}
