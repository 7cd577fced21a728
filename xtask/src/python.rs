//! `cargo xtask python wheel|test|bench`: the Python package, built and tried in an environment of
//! its own.
//!
//! The environment stands under the target directory and is made once; packages come from PyPI by
//! name and version. Where there is no Python or no way to the packages, one line says so, and
//! `test` passes: the rest of the project needs neither. Who asks for a wheel or for figures and
//! gets none is told by the exit code.

use crate::process::{
    BUILD_MAX, FETCH_MAX, SMALL_MAX, status_within, succeeds_within, target_directory,
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

/// Does it. False if it failed; of the tests true too if they were skipped.
pub(crate) fn run(root: &Path, task: Task) -> bool {
    let place = place(root);
    let python = match environment(&place) {
        Ok(python) => python,
        Err(why) => {
            if task == Task::Test {
                println!("python: skipped: {why}");
                return true;
            }
            eprintln!("python: nothing was built: {why}");
            return false;
        }
    };
    let profile = if task == Task::Test { "gates" } else { "release" };
    let wheels = place.join(profile);
    if !built(root, &python, &wheels, profile) {
        return false;
    }
    match task {
        Task::Wheel => {
            println!("python: the wheel is in {}", wheels.display());
            true
        }
        Task::Test => installed(&python, &wheels) && tested(root, &python),
        Task::Bench => {
            let script = root.join("crates/py/benches/beside_plyvel.py");
            let mut bench = Command::new(&python);
            installed(&python, &wheels) && succeeds_within(bench.arg(script), BENCH_MAX)
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
fn environment(place: &Path) -> Result<PathBuf, String> {
    let dir = place.join("venv");
    let python = dir.join("bin/python");
    if !quiet(Command::new(&python).args(["-c", "import pip"])) {
        if !quiet(Command::new("python3").args(["-c", IS_NEW_ENOUGH])) {
            let what = "there is no python3 of version 3.9 or newer with venv and pip: install it \
                        (Debian: python3-venv)";
            return Err(what.to_owned());
        }
        let mut venv = Command::new("python3");
        if !succeeds_within(venv.args(["-m", "venv", "--clear"]).arg(&dir), SMALL_MAX) {
            return Err(format!("python3 -m venv {} failed: see above", dir.display()));
        }
    }
    for package in NEEDED {
        if !is_installed(&python, &package) {
            return Err(format!(
                "{} {} does not install from PyPI: connect to the network, or install it with {} -m pip install",
                package.0,
                package.1,
                python.display()
            ));
        }
    }
    for package in WANTED {
        if !is_installed(&python, &package) {
            println!(
                "python: {} {} does not install from PyPI: tests that need it are skipped",
                package.0, package.1
            );
        }
    }
    Ok(python)
}

/// True if a package is there, or could be installed.
fn is_installed(python: &Path, package: &Package) -> bool {
    package.is_there(python)
        || quiet(pip(python).args(package.requirements())) && package.is_there(python)
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
