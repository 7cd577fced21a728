//! Forks: what a child does with the engine's own handles, as a program in Rust has them.

use crate::support::Scratch;
use esker::{Db, Error, Options};
use std::path::Path;

/// Does this in a child, which ends with 0 if it says true.
fn in_child(work: impl FnOnce() -> bool) {
    // SAFETY: the child does what follows, and ends without anything of the test's.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "no child");
    if pid == 0 {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(if matches!(done, Ok(true)) { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: waits for the child that was just made.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child: {status}");
}

/// Names and contents of the files of a store.
fn files(dir: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
    let entries =
        std::fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry"));
    let mut files: Vec<_> =
        entries.map(|e| (e.file_name(), std::fs::read(e.path()).expect("a file"))).collect();
    files.sort();
    files
}

#[test]
fn a_child_that_closes_or_drops_a_store_changes_no_file_of_it() {
    let scratch = Scratch::new("forks");
    let dir = scratch.path().join("store");
    let options = Options { compaction_threads: 1, ..Options::default() };
    let db = Db::open(&dir, options.clone()).expect("opened");
    let mut kept = Some(db.clone());
    for n in 0..1_000u32 {
        db.put(&n.to_be_bytes(), b"of the parent").expect("put");
    }
    db.wait_idle().expect("idle");
    let before = files(&dir);
    in_child(|| match kept.take().map(Db::close) {
        Some(Err(Error::InvalidArgument { what })) => what.contains("opened by another process"),
        _ => false,
    });
    assert!(files(&dir) == before, "closing in a child has changed files");
    let mut all = Some(db);
    in_child(|| {
        drop((kept.take(), all.take()));
        true
    });
    assert!(files(&dir) == before, "dropping in a child has changed files");
    let db = all.expect("the parent has it still");
    for n in 1_000..2_000u32 {
        db.put(&n.to_be_bytes(), b"of the parent").expect("put");
    }
    drop(kept);
    db.close().expect("closed");
    let db = Db::open(&dir, options).expect("opened again");
    assert_eq!(db.iter().expect("a scan").count(), 2_000);
    let report = db.verify(|_| true).expect("verified");
    assert!(report.damage.is_empty(), "{:?}", report.damage);
}
