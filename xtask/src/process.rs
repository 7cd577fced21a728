//! Running other programs.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How often a program with a limit is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

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

/// The same with a limit, after which it is killed: what hangs must not hang who waits for it.
pub(crate) fn succeeds_within(command: &mut Command, limit: Duration) -> bool {
    let name = command.get_program().display().to_string();
    match status_within(command, limit) {
        Ok(Some(status)) => status.success(),
        Ok(None) => {
            eprintln!("{name} did not end within {} s: killed", limit.as_secs());
            false
        }
        Err(error) => {
            eprintln!("{name} did not run: {error}");
            false
        }
    }
}

/// How it ended; `None` if it had to be killed.
fn status_within(command: &mut Command, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    // Nobody sends: waiting for it is sleeping.
    let (_kept, never) = channel::<()>();
    let mut waited = Duration::ZERO;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if waited >= limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        let _ = never.recv_timeout(LOOK_EVERY);
        waited += LOOK_EVERY;
    }
}

/// What a command says, if it ends well.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where cargo builds, by its arguments, its environment and its files of settings.
pub(crate) fn target_directory(root: &Path) -> PathBuf {
    let mut asked = cargo_command();
    asked.args(["metadata", "--format-version", "1", "--no-deps"]).current_dir(root);
    let told = output(asked.stderr(Stdio::inherit()));
    let told = told.and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let dir = told.as_ref().and_then(|told| told["target_directory"].as_str());
    dir.map_or_else(|| root.join("target"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_killed() {
        let second = Duration::from_secs(1);
        assert!(succeeds_within(&mut Command::new("true"), second));
        assert!(!succeeds_within(&mut Command::new("false"), second));
        assert!(!succeeds_within(&mut Command::new("no such program"), second));
        assert!(!succeeds_within(Command::new("sleep").arg("600"), Duration::ZERO));
    }
}
