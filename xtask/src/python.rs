//! `cargo xtask python wheel|test|bench`: the Python package, built and tried in an environment of
//! its own.
//!
//! The environment stands under the target directory and is made once; packages come from PyPI by
//! name and version. Where there is no Python or no way to the packages, one line says so, and
//! `test` is skipped: the rest of the project needs neither. Whatever else goes wrong is a failure.
//! Who asks for a wheel or for figures and gets none is told by the exit code.

use crate::done::Done;
use crate::process::{
    BUILD_MAX, FETCH_MAX, SMALL_MAX, heard_within, status_within, succeeds_within, target_directory,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What Python must be, as its own question.
const IS_NEW_ENOUGH: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))";

/// The tests take less than a minute.
const TESTS_MAX: Duration = Duration::from_secs(1_800);

/// The figures take a few minutes.
const BENCH_MAX: Duration = Duration::from_secs(3_600);

/// A package by its name, which it is imported by too, its version, and the last for a Python
/// before 3.10.
struct Package(&'static str, &'static str, &'static str);

/// Packages without which nothing is built or tested.
const NEEDED: [Package; 2] =
    [Package("maturin", "1.16.0", "1.16.0"), Package("pytest", "9.2.0", "8.4.2")];

/// Packages that some tests need; where they do not install, those tests are skipped and say so.
const WANTED: [Package; 2] =
    [Package("plyvel", "1.5.1", "1.5.1"), Package("mypy", "2.4.1", "1.19.1")];

impl Package {
    /// What pip is asked for.
    fn requirements(&self) -> [String; 2] {
        let Package(name, version, old) = self;
        [
            format!("{name}=={version}; python_version >= '3.10'"),
            format!("{name}=={old}; python_version < '3.10'"),
        ]
    }

    /// True if this version is there.
    fn is_there(&self, python: &Path) -> bool {
        let Package(name, version, old) = self;
        let asked = format!(
            "import {name}, sys, importlib.metadata as m; \
             sys.exit(m.version({name:?}) != ({version:?} if sys.version_info >= (3, 10) else {old:?}))"
        );
        quiet(Command::new(python).args(["-c", &asked]))
    }
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Build the wheel to be given to others.
    Wheel,
    /// Build one as the gates are built, and run the tests on it.
    Test,
    /// Build the wheel and measure it beside plyvel.
    Bench,
}

/// Why there is no environment.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Lack {
    /// The machine has no Python, or no way to the packages.
    Missing(String),
    /// Something that should have worked did not.
    Failed(String),
}

/// Does it. Only the tests can be skipped.
pub(crate) fn run(root: &Path, task: Task) -> Done {
    let place = place(root);
    match environment(&place) {
        Ok(python) => run_with(&python, root, &place, task).into(),
        Err(Lack::Missing(why)) if task == Task::Test => {
            println!("python: skipped: {why}");
            Done::Skipped(why)
        }
        Err(Lack::Missing(why) | Lack::Failed(why)) => {
            eprintln!("python: nothing was built: {why}");
            Done::Failed
        }
    }
}

/// Does it in an environment. False if it failed.
fn run_with(python: &Path, root: &Path, place: &Path, task: Task) -> bool {
    let profile = if task == Task::Test { "gates" } else { "release" };
    let wheels = place.join(profile);
    if !built(root, python, &wheels, profile) {
        return false;
    }
    match task {
        Task::Wheel => {
            println!("python: the wheel is in {}", wheels.display());
            true
        }
        Task::Test => installed(python, &wheels) && tested(root, python),
        Task::Bench => {
            let script = root.join("crates/py/benches/beside_plyvel.py");
            let mut bench = Command::new(python);
            installed(python, &wheels) && succeeds_within(bench.arg(script), BENCH_MAX)
        }
    }
}

/// Where all of it is kept.
fn place(root: &Path) -> PathBuf {
    target_directory(root).join("python")
}

/// The Python of an environment with what is needed in it.
///
/// # Errors
/// Why there is none, and what to install.
fn environment(place: &Path) -> Result<PathBuf, Lack> {
    let dir = place.join("venv");
    let python = dir.join("bin/python");
    if !quiet(Command::new(&python).args(["-c", "import pip"])) {
        if !quiet(Command::new("python3").args(["-c", IS_NEW_ENOUGH])) {
            let what = "there is no python3 of version 3.9 or newer with venv and pip: install it \
                        (Debian: python3-venv)";
            return Err(Lack::Missing(what.to_owned()));
        }
        let mut venv = Command::new("python3");
        if !succeeds_within(venv.args(["-m", "venv", "--clear"]).arg(&dir), SMALL_MAX) {
            let what = format!("python3 -m venv {} failed: see above", dir.display());
            return Err(Lack::Failed(what));
        }
    }
    for package in NEEDED {
        install(&python, &package)?;
    }
    for package in WANTED {
        if let Err(Lack::Missing(why) | Lack::Failed(why)) = install(&python, &package) {
            println!("python: tests that need {} are skipped: {why}", package.0);
        }
    }
    Ok(python)
}

/// Sees to it that a package is there.
fn install(python: &Path, package: &Package) -> Result<(), Lack> {
    if package.is_there(python) {
        return Ok(());
    }
    let mut pip = pip(python);
    pip.args(package.requirements()).stdin(Stdio::null()).stdout(Stdio::null());
    let mut said = Vec::new();
    let status = heard_within(pip.stderr(Stdio::piped()), FETCH_MAX, |line| {
        said.push(line.to_owned());
    });
    if matches!(status, Ok(Some(status)) if status.success()) && package.is_there(python) {
        return Ok(());
    }
    let Package(name, version, _) = package;
    let shown = python.display();
    if said.iter().any(|line| is_no_connection(line)) {
        return Err(Lack::Missing(format!(
            "there is no connection to where {name} {version} is: connect to the network, or \
             install it with {shown} -m pip install"
        )));
    }
    said.iter().for_each(|line| eprintln!("{line}"));
    Err(Lack::Failed(format!("{shown} -m pip install {name}=={version} failed: see above")))
}

/// Whether pip says that it could not connect when it tried for the last time. Its exit code is the
/// same whatever went wrong.
fn is_no_connection(line: &str) -> bool {
    let is_last = line.contains("Retry(total=0,") && line.contains("after connection broken by");
    // Somebody answers, who is not who he should be.
    is_last && !line.contains("CERTIFICATE_VERIFY_FAILED")
}

fn pip(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command
}

/// Builds a wheel, the only one in its directory.
fn built(root: &Path, python: &Path, wheels: &Path, profile: &str) -> bool {
    for old in files(wheels) {
        // One that stays would be noticed: there would be two.
        let _ = std::fs::remove_file(old);
    }
    let mut maturin = Command::new(python);
    maturin.args(["-m", "maturin", "build", "--locked", "--profile", profile, "--manifest-path"]);
    maturin.arg(root.join("crates/py/Cargo.toml")).arg("--out").arg(wheels);
    succeeds_within(&mut maturin, BUILD_MAX)
}

/// Installs the wheel of this directory into the environment.
fn installed(python: &Path, wheels: &Path) -> bool {
    let [wheel] = &files(wheels)[..] else {
        eprintln!(
            "python: there is not one wheel in {}: remove it and try again",
            wheels.display()
        );
        return false;
    };
    succeeds_within(pip(python).args(["--force-reinstall", "--no-deps"]).arg(wheel), SMALL_MAX)
}

/// Runs the tests. What they skip is shown with its reason.
fn tested(root: &Path, python: &Path) -> bool {
    let mut pytest = Command::new(python);
    pytest.args(["-m", "pytest", "-r", "s"]).current_dir(root.join("crates/py"));
    succeeds_within(pytest.env("PYTHONDONTWRITEBYTECODE", "1"), TESTS_MAX)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Runs a command for its answer alone.
fn quiet(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    matches!(status_within(quiet, FETCH_MAX), Ok(Some(status)) if status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lack_of_connection_is_none_of_pips_failures() {
        let retry = |left: u32, why: &str| {
            format!(
                "WARNING: Retrying (Retry(total={left}, connect=None, read=None, redirect=None, \
                 status=None)) after connection broken by '{why}': /simple/maturin/"
            )
        };
        let refused = "NewConnectionError('<HTTPSConnection object at 0x7f>: Failed to establish a \
                       new connection: [Errno 111] Connection refused')";
        assert!(is_no_connection(&retry(0, refused)));
        assert!(is_no_connection(&retry(0, "ReadTimeoutError('Read timed out.')")));
        assert!(!is_no_connection(&retry(4, refused)), "it may have worked later");
        assert!(!is_no_connection(&retry(0, "SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]')")));
        for other in [
            "ERROR: Could not find a version that satisfies the requirement maturin==99.0",
            "ERROR: No matching distribution found for maturin==99.0",
            "error: failed-wheel-build-for-install",
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left",
        ] {
            assert!(!is_no_connection(other), "{other}");
        }
    }
}
