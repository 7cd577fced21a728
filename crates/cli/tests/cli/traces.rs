//! Simulations and traces of real stores tell the same kind of story.

use crate::support::{Temp, esker};
use std::fmt::Write as _;
use std::fs;

/// Options under which little data makes a tree.
const SMALL: [&str; 10] = [
    "--option",
    "memtable_bytes=64KiB",
    "--option",
    "table_bytes_max=64KiB",
    "--option",
    "level_base_bytes=256KiB",
    "--option",
    "compression=none",
    "--option",
    "level_fanout=4",
];

fn path(temp: &Temp, name: &str) -> String {
    temp.join(name).to_str().expect("path").to_owned()
}

#[test]
fn simulations_are_shown_side_by_side() {
    let temp = Temp::new();
    let (drawings, trace) = (path(&temp, "drawings"), path(&temp, "both.trace"));
    let words =
        ["simulate", "--size", "64MiB", "--machine", "disk", "--quiet", "--plot", &drawings];
    let with = ["--with", "compaction=leveled", "--with", "compaction=tiered tiered_runs=3"];
    let args = [&words[..], &["--trace", &trace], &with, &SMALL].concat();
    let ended = esker(&args);
    let shown = ended.good();
    let head = shown.lines().next().expect("a line");
    let names = ["compaction=leveled", "compaction=tiered tiered_runs=3"];
    assert!(names.iter().all(|name| head.contains(name)), "{shown}");
    assert!(shown.contains("write amplification") && shown.contains("drawn: "), "{shown}");
    let page = fs::read_to_string(temp.join("drawings/report.html")).expect("a page");
    assert!(page.contains("<svg") && page.contains("Tables in level 1"), "{page:.200}");
    assert!(temp.join("drawings/level-1.svg").exists());
    // What was written down is what was shown.
    let again = esker(&["replay", &trace]);
    let shown: Vec<&str> = shown.lines().filter(|line| !line.starts_with("drawn")).collect();
    assert_eq!(again.good().lines().collect::<Vec<_>>(), shown);
    let json = esker(&[&["simulate", "--size", "8MiB", "--json", "--quiet"], &SMALL[..]].concat());
    assert!(json.good().starts_with("{\"figures\":{"), "{}", json.text());
}

#[test]
fn a_load_leaves_a_trace() {
    let temp = Temp::new();
    let mut rows = String::new();
    for number in 0..20_000u64 {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let _ = writeln!(rows, "{{\"k\":\"{key:016x}\",\"v\":\"{number:0100}\"}}");
    }
    temp.file("rows.jsonl", rows);
    let source = format!("jsonl:{}", path(&temp, "rows.jsonl"));
    let (store, trace) = (path(&temp, "store"), path(&temp, "load.trace"));
    let words = ["load", "--db", &store, "--key", "k", "--trace", &trace, "--quiet", &source];
    esker(&[&words[..], &SMALL].concat()).good();
    let ended = esker(&["replay", &trace]);
    let shown = ended.good();
    assert!(shown.lines().next().expect("a line").contains("keyspace 0"), "{shown}");
    let figure = |name: &str| -> f64 {
        let line = shown.lines().find(|line| line.starts_with(name)).expect("a row");
        line.split_whitespace().last().expect("a figure").parse().expect("a number")
    };
    assert!(figure("L0 most tables") >= 1.0, "flushes were written down: {shown}");
    // A trace that ends in the middle of a step tells what was before.
    let text = fs::read_to_string(temp.join("load.trace")).expect("text");
    fs::write(temp.join("torn.trace"), &text[..text.len() - 20]).expect("write");
    esker(&["replay", &path(&temp, "torn.trace")]).good();
    // What was still in the log becomes a table, and is compacted.
    let trace = path(&temp, "compact.trace");
    esker(&["compact", "--db", &store, "--trace", &trace]).good();
    let ended = esker(&["replay", &trace]);
    let jobs = ended.good().lines().find(|line| line.starts_with("L0 jobs")).expect("a row");
    assert_ne!(jobs.split_whitespace().last(), Some("0"), "{}", ended.text());
    let nowhere = path(&temp, "no/where.trace");
    let ended = esker(&["compact", "--db", &store, "--trace", &nowhere]);
    assert_eq!(ended.code, 4, "{ended:?}");
}
