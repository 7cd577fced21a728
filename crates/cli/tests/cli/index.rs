//! Indexes come and go, are waited for and interrupted, and are told of.

use crate::support::{Ended, Temp, all, command, feed, files, on, source, unbuilt};
use rustix::event::{Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// Many records, with a field `n` from 0 to 99.
fn many(temp: &Temp, count: u64) {
    let mut rows = String::from("id,n\n");
    for i in 0..count {
        rows.push_str(&format!("{i:08},{}\n", i % 100));
    }
    let file = temp.file("rows.csv", rows);
    let mut load = vec!["load".into(), source("csv", &file)];
    load.extend(["--type", "n=integer", "--quiet"].map(Into::into));
    on(&temp.store(), &load).good();
}

fn list(store: &Path) -> Vec<Value> {
    let list = on(store, &["index", "list", "--json"]);
    list.good().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn indexes_are_made_listed_and_dropped() {
    let temp = Temp::new();
    let store = temp.store();
    many(&temp, 3_000);
    assert_eq!(on(&store, &["index", "list"]).good(), "");
    let made = on(&store, &["index", "create", "n"]);
    assert!(made.good().starts_with("n ") && made.text().contains("ready"), "{made:?}");
    assert!(made.text().contains("3 000 keys read"), "{made:?}");
    on(&store, &["index", "create", "--no-wait", "id", "--json"]).good();
    on(&store, &["index", "wait"]).good();
    on(&store, &["flush"]).good();
    let listed = list(&store);
    let names: Vec<&str> = listed.iter().filter_map(|index| index["field"].as_str()).collect();
    assert_eq!(names, ["n", "id"]);
    for index in &listed {
        assert_eq!((&index["state"], index["keys_done"].as_u64()), (&"ready".into(), Some(3_000)));
        assert!(index["table_bytes"].as_u64() > Some(0), "{index}");
    }
    assert_eq!(on(&store, &["index", "create", "n"]).code, 2);
    assert_eq!(on(&store, &["find", "n", "7", "--count"]).good(), "30\n");
    assert_eq!(on(&store, &["index", "drop", "n", "--json"]).good(), "{\"ok\":true}\n");
    assert_eq!(list(&store).len(), 1);
    assert_eq!(on(&store, &["find", "n", "7"]).code, 4);
    assert_eq!(on(&store, &["index", "drop", "n"]).code, 4);
    // They are of one keyspace.
    on(&store, &["keyspaces", "create", "people"]).good();
    assert_eq!(on(&store, &["index", "list", "--keyspace", "people"]).good(), "");
    on(&store, &["index", "create", "n", "--keyspace", "people"]).good();
    assert_eq!(on(&store, &["index", "list", "--keyspace", "people"]).good().lines().count(), 1);
    on(&store, &["keyspaces", "drop", "people"]).good();
    let listed = on(&store, &["keyspaces", "list"]);
    assert_eq!(listed.good().lines().count(), 1, "indexes are no keyspaces of users");
    on(&store, &["verify"]).good();
}

#[test]
fn a_load_makes_the_indexes_it_is_asked_for() {
    for bulk in [&[][..], &["--bulk"]] {
        let temp = Temp::new();
        let store = temp.store();
        let rows: String = (0..5_000).map(|i| format!("{i:05},{}\n", i % 7)).collect();
        let rows = format!("id,n\n{rows}");
        let load = ["load", "--index", "n", "--index", "none", "--type", "n=integer", "csv:-"];
        let load = [&load[..], bulk].concat();
        feed(&store, &load, rows.as_bytes()).good();
        let count = (0..5_000).filter(|i| i % 7 == 3).count();
        assert_eq!(on(&store, &["find", "n", "3", "--count"]).good(), format!("{count}\n"));
        assert_eq!(on(&store, &["find", "none", "--count"]).good(), "0\n");
        // A second time they are there already.
        let more = rows.replace("\n0", "\n1");
        let ended = feed(&store, &load, more.as_bytes());
        assert!(ended.good().starts_with("loaded 5 000 records"), "{ended:?}");
        let found = on(&store, &["find", "n", "3", "--keys"]).good().to_owned();
        let read = on(&store, &["find", "n", "3", "--scan", "--keys"]).good().to_owned();
        assert!(found == read && found.lines().count() > count, "{} found", found.lines().count());
        on(&store, &["verify"]).good();
    }
}

/// Waits until a process handles SIGINT itself.
fn handles_signals(pid: u32) {
    let moment = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    for _ in 0..10_000 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0);
        if caught >> (Signal::INT.as_raw() - 1) & 1 == 1 {
            return;
        }
        poll(&mut [], Some(&moment)).expect("wait");
    }
    panic!("it does not handle SIGINT");
}

#[test]
fn an_index_that_is_interrupted_goes_on_later() {
    let temp = Temp::new();
    let store = temp.store();
    many(&temp, 300_000);
    for args in [&["index", "create", "n"][..], &["index", "wait", "n"]] {
        let mut command = command(args);
        command.env("ESKER_DB", &store).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("esker runs");
        handles_signals(child.id());
        kill_process(Pid::from_child(&child), Signal::INT).expect("signal");
        let ended = Ended::from(child.wait_with_output().expect("ends"));
        assert_eq!((ended.code, ended.text()), (130, ""), "{args:?}: {ended:?}");
        assert!(ended.err.contains("interrupted: the index of field \"n\""), "{}", ended.err);
        assert!(ended.err.contains("next opened for writing"), "{}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
        let listed = list(&store);
        assert_eq!(listed.len(), 1, "it is declared");
        assert_eq!(listed[0]["state"], "building");
        assert_eq!(on(&store, &["find", "n", "7"]).code, 1);
        assert_eq!(on(&store, &["index", "create", "n"]).code, 2, "there is one");
    }
    assert_eq!(on(&store, &["find", "n", "7", "--count", "--scan"]).good(), "3000\n");
    on(&store, &["index", "wait", "n"]).good();
    assert_eq!(list(&store)[0]["state"], "ready");
    assert_eq!(on(&store, &["find", "n", "7", "--count"]).good(), "3000\n");
    on(&store, &["verify"]).good();
}

#[test]
fn any_writer_goes_on_with_an_index() {
    let temp = Temp::new();
    let store = temp.store();
    unbuilt(&store);
    feed(&store, &["shell"], b"put k2 x\n").good();
    // It may have been closed before the background came to it; this is sure to be enough.
    on(&store, &["index", "wait"]).good();
    assert_eq!(on(&store, &["find", "price", "--keys"]).good(), "k1\n");
}

#[test]
fn verify_and_repair_tell_of_indexes() {
    let temp = Temp::new();
    let store = temp.store();
    many(&temp, 2_000);
    on(&store, &["index", "create", "n"]).good();
    on(&store, &["flush"]).good();
    let verify = on(&store, &["verify"]);
    let line = "index of field \"n\" in keyspace \"default\": 2 000 entries, as the records say\n";
    assert!(verify.good().contains(line), "{}", verify.text());
    let json = on(&store, &["verify", "--json"]);
    let report: Value = serde_json::from_str(json.good()).expect("JSON");
    let index = &report["indexes"][0];
    assert_eq!(index["ready"], true);
    assert_eq!((index["entries"].as_u64(), index["field"].as_str()), (Some(2_000), Some("n")));
    assert_eq!((index["missing"].as_u64(), index["stray"].as_u64()), (Some(0), Some(0)));
    let stats = on(&store, &["stats"]);
    assert!(stats.good().contains("index            of n, ready, "), "{}", stats.text());
    let held = all(&store);

    let current = files(&store, "CURRENT").pop().expect("CURRENT");
    fs::remove_file(current).expect("remove");
    let repair = on(&store, &["repair"]);
    assert!(repair.good().contains("note: indexes of fields are empty now"), "{}", repair.text());
    assert!(all(&store) == held, "the records are as they were");
    assert_eq!(list(&store)[0]["state"], "building");
    on(&store, &["index", "wait"]).good();
    assert_eq!(on(&store, &["find", "n", "7", "--count"]).good(), "20\n");
    on(&store, &["verify"]).good();
}

/// What stands before a value that an index cannot take is loaded, and it is told where that is.
#[test]
fn a_value_that_is_too_long_for_an_index_takes_no_other_with_it() {
    let long = "x".repeat(1 << 20);
    let rows: String = (0..30)
        .map(|at| {
            let text = if at == 20 { &long } else { "short" };
            format!("{{\"k\":\"{at:02}\",\"text\":\"{text}\"}}\n")
        })
        .collect();
    for (more, code, count) in [(&[][..], 1, "20\n"), (&["--skip-bad"], 0, "29\n")] {
        let temp = Temp::new();
        let store = temp.store();
        let load = [&["load", "--index", "text", "--key", "k", "jsonl:-"][..], more].concat();
        let ended = feed(&store, &load, rows.as_bytes());
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(ended.err.contains("line 21: the value of field \"text\""), "{}", ended.err);
        assert_eq!(on(&store, &["count"]).good(), count);
        if code == 0 {
            assert!(ended.text().contains("left out 1 entry"), "{}", ended.text());
        } else {
            assert!(ended.err.contains("20 records before that are in the store"), "{}", ended.err);
        }
    }
}
