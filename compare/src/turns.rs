//! The engines, and how they take turns: each turn in a process of its own, so that memory and
//! processor time are the engine's, in another order each time.

#[cfg(feature = "fjall")]
use crate::fjall_store::Fjall;
#[cfg(feature = "leveldb")]
use crate::leveldb::LevelDb;
#[cfg(feature = "lmdb")]
use crate::lmdb::Lmdb;
#[cfg(feature = "redb")]
use crate::redb_store::Redb;
#[cfg(feature = "rocksdb")]
use crate::rocks::Rocks;
use esker_bench::config::Config;
use esker_bench::esker_store::{Esker, Tree};
use esker_bench::progress::Progress;
use esker_bench::report::Report;
use esker_bench::result::Measured;
use esker_bench::store::Engine;
use esker_bench::{Outcome, interrupt, session};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The engines of this build, by their names on the command line.
pub fn engines() -> Vec<Box<dyn Engine>> {
    vec![
        Box::new(Esker::default()),
        Box::new(Esker { values: true, ..Esker::default() }),
        Box::new(Esker { tree: Tree::Tiered, ..Esker::default() }),
        // Merged rarely, which is what an index of runs is for.
        Box::new(Esker { tree: Tree::Indexed, runs: Some(16), ..Esker::default() }),
        #[cfg(feature = "rocksdb")]
        Box::new(Rocks::Plain),
        #[cfg(feature = "rocksdb")]
        Box::new(Rocks::Blobs),
        #[cfg(feature = "rocksdb")]
        Box::new(Rocks::Pipelined),
        #[cfg(feature = "leveldb")]
        Box::new(LevelDb),
        #[cfg(feature = "fjall")]
        Box::new(Fjall { separated: false }),
        #[cfg(feature = "fjall")]
        Box::new(Fjall { separated: true }),
        #[cfg(feature = "lmdb")]
        Box::new(Lmdb),
        #[cfg(feature = "redb")]
        Box::new(Redb),
    ]
}

/// The engine of a name.
///
/// # Errors
/// If there is none, with all names.
pub fn engine(name: &str) -> Outcome<Box<dyn Engine>> {
    let (all, mut names) = (engines(), Vec::new());
    for engine in all {
        if engine.name() == name {
            return Ok(engine);
        }
        names.push(engine.name());
    }
    Err(format!("no engine is called {name:?} in this build; there are {}", names.join(", "))
        .into())
}

/// How a command tells of itself, and whether it is to end.
pub struct Show {
    quiet: bool,
    /// Where lines about the run go.
    pub progress: Progress,
    stop: Arc<AtomicBool>,
}

impl Show {
    /// Begins to listen for Ctrl-C.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(quiet: bool) -> Outcome<Show> {
        let stop = interrupt::watch()?;
        Ok(Show { quiet, progress: Progress::start(quiet), stop })
    }

    /// True from the first signal on.
    pub fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Runs workloads on engines in turns, as often as the flags say. `json` has what was measured so
/// far.
///
/// # Errors
/// Of an engine or the file system.
pub fn run_in_turns(
    names: &[String],
    config: &Config,
    json: Option<&Path>,
    show: &Show,
) -> Outcome<Report> {
    config.check()?;
    session::steps(config)?;
    session::check_place(config)?;
    let mut report = Report::new(config);
    for name in names {
        report.engines.push((name.clone(), engine(name)?.setup(&config.settings(false))));
    }
    for round in 0..config.repeat as usize {
        for at in 0..names.len() {
            // Whoever is first in one round is last in the next.
            let name = &names[(at + round) % names.len()];
            let turn = format!("round {} of {}: {name}", round + 1, config.repeat);
            show.progress.tell(&turn);
            report.runs.extend(take_turn(name, config, show)?);
            if let Some(path) = json {
                // Long runs lose nothing when they are ended.
                report.write(path)?;
            }
            if show.is_interrupted() {
                return Ok(report);
            }
        }
    }
    Ok(report)
}

/// Starts a process for one engine and takes its results.
fn take_turn(name: &str, config: &Config, show: &Show) -> Outcome<Vec<Measured>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["turn", name, &serde_json::to_string(config)?]);
    if show.quiet {
        command.arg("--quiet");
    }
    let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn()?;
    let output = child.stdout.take().ok_or("the process has no output")?;
    let mut runs = Vec::new();
    for line in BufReader::new(output).lines() {
        runs.push(serde_json::from_str(&line?)?);
    }
    let status = child.wait()?;
    // A signal of the terminal reaches both. Where it reached this process alone, all is to end.
    if status.code() == Some(interrupt::INTERRUPTED.into()) {
        show.stop.store(true, Ordering::Relaxed);
    }
    if status.success() || show.is_interrupted() {
        return Ok(runs);
    }
    Err(format!("{name} ended with {status}").into())
}
