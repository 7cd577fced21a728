//! `cargo xtask python wheel|test|bench`: the Python package, built and tried in an environment of its own.
//!
//! The environment stands under the target directory and is made once; packages come from PyPI by name. Where there is no
//! Python or no way to the packages, one line says so, and nothing fails: the rest of the project needs neither.

use crate::process::succeeds;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What Python must be, as its own question.
const IS_NEW_ENOUGH: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))";

/// Packages without which nothing is built or tested, and the names that they are imported by.
const NEEDED: [&str; 2] = ["maturin", "pytest"];

/// Packages that some tests need; where they do not install, those tests are skipped and say so.
const WANTED: [&str; 2] = ["plyvel", "mypy"];

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

/// Does it. False if it failed; true too if it was skipped.
pub(crate) fn run(root: &Path, task: Task) -> bool {
    let place = place(root);
    let python = match environment(&place) {
        Ok(python) => python,
        Err(why) => {
            println!("python: skipped: {why}");
            return true;
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
            installed(&python, &wheels) && succeeds(Command::new(&python).arg(script))
        }
    }
}

/// Where all of it is kept.
fn place(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root.join(target.unwrap_or_else(|| "target".into())).join("python")
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
        if !succeeds(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir)) {
            return Err(format!("python3 -m venv {} failed: see above", dir.display()));
        }
    }
    if !has(&python, &NEEDED) {
        quiet(&mut pip(&python, &NEEDED));
    }
    if !has(&python, &NEEDED) {
        return Err(format!(
            "{} do not install from PyPI: connect to the network, or install them with {} -m pip install",
            NEEDED.join(" and "),
            python.display()
        ));
    }
    for package in WANTED {
        if !has(&python, &[package]) && !quiet(&mut pip(&python, &[package])) {
            println!(
                "python: {package} does not install from PyPI: tests that need it are skipped"
            );
        }
    }
    Ok(python)
}

/// True if these packages are there.
fn has(python: &Path, packages: &[&str]) -> bool {
    let import = format!("import {}", packages.join(", "));
    quiet(Command::new(python).args(["-c", &import]))
}

fn pip(python: &Path, packages: &[&str]) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
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
    succeeds(maturin.arg(root.join("crates/py/Cargo.toml")).arg("--out").arg(wheels))
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
    succeeds(pip(python, &["--force-reinstall", "--no-deps"]).arg(wheel))
}

/// Runs the tests. What they skip is shown with its reason.
fn tested(root: &Path, python: &Path) -> bool {
    let mut pytest = Command::new(python);
    pytest.args(["-m", "pytest", "-r", "s"]).current_dir(root.join("crates/py"));
    succeeds(pytest.env("PYTHONDONTWRITEBYTECODE", "1"))
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Runs a command for its answer alone.
fn quiet(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
