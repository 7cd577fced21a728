//! `cargo xtask sanitize [address|thread]`: the threads gate under a sanitizer of the compiler.
//!
//! Sanitizers are not stable in the compiler, hence `RUSTC_BOOTSTRAP`. The standard library is not
//! instrumented; what the thread sanitizer misreads because of that is in `xtask/tsan.supp`, each with
//! its reason. Builds go to a target directory of their own, so that others stay valid.

use std::path::Path;
use std::process::Command;

/// The only target we run sanitizers on.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Minutes for which the threads run.
const MINUTES: &str = "3";

/// Runs one sanitizer, or both. True if nothing was found.
pub(crate) fn run(root: &Path, which: Option<&str>) -> bool {
    match which {
        None => sanitize(root, "address") && sanitize(root, "thread"),
        Some(name @ ("address" | "thread")) => sanitize(root, name),
        Some(name) => {
            eprintln!("no such sanitizer: {name}");
            false
        }
    }
}

fn sanitize(root: &Path, name: &str) -> bool {
    let mut flags = format!("-Zsanitizer={name}");
    if name == "thread" {
        // The standard library comes without instrumentation; what it would hide is replaced.
        flags.push_str(" -Cunsafe-allow-abi-mismatch=sanitizer --cfg esker_tsan");
    }
    let suppressions = root.join("xtask/tsan.supp");
    let options = format!("halt_on_error=1 suppressions={}", suppressions.display());
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["run", "--profile", "gates", "--target", TARGET, "-p", "esker-gates", "--"];
    println!("== {name} sanitizer: RUSTFLAGS='{flags}' cargo {} threads", arguments.join(" "));
    let status = Command::new(program)
        .args(arguments)
        .args(["threads", "--minutes", MINUTES])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", flags)
        .env("TSAN_OPTIONS", options)
        .env("CARGO_TARGET_DIR", root.join("target").join(format!("sanitize-{name}")))
        .current_dir(root)
        .status();
    match status {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cargo did not start: {error}");
            false
        }
    }
}
