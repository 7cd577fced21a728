//! The command `esker-compare`: the same workloads on Esker and on its peers, in one run.

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
#[cfg(feature = "rocksdb")]
mod rocks_repair;
mod suite;
mod turns;

use crate::turns::{Show, engine, engines, run_in_turns};
use clap::{Parser, Subcommand};
use esker_bench::config::Config;
use esker_bench::progress::Progress;
use esker_bench::result::Measured;
use esker_bench::store::Settings;
use esker_bench::{Outcome, interrupt, plot, session, table};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
    /// Run the experiments of PheonixLSM, with RocksDB beside Esker in the full repair
    #[cfg(feature = "rocksdb")]
    Phoenix {
        #[command(flatten)]
        choice: Box<esker_bench::papers::phoenix::Choice>,
        /// No progress
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

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Action::Run { engines, config, json, plots, quiet } => {
            run(&engines, &config, json.as_deref(), plots.as_deref(), quiet)
        }
        Action::Suite { choice, quiet } => {
            Show::new(quiet).and_then(|show| suite::run(&choice, &show))
        }
        #[cfg(feature = "rocksdb")]
        Action::Phoenix { choice, quiet } => phoenix(&choice, quiet),
        Action::Engines => {
            let config = Settings::default();
            engines()
                .iter()
                .for_each(|engine| println!("{:18} {}", engine.name(), engine.setup(&config)));
            Ok(true)
        }
        Action::Turn { engine, config, quiet } => match turn(&engine, &config, quiet) {
            // Whoever started it says so.
            Ok(false) => return ExitCode::from(interrupt::INTERRUPTED),
            done => done,
        },
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
    // Whoever closes the pipe has seen enough.
    let _ = std::io::stdout().write_all(table::results(&report).as_bytes());
    if let Some(dir) = plots {
        plot::draw_all(std::slice::from_ref(&report), dir)?;
    }
    Ok(!show.is_interrupted())
}

/// Runs the experiments. Returns false if they were interrupted.
#[cfg(feature = "rocksdb")]
fn phoenix(choice: &esker_bench::papers::phoenix::Choice, quiet: bool) -> Outcome<bool> {
    use esker_bench::papers::phoenix;
    let peers = rocks_repair::RocksRepair::ALL;
    let peers = peers.each_ref().map(|peer| peer as &dyn phoenix::Way);
    let stop = interrupt::watch()?;
    let mut progress = Progress::start(quiet);
    phoenix::run(choice, &peers, &stop, &mut progress)?;
    progress.finish();
    Ok(!stop.load(std::sync::atomic::Ordering::Relaxed))
}

/// One engine's turn: results go to standard output, one in a line. Returns false if it was
/// interrupted.
fn turn(name: &str, config: &str, quiet: bool) -> Outcome<bool> {
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
    failed?;
    Ok(!stop.load(std::sync::atomic::Ordering::Relaxed))
}
