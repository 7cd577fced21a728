//! Ctrl-C during a load: an orderly end, and a prefix of the source.

use crate::errors::told_records;
use crate::support::{Ended, Temp, all, command, feed, files, on, skip};
use rustix::event::{Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
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

/// Nothing has come yet, not even the names of columns.
#[test]
fn a_load_that_waits_for_its_first_line_is_interrupted() {
    let temp = Temp::new();
    for source in ["csv:-", "jsonl:-"] {
        let mut load = command(&["load", source]);
        load.env("ESKER_DB", temp.store());
        load.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = load.spawn().expect("esker runs");
        let stdin = child.stdin.take().expect("stdin");
        let moment = Timespec { tv_sec: 0, tv_nsec: 600_000_000 };
        poll(&mut [], Some(&moment)).expect("wait");
        kill_process(Pid::from_child(&child), Signal::INT).expect("signal");
        let ended = Ended::from(child.wait_with_output().expect("ends"));
        drop(stdin);
        assert_eq!(ended.code, 130, "{source}: {ended:?}");
        assert!(ended.err.contains("interrupted"), "{source}: {}", ended.err);
    }
}

/// A named pipe that nobody writes to, and one whose writer takes its time.
#[test]
fn what_waits_for_a_named_pipe_is_interrupted() {
    let temp = Temp::new();
    let pipe = temp.join("pipe");
    make_pipe(&pipe);
    let path = pipe.to_str().expect("path");
    let held = [None, Some(fs::File::options().read(true).write(true).open(&pipe).expect("open"))];
    for writer in held {
        if let Some(mut writer) = writer.as_ref() {
            writer.write_all(b"{\"run\":").expect("half a row");
        }
        for source in ["csv:", "jsonl:"] {
            let source = format!("{source}{path}");
            let ended = interrupted(&temp.store(), &["load", &source], Signal::INT);
            assert_eq!(ended.code, 130, "{source}: {ended:?}");
            assert!(ended.err.contains("interrupted"), "{source}: {}", ended.err);
        }
        let ended = interrupted(&temp.store(), &["watch", path], Signal::TERM);
        assert_eq!(ended.code, 0, "as it always ends: {ended:?}");
    }
}

/// How long an interrupted command may take: a second, and another for a busy machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts a command, lets it run, interrupts it, and says how it ended: it must end soon, although
/// nobody reads its output meanwhile.
fn interrupted(store: &Path, args: &[&str], signal: Signal) -> Ended {
    let mut command = command(args);
    command.env("ESKER_DB", store).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("esker runs");
    let never = Timespec { tv_sec: 0, tv_nsec: 600_000_000 };
    poll(&mut [], Some(&never)).expect("wait");
    kill_process(Pid::from_child(&child), signal).expect("signal");
    soon(args[0], || child.try_wait().expect("wait").is_some());
    Ended::from(child.wait_with_output().expect("ends"))
}

/// Waits until something is so, which it must be soon.
fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let moment = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    let mut waited = Duration::ZERO;
    while !is_so() {
        assert!(waited < PATIENCE, "{what} goes on");
        poll(&mut [], Some(&moment)).expect("wait");
        waited += Duration::from_millis(10);
    }
}

/// Puts a pipe in the place of a file: opening it waits for somebody at its other end.
fn make_pipe(path: &Path) {
    let _ = fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
}

/// Loads so many records with values that do not compress well.
fn load(store: &Path, count: u64, value_bytes: usize, how: &[&str]) {
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
    let line = [&["load", "--key", "id", "jsonl:-"], how].concat();
    feed(store, &line, text.as_bytes()).good();
}

fn check(ended: &Ended, what: &str) {
    assert_eq!(ended.code, 130, "{what}: {}", ended.err);
    let told = ended.err.starts_with("esker: interrupted: ") && ended.err.lines().count() == 1;
    assert!(told, "{what}: {}", ended.err);
}

#[test]
fn a_command_that_hangs_in_an_open_ends() {
    let find = &["find", "a"][..];
    let long = [&["flush"][..], &["compact"], &["gc"], &["checkpoint", "copy"], &["shell"]];
    for args in [&["get", "a"], &["scan"][..], find, &["count"]].into_iter().chain(long) {
        for signal in [Signal::INT, Signal::TERM] {
            let temp = Temp::new();
            on(&temp.store(), &["put", "a", "1"]).good();
            let lock = temp.store().join("LOCK");
            make_pipe(&lock);
            check(&interrupted(&temp.store(), args, signal), args[0]);
            fs::remove_file(&lock).expect("remove");
            assert_eq!(on(&temp.store(), &["get", "a"]).good(), "1\n");
        }
    }
}

#[test]
fn a_scan_that_nobody_reads_ends() {
    let temp = Temp::new();
    load(&temp.store(), 5_000, 100, &[]);
    on(&temp.store(), &["index", "create", "id"]).good();
    for args in [&["scan"][..], &["find", "id"], &["find", "id", "--scan"]] {
        check(&interrupted(&temp.store(), args, Signal::INT), args[0]);
    }
}

#[test]
fn a_compaction_that_takes_long_ends_and_harms_nothing() {
    let temp = Temp::new();
    load(&temp.store(), 40_000, 1_000, &[]);
    let held = all(&temp.store());
    for name in ["flush", "compact"] {
        let args = [name, "--option", "compression=zstd:19"];
        check(&interrupted(&temp.store(), &args, Signal::INT), name);
        on(&temp.store(), &["verify"]).good();
        assert!(all(&temp.store()) == held, "{name}: the store is another");
    }
}

#[test]
fn a_dump_that_hangs_ends() {
    let temp = Temp::new();
    for name in ["CURRENT", "MANIFEST-000001", "000003.wal", "000004.tbl"] {
        let path = temp.join(name);
        make_pipe(&path);
        let path = path.to_str().expect("path");
        check(&interrupted(&temp.store(), &["dump", path], Signal::INT), name);
    }
}

#[test]
fn a_shell_that_reads_a_pipe_ends_and_its_lines_last() {
    for signal in [Signal::INT, Signal::TERM] {
        let temp = Temp::new();
        on(&temp.store(), &["put", "a", "1"]).good();
        let mut shell = command(&["shell"]);
        shell.env("ESKER_DB", temp.store()).stdin(Stdio::piped());
        let mut child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("runs");
        let mut stdin = child.stdin.take().expect("stdin");
        stdin.write_all(b"put b 2\nget b\n").expect("write");
        child.stdout.as_mut().expect("stdout").read_exact(&mut [0; 2]).expect("an answer");
        kill_process(Pid::from_child(&child), signal).expect("signal");
        soon("shell", || child.try_wait().expect("wait").is_some());
        check(&Ended::from(child.wait_with_output().expect("ends")), "shell");
        drop(stdin);
        assert_eq!(on(&temp.store(), &["scan"]).good(), "a\t1\nb\t2\n");
    }
}

/// A place that no file can be linked from into `dir`: it is on another disk.
fn elsewhere(dir: &Path) -> Option<&'static Path> {
    let shm = Path::new("/dev/shm");
    let device = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.dev());
    (device(shm)? != device(dir)?).then_some(shm)
}

#[test]
fn an_interrupted_checkpoint_is_taken_away() {
    let target = Temp::new();
    let Some(place) = elsewhere(&target.join("")) else {
        return skip("no second disk, so nothing is copied");
    };
    let (temp, dest) = (Temp::within(place), target.join("copy"));
    load(&temp.store(), 5_000, 1_000, &["--option", "table_bytes_max=64KiB", "--bulk"]);
    let held = all(&temp.store());
    let mut checkpoint = command(&["checkpoint"]);
    checkpoint.arg(&dest).env("ESKER_DB", temp.store()).stderr(Stdio::piped());
    let mut child = checkpoint.spawn().expect("esker runs");
    let pid = Pid::from_child(&child);
    while dest.read_dir().map_or(0, Iterator::count) < 3 {
        assert!(child.try_wait().expect("wait").is_none(), "it goes on");
    }
    // It comes to a table that it cannot open yet.
    kill_process(pid, Signal::STOP).expect("signal");
    let is_copied = |table: &PathBuf| dest.join(table.file_name().expect("a name")).exists();
    let tables: Vec<_> =
        files(&temp.store(), ".tbl").into_iter().filter(|t| !is_copied(t)).collect();
    for table in &tables {
        fs::rename(table, table.with_extension("kept")).expect("rename");
        make_pipe(table);
    }
    kill_process(pid, Signal::CONT).expect("signal");
    kill_process(pid, Signal::INT).expect("signal");
    let mut told = BufReader::new(child.stderr.take().expect("stderr")).lines();
    let said = told.next().expect("a line").expect("text");
    assert!(said.starts_with("esker: interrupted: ") && said.contains("half made"), "{said}");
    assert!(said.contains(dest.to_str().expect("path")), "{said}");
    assert!(child.try_wait().expect("wait").is_none(), "it waits until nothing is left");
    let both_ends = |pipe| fs::OpenOptions::new().read(true).write(true).open(pipe);
    let _open: Vec<_> = tables.iter().map(both_ends).collect();
    soon("checkpoint", || child.try_wait().expect("wait").is_some());
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    assert!(!dest.exists(), "nothing is left");
    for table in &tables {
        fs::rename(table.with_extension("kept"), table).expect("rename");
    }
    on(&temp.store(), &["verify"]).good();
    assert!(all(&temp.store()) == held, "the store is another");
}
