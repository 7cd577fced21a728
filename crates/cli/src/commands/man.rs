//! `esker man`: manual pages.

use crate::failure::{Failure, Result};
use crate::output::Output;

/// Print a manual page
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker man | man -l -
  esker man load > esker-load.1")]
pub(crate) struct Args {
    /// Of this command instead of all
    command: Option<String>,
}

/// Prints it.
pub(crate) fn run(args: &Args, mut esker: clap::Command) -> Result<()> {
    esker.build();
    let page = match &args.command {
        None => esker,
        Some(name) => esker
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| Failure::usage(format!("no command {name:?}: see `esker --help`")))?,
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text).map_err(|error| Failure::output(&error))?;
    let mut out = Output::new();
    out.raw(&text)?;
    out.finish()
}
