//! Ctrl-C during a load: an orderly end, and a prefix of the source.

use crate::errors::told_records;
use crate::support::{Ended, Temp, all, command, feed, on};
use rustix::event::{Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// More than fits into a pipe, so that the child must have begun to read.
const ROWS: u64 = 60_000;

#[test]
fn an_interrupted_load_keeps_a_prefix() {
    for (bulk, signal) in [(false, Signal::INT), (true, Signal::INT), (false, Signal::TERM)] {
        let temp = Temp::new();
        let mut load = command(&["load", "--json", "--key", "id", "jsonl:-"]);
        load.env("ESKER_DB", temp.store());
        if bulk {
            load.arg("--bulk");
        }
        load.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = load.spawn().expect("esker runs");
        let mut stdin = child.stdin.take().expect("stdin");
        for i in 0..ROWS {
            let row = format!("{{\"id\":\"{i:08}\",\"text\":\"{}\"}}\n", "x".repeat(30));
            stdin.write_all(row.as_bytes()).expect("write");
        }
        // A row without an end: it must not be loaded as if it were whole.
        stdin.write_all(b"{\"id\":\"99999999\",\"text\":\"yyy").expect("write");
        kill_process(Pid::from_child(&child), signal).expect("signal");
        let ended = Ended::from(child.wait_with_output().expect("ends"));
        drop(stdin);
        assert_eq!(ended.code, 130, "{ended:?}");
        assert!(ended.err.contains("interrupted"), "{}", ended.err);
        let told = told_records(ended.text());
        assert!(told > 0 && told <= ROWS, "{told}");
        let keys = on(&temp.store(), &["scan", "--keys-only"]);
        let keys: Vec<&str> = keys.good().lines().collect();
        let expected: Vec<String> = (0..told).map(|i| format!("{i:08}")).collect();
        assert_eq!(keys, expected, "bulk: {bulk}");
        on(&temp.store(), &["verify"]).good();
    }
}

/// How long an interrupted command may take: a second, and another for a busy machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts a command, lets it run, interrupts it, and says how it ended: it must end soon, although nobody
/// reads its output meanwhile.
fn interrupted(store: &Path, args: &[&str], signal: Signal) -> Ended {
    let mut command = command(args);
    command.env("ESKER_DB", store).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("esker runs");
    let never = Timespec { tv_sec: 0, tv_nsec: 600_000_000 };
    poll(&mut [], Some(&never)).expect("wait");
    kill_process(Pid::from_child(&child), signal).expect("signal");
    let moment = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    let mut waited = Duration::ZERO;
    while child.try_wait().expect("wait").is_none() {
        assert!(waited < PATIENCE, "{args:?} goes on");
        poll(&mut [], Some(&moment)).expect("wait");
        waited += Duration::from_millis(10);
    }
    Ended::from(child.wait_with_output().expect("ends"))
}

/// Loads so many records with values that do not compress well.
fn load(store: &Path, count: u64, value_bytes: usize) {
    let mut text = String::new();
    let mut state = 1u64;
    for i in 0..count {
        text.push_str(&format!("{{\"id\":\"{i:08}\",\"text\":\""));
        for _ in 0..value_bytes / 16 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            text.push_str(&format!("{state:016x}"));
        }
        text.push_str("\"}\n");
    }
    feed(store, &["load", "--key", "id", "jsonl:-"], text.as_bytes()).good();
}

fn check(ended: &Ended, what: &str) {
    assert_eq!(ended.code, 130, "{what}: {}", ended.err);
    let told = ended.err.starts_with("esker: interrupted: ") && ended.err.lines().count() == 1;
    assert!(told, "{what}: {}", ended.err);
}

#[test]
fn a_command_that_hangs_in_an_open_ends() {
    let find = &["find", "a"][..];
    for args in [&["get", "a"], &["scan"][..], find, &["count"], &["flush"], &["compact"]] {
        for signal in [Signal::INT, Signal::TERM] {
            let temp = Temp::new();
            on(&temp.store(), &["put", "a", "1"]).good();
            let lock = temp.store().join("LOCK");
            std::fs::remove_file(&lock).expect("remove");
            // Opening a pipe waits for somebody at its other end.
            let made = Command::new("mkfifo").arg(&lock).status().expect("mkfifo");
            assert!(made.success());
            check(&interrupted(&temp.store(), args, signal), args[0]);
            std::fs::remove_file(&lock).expect("remove");
            assert_eq!(on(&temp.store(), &["get", "a"]).good(), "1\n");
        }
    }
}

#[test]
fn a_scan_that_nobody_reads_ends() {
    let temp = Temp::new();
    load(&temp.store(), 5_000, 100);
    on(&temp.store(), &["index", "create", "id"]).good();
    for args in [&["scan"][..], &["find", "id"], &["find", "id", "--scan"]] {
        check(&interrupted(&temp.store(), args, Signal::INT), args[0]);
    }
}

#[test]
fn a_compaction_that_takes_long_ends_and_harms_nothing() {
    let temp = Temp::new();
    load(&temp.store(), 40_000, 1_000);
    let held = all(&temp.store());
    for name in ["flush", "compact"] {
        let args = [name, "--option", "compression=zstd:19"];
        check(&interrupted(&temp.store(), &args, Signal::INT), name);
        on(&temp.store(), &["verify"]).good();
        assert!(all(&temp.store()) == held, "{name}: the store is another");
    }
}
