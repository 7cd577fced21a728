//! Ctrl-C during a load: an orderly end, and a prefix of the source.

use crate::errors::told_records;
use crate::support::{Ended, Temp, command, on};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;
use std::process::Stdio;

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
