//! `cargo xtask test`: every check a change must pass, in order of what fails soonest.
//!
//! The same command runs on a newcomer's machine and in CI. It stops at the first step that fails.

use crate::done::Done;
use crate::process::{BUILD_MAX, NONE, cargo_command, succeeds_within, tests_succeed_within};
use crate::{capi, python, tidy};
use std::path::Path;
use std::time::Duration;

/// One step.
struct Step {
    /// As in `--only <name>`.
    name: &'static str,
    run: Run,
    /// Only with `--long`.
    long_only: bool,
}

enum Run {
    /// The rules of `tidy`, in this process.
    Tidy,
    /// A function of this process, and what it is called.
    Own(fn(&Path) -> Done, &'static str),
    /// `cargo` with these arguments and environment. Of tests some must be run.
    Cargo { arguments: &'static [&'static str], env: &'static [(&'static str, &'static str)] },
}

const fn cargo(name: &'static str, arguments: &'static [&'static str]) -> Step {
    Step { name, run: Run::Cargo { arguments, env: &[] }, long_only: false }
}

const fn long(step: Step) -> Step {
    Step { long_only: true, ..step }
}

/// The arguments that run a gate.
macro_rules! gate {
    ($($word:literal),+) => {
        &["run", "--profile", "gates", "-p", "esker-gates", "--", $($word),+]
    };
}

const fn cargo_in(
    name: &'static str,
    env: &'static [(&'static str, &'static str)],
    arguments: &'static [&'static str],
) -> Step {
    Step { name, run: Run::Cargo { arguments, env }, long_only: false }
}

/// Builds for models are made once and not debugged: without what would make the next one quicker,
/// in half the time.
const ONCE: [(&str, &str); 2] =
    [("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")];

/// Those for loom have a target directory of their own, so that others stay valid.
const LOOM: &[(&str, &str)] =
    &[("RUSTFLAGS", "--cfg esker_loom"), ("CARGO_TARGET_DIR", "target/loom"), ONCE[0], ONCE[1]];
const LOOM_DEEPER: &[(&str, &str)] =
    &[LOOM[0], LOOM[1], LOOM[2], LOOM[3], ("ESKER_LOOM_DEEPER", "1")];
const MODELS: &[&str] = &["test", "-p", "esker", "--lib", "models::", "--", "--show-output"];

/// As do those for shuttle.
const SHUTTLE: &[(&str, &str)] = &[
    ("RUSTFLAGS", "--cfg esker_shuttle"),
    ("CARGO_TARGET_DIR", "target/shuttle"),
    ONCE[0],
    ONCE[1],
];

/// And those with faults that can be planted.
const PLANTED: &[(&str, &str)] =
    &[("RUSTFLAGS", "--cfg esker_planted"), ("CARGO_TARGET_DIR", "target/planted")];

/// A real data set of so many records.
const A_MILLION: &[(&str, &str)] = &[("ESKER_RECORDS", "1000000")];
const RECORDS: &[&str] = &[
    "test",
    "-p",
    "esker-cli",
    "--test",
    "cli",
    "--profile",
    "gates",
    "real_data",
    "--",
    "--nocapture",
];

/// What stands between a change and the main branch.
const STEPS: &[Step] = &[
    cargo("fmt", &["fmt", "--all", "--check"]),
    Step { name: "tidy", run: Run::Tidy, long_only: false },
    cargo("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    Step {
        name: "doc",
        run: Run::Cargo {
            // Binaries are left out: the command has the name of the library.
            arguments: &["doc", "--workspace", "--no-deps", "--lib"],
            env: &[("RUSTDOCFLAGS", "-D warnings")],
        },
        long_only: false,
    },
    // Before the tests, of which some need LevelDB: this one gets it if it can.
    Step {
        name: "capi",
        run: Run::Own(
            |root| capi::test(root).into(),
            "programs in C, on our library and on LevelDB's",
        ),
        long_only: false,
    },
    // Built as the gates are: optimised, with all checks on, and only once.
    cargo("test", &["test", "--workspace", "--exclude", "esker-capi", "--profile", "gates"]),
    Step {
        name: "python",
        run: Run::Own(|root| python::run(root, python::Task::Test), "cargo xtask python test"),
        long_only: false,
    },
];

/// Gates: programs that are no unit tests (crash at every call, fuzzing, the model test, …).
///
/// A gate is a binary that exits non-zero on a violation. One that has a long form stands here
/// twice: once short, and once with `long_only` and a name that ends in `-long`.
const GATES: &[Step] = &[
    cargo("crash", gate!("crash")),
    cargo("power", gate!("power")),
    cargo("faults", gate!("faults")),
    cargo("syncs", gate!("syncs")),
    cargo("damage", gate!("damage")),
    cargo("collection", gate!("collection")),
    cargo("indexes", gate!("indexes")),
    cargo("external", gate!("external")),
    cargo("kill", gate!("kill")),
    cargo("fuzz", gate!("fuzz")),
    cargo("threads", gate!("threads")),
    cargo_in("loom", LOOM, MODELS),
    cargo_in("shuttle", SHUTTLE, &["run", "-p", "esker-gates", "--", "schedules"]),
    cargo("model", gate!("model")),
    cargo("limits", gate!("limits")),
    long(cargo("crash-long", gate!("crash", "--long"))),
    long(cargo("power-long", gate!("power", "--long"))),
    long(cargo("faults-long", gate!("faults", "--long"))),
    long(cargo("syncs-long", gate!("syncs", "--long"))),
    long(cargo("damage-long", gate!("damage", "--long"))),
    long(cargo("indexes-long", gate!("indexes", "--long"))),
    long(cargo("external-long", gate!("external", "--long"))),
    long(cargo_in("external-planted", PLANTED, gate!("planted"))),
    long(cargo("kill-long", gate!("kill", "--long"))),
    long(cargo("fuzz-long", gate!("fuzz", "--long"))),
    long(cargo("threads-long", gate!("threads", "--long"))),
    long(cargo("model-long", gate!("model", "--long"))),
    long(cargo("limits-long", gate!("limits", "--long"))),
    long(cargo_in("records-long", A_MILLION, RECORDS)),
    long(cargo_in("loom-long", LOOM_DEEPER, MODELS)),
    long(cargo_in(
        "shuttle-long",
        SHUTTLE,
        &["run", "-p", "esker-gates", "--", "schedules", "--long"],
    )),
];

fn steps(long: bool) -> impl Iterator<Item = &'static Step> {
    STEPS.iter().chain(GATES).filter(move |step| long || !step.long_only)
}

/// Prints the names of all steps.
pub(crate) fn list() -> bool {
    for step in steps(true) {
        println!("{}{}", step.name, if step.long_only { " (with --long)" } else { "" });
    }
    true
}

/// Runs all steps, or the one named. True if all passed that could be tried.
pub(crate) fn run(root: &Path, only: Option<&str>, long: bool) -> bool {
    let chosen: Vec<&Step> =
        steps(long).filter(|step| only.is_none_or(|name| name == step.name)).collect();
    if chosen.is_empty() {
        eprintln!("no such step: `cargo xtask test --list` names them");
        return false;
    }
    let (mut times, mut skipped) = (Vec::new(), Vec::new());
    for step in &chosen {
        println!("== {} ({})", step.name, step.run.describe());
        let (done, took) = timed(|| step.start(root));
        let what = match done {
            Done::Passed | Done::PassedBut(_) => "passed",
            Done::Skipped(_) => "skipped",
            Done::Failed => "FAILED",
        };
        println!("== {} {what} in {took:.1} s", step.name);
        match done {
            Done::Passed => times.push((step.name, took)),
            Done::PassedBut(why) => {
                times.push((step.name, took));
                skipped.push((step.name, format!("in part: {why}")));
            }
            Done::Skipped(why) => skipped.push((step.name, why)),
            Done::Failed => {
                let long = if long { " --long" } else { "" };
                println!("to run this step alone: cargo xtask test{long} --only {}", step.name);
                println!("{}", summary(times.len(), 1, &skipped));
                return false;
            }
        }
    }
    let passed = times.len();
    if passed > 0 {
        println!("{}", longest_first(times));
    }
    println!("{}", summary(passed, 0, &skipped));
    true
}

/// How many steps passed and failed, and which were not tried.
fn summary(passed: usize, failed: usize, skipped: &[(&str, String)]) -> String {
    let mut text = format!("{passed} passed, {failed} failed");
    if !skipped.is_empty() {
        let each = skipped.iter().map(|(name, why)| format!("{name} ({why})"));
        let each: Vec<String> = each.collect();
        text.push_str(&format!(", {} skipped: {}", each.len(), each.join(", ")));
    }
    text
}

/// How long all steps took, and each of them.
fn longest_first(mut times: Vec<(&str, f64)>) -> String {
    times.sort_by(|a, b| b.1.total_cmp(&a.1));
    let all: f64 = times.iter().map(|(_, took)| took).sum();
    let each: Vec<String> = times.iter().map(|(name, took)| format!("{name} {took:.0}")).collect();
    format!("{all:.0} s: {}", each.join(", "))
}

#[expect(clippy::disallowed_methods, reason = "a tool for people, outside any simulation")]
fn timed<T>(run: impl FnOnce() -> T) -> (T, f64) {
    let start = std::time::Instant::now();
    let done = run();
    let took: Duration = start.elapsed();
    (done, took.as_secs_f64())
}

impl Step {
    /// The limit is for hanging: a long form may take as long as it takes.
    fn start(&self, root: &Path) -> Done {
        let limit = if self.long_only { NONE } else { BUILD_MAX };
        let mut cargo = cargo_command();
        cargo.current_dir(root);
        match self.run {
            Run::Tidy => tidy::run(root).into(),
            Run::Own(run, _) => run(root),
            Run::Cargo { arguments, env } => {
                cargo.args(arguments).envs(env.iter().copied());
                match arguments.first() {
                    Some(&"test") => tests_succeed_within(&mut cargo, limit),
                    _ => succeeds_within(&mut cargo, limit).into(),
                }
            }
        }
    }
}

impl Run {
    fn describe(&self) -> String {
        match self {
            Run::Tidy => "cargo xtask tidy".to_owned(),
            Run::Own(_, what) => (*what).to_owned(),
            Run::Cargo { arguments, env } => {
                let env: String = env.iter().map(|(k, v)| format!("{k}='{v}' ")).collect();
                format!("{env}cargo {}", arguments.join(" "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_an_unknown_one_fails() {
        let mut names: Vec<&str> = steps(true).map(|step| step.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(!run(&crate::root(), Some("no such step"), false));
    }

    #[test]
    fn what_was_skipped_is_told_apart() {
        assert_eq!(summary(9, 0, &[]), "9 passed, 0 failed");
        let skipped = [("python", "there is none".to_owned())];
        let text = summary(8, 1, &skipped);
        assert_eq!(text, "8 passed, 1 failed, 1 skipped: python (there is none)");
    }
}
