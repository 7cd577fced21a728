//! Compiling and running programs in C.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Programs take seconds, the slowest under a sanitizer.
const PROGRAM_MAX: Duration = Duration::from_secs(300);

/// Says something that is shown of tests that pass too.
pub(crate) fn tell(line: &str) {
    // Nobody reads it, then.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A directory that goes when it is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("esker-capi-{}-{name}", std::process::id()));
        std::fs::remove_dir_all(&dir).ok();
        std::fs::create_dir_all(&dir).expect("a directory for tests");
        Scratch(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// An empty directory in it.
    pub(crate) fn below(&self, name: &str) -> PathBuf {
        let dir = self.0.join(name);
        std::fs::create_dir_all(&dir).expect("a directory for tests");
        dir
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// A directory of this crate.
pub(crate) fn here(below: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(below)
}

/// The library that this test was built with.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let library = test.with_file_name("libesker_leveldb.so");
    assert!(library.exists(), "{} was not built", library.display());
    library
}

/// Puts the library into a directory under a name, and the name that the linker looks for beside
/// it.
pub(crate) fn lay_out(dir: &Path, name: &str, link: &str) {
    std::os::unix::fs::symlink(library(), dir.join(name)).expect("a link");
    std::os::unix::fs::symlink(name, dir.join(link)).expect("a link");
}

/// Runs a command, and fails with all it said if it fails.
pub(crate) fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = output(command);
    let said = String::from_utf8_lossy(&stdout).into_owned();
    let complained = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}\n{said}\n{complained}");
    assert!(complained.is_empty(), "{command:?} complained:\n{complained}");
    said
}

/// Runs a command to its end, or kills it, with all that it has started, and fails: what hangs must
/// not hang the tests.
fn output(command: &mut Command) -> Output {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = piped.process_group(0).spawn().expect("the command starts");
    let group = libc::pid_t::try_from(child.id()).expect("the number of a process");
    let (sender, receiver) = channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(PROGRAM_MAX) else {
        // SAFETY: a group that only what was started here is in.
        unsafe { libc::kill(-group, libc::SIGKILL) };
        panic!("{command:?} did not end within {PROGRAM_MAX:?}");
    };
    output.expect("what it says can be read")
}

/// Compiles a program with these flags; all warnings are errors.
pub(crate) fn compile(source: &Path, program: &Path, flags: &[&str]) {
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]).arg(source);
    run(command.arg("-o").arg(program).args(flags));
}

/// True if `cc` can build and link this with these flags.
pub(crate) fn compiles(text: &str, flags: &[&str]) -> bool {
    // Tests run side by side and try the same.
    static TRIED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let nth = TRIED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let scratch = Scratch::new(&format!("tried-{nth}"));
    let source = scratch.path().join("tried.c");
    std::fs::write(&source, text).expect("written");
    let mut command = Command::new("cc");
    command.arg(&source).arg("-o").arg(scratch.path().join("tried")).args(flags);
    command.output().is_ok_and(|output| output.status.success())
}
