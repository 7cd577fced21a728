//! `esker replay`: what traces tell.

use super::simulate;
use crate::failure::{Code, Failure, Result};
use std::fs;
use std::path::PathBuf;

/// Show what happened to a tree, from traces that `load`, `compact`, `gc` or `simulate` wrote with
/// --trace
///
/// Several are shown side by side: a store and its simulation, or the same load with other options.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker load --db store --trace load.trace csv:people.csv
  esker replay load.trace --plot drawings")]
pub(crate) struct Args {
    /// Files with traces
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Draw everything into this directory
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,

    /// Write figures as JSON, a line for each trace
    #[arg(long)]
    json: bool,
}

/// Shows them.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut traces = Vec::new();
    for file in &args.files {
        let bytes = fs::read(file).map_err(|error| Failure::io("read", file, &error))?;
        let parsed = esker_lab::parse(&bytes).map_err(|error| {
            let what = format!("{}: {error}: name a file written with --trace", file.display());
            Failure::new(Code::Corruption, what)
        })?;
        for (name, trace) in parsed {
            let name = match args.files.len() {
                1 => name,
                _ => format!("{}: {name}", file.display()),
            };
            traces.push((name, trace));
        }
    }
    simulate::show("Compaction, as it was", &traces, args.json, args.plot.as_deref())
}
