//! `esker completions`: for shells.

use crate::failure::Result;
use crate::output::Output;
use clap_complete::Shell;

/// Print a completion script for a shell
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:
  esker completions bash > ~/.local/share/bash-completion/completions/esker
  esker completions zsh > ~/.zfunc/_esker")]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Prints it.
pub(crate) fn run(args: &Args, mut command: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "esker", &mut script);
    let mut out = Output::new();
    out.raw(&script)?;
    out.finish()
}
