//! The command `esker-bench`, as a person uses it.

#![allow(clippy::disallowed_methods, reason = "what runs beside the test is another process")]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A directory that goes with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = std::env::temp_dir().join(format!("esker-bench-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a directory for the test");
        Place(dir)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker-bench"));
    command.args(arguments).stdin(Stdio::null()).output().expect("the command runs")
}

fn said(arguments: &[&str]) -> String {
    let output = bench(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

fn refused(arguments: &[&str]) -> String {
    let output = bench(arguments);
    assert!(!output.status.success(), "{arguments:?} should fail");
    String::from_utf8(output.stderr).expect("text")
}

/// Runs workloads and returns what was measured.
fn measured(place: &Place, name: &str, arguments: &[&str]) -> Vec<Value> {
    let json = place.path(name);
    said(&[&["run", "--json", &json][..], arguments].concat());
    let report: Value = serde_json::from_slice(&fs::read(&json).expect("a report")).expect("JSON");
    report["runs"].as_array().expect("runs").clone()
}

fn figure(run: &Value, name: &str) -> u64 {
    run[name].as_u64().unwrap_or_else(|| panic!("{name} in {run}"))
}

#[test]
fn every_workload_runs_and_says_what_it_did() {
    let place = Place::new("every");
    let list = said(&["list"]);
    let names: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let (ycsb, plain): (Vec<&str>, Vec<&str>) =
        names.iter().partition(|name| name.starts_with("ycsb"));
    for (kind, names) in [("plain", plain), ("ycsb", ycsb)] {
        let benchmarks = names.join(",");
        let flags = ["--num", "2000", "--threads", "2", "--benchmarks", &benchmarks];
        let runs = measured(&place, kind, &flags);
        let ran: Vec<&str> = runs.iter().filter_map(|run| run["workload"].as_str()).collect();
        assert_eq!(ran, names);
        for run in &runs {
            assert!(figure(run, "operations") > 0, "{run}");
            let timed = figure(&run["reads"], "count") + figure(&run["writes"], "count");
            assert!(timed > 0, "{run}");
        }
    }
}

#[test]
fn what_is_found_is_what_is_there() {
    let place = Place::new("found");
    let benchmarks =
        "fillseq,readrandom,readmissing,readseq,readreverse,seekrandom,reopen,readrandom";
    let flags = ["--num", "3000", "--seek_nexts", "1", "--benchmarks", benchmarks];
    let runs = measured(&place, "a", &flags);
    let found: Vec<u64> = runs.iter().map(|run| figure(run, "found")).collect();
    assert_eq!(found, [0, 3000, 0, 3000, 3000, 3000, 3000]);
    assert_eq!(figure(&runs[0], "user_written_bytes"), 3000 * (16 + 100));
    assert!(figure(&runs[0], "written_bytes") > 3000 * (16 + 50), "{}", runs[0]);
    // The same seed draws the same keys, another one others.
    let flags = ["--num", "3000", "--benchmarks", "fillrandom,readseq"];
    let distinct = |name: &str, seed: &str| {
        let runs = measured(&place, name, &[&flags[..], &["--seed", seed]].concat());
        figure(&runs[1], "found")
    };
    let (one, again, other) = (distinct("b", "1"), distinct("c", "1"), distinct("d", "2"));
    assert_eq!(one, again);
    assert_ne!(one, other);
    // 3000 draws of 3000 keys meet about 63 in a hundred of them.
    assert!((1800..2000).contains(&one), "{one}");
}

#[test]
fn results_are_kept_shown_compared_and_drawn() {
    let place = Place::new("kept");
    let flags = ["--num", "20000", "--repeat", "3", "--benchmarks", "fillrandom,readrandom"];
    assert_eq!(measured(&place, "a.json", &flags).len(), 6);
    measured(&place, "b.json", &["--num", "40000", "--benchmarks", "fillrandom,readrandom"]);
    let paced = ["--rate", "1000", "--num", "1500", "--benchmarks", "fillrandom"];
    let runs = measured(&place, "paced.json", &paced);
    let slowest = runs[0]["slowest_ns"].as_array().expect("times");
    assert!(slowest.len() >= 15 && slowest.iter().any(|ns| ns.as_u64() > Some(0)), "{slowest:?}");
    let files = said(&["plot", &place.path("paced.json"), "--out", &place.path("paced")]);
    assert!(files.contains("slowest-0-fillrandom.svg"), "{files}");
    let (a, b, out) = (place.path("a.json"), place.path("b.json"), place.path("plots"));
    assert!(said(&["show", &a]).contains("readrandom"));
    let tables = said(&["show", "--markdown", &a]);
    assert!(tables.contains("\n| readrandom | "), "{tables}");
    assert!(tables.contains("\n| workload | esker"), "{tables}");
    let compared = said(&["compare", &a, &b]);
    assert!(compared.contains("B/A") && compared.contains("fillrandom"), "{compared}");
    let files = said(&["plot", &a, &b, "--out", &out]);
    assert!(files.lines().count() >= 4, "{files}");
    for file in files.lines() {
        let text = fs::read_to_string(file).expect("a drawing");
        assert!(text.contains("<svg"), "{file}");
        // It needs nothing from elsewhere.
        for foreign in ["src=", "href=", "<script", "@import"] {
            assert!(!text.contains(foreign), "{file} has {foreign}");
        }
    }
    let growth = Path::new(&out).join("growth-1-readrandom.svg");
    assert!(fs::read_to_string(growth).expect("a drawing").matches("<circle").count() >= 2);
}

#[test]
fn what_is_kept_in_memory_is_taken_apart() {
    let place = Place::new("ablation");
    let (json, plots, db) = (place.path("json"), place.path("plots"), place.path("db"));
    let flags = ["ablation", "--sizes", "2000,4Ki", "--reads", "2000", "--duration_min", "0"];
    let more = ["--repeat", "1", "--db", &db, "--json", &json, "--plots", &plots];
    let shown = said(&[&flags[..], &more].concat());
    for workload in ["readrandom", "readmissing"] {
        assert!(shown.contains(workload), "{shown}");
        let drawing = Path::new(&plots).join(format!("cost-{workload}.svg"));
        let drawing = fs::read_to_string(drawing).expect("a drawing");
        assert!(drawing.matches("<circle").count() >= 8, "a point for each size and part");
    }
    let report = fs::read(Path::new(&json).join("4096.json")).expect("a report");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let runs = report["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 4 * 2);
    for run in runs {
        let expected = if run["workload"] == "readrandom" { 2000 } else { 0 };
        assert_eq!(figure(run, "found"), expected, "{run}");
    }
    assert_eq!(fs::read_dir(&db).expect("it stays").count(), 0, "stores are removed");
    assert!(refused(&["ablation", "--sizes", "1Gi"]).contains("16Ki"));
}

#[test]
fn schedules_of_a_paper_are_simulated_and_drawn() {
    let place = Place::new("slot");
    let out = place.path("out");
    said(&["papers", "slot", "--simulated", "--sizes", "1", "--quiet", "--out", &out]);
    let read = |name: &str| {
        let path = Path::new(&out).join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let schedules = ["priority", "slice of 8 s", "dynamic slice", "ratio"];
    let tables = read("slot.md");
    for schedule in schedules {
        let rows = tables.matches(&format!("\n| 1 GB | {schedule} | ")).count();
        assert_eq!(rows, 1, "{schedule}: {tables}");
    }
    for slice in ["200 ms", "8.00 s", "64.0 s", "dynamic"] {
        assert!(tables.contains(&format!("\n| {slice} | ")), "{slice}: {tables}");
    }
    let drawings = [
        ("5-5", 4),
        ("5-6-7", 4),
        ("5-9", 3),
        ("5-10-a", 3),
        ("5-10-d", 3),
        ("5-11", 3),
        ("5-12", 3),
    ];
    let named = drawings.map(|(number, count)| (format!("figure-{number}.svg"), count));
    // In one report two are drawn over time.
    for (drawing, count) in named.iter().chain([&("simulated/report.html".to_owned(), 2)]) {
        let (text, count) = (read(drawing), *count);
        assert!(text.contains("<svg"), "{drawing}");
        for schedule in &schedules[..count] {
            assert!(text.contains(schedule), "{schedule} in {drawing}");
        }
    }
    let text = read("figure-5-9.svg");
    assert!(text.contains("at 1 GB") && text.contains("Slot there, at 5 GB"), "{text}");
    for drawing in ["figure-5-1.svg", "figure-5-13.svg"] {
        let text = read(drawing);
        assert!(text.contains("1 GB") && text.contains("as built there"), "{drawing}");
    }
    assert!(tables.contains("\n| lacks of the best | "), "{tables}");
    assert!(refused(&["papers", "slot", "--sizes", "one", "--out", &out]).contains("--sizes"));
    let odd = ["papers", "slot", "--table-mib", "3", "--out", &out];
    assert!(refused(&odd).contains("multiple of 2"));
}

/// What stands in the files of a command.
fn file(out: &str, name: &str) -> String {
    let path = Path::new(out).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn gets_and_puts_of_a_course_are_measured_and_drawn() {
    let place = Place::new("basics");
    let (out, db) = (place.path("out"), place.path("db"));
    let flags = ["papers", "basics", "--quiet", "--sizes", "2000,4Ki", "--reads", "2000"];
    let more = ["--duration_min", "0.1", "--repeat", "1", "--load", "20MB", "--db", &db];
    said(&[&flags[..], &more, &["--out", &out]].concat());
    let page = file(&out, "basics.md");
    let gets: Value = serde_json::from_str(&file(&out, "gets-2000.json")).expect("JSON");
    for run in gets["runs"].as_array().expect("runs") {
        assert!(run["seconds"].as_f64().expect("a number") >= 0.1, "{run}");
    }
    for row in ["2000", "4096"] {
        let cells = |line: &&str| line.split('|').filter(|cell| !cell.trim().is_empty()).count();
        let rows = page.lines().filter(|line| line.starts_with(&format!("| {row} | ")));
        assert_eq!(rows.filter(|line| cells(line) == 5).count(), 2, "hits and misses: {page}");
    }
    assert!(page.contains("\n| 65536, there | 790 µs | 61.5 µs | 56.7 µs |"), "{page}");
    assert!(page.contains("everything kept, from 2000 to 4096 records: x "), "{page}");
    for kib in 1..=3 {
        assert_eq!(page.matches(&format!("\n| {kib} KiB | ")).count(), 1, "{page}");
        let report: Value =
            serde_json::from_str(&file(&out, &format!("puts-{kib}KiB.json"))).expect("JSON");
        let puts = figure(&report["runs"][0], "user_written_bytes");
        assert!((19_990_000..=20_000_000).contains(&puts), "{puts}");
    }
    for drawing in ["cost-readrandom.svg", "cost-readmissing.svg", "puts.svg"] {
        assert!(file(&out, drawing).contains("<svg"), "{drawing}");
    }
    assert_eq!(fs::read_dir(&db).expect("it stays").count(), 0, "stores are removed");
    // A part alone.
    let only = place.path("only");
    said(&["papers", "basics", "--quiet", "--puts", "--load", "1MB", "--out", &only]);
    let page = file(&only, "basics.md");
    assert!(page.contains("## Puts") && !page.contains("## Gets"), "{page}");
    let message = refused(&["papers", "basics", "--load", "much", "--out", &out]);
    assert!(message.contains("4GB"), "{message}");
}

#[test]
fn stores_without_a_log_are_measured_and_drawn() {
    let place = Place::new("phoenix");
    let (out, db) = (place.path("out"), place.path("db"));
    let flags = ["papers", "phoenix", "--quiet", "--writes", "2000", "--pairs", "20000,40000"];
    let sizes = ["--store_size", "4MB", "--repair_size", "4MB", "--repair_groups", "4"];
    let more = ["--rate", "500", "--seconds", "0.3", "--repeat", "1", "--db", &db, "--out", &out];
    said(&[&flags[..], &sizes, &more].concat());
    let found: Value = serde_json::from_str(&file(&out, "phoenix.json")).expect("JSON");
    let all = |name: &str| found[name].as_array().expect("a list").clone();
    let latency = all("latency");
    assert_eq!(latency.len(), 7);
    for run in &latency {
        assert_eq!(figure(&run["latency"], "count"), 2_000, "{run}");
        assert!(figure(&run["latency"], "p99") > 10, "{run}");
    }
    let sizes: Vec<(u64, bool)> = all("tables")
        .iter()
        .map(|filled| (figure(filled, "pairs"), filled["grouped"] == true))
        .collect();
    assert_eq!(sizes, [(20_000, false), (20_000, true), (40_000, false), (40_000, true)]);
    let deleted = &all("deletions")[0];
    let written = figure(deleted, "flushed_bytes") + figure(deleted, "compacted_bytes");
    assert_eq!(written, 0, "{deleted}");
    assert!(figure(&deleted["reads"][1], "count") > 100, "{deleted}");
    let repairs = all("repairs");
    assert_eq!(repairs.len(), 8);
    for repair in &repairs {
        assert!(figure(repair, "live_bytes") > 1_000_000, "{repair}");
        assert!(figure(repair, "written_bytes") > 0, "{repair}");
    }
    let page = file(&out, "phoenix.md");
    for row in ["\n| no log: apply | ", "\n| all groups | delete_group, ingest_group | "] {
        assert_eq!(page.matches(row).count(), 1, "{row}: {page}");
    }
    for drawing in ["latency", "tables", "deletion", "repair"] {
        assert!(file(&out, &format!("{drawing}.svg")).contains("<svg"), "{drawing}");
    }
    assert_eq!(fs::read_dir(&db).expect("it stays").count(), 0, "stores are removed");
    // A part alone.
    let only = place.path("only");
    said(&["papers", "phoenix", "--quiet", "--parts", "tables", "--pairs", "5000", "--out", &only]);
    let page = file(&only, "phoenix.md");
    assert!(page.contains("## Tables") && !page.contains("## Full"), "{page}");
    let few = ["papers", "phoenix", "--groups", "8", "--out", &only];
    assert!(refused(&few).contains("--threads"));
}

#[test]
fn puts_are_paced_below_and_above_what_is_sustained() {
    let place = Place::new("stalls");
    let (out, db) = (place.path("out"), place.path("db"));
    let flags = ["stalls", "--quiet", "--num", "20000", "--probe", "0.5", "--duration", "1.2"];
    let more = ["--shares", "0.2,2", "--step", "0.5", "--db", &db, "--out", &out];
    said(&[&flags[..], &more].concat());
    let report: Value = serde_json::from_str(&file(&out, "stalls.json")).expect("JSON");
    let runs = report["runs"].as_array().expect("runs");
    let names: Vec<&str> = runs.iter().filter_map(|run| run["workload"].as_str()).collect();
    assert_eq!(names, ["filluniquerandom", "probe", "long-0.5", "at-0.2", "flood-2", "at-2"]);
    assert_eq!(figure(&runs[0], "operations"), 20_000);
    let rate = |at: usize| {
        figure(&runs[at], "operations") as f64 / runs[at]["seconds"].as_f64().expect("seconds")
    };
    assert!(rate(3) < rate(2) && rate(3) < rate(1) / 2.0, "{} {} {}", rate(3), rate(2), rate(1));
    let page = file(&out, "stalls.md");
    for row in ["\n1.2 s at 0.5 of it", "\n| 0.5 | ", "\n0.5 s each", "\n| 0.2 | ", "\n| 2 | "] {
        assert_eq!(page.matches(row).count(), 1, "{row}: {page}");
    }
    for drawing in ["achieved.svg", "pace.svg", "longest.svg"] {
        assert!(file(&out, drawing).contains("<polyline"), "{drawing}");
    }
    assert_eq!(fs::read_dir(&db).expect("it stays").count(), 0, "the store is removed");
    assert!(refused(&["stalls", "--share", "0", "--out", &out]).contains("--share"));
}

#[test]
fn interrupted_stalls_leave_no_store() {
    let place = Place::new("cut");
    let (out, db) = (place.path("out"), place.path("db"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker-bench"));
    command.args(["stalls", "--quiet", "--num", "1000", "--probe", "0.5"]);
    command.args(["--db", &db, "--out", &out]).stderr(Stdio::piped());
    let child = command.spawn().expect("a child");
    std::thread::sleep(Duration::from_secs(2));
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a signal");
    let start = Instant::now();
    let output = child.wait_with_output().expect("an end");
    assert_eq!(output.status.code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert_eq!(fs::read_dir(&db).expect("it stays").count(), 0, "the store is removed");
}

#[test]
fn rounds_follow_each_other_in_a_directory_of_ones_own() {
    let place = Place::new("rounds");
    let db = place.path("db");
    let flags = ["--num", "1000", "--repeat", "2", "--db", &db, "--benchmarks", "fillseq,readseq"];
    let runs = measured(&place, "rounds", &flags);
    assert_eq!(runs.len(), 4);
    assert!(runs.iter().all(|run| figure(run, "operations") >= 1000), "{runs:?}");
}

#[test]
fn results_are_kept_although_nobody_reads_what_is_shown() {
    let place = Place::new("closed");
    let json = place.path("kept.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker-bench"));
    command.args(["run", "--num", "1000", "--benchmarks", "fillseq", "--json", &json]);
    assert_eq!(unread(&mut command), Some(0));
    assert!(fs::read_to_string(&json).expect("it is kept").contains("fillseq"));
    let (json, plots) = (place.path("json"), place.path("plots"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker-bench"));
    command.args(["ablation", "--sizes", "1000", "--reads", "100", "--duration_min", "0"]);
    command.args(["--repeat", "1", "--json", &json, "--plots", &plots]);
    assert_eq!(unread(&mut command), Some(0));
    for kept in [Path::new(&json).join("1000.json"), Path::new(&plots).join("cost-readrandom.svg")]
    {
        assert!(kept.exists(), "{}", kept.display());
    }
}

/// The exit code of a command whose pipes are closed.
fn unread(command: &mut Command) -> Option<i32> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a child");
    drop((child.stdout.take(), child.stderr.take()));
    child.wait().expect("an end").code()
}

#[test]
fn a_place_that_takes_no_results_is_refused_before_anything_runs() {
    let place = Place::new("nowhere");
    let json = place.path("no directory/kept.json");
    let flags = ["run", "--num", "1000", "--benchmarks", "fillseq", "--json", &json];
    let output = bench(&flags);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("kept.json"), "{said}");
    assert!(!said.contains("fillseq"), "it ran: {said}");
    let file = place.path("file");
    fs::write(&file, "text").expect("a file");
    for flag in ["--json", "--plots"] {
        let flags = ["ablation", "--sizes", "1000", "--reads", "100", "--repeat", "1", flag, &file];
        let said = refused(&flags);
        assert!(said.contains(&file) && !said.contains("readrandom"), "it ran: {said}");
    }
}

#[test]
fn sizes_before_one_that_fails_are_shown_and_kept() {
    let place = Place::new("late");
    let (json, db) = (place.path("json"), place.path("db"));
    // The second size finds its place taken.
    fs::create_dir_all(Path::new(&db).join("2000-plain")).expect("a directory");
    let flags = ["ablation", "--sizes", "1000,2000", "--reads", "100", "--duration_min", "0"];
    let output = bench(&[&flags[..], &["--repeat", "1", "--db", &db, "--json", &json]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("is there already"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("readmissing"), "the first size");
    assert!(Path::new(&json).join("1000.json").exists());
    assert!(!Path::new(&json).join("2000.json").exists());
}

#[test]
fn a_store_of_ones_own_is_kept() {
    let place = Place::new("own");
    let db = place.path("db");
    said(&["run", "--num", "1000", "--benchmarks", "fillseq", "--db", &db]);
    let message = refused(&["run", "--num", "1000", "--benchmarks", "fillseq", "--db", &db]);
    assert!(message.contains("not empty") && message.contains("--use_existing_db"), "{message}");
    let store = format!("{db}/store");
    let flags = ["--num", "1000", "--use_existing_db", "--db", &store, "--benchmarks"];
    let runs = measured(&place, "again", &[&flags[..], &["readrandom"]].concat());
    assert_eq!(figure(&runs[0], "found"), 1000);
    let message = refused(&[&["run"][..], &flags, &["fillseq"]].concat());
    assert!(message.contains("--use_existing_db"), "{message}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let place = Place::new("nonsense");
    let cases: &[(&[&str], &str)] = &[
        (&["--benchmarks", "fillfast"], "there are fillseq"),
        (&["--benchmarks", "readrandom"], "needs a filled store"),
        (&["--benchmarks", "fillseq,ycsb-a"], "scattered"),
        (&["--num", "0"], "--num"),
        (&["--key_size", "3"], "key"),
        (&["--value_size", "0"], "--value_size"),
        (&["--threads", "0"], "--threads"),
        (&["--compression_ratio", "2"], "--compression_ratio"),
        (&["--duration=-1"], "--duration"),
        (&["--rate", "0"], "--rate"),
        (&["--use_existing_db"], "--db"),
        (&["--write_buffer_size", "1", "--benchmarks", "fillseq"], "memtable"),
    ];
    for (flags, reason) in cases {
        let message = refused(&[&["run"][..], flags].concat());
        assert!(message.contains(reason), "{flags:?}: {message}");
    }
    let text = place.path("text");
    fs::write(&text, "no report").expect("a file");
    for command in
        [&["show", &text][..], &["compare", &text, &text], &["plot", &text, "--out", "x"]]
    {
        assert!(refused(command).contains("is no report"), "{command:?}");
    }
}

#[test]
fn a_rate_is_kept() {
    let place = Place::new("rate");
    let flags = ["--num", "1000", "--threads", "2", "--rate", "2000", "--benchmarks"];
    let runs = measured(&place, "rate", &[&flags[..], &["fillrandom,readwhilewriting"]].concat());
    for run in &runs {
        let seconds = run["seconds"].as_f64().expect("seconds");
        assert!(seconds > 0.49, "1000 operations at 2000 a second, in {seconds} s");
        assert_eq!(figure(run, "operations"), 1_000);
    }
    // One in 500 s, the threads in turns: only the first is due before the end.
    let flags = ["--rate", "0.002", "--threads", "2", "--duration", "0.3", "--benchmarks"];
    let start = Instant::now();
    let runs = measured(&place, "slow", &[&flags[..], &["fillrandom"]].concat());
    assert_eq!(figure(&runs[0], "operations"), 1, "the second thread's is due after 500 s");
    assert!(start.elapsed() < Duration::from_secs(60), "nobody sleeps through the end");
}

#[test]
fn a_load_is_whole_whatever_the_time() {
    let place = Place::new("whole");
    let flags = ["--num", "300000", "--reads", "1000000000", "--duration", "0.002", "--benchmarks"];
    let runs = measured(&place, "whole", &[&flags[..], &["ycsb-load,ycsb-c"]].concat());
    assert_eq!(figure(&runs[0], "operations"), 300_000);
    let seconds = runs[0]["seconds"].as_f64().expect("seconds");
    assert!(seconds > 0.004, "so long that it could have been cut: {seconds} s");
    assert!(figure(&runs[1], "operations") < 1_000_000_000, "what is no load ends when it should");
}

#[test]
fn an_interrupted_run_shows_what_it_has() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_esker-bench"));
    command.args(["run", "--num", "1000000000", "--value_size", "1000"]);
    command.args(["--benchmarks", "fillrandom,readrandom"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a child");
    std::thread::sleep(Duration::from_secs(1));
    let start = Instant::now();
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("a signal");
    let output = child.wait_with_output().expect("an end");
    assert_eq!(output.status.code(), Some(130));
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.contains("fillrandom") && !shown.contains("readrandom"), "{shown}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}
