//! The project's own commands: checks, what installs the C libraries, the Python package.

mod capi;
mod done;
mod header;
mod process;
mod python;
mod sanitize;
mod test;
mod tidy;

use done::Done;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  tidy                  rules of the source: imports, lengths, heads, links
  test                  everything a change must pass
  test --long           the same, with the long forms of the gates
  test --only <step>    one step of it
  test --list           the steps
  header                the C headers, made anew
  leveldb DIR           a library that takes LevelDB's place, in a directory
  capi-install PREFIX   the C library with its headers, for pkg-config and CMake
  python wheel          the Python package as a wheel
  python test           a wheel of it, and its tests
  python bench          a wheel of it, measured beside plyvel
  loom                  models of the concurrent parts, every interleaving
  loom --long           the same with one preemption more
  shuttle               random schedules of whole stores, ten thousand
  shuttle --long        a million
  sanitize              16 threads under the address and the thread sanitizer
  sanitize <which>      one of them: address, thread
  sanitize ... --long   for ten minutes each instead of three
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    let passed = match words.as_slice() {
        ["tidy"] => tidy::run(&root),
        ["test"] => test::run(&root, None, false),
        ["test", "--long"] => test::run(&root, None, true),
        ["test", "--list"] => test::list(),
        ["test", "--only", step] => test::run(&root, Some(step), false),
        ["test", "--long", "--only", step] | ["test", "--only", step, "--long"] => {
            test::run(&root, Some(step), true)
        }
        ["leveldb", dir] => capi::leveldb(&root, Path::new(dir)),
        ["capi-install", prefix] => capi::install(&root, Path::new(prefix)),
        ["header"] => header::write(&root),
        ["python", "wheel"] => python::run(&root, python::Task::Wheel) != Done::Failed,
        ["python", "test"] => python::run(&root, python::Task::Test) != Done::Failed,
        ["python", "bench"] => python::run(&root, python::Task::Bench) != Done::Failed,
        ["loom"] => test::run(&root, Some("loom"), false),
        ["loom", "--long"] => test::run(&root, Some("loom-long"), true),
        ["shuttle"] => test::run(&root, Some("shuttle"), false),
        ["shuttle", "--long"] => test::run(&root, Some("shuttle-long"), true),
        ["sanitize"] => sanitize::run(&root, None, false),
        ["sanitize", "--long"] => sanitize::run(&root, None, true),
        ["sanitize", which] => sanitize::run(&root, Some(which), false),
        ["sanitize", which, "--long"] => sanitize::run(&root, Some(which), true),
        _ => {
            eprint!("{USAGE}");
            false
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The directory of the workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
