//! The command `esker-compare`: the same workloads on Esker and on its peers, in one run.
//!
//! Each engine runs in a process of its own, so that memory and processor time are its own; engines take turns,
//! in another order each time.

#[cfg(feature = "fjall")]
mod fjall_store;
#[cfg(feature = "leveldb")]
mod leveldb;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "redb")]
mod redb_store;
#[cfg(feature = "rocksdb")]
mod rocks;
mod suite;

use clap::{Parser, Subcommand};
use esker_bench::config::Config;
use esker_bench::esker_store::Esker;
use esker_bench::progress::Progress;
use esker_bench::report::Report;
use esker_bench::result::Measured;
use esker_bench::store::{Engine, Settings};
use esker_bench::{Outcome, interrupt, plot, session, table};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs workloads on Esker and on its peers, and shows them side by side.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Run workloads on several engines in turns
    Run {
        /// Engines in their order; `engines` says which there are
        #[arg(
            long,
            value_delimiter = ',',
            default_value = "esker,rocksdb,leveldb,fjall",
            value_name = "NAMES"
        )]
        engines: Vec<String>,
        #[command(flatten)]
        config: Box<Config>,
        /// Keep the results here
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Draw them into this directory
        #[arg(long, value_name = "DIR")]
        plots: Option<PathBuf>,
        /// No progress, and no lines as results come
        #[arg(long)]
        quiet: bool,
    },
    /// Run what the page of benchmarks shows
    Suite {
        #[command(flatten)]
        choice: suite::Choice,
        /// No progress, and no lines as results come
        #[arg(long)]
        quiet: bool,
    },
    /// List the engines
    Engines,
    /// What `run` starts for each engine and turn
    #[command(hide = true)]
    Turn {
        engine: String,
        /// The flags, as JSON
        config: String,
        #[arg(long)]
        quiet: bool,
    },
}

/// The engines of this build, by their names on the command line.
fn engines() -> Vec<Box<dyn Engine>> {
    vec![
        Box::new(Esker),
        #[cfg(feature = "rocksdb")]
        Box::new(rocks::Rocks { blobs: false }),
        #[cfg(feature = "rocksdb")]
        Box::new(rocks::Rocks { blobs: true }),
        #[cfg(feature = "leveldb")]
        Box::new(leveldb::LevelDb),
        #[cfg(feature = "fjall")]
        Box::new(fjall_store::Fjall { separated: false }),
        #[cfg(feature = "fjall")]
        Box::new(fjall_store::Fjall { separated: true }),
        #[cfg(feature = "lmdb")]
        Box::new(lmdb::Lmdb),
        #[cfg(feature = "redb")]
        Box::new(redb_store::Redb),
    ]
}

fn engine(name: &str) -> Outcome<Box<dyn Engine>> {
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
struct Show {
    quiet: bool,
    progress: Progress,
    stop: Arc<AtomicBool>,
}

impl Show {
    fn new(quiet: bool) -> Outcome<Show> {
        let stop = interrupt::watch()?;
        Ok(Show { quiet, progress: Progress::start(quiet), stop })
    }

    fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Action::Run { engines, config, json, plots, quiet } => {
            run(&engines, &config, json.as_deref(), plots.as_deref(), quiet)
        }
        Action::Suite { choice, quiet } => {
            Show::new(quiet).and_then(|show| suite::run(&choice, &show))
        }
        Action::Engines => {
            let config = Settings::default();
            engines()
                .iter()
                .for_each(|engine| println!("{:18} {}", engine.name(), engine.setup(&config)));
            Ok(true)
        }
        Action::Turn { engine, config, quiet } => turn(&engine, &config, quiet).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("esker-compare: interrupted; what was measured before is kept");
            ExitCode::from(interrupt::INTERRUPTED)
        }
        Err(error) => {
            eprintln!("esker-compare: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs and shows. Returns false if it was interrupted.
fn run(
    names: &[String],
    config: &Config,
    json: Option<&Path>,
    plots: Option<&Path>,
    quiet: bool,
) -> Outcome<bool> {
    let show = Show::new(quiet)?;
    let report = run_in_turns(names, config, json, &show)?;
    print!("{}", table::results(&report));
    if let Some(dir) = plots {
        plot::draw_all(std::slice::from_ref(&report), dir)?;
    }
    Ok(!show.is_interrupted())
}

/// Runs workloads on engines in turns, as often as the flags say. `json` has what was measured so far.
fn run_in_turns(
    names: &[String],
    config: &Config,
    json: Option<&Path>,
    show: &Show,
) -> Outcome<Report> {
    config.check()?;
    session::steps(config)?;
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
    // A signal of the terminal reaches both.
    if status.success() || show.is_interrupted() {
        return Ok(runs);
    }
    Err(format!("{name} ended with {status}").into())
}

/// One engine's turn: results go to standard output, one in a line.
fn turn(name: &str, config: &str, quiet: bool) -> Outcome<()> {
    let config: Config = serde_json::from_str(config)?;
    let engine = engine(name)?;
    let stop = interrupt::watch()?;
    let mut progress = Progress::start(quiet);
    let (mut output, mut failed) = (std::io::stdout().lock(), Ok(()));
    let mut each = |run: Measured| {
        let line = serde_json::to_string(&run).map_err(std::io::Error::other);
        let written = line.and_then(|line| writeln!(output, "{line}"));
        if failed.is_ok() {
            failed = written;
        }
    };
    session::run(&*engine, &config, &stop, &mut progress, &mut each)?;
    progress.finish();
    Ok(failed?)
}
