//! `cargo xtask sanitize [address|thread] [--long]`: the threads gate under a sanitizer of the
//! compiler.
//!
//! Sanitizers are not stable in the compiler, hence `RUSTC_BOOTSTRAP`. The standard library is not
//! instrumented; what the thread sanitizer misreads because of that is in `xtask/tsan.supp`, each
//! with its reason. Builds go to a target directory of their own, so that others stay valid.

use crate::process::{BUILD_MAX, cargo_command, succeeds_within};
use std::path::Path;

/// The only target we run sanitizers on.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs one sanitizer, or both, for 3 minutes or, if `long`, for 10. True if nothing was found.
pub(crate) fn run(root: &Path, which: Option<&str>, long: bool) -> bool {
    let minutes = if long { "10" } else { "3" };
    match which {
        None => sanitize(root, "address", minutes) && sanitize(root, "thread", minutes),
        Some(name @ ("address" | "thread")) => sanitize(root, name, minutes),
        Some(name) => {
            eprintln!("no such sanitizer: {name}");
            false
        }
    }
}

fn sanitize(root: &Path, name: &str, minutes: &str) -> bool {
    let mut flags = format!("-Zsanitizer={name}");
    // What a sanitizer cannot see into is replaced under its flag.
    flags.push_str(match name {
        // The standard library comes without instrumentation.
        "thread" => " -Cunsafe-allow-abi-mismatch=sanitizer --cfg esker_tsan",
        _ => " --cfg esker_asan",
    });
    let suppressions = root.join("xtask/tsan.supp");
    let options = format!("halt_on_error=1 suppressions={}", suppressions.display());
    let arguments = ["run", "--profile", "gates", "--target", TARGET, "-p", "esker-gates", "--"];
    println!("== {name} sanitizer: RUSTFLAGS='{flags}' cargo {} threads", arguments.join(" "));
    let target = root.join("target").join(format!("sanitize-{name}"));
    succeeds_within(
        cargo_command()
            .args(arguments)
            .args(["threads", "--minutes", minutes])
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", flags)
            .env("TSAN_OPTIONS", options)
            .env("CARGO_TARGET_DIR", target)
            .current_dir(root),
        BUILD_MAX,
    )
}
