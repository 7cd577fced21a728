//! The tour, on a small directory.

use crate::support::{Ended, Temp, command, esker, on};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;

#[test]
fn a_small_tour_passes_and_leaves_nothing() {
    let temp = Temp::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = source.to_str().expect("path");
    let stores = temp.join("stores");
    let dir = stores.to_str().expect("path");
    let ended = esker(&["tour", "--db", dir, "--source", source]);
    let text = ended.good();
    for part in
        ["1  Load", "SIGKILL", "3  Index", "7  Summary", "0 failed", "write amplification", "L0 "]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("FAILED"), "{text}");
    assert!(text.is_ascii(), "{text}");
    let paths_aside = text.replace(source, "");
    assert!(paths_aside.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!stores.exists(), "the stores are gone");
}

#[test]
fn kept_stores_can_be_looked_at() {
    let temp = Temp::new();
    let empty = temp.join("empty");
    fs::create_dir(&empty).expect("directory");
    let stores = temp.join("stores");
    let (dir, source) = (stores.to_str().expect("path"), empty.to_str().expect("path"));
    let ended = esker(&["tour", "--db", dir, "--source", source, "--keep", "--json"]);
    let line = ended.good();
    assert_eq!(line.lines().count(), 1, "{line}");
    for part in ["\"loaded\":0", "\"kills\":3", "\"failed\":0"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let count = on(&stores.join("crash"), &["count"]);
    let count: u64 = count.good().trim().parse().expect("number");
    assert!(line.contains(&format!("\"came_back\":{count}")), "{count}: {line}");
    let again = esker(&["tour", "--db", dir, "--source", source]);
    assert_eq!(again.code, 2, "{again:?}");
    on(&stores.join("files"), &["verify"]).good();
}

/// The processes that a process has started and that have not ended.
fn children(of: Pid) -> Vec<Pid> {
    let of = of.as_raw_nonzero();
    let tasks = fs::read_dir(format!("/proc/{of}/task")).expect("a process").flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    let pids = lists.iter().flat_map(|list| list.split_whitespace());
    pids.filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

#[test]
fn an_interrupted_tour_leaves_neither_stores_nor_a_process() {
    for signal in [Signal::INT, Signal::TERM] {
        let temp = Temp::new();
        let (empty, stores) = (temp.join("empty"), temp.join("stores"));
        fs::create_dir(&empty).expect("directory");
        let mut tour = command(&["tour", "--db"]);
        tour.arg(&stores).arg("--source").arg(&empty);
        // A group of its own, which a terminal would signal as a whole.
        tour.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = tour.spawn().expect("esker runs");
        let pid = Pid::from_child(&child);
        let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        let killing = |line: &std::io::Result<String>| {
            line.as_ref().is_ok_and(|line| line.contains("Kill a process"))
        };
        assert!(lines.any(|line| killing(&line)), "the tour comes to that");
        let mut writers = children(pid);
        while writers.is_empty() {
            assert!(child.try_wait().expect("wait").is_none(), "a process is started");
            std::thread::yield_now();
            writers = children(pid);
        }
        kill_process_group(pid, signal).expect("signal");
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        let ended = Ended::from(child.wait_with_output().expect("ends"));
        assert_eq!(ended.code, 130, "{ended:?} {rest:?}");
        assert_eq!(ended.err, "esker: the tour was interrupted: run it again\n");
        assert!(!rest.iter().any(|line| line.contains("FAILED")), "{rest:?}");
        assert!(!stores.exists(), "the stores are gone");
        assert!(writers.iter().all(|&pid| test_kill_process(pid).is_err()), "nobody is left");
    }
}
