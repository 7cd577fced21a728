//! `esker gc`: gives back the space of dead values.

use crate::clock::Stopwatch;
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::{At, Progress};
use crate::store::{StoreArgs, TraceArgs, refused};
use crate::units;
use serde_json::json;

/// Give back the space of values that are dead
///
/// Values that are kept apart from the tree lie in files of their own. Which of them are dead,
/// compactions find out; a store collects them by itself when they take too much space. This first
/// compacts everything, so that all are known, and then moves what is alive out of every file with
/// a larger dead share. May be interrupted at any time: what was moved stays moved.
#[derive(clap::Args, Debug)]
#[command(mut_arg("keyspace", refused))]
#[command(after_long_help = "Examples:
  esker gc --db store
  esker gc --db store --dead-share 0.5 --no-compact")]
pub(crate) struct Args {
    /// Leave files alone of which a smaller share is dead, from 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    dead_share: f64,

    /// Do not compact before: values that were overwritten since the last compaction stay
    #[arg(long)]
    no_compact: bool,

    /// No progress
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    trace: TraceArgs,

    #[command(flatten)]
    store: StoreArgs,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "must be between 0 and 1".to_owned())
}

/// Collects.
pub(crate) fn run(args: &Args) -> Result<()> {
    let interrupt = Interrupt::guard(
        "interrupted: nothing is lost, but not all space was given back; run it again",
    )?;
    let store = args.store.write_traced(&args.trace)?;
    interrupt.closes(&store.db);
    let watch = Stopwatch::start();
    if !args.no_compact {
        for name in store.db.keyspace_names() {
            interrupt.outcome(store.db.keyspace(&name)?.compact_range(None, None))?;
        }
    }
    let mut progress = Progress::start("moving values", args.quiet || args.store.json);
    let collected = store.db.collect_values(args.dead_share, |so_far| {
        progress.at(At { records: 0, bytes: so_far.bytes_before, bytes_total: None });
        !interrupt.asked()
    });
    progress.finish();
    let report = interrupt.outcome(collected)?;
    let left = store.db.stats().values;
    store.close()?;
    let mut out = Output::new();
    if args.store.json {
        out.json(&json!({
            "ok": true,
            "files": report.files,
            "bytes_before": report.bytes_before,
            "bytes_after": report.bytes_after,
            "value_bytes": left.bytes,
            "live_bytes": left.live_bytes,
            "seconds": watch.seconds(),
        }))?;
    } else {
        out.line(&format!(
            "{} of {} became {}; values take {} now, {} of it alive; in {}",
            units::plural(report.files, "file", "files"),
            units::bytes(report.bytes_before),
            units::bytes(report.bytes_after),
            units::bytes(left.bytes),
            units::bytes(left.live_bytes),
            units::duration_ns(watch.ns())
        ))?;
    }
    out.finish()
}
