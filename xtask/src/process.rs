//! Commands that are run.

use std::process::Command;

/// The cargo that runs us.
pub(crate) fn cargo_command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs a command to its end, and says so if it did not even start.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("{} did not start: {error}", command.get_program().display());
            false
        }
    }
}
