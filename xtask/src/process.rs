//! Running other programs, each with a limit: what hangs must not hang who waits for it.

use crate::done::Done;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How often a program with a limit is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long what was said is waited for once who said it has ended. What it has started may be able
/// to say more, and does not end.
const LAST_WORDS_MAX: Duration = Duration::from_secs(10);

/// The limit of what compiles or runs something small: takes seconds.
pub(crate) const SMALL_MAX: Duration = Duration::from_secs(600);

/// The limit of what fetches packages: takes a minute.
pub(crate) const FETCH_MAX: Duration = Duration::from_secs(1_800);

/// The limit of what builds or tests the engine: takes minutes on two processors, and an hour on a
/// small device.
pub(crate) const BUILD_MAX: Duration = Duration::from_secs(3 * 3_600);

/// The limit of what runs as long as it was told.
pub(crate) const NONE: Duration = Duration::MAX;

/// The cargo that runs us.
pub(crate) fn cargo_command() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Runs a command to its end, or to the limit, when it is killed with all that it has started. Says
/// so if it did not even start.
pub(crate) fn succeeds_within(command: &mut Command, limit: Duration) -> bool {
    let status = status_within(command, limit);
    has_succeeded(command, limit, status)
}

/// As [`succeeds_within`], of `cargo test`. False too if no test has passed: to cargo it is no
/// failure that nothing has a name any more like the one that is asked for.
pub(crate) fn tests_succeed_within(command: &mut Command, limit: Duration) -> Done {
    let (mut passed, mut left_out) = (0, Vec::new());
    let status = heard_within(command.stdout(Stdio::piped()), limit, |line| {
        println!("{line}");
        passed += tests_passed(line).unwrap_or(0);
        // A test says so behind the back of what holds its output back, in the middle of a line.
        left_out.extend(line.split_once("SKIPPED: ").map(|(_, why)| why.to_owned()));
    });
    if !has_succeeded(command, limit, status) {
        return Done::Failed;
    }
    if passed == 0 {
        eprintln!("no test was run: nothing has the name that is asked for");
        return Done::Failed;
    }
    left_out.dedup();
    if left_out.is_empty() { Done::Passed } else { Done::PassedBut(left_out.join("; ")) }
}

/// How many tests have passed by this line, if it is one that says so: `test result: ok. 7 passed;
/// 0 failed; ...`.
fn tests_passed(line: &str) -> Option<u64> {
    let (before, _) = line.strip_prefix("test result: ")?.split_once(" passed;")?;
    before.rsplit(' ').next()?.parse().ok()
}

/// Whether a command ended well. Says what else happened to it.
fn has_succeeded(
    command: &Command,
    limit: Duration,
    status: io::Result<Option<ExitStatus>>,
) -> bool {
    let name = command.get_program().display();
    match status {
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

/// How a command ended; `None` if it had to be killed.
///
/// # Errors
/// It did not start.
pub(crate) fn status_within(
    command: &mut Command,
    limit: Duration,
) -> io::Result<Option<ExitStatus>> {
    wait_within(&mut command.spawn()?, limit, || ())
}

/// As [`status_within`]; `each` is given the lines of its output if that is piped to us, or else of
/// its errors, soon after they were said.
///
/// # Errors
/// It did not start.
pub(crate) fn heard_within(
    command: &mut Command,
    limit: Duration,
    mut each: impl FnMut(&str),
) -> io::Result<Option<ExitStatus>> {
    let mut child = command.spawn()?;
    let output = child.stdout.take().map(|output| Box::new(output) as Box<dyn Read + Send>);
    let said = output.or_else(|| child.stderr.take().map(|errors| Box::new(errors) as Box<_>));
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let said = said.into_iter().flat_map(|said| BufReader::new(said).split(b'\n'));
        for line in said.map_while(Result::ok) {
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    let status = wait_within(&mut child, limit, || lines.try_iter().for_each(|line| each(&line)));
    while let Ok(line) = lines.recv_timeout(LAST_WORDS_MAX) {
        each(&line);
    }
    status
}

fn wait_within(
    child: &mut Child,
    limit: Duration,
    mut meanwhile: impl FnMut(),
) -> io::Result<Option<ExitStatus>> {
    // Nobody sends: waiting for it is sleeping.
    let (_kept, never) = channel::<()>();
    let mut waited = Duration::ZERO;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if waited >= limit {
            kill(child)?;
            return Ok(None);
        }
        let _ = never.recv_timeout(LOOK_EVERY);
        waited += LOOK_EVERY;
        meanwhile();
    }
}

/// Kills a process and all that it has started. They are of our group, so that an interrupt from
/// the terminal reaches them too.
fn kill(child: &mut Child) -> io::Result<()> {
    let mut all = vec![child.id()];
    // Who is stopped starts nothing more.
    let mut stopped = 0;
    while let Some(&next) = all.get(stopped) {
        signal(next, Signal::STOP);
        stopped += 1;
        let parents = parents();
        all.extend(parents.iter().filter(|(_, parent)| *parent == next).map(|(child, _)| child));
    }
    all[1..].iter().for_each(|&process| signal(process, Signal::KILL));
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// Sends a signal to a process, which may have ended.
fn signal(process: u32, signal: Signal) {
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = kill_process(process, signal);
    }
}

/// All processes and their parents. Empty where the system does not say.
fn parents() -> Vec<(u32, u32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter_map(|stat| parent_of(&stat)).collect()
}

/// A process and its parent, as Linux has them in `/proc/PID/stat`: `PID (NAME) STATE PARENT ...`.
fn parent_of(stat: &str) -> Option<(u32, u32)> {
    let (process, rest) = stat.split_once(" (")?;
    let (_, after) = rest.rsplit_once(") ")?;
    Some((process.parse().ok()?, after.split(' ').nth(1)?.parse().ok()?))
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

    #[test]
    fn what_it_has_started_is_killed_too() {
        if parents().is_empty() {
            eprintln!("there is no /proc: not tried");
            return;
        }
        let said = std::env::temp_dir().join(format!("esker-killed-{}", std::process::id()));
        let mut shell = Command::new("sh");
        shell.args(["-c", "sh -c 'sleep 600 & echo $! >\"$0\"; wait' \"$0\"; :"]).arg(&said);
        assert!(!succeeds_within(&mut shell, Duration::from_secs(5)));
        let sleeper = std::fs::read_to_string(&said).expect("its number");
        std::fs::remove_file(&said).expect("removed");
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", sleeper.trim())).ok();
        // Whether somebody has asked how or not.
        let has_ended = |stat: &Option<String>| stat.as_ref().is_none_or(|s| s.contains(") Z "));
        // Who was killed ends when it next has a processor.
        let (_kept, never) = channel::<()>();
        for _ in 0..100 {
            if has_ended(&stat()) {
                return;
            }
            let _ = never.recv_timeout(LOOK_EVERY);
        }
        panic!("not killed: {:?}", stat());
    }

    #[test]
    fn tests_of_which_none_was_run_have_not_passed() {
        let said = |said: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", said]);
            tests_succeed_within(&mut shell, Duration::from_secs(60))
        };
        let (passed, failed) = (Done::Passed, Done::Failed);
        let result =
            |passed: u64| format!("echo 'test result: ok. {passed} passed; 0 failed; 9 ignored'");
        assert_eq!(said(&result(7)), passed);
        let second = said(&format!("{}; {}", result(0), result(1)));
        assert_eq!(second, passed, "in the second program");
        assert_eq!(said(&result(0)), failed);
        assert_eq!(said("echo 'running 7 tests'"), failed);
        assert_eq!(said(&format!("{}; exit 1", result(7))), failed);
        let skips = said(&format!("echo 'test one ... SKIPPED: no disk'; {}", result(7)));
        assert_eq!(skips, Done::PassedBut("no disk".to_owned()));
    }

    #[test]
    fn what_is_said_is_heard_line_by_line() {
        let hear = |command: &mut Command| {
            let mut heard = Vec::new();
            let second = Duration::from_secs(1);
            let status = heard_within(command, second, |line| heard.push(line.to_owned()));
            (status.expect("it starts").is_some(), heard)
        };
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo a; echo b >&2; printf c"]);
        let (output, errors) = (Stdio::piped(), Stdio::piped());
        assert_eq!(hear(shell.stdout(output)), (true, vec!["a".to_owned(), "c".to_owned()]));
        assert_eq!(hear(shell.stdout(Stdio::null()).stderr(errors)), (true, vec!["b".to_owned()]));
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo a; sleep 600"]).stdout(Stdio::piped());
        assert_eq!(hear(&mut shell), (false, vec!["a".to_owned()]), "killed");
    }

    #[test]
    fn parents_are_read_whatever_the_name() {
        assert_eq!(parent_of("7 (a (b) c) S 5 1 1"), Some((7, 5)));
        assert_eq!(parent_of("no process"), None);
    }
}
