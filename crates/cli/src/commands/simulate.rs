//! `esker simulate`: what compaction would do under a load, computed.

use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::{At, Progress};
use crate::tuning::TuningArgs;
use clap::ValueEnum;
use esker::simulate::{self, Keys, Load, Machine, Plan, Writers};
use esker::trace::Trace;
use esker_lab::Summary;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Compute what compaction would do under a load of writes, without writing anything
///
/// The policies and schedules of the engine itself, on tables that are only counted and a machine
/// that is only computed: hours pass in seconds. Several settings are run one after the other and
/// shown side by side.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker simulate --size 100GiB --machine nvme
  esker simulate --with compaction=leveled --with compaction=tiered --plot shapes
  esker simulate --machine disk --writers stopped --threads 1 --size 5GiB \\
    --with scheduler=priority --with scheduler=time-slice:8000")]
pub(crate) struct Args {
    /// Bytes to write
    #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = size)]
    size: u64,

    /// Bytes of a record
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = size)]
    record: u64,

    /// Each key once, in `random` or `ascending` order; or `out:N`, again and again out of N
    #[arg(long, value_name = "ORDER", default_value = "random", value_parser = keys)]
    keys: Keys,

    /// Bytes a second that would be written if nothing held writers back
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = size)]
    rate: u64,

    /// Write a log too, to the same device
    #[arg(long)]
    log: bool,

    /// What it is written on
    #[arg(long, value_enum, default_value_t = Device::Sata)]
    machine: Device,

    /// Bytes a second for each request at once, instead of the machine's
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bandwidth: Option<u64>,

    /// Compactions at once. Two, unless the options say how many
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: Option<u32>,

    /// How writers are held back
    #[arg(long, value_enum, default_value_t = Held::Paced)]
    writers: Held,

    #[command(flatten)]
    tuning: TuningArgs,

    /// Run once with these settings, NAME=VALUE and spaces between; as often as wanted, to compare
    #[arg(long = "with", value_name = "SETTINGS")]
    variants: Vec<String>,

    /// Draw everything into this directory
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,

    /// Write every step into this file, for `esker watch` and `esker replay`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Write figures as JSON, a line for each run
    #[arg(long)]
    json: bool,

    /// Do not show progress
    #[arg(long, short)]
    quiet: bool,
}

/// A machine by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Device {
    /// A disk that turns: one head, 100 MB a second
    Disk,
    /// A solid-state drive behind SATA: 250 MB a second for each of two requests at once
    Sata,
    /// A fast solid-state drive: 700 MB a second for each of four requests at once
    Nvme,
}

/// How writers are held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Held {
    /// As Esker does it: slowed more and more
    Paced,
    /// As LevelDB does it: by a millisecond a record, and then altogether
    Stopped,
}

fn size(text: &str) -> std::result::Result<u64, String> {
    let size = esker_settings::parse_size(text).filter(|&size| size > 0);
    size.ok_or_else(|| "write a size such as 64MiB".to_owned())
}

fn keys(text: &str) -> std::result::Result<Keys, String> {
    let of = text.strip_prefix("out:").and_then(|n| n.parse::<u64>().ok()).filter(|&n| n > 0);
    match (text, of) {
        ("random", _) => Ok(Keys::Random),
        ("ascending", _) => Ok(Keys::Ascending),
        (_, Some(of)) => Ok(Keys::Out { of }),
        _ => Err("write random, ascending, or out: and a number".to_owned()),
    }
}

/// Simulates.
pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupt = Interrupt::watch()?;
    let mut variants = args.variants.clone();
    if variants.is_empty() {
        variants.push(String::new());
    }
    // All are checked before the first is run.
    let plans = variants.iter().map(|settings| args.plan(settings)).collect::<Result<Vec<_>>>()?;
    if let Some(path) = &args.trace {
        // Nobody wants to know at the end that it cannot be written. What it holds stays till then.
        let opened = File::options().append(true).create(true).open(path);
        opened.map_err(|error| Failure::io("write", path, &error))?;
    }
    let mut traces = Vec::new();
    for (settings, plan) in variants.iter().zip(&plans) {
        let name = if settings.is_empty() { "as given" } else { settings };
        let trace = simulate_one(plan, args.quiet, &interrupt)?;
        traces.push((name.to_owned(), Trace { about: args.about(settings), ..trace }));
    }
    let shown = show("Compaction, simulated", &traces, args.json, args.plot.as_deref());
    let written = args.trace.as_ref().map_or(Ok(()), |path| {
        esker_lab::write(path, &traces).map_err(|error| Failure::io("write", path, &error))
    });
    written.and(shown)
}

/// Prints the figures of traces, and draws them if a directory is given.
pub(super) fn show(
    heading: &str,
    traces: &[(String, Trace)],
    json: bool,
    plot: Option<&Path>,
) -> Result<()> {
    let columns: Vec<(String, Summary)> =
        traces.iter().map(|(name, trace)| (name.clone(), Summary::of(trace))).collect();
    let mut out = Output::new();
    if json {
        for (name, figures) in &columns {
            out.json(&json!({ "run": name, "figures": figures }))?;
        }
    } else {
        out.raw(esker_lab::table(&columns).as_bytes())?;
    }
    if let Some(dir) = plot {
        let files = esker_lab::draw(heading, traces, dir)
            .map_err(|error| Failure::other(format!("cannot draw: {error}")))?;
        if let (Some(page), false) = (files.first(), json) {
            out.line(&format!("drawn: {}", page.display()))?;
        }
    }
    out.finish()
}

impl Args {
    fn plan(&self, settings: &str) -> Result<Plan> {
        let options = self.tuning.options_with(settings)?;
        let mut machine = match self.machine {
            Device::Disk => Machine::DISK,
            Device::Sata => Machine::SATA,
            Device::Nvme => Machine::NVME,
        };
        if let Some(bandwidth) = self.bandwidth {
            machine.bytes_per_second = bandwidth;
        }
        let of_options = Some(options.compaction_threads).filter(|&threads| threads > 0);
        let plan = Plan {
            memtables_bytes_max: options.memtables_limit_bytes(),
            compaction_threads: self.threads.or(of_options).unwrap_or(2),
            options: options.default_keyspace,
            load: Load {
                bytes: self.size,
                record_bytes: self.record,
                keys: self.keys,
                bytes_per_second: self.rate,
                log: self.log,
            },
            machine,
            writers: match self.writers {
                Held::Paced => Writers::Paced,
                Held::Stopped => Writers::Stopped,
            },
        };
        plan.validate()?;
        Ok(plan)
    }

    /// What a trace says of where it comes from.
    fn about(&self, settings: &str) -> BTreeMap<String, String> {
        let named = |value: Option<clap::builder::PossibleValue>| {
            value.map_or_else(String::new, |value| value.get_name().to_owned())
        };
        [
            ("settings", [self.tuning.as_args().join(" "), settings.to_owned()].join(" ")),
            ("bytes", self.size.to_string()),
            ("record", self.record.to_string()),
            ("keys", format!("{:?}", self.keys).to_lowercase()),
            ("machine", named(self.machine.to_possible_value())),
            ("writers", named(self.writers.to_possible_value())),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
    }
}

fn simulate_one(plan: &Plan, quiet: bool, interrupt: &Interrupt) -> Result<Trace> {
    let mut shown = Progress::start("simulating", quiet);
    let bytes_total = Some(plan.load.bytes);
    let trace = simulate::run(plan, |progress| {
        shown.at(At { records: 0, bytes: progress.user_bytes, bytes_total });
        !interrupt.asked()
    });
    shown.finish();
    if interrupt.asked() {
        return Err(Failure::interrupted("interrupted: nothing was written"));
    }
    Ok(trace?)
}
