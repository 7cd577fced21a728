//! Simulations and traces of real stores tell the same kind of story.

use crate::support::{Ended, Temp, command, esker};
use esker::base::env::{Clock, SystemClock};
use rustix::event::{Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write as _};
use std::process::Stdio;

/// Options under which little data makes a tree.
const SMALL: [&str; 12] = [
    "--option",
    "memtables_bytes_max=1MiB",
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

/// Loads rows in no order into a small tree, more than memory may hold; the store, and the trace of
/// it.
fn loaded(temp: &Temp) -> (String, String) {
    let mut rows = String::new();
    for number in 0..20_000u64 {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let _ = writeln!(rows, "{{\"k\":\"{key:016x}\",\"v\":\"{number:0100}\"}}");
    }
    temp.file("rows.jsonl", rows);
    let source = format!("jsonl:{}", path(temp, "rows.jsonl"));
    let (store, trace) = (path(temp, "store"), path(temp, "load.trace"));
    let words = ["load", "--db", &store, "--key", "k", "--trace", &trace, "--quiet", &source];
    esker(&[&words[..], &SMALL].concat()).good();
    (store, trace)
}

#[test]
fn a_load_leaves_a_trace() {
    let temp = Temp::new();
    let (store, trace) = loaded(&temp);
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

/// Little stays in the log: nothing is flushed, and that is what the trace tells.
#[test]
fn a_load_with_nothing_to_compact_leaves_a_trace_that_ends() {
    let temp = Temp::new();
    temp.file("rows.csv", "id,n\n1,2\n");
    let (store, trace) = (path(&temp, "store"), path(&temp, "load.trace"));
    let source = format!("csv:{}", path(&temp, "rows.csv"));
    esker(&["load", "--db", &store, "--trace", &trace, &source]).good();
    let replayed = esker(&["replay", &trace]);
    let rate = replayed.good().lines().find(|line| line.starts_with("a second")).expect("a row");
    assert_eq!(rate.split_whitespace().skip(2).collect::<Vec<_>>(), ["0", "B"]);
    let watched = esker(&["watch", &trace]);
    assert!(watched.good().contains("keyspace 0") && watched.good().contains("over"));
}

#[test]
fn a_simulation_that_cannot_be_written_down_is_not_begun() {
    let temp = Temp::new();
    let nowhere = path(&temp, "no/where.trace");
    // It would take days.
    let ended = esker(&["simulate", "--size", "10000TiB", "--quiet", "--trace", &nowhere]);
    assert_eq!((ended.code, ended.text()), (4, ""), "{ended:?}");
}

/// A trace of one keyspace: a step a second, the last one a stop.
fn trace_of(seconds: u64) -> String {
    let mut text = "{\"run\":{\"number\":0,\"name\":\"keyspace 0\",\"about\":{}}}\n".to_owned();
    let level = "{\"runs\":3,\"tables\":3,\"bytes\":3145728,\"limit_bytes\":0,\"limit_runs\":4}";
    let running =
        "{\"level\":0,\"output_level\":1,\"input\":{\"tables\":2,\"bytes\":2048},\"since_us\":0}";
    for second in 1..=seconds {
        let _ = writeln!(
            text,
            "{{\"step\":{{\"run\":0,\"step\":{{\"at_us\":{},\"what\":{{\"stopped\":{{\"duration_us\":500000}}}},\
             \"user_bytes\":{},\"memtable_bytes\":1024,\"slowed_to\":null,\"turn\":0,\"levels\":[{level}],\
             \"running\":[{running}]}}}}}}",
            second * 1_000_000,
            second << 20,
        );
    }
    text
}

const END: &str = "{\"loaded\":{\"run\":0,\"at_us\":4000000}}\n";

#[test]
fn a_trace_that_is_over_is_shown_as_it_ended() {
    let temp = Temp::new();
    temp.file("all.trace", trace_of(4) + END);
    let ended = esker(&["watch", &path(&temp, "all.trace")]);
    let shown = ended.good();
    for part in [
        "keyspace 0  users wrote 4.0 MiB in 4.0 s, over",
        "3 of 4 runs",
        "compacting  nothing",
        "4 times, 2.00 s in all, 0.50 s the longest",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains('\x1b'), "no terminal: {shown}");
    // Played, it takes its time: 4 s at twice the speed.
    let clock = SystemClock::new();
    let played = esker(&["watch", &path(&temp, "all.trace"), "--speed", "2"]);
    assert!(clock.now_ns() >= 2_000_000_000, "{} ns", clock.now_ns());
    assert!(played.good().ends_with(shown), "the same end: {}", played.text());
}

#[test]
fn a_trace_is_followed_while_it_is_written() {
    let temp = Temp::new();
    let file = temp.join("live.trace");
    fs::write(&file, "").expect("write");
    let mut watch = command(&["watch", &path(&temp, "live.trace")]);
    let watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("esker runs");
    let text = trace_of(4) + END;
    let mut out = File::options().append(true).open(&file).expect("open");
    // In pieces that end anywhere.
    for piece in text.as_bytes().chunks(300) {
        out.write_all(piece).expect("write");
        let moment = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        poll(&mut [], Some(&moment)).expect("wait");
    }
    let ended = Ended::from(watch.wait_with_output().expect("it ends by itself"));
    let shown = ended.good();
    assert!(shown.contains("users wrote 4.0 MiB in 4.0 s, over"), "{shown}");
}

#[test]
fn a_trace_that_is_begun_anew_is_followed_from_its_beginning() {
    let temp = Temp::new();
    let file = temp.join("live.trace");
    // Of the process that wrote it nothing is heard any more, and the next one has no such run.
    let dead =
        trace_of(1).replace("\"number\":0", "\"number\":3").replace("\"run\":0", "\"run\":3");
    fs::write(&file, trace_of(3) + &dead).expect("write");
    let mut watch = command(&["watch", &path(&temp, "live.trace")]);
    let mut watch =
        watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("esker runs");
    let mut out = BufReader::new(watch.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert!(line.starts_with("keyspace 0: 3.0 s"), "{line}");
    // Longer than it was before anybody has looked again.
    let anew = (trace_of(6) + END).replace("keyspace 0", "keyspace 7");
    File::options()
        .write(true)
        .open(&file)
        .expect("open")
        .write_all(anew.as_bytes())
        .expect("write");
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    let ended = Ended::from(watch.wait_with_output().expect("it ends by itself"));
    assert_eq!((ended.code, ended.err.as_str()), (0, ""), "{rest}");
    assert!(rest.contains("keyspace 7  users wrote 6.0 MiB"), "{rest}");
}

#[test]
fn a_trace_may_come_through_a_pipe() {
    let temp = Temp::new();
    let pipe = temp.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    let mut watch = command(&["watch", &path(&temp, "pipe")]);
    let watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("esker runs");
    let mut out = File::options().write(true).open(&pipe).expect("open");
    for part in [trace_of(4), END.to_owned()] {
        out.write_all(part.as_bytes()).expect("write");
        poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 300_000_000 })).expect("wait");
    }
    drop(out);
    let ended = Ended::from(watch.wait_with_output().expect("it ends by itself"));
    assert!(ended.good().contains("users wrote 4.0 MiB in 4.0 s, over"), "{}", ended.text());
}

#[test]
fn a_run_that_comes_later_is_waited_for() {
    let temp = Temp::new();
    let file = temp.join("live.trace");
    fs::write(&file, "").expect("write");
    let mut watch = command(&["watch", &path(&temp, "live.trace"), "--only", "keyspace 3"]);
    let watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("esker runs");
    let mut out = File::options().append(true).open(&file).expect("open");
    let third = (trace_of(4) + END)
        .replace("\"number\":0", "\"number\":3")
        .replace("\"run\":0", "\"run\":3")
        .replace("keyspace 0", "keyspace 3");
    for part in [trace_of(4), third + END] {
        out.write_all(part.as_bytes()).expect("write");
        poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 400_000_000 })).expect("wait");
    }
    let ended = Ended::from(watch.wait_with_output().expect("it ends by itself"));
    assert!(ended.good().contains("keyspace 3  users wrote 4.0 MiB"), "{}", ended.text());
    // One that never came is told of once all others are over.
    temp.file("all.trace", trace_of(4) + END);
    let ended = esker(&["watch", &path(&temp, "all.trace"), "--only", "keyspace 3"]);
    assert_eq!(ended.code, 4, "{ended:?}");
}

#[test]
fn ctrl_c_ends_a_watch_with_its_last_drawing() {
    let temp = Temp::new();
    temp.file("live.trace", trace_of(3));
    let mut watch = command(&["watch", &path(&temp, "live.trace")]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("esker runs");
    let mut out = BufReader::new(watch.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert!(line.starts_with("keyspace 0: 3.0 s, 1.0 MiB/s, L0 75%, 1 running"), "{line}");
    kill_process(Pid::from_child(&watch), Signal::INT).expect("signal");
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("text");
    assert!(watch.wait().expect("it ends").success(), "as it always ends");
    for part in
        ["users wrote 3.0 MiB in 3.0 s\n", "turn v", "L0 to L1, 2 tables, 2.0 KiB, for 3.0 s"]
    {
        assert!(rest.contains(part), "not over: {part}: {rest}");
    }
}

#[test]
fn a_store_can_be_watched_from_its_first_step_to_its_end() {
    let temp = Temp::new();
    let (store, load) = loaded(&temp);
    // A load may be over before its tree has had to compact anything: this has to.
    let compact = path(&temp, "compact.trace");
    esker(&["compact", "--db", &store, "--trace", &compact]).good();
    for trace in [&load, &compact] {
        let ended = esker(&["watch", trace]);
        let shown = ended.good();
        assert!(shown.contains(", over") && shown.contains("compacting  nothing"), "{shown}");
    }
    let text = fs::read_to_string(temp.join("compact.trace")).expect("text");
    assert!(text.contains("\"what\":\"started\""), "compactions are told when they begin");
    assert!(text.contains("\"running\":[{\"level\":"), "and as long as they last");
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let temp = Temp::new();
    temp.file("all.trace", trace_of(2) + END);
    temp.file("wrong.trace", trace_of(2) + "something else\n");
    let good = path(&temp, "all.trace");
    for (args, code, part) in [
        (vec![path(&temp, "none.trace")], 4, "check the path"),
        (vec![path(&temp, "wrong.trace")], 3, "line 4: no step of a trace"),
        (vec![good.clone(), "--only".to_owned(), "other".to_owned()], 4, "it has keyspace 0"),
        (vec![good, "--speed".to_owned(), "0".to_owned()], 2, "write a number above 0"),
    ] {
        let words: Vec<&str> =
            std::iter::once("watch").chain(args.iter().map(String::as_str)).collect();
        let ended = esker(&words);
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(ended.err.contains(part), "{part}: {ended:?}");
    }
}

#[test]
fn a_store_that_does_not_open_leaves_an_old_trace_as_it_is() {
    let temp = Temp::new();
    let (store, trace) = loaded(&temp);
    let old = fs::read(&trace).expect("read");
    let kept = esker::Db::open(&store, esker::Options::default()).expect("open");
    for (db, code) in [(store.as_str(), 5), (path(&temp, "gone").as_str(), 4)] {
        let ended = esker(&["compact", "--db", db, "--trace", &trace]);
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(fs::read(&trace).expect("read") == old, "{ended:?}");
    }
    kept.close().expect("close");
    esker(&["compact", "--db", &store, "--trace", &trace]).good();
    assert!(fs::read(&trace).expect("read") != old);
}
