//! The command `esker-bench`.

use clap::{Parser, Subcommand};
use esker_bench::config::Config;
use esker_bench::esker_store::{Esker, Tree};
use esker_bench::papers::{basics, loose, phoenix, slot};
use esker_bench::place::{check_file, make_dir};
use esker_bench::progress::Progress;
use esker_bench::report::Report;
use esker_bench::store::Engine;
use esker_bench::workload::WORKLOADS;
use esker_bench::{Outcome, ablation, fields, interrupt, markdown, plot, session, stalls, table};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Measures the Esker key-value store.
///
/// Workloads have the names of db_bench and YCSB, and so have the flags.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run workloads and show what they came to
    Run {
        #[command(flatten)]
        config: Box<Config>,
        /// With tiered compaction instead of leveled
        #[arg(long)]
        tiered: bool,
        /// With tiered compaction and a run index
        #[arg(long, conflicts_with = "tiered")]
        indexed: bool,
        /// Sorted runs at which a level is merged, 2 to 32; the engine's default if not given
        #[arg(long, value_parser = clap::value_parser!(u32).range(2..=32))]
        runs: Option<u32>,
        /// Keep values of 512 bytes and more apart from the tree
        #[arg(long)]
        values: bool,
        /// Bytes on the disk for each byte of these that is alive, 1.1 to 100; the engine's default
        /// if not given
        #[arg(
            long = "values_space_amp",
            alias = "values-space-amp",
            value_name = "RATIO",
            requires = "values"
        )]
        values_space_amp: Option<f64>,
        /// Keep the results here
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// No progress, and no lines as results come
        #[arg(long)]
        quiet: bool,
    },
    /// Measure what keeping indexes, filters and blocks in memory is worth
    Ablation {
        #[command(flatten)]
        choice: ablation::Choice,
        /// Keep the results of each size here, as SIZE.json
        #[arg(long, value_name = "DIR")]
        json: Option<PathBuf>,
        /// Draw them into this directory
        #[arg(long, value_name = "DIR")]
        plots: Option<PathBuf>,
        /// No progress, and no lines as results come
        #[arg(long)]
        quiet: bool,
    },
    /// Measure how long puts wait below and above the rate that a store keeps up
    Stalls {
        #[command(flatten)]
        choice: stalls::Choice,
        /// No progress, and no lines as results come
        #[arg(long)]
        quiet: bool,
    },
    /// Measure what indexes of fields cost, and what finding by them takes
    Fields {
        #[command(flatten)]
        choice: fields::Choice,
        /// No progress
        #[arg(long)]
        quiet: bool,
    },
    /// Do the experiments of a paper
    #[command(subcommand)]
    Papers(Paper),
    /// List the workloads
    List,
    /// Show kept results once more
    Show {
        /// A report
        report: PathBuf,
        /// As tables in Markdown
        #[arg(long)]
        markdown: bool,
    },
    /// Show two kept results side by side
    Compare {
        /// A report
        a: PathBuf,
        /// Another
        b: PathBuf,
    },
    /// Draw kept results: SVG files, and a page in HTML that needs nothing else
    Plot {
        /// Reports; of several with other --num, growth is drawn
        #[arg(required = true)]
        reports: Vec<PathBuf>,
        /// A directory for the drawings
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

/// Papers whose experiments can be done.
#[derive(Debug, Subcommand)]
enum Paper {
    /// Gets by what is kept in memory, and how long puts take over time: a course's LSM tree
    Basics {
        #[command(flatten)]
        choice: basics::Choice,
        /// No progress, and no lines as results come
        #[arg(long)]
        quiet: bool,
    },
    /// What a run index is worth, by how many runs there are: `LooseKV`
    Loose {
        #[command(flatten)]
        choice: loose::Choice,
        /// No progress, and no lines as results come
        #[arg(long)]
        quiet: bool,
    },
    /// Without a log, with groups that can be deleted at once: `PheonixLSM`
    Phoenix {
        #[command(flatten)]
        choice: phoenix::Choice,
        /// No progress
        #[arg(long)]
        quiet: bool,
    },
    /// Compaction in turns of time slices, against level 0 before all others
    Slot {
        #[command(flatten)]
        choice: slot::Choice,
        /// No progress
        #[arg(long)]
        quiet: bool,
    },
}

fn main() -> ExitCode {
    match command(Arguments::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("esker-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn command(command: Command) -> Outcome<ExitCode> {
    match command {
        Command::Run { config, tiered, indexed, runs, values, values_space_amp, json, quiet } => {
            let tree = match (tiered, indexed) {
                (_, true) => Tree::Indexed,
                (true, false) => Tree::Tiered,
                (false, false) => Tree::Leveled,
            };
            let engine = Esker { tree, runs, values, space_amp_max: values_space_amp };
            return run(&config, engine, json, quiet);
        }
        Command::Ablation { choice, json, plots, quiet } => {
            return run_ablation(&choice, json.as_deref(), plots.as_deref(), quiet);
        }
        Command::Fields { choice, quiet } => {
            return watched(quiet, |stop, progress| fields::run(&choice, stop, progress));
        }
        Command::Papers(Paper::Slot { choice, quiet }) => {
            return watched(quiet, |stop, progress| slot::run(&choice, stop, progress).map(drop));
        }
        Command::Papers(Paper::Basics { choice, quiet }) => {
            return watched(quiet, |stop, progress| basics::run(&choice, stop, progress));
        }
        Command::Papers(Paper::Loose { choice, quiet }) => {
            return watched(quiet, |stop, progress| loose::run(&choice, stop, progress));
        }
        Command::Papers(Paper::Phoenix { choice, quiet }) => {
            return watched(quiet, |stop, progress| phoenix::run(&choice, &[], stop, progress));
        }
        Command::Stalls { choice, quiet } => {
            return watched(quiet, |stop, progress| stalls::run(&choice, stop, progress));
        }
        Command::List => {
            for workload in WORKLOADS {
                show(&format!("{:22} {}\n", workload.name, workload.about));
            }
        }
        Command::Show { report, markdown } => {
            let report = Report::read(&report)?;
            let text = if markdown { markdown::results } else { table::results };
            show(&text(&report));
        }
        Command::Compare { a, b } => {
            show(&table::comparison(&Report::read(&a)?, &Report::read(&b)?));
        }
        Command::Plot { reports, out } => {
            let reports =
                reports.iter().map(|path| Report::read(path)).collect::<Outcome<Vec<_>>>()?;
            for path in plot::draw_all(&reports, &out)? {
                show(&format!("{}\n", path.display()));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows what was asked for. Whoever closes the pipe has seen enough.
fn show(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn run(config: &Config, engine: Esker, json: Option<PathBuf>, quiet: bool) -> Outcome<ExitCode> {
    config.check()?;
    session::steps(config)?;
    session::check_place(config)?;
    json.as_deref().map_or(Ok(()), check_file)?;
    let stop = interrupt::watch()?;
    let mut report = Report::new(config);
    report.engines.push((engine.name(), engine.setup(&config.settings(false))));
    let mut progress = Progress::start(quiet);
    let mut outcome = Ok(());
    for _ in 0..config.repeat {
        let mut each = |run| report.runs.push(run);
        outcome = session::run(&engine, config, &stop, &mut progress, &mut each);
        if outcome.is_err() || stop.load(Ordering::Relaxed) {
            break;
        }
    }
    progress.finish();
    show(&table::results(&report));
    let kept = json.map_or(Ok(()), |path| report.write(&path));
    outcome.and(kept)?;
    Ok(ended(&stop))
}

fn run_ablation(
    choice: &ablation::Choice,
    json: Option<&Path>,
    plots: Option<&Path>,
    quiet: bool,
) -> Outcome<ExitCode> {
    [json, plots].into_iter().flatten().try_for_each(make_dir)?;
    let stop = interrupt::watch()?;
    let (mut progress, mut reports) = (Progress::start(quiet), Vec::new());
    let outcome = ablation::run(choice, &stop, &mut progress, &mut reports);
    progress.finish();
    show(&table::costs(&reports));
    let kept = keep_ablation(&reports, json, plots);
    outcome.and(kept)?;
    Ok(ended(&stop))
}

/// Writes the reports, and draws them.
fn keep_ablation(reports: &[Report], json: Option<&Path>, plots: Option<&Path>) -> Outcome<()> {
    if let Some(dir) = json {
        for report in reports {
            report.write(&dir.join(format!("{}.json", report.config.num)))?;
        }
    }
    if let Some(dir) = plots
        && !reports.is_empty()
    {
        for path in plot::draw_costs(reports, dir)? {
            show(&format!("{}\n", path.display()));
        }
    }
    Ok(())
}

/// Does what may be interrupted and shows how far it is.
fn watched(
    quiet: bool,
    work: impl FnOnce(&AtomicBool, &mut Progress) -> Outcome<()>,
) -> Outcome<ExitCode> {
    let stop = interrupt::watch()?;
    let mut progress = Progress::start(quiet);
    let outcome = work(&stop, &mut progress);
    progress.finish();
    outcome?;
    Ok(ended(&stop))
}

/// How a command ends that may have been interrupted.
fn ended(stop: &AtomicBool) -> ExitCode {
    if stop.load(Ordering::Relaxed) {
        eprintln!("esker-bench: interrupted; what was measured before is shown or kept");
        return ExitCode::from(interrupt::INTERRUPTED);
    }
    ExitCode::SUCCESS
}
