//! Each kind of failure: its exit code, its one line, and nothing lost.

use crate::support::{
    Ended, Temp, all, command, esker, feed, files, fingerprint, flip, on, skip, source,
};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// One line: `esker: what: what to do`.
fn one_line(ended: &Ended, what: &str) {
    assert_eq!(ended.err.lines().count(), 1, "{what}: {}", ended.err);
    assert!(ended.err.starts_with("esker: "), "{what}: {}", ended.err);
    assert!(ended.err.matches(": ").count() >= 2, "{what}: {}", ended.err);
}

#[test]
fn wrong_calls() {
    let temp = Temp::new();
    let store = temp.store();
    on(&store, &["put", "a", "1"]).good();
    let foreign = temp.join("foreign");
    fs::create_dir(&foreign).expect("directory");
    fs::write(foreign.join("notes.txt"), "mine").expect("file");
    let (foreign, nowhere) = (foreign.display(), temp.join("nowhere").display().to_string());
    let csv = temp.file("rows.csv", "a,b\n1,2\n");
    let csv = csv.display();
    for (line, code, part) in [
        ("get".to_owned(), 2, "<KEY>"),
        ("get a b".to_owned(), 2, "unexpected argument"),
        ("gett a".to_owned(), 2, "'get'"),
        ("get a --preset fast".to_owned(), 2, "edge"),
        ("get a --option speed=1".to_owned(), 2, "memory_budget_bytes"),
        ("get a --option block_bytes=1".to_owned(), 2, "512"),
        ("get nothing".to_owned(), 4, "nothing"),
        ("get a --keyspace people".to_owned(), 4, "there are default"),
        ("put a 2 --keyspace people".to_owned(), 4, "keyspaces create"),
        ("get zz --encoding hex".to_owned(), 2, "hexadecimal"),
        ("put zz \\q --encoding escaped".to_owned(), 2, "escape"),
        ("put zz".to_owned(), 2, "<VALUE>"),
        (format!("put zz --file {nowhere}"), 4, "cannot read"),
        ("scan --from b --to a".to_owned(), 2, "swap"),
        ("scan --keys-only --values".to_owned(), 2, "cannot be used with"),
        ("scan --limit many".to_owned(), 2, "many"),
        ("delete".to_owned(), 2, "--from"),
        ("delete --from a".to_owned(), 2, "--to"),
        ("delete --from b --to a".to_owned(), 2, "swap"),
        ("delete a --from a --to b".to_owned(), 2, "cannot be used with"),
        ("delete nothing --must-exist".to_owned(), 4, "nothing was removed"),
        ("keyspaces drop people".to_owned(), 4, "there are default"),
        ("keyspaces drop default".to_owned(), 2, "default"),
        ("keyspaces create default".to_owned(), 2, "already"),
        ("compact --from b --to a".to_owned(), 2, "swap"),
        (format!("checkpoint {foreign}"), 2, "exists already"),
        ("gc --dead-share 7".to_owned(), 2, "between 0 and 1"),
        ("gc --dead-share NaN".to_owned(), 2, "between 0 and 1"),
        (format!("load --key a files:{foreign}"), 2, "--key: only csv and jsonl"),
        (format!("load --skip-bad files:{foreign}"), 2, "--skip-bad: only csv and jsonl"),
        (format!("load --row-numbers leveldb:{foreign}"), 2, "--row-numbers: only csv"),
        (format!("load --delimiter ; jsonl:{csv}"), 2, "--delimiter: only csv"),
        (format!("load --paths full csv:{csv}"), 2, "--paths: only files"),
        (format!("get a --db {nowhere}"), 4, "no store"),
        (format!("get a --db {foreign}"), 4, "no store"),
        (format!("delete a --db {foreign}"), 4, "no store"),
        (format!("put a 1 --db {foreign}"), 2, "not empty"),
        (format!("put a 1 --db {csv}"), 2, "no directory"),
        ("load".to_owned(), 2, "<SOURCE>"),
        ("load rows.csv".to_owned(), 2, "files:DIR"),
        ("load xml:rows".to_owned(), 2, "files:DIR"),
        ("load csv:".to_owned(), 2, "files:DIR"),
        (format!("load csv:{nowhere}"), 4, "cannot read"),
        (format!("load csv:{foreign}"), 2, "directory"),
        (format!("load csv:{csv} --key z"), 2, "there are a, b"),
        (format!("load csv:{csv} --delimiter ab"), 2, "one ASCII character"),
        (format!("load jsonl:{nowhere}"), 4, "cannot read"),
        (format!("load files:{nowhere}"), 4, "cannot read"),
        (format!("load files:{csv}"), 2, "no directory"),
        (format!("load leveldb:{foreign}"), 4, "no LevelDB store"),
        (format!("tour --db {foreign}"), 2, "not empty"),
        (format!("tour --source {nowhere}"), 4, "cannot read"),
        ("completions basic".to_owned(), 2, "bash"),
        ("man gte".to_owned(), 2, "--help"),
    ] {
        let ended = on(&store, &line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(ended.code, code, "{line}: {ended:?}");
        assert!(ended.err.contains(part), "{line}: {}", ended.err);
        one_line(&ended, &line);
        assert_eq!(ended.out, b"", "{line}");
        assert!(!Path::new(&nowhere).exists(), "{line} made a store");
    }
    // Opening for writing rewrites logs; what is in them must be the same.
    assert_eq!(all(&store), "{\"key\":\"a\",\"value\":\"1\"}\n");
    on(&store, &["verify"]).good();
    assert_eq!(fs::read_dir(temp.join("foreign")).expect("directory").count(), 1, "untouched");
    let no_db = esker(&["get", "a"]);
    assert_eq!(no_db.code, 2);
    assert!(no_db.err.contains("--db"), "{}", no_db.err);
    one_line(&no_db, "no --db");
}

#[test]
fn a_source_that_is_missing_makes_no_store() {
    let temp = Temp::new();
    for kind in ["files", "csv", "jsonl", "leveldb"] {
        let ended = on(&temp.store(), &[&"load".into(), &source(kind, &temp.join("gone"))]);
        assert_eq!(ended.code, 4, "{kind}: {ended:?}");
        assert!(!temp.store().exists(), "{kind}");
    }
}

#[test]
fn a_store_that_is_open_is_busy() {
    let temp = Temp::new();
    let store = temp.store();
    on(&store, &["put", "a", "1"]).good();
    let mut holder = command(&["shell"])
        .env("ESKER_DB", &store)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("esker runs");
    let mut stdin = holder.stdin.take().expect("stdin");
    stdin.write_all(b"put b 2\nget b\n").expect("write");
    let mut answer = String::new();
    let mut stdout = BufReader::new(holder.stdout.take().expect("stdout"));
    stdout.read_line(&mut answer).expect("answer");
    assert_eq!(answer, "2\n");
    for line in ["get a", "put a 2", "scan", "verify", "compact", "shell", "levels"] {
        let ended = on(&store, &line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(ended.code, 5, "{line}: {ended:?}");
        one_line(&ended, line);
    }
    drop(stdin);
    assert!(holder.wait().expect("ends").success());
    assert_eq!(on(&store, &["scan"]).good(), "a\t1\nb\t2\n");
}

/// A store with tables and a log.
fn specimen(temp: &Temp) {
    let rows: String = (0..5_000).map(|i| format!("{{\"i\":{i}}}\n")).collect();
    let file = temp.file("rows.jsonl", rows);
    on(&temp.store(), &[&"load".into(), &source("jsonl", &file)]).good();
    on(&temp.store(), &["flush"]).good();
    for i in 0..20 {
        on(&temp.store(), &["put", &format!("in the log {i}"), "1"]).good();
    }
}

#[test]
fn damage_is_found_and_placed() {
    for (what, ending, part) in
        [("table", ".tbl", ".tbl"), ("log", ".wal", ".wal"), ("current", "CURRENT", "CURRENT")]
    {
        let temp = Temp::new();
        specimen(&temp);
        let store = temp.store();
        let path = files(&store, ending).pop().expect(what);
        let length = fs::metadata(&path).expect("metadata").len() as usize;
        for at in [length / 4, length / 2] {
            flip(&path, at);
            let verify = on(&store, &["verify"]);
            assert_eq!(verify.code, 3, "{what} at {at}: {verify:?}");
            let told = format!("{}{}", verify.text(), verify.err);
            assert!(told.contains(part) && told.contains("offset"), "{what} at {at}: {told}");
            one_line(&verify, what);
            flip(&path, at);
        }
        on(&store, &["verify"]).good();
    }
}

#[test]
fn damage_is_never_read_as_data() {
    let temp = Temp::new();
    specimen(&temp);
    let store = temp.store();
    let before = all(&store);
    let table = files(&store, ".tbl").pop().expect("table");
    let length = fs::metadata(&table).expect("metadata").len() as usize;
    for at in (0..length).step_by(length / 23) {
        flip(&table, at);
        let scan = on(&store, &["scan", "--json"]);
        match scan.code {
            3 => one_line(&scan, "scan"),
            // The bit stands where a scan does not look, such as a filter.
            _ => assert_eq!((scan.code, scan.text()), (0, before.as_str()), "at {at}"),
        }
        flip(&table, at);
    }
    let json = {
        flip(&table, 100);
        on(&store, &["verify", "--json"])
    };
    assert_eq!(json.code, 3, "{json:?}");
    assert!(json.text().contains("\"offset_bytes\":"), "{}", json.text());
}

#[test]
fn missing_files_are_damage() {
    for ending in ["CURRENT", ".tbl", ".wal", "MANIFEST"] {
        let temp = Temp::new();
        specimen(&temp);
        let store = temp.store();
        let wanted = |name: &String| name.ends_with(ending) || name.starts_with(ending);
        let name = fingerprint(&store).into_keys().find(wanted).expect(ending);
        fs::remove_file(store.join(name)).expect("remove");
        for command in ["verify", "scan", "flush"] {
            let ended = on(&store, &[command]);
            assert_eq!(ended.code, 3, "{ending} {command}: {ended:?}");
            one_line(&ended, ending);
        }
        let put = on(&store, &["put", "a", "1"]);
        assert_eq!(put.code, 3, "{ending} put: {put:?}");
    }
}

#[test]
fn a_full_disk_stops_the_load_and_keeps_what_was_written() {
    let temp = Temp::new();
    let mount = temp.join("small");
    fs::create_dir(&mount).expect("directory");
    let rows: String = (0..200_000)
        .map(|i: u64| format!("{{\"i\":{}}}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    let file = temp.file("rows.jsonl", rows);
    // In a mount namespace of its own; nothing is left behind.
    let script = "mount -t tmpfs -o size=4m none \"$1\" || exit 77
        \"$2\" load --db \"$1/store\" --values json --json \"jsonl:$3\"; echo \"load $?\"
        \"$2\" count --db \"$1/store\"; echo \"count $?\"";
    let small = ["--option", "memtable_bytes=256KiB", "--option", "wal_bytes_max=1MiB"];
    let script = script.replace("load --db", &format!("load {} --db", small.join(" ")));
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"])
        .arg(&mount)
        .arg(env!("CARGO_BIN_EXE_esker"))
        .arg(&file)
        .output();
    let output = match output {
        Ok(output) if output.status.code() == Some(0) => output,
        _ => return skip("no mount namespaces here, so no small disk"),
    };
    let ended = Ended::from(output);
    let lines: Vec<&str> = ended.text().lines().collect();
    let [load, code, count, counted] = lines[..] else { panic!("{ended:?}") };
    assert_eq!((code, counted), ("load 6", "count 0"), "{ended:?}");
    assert!(load.contains("\"complete\":false"), "{load}");
    let (count, told): (u64, u64) = (count.parse().expect("count"), told_records(load));
    assert!(count >= told && count > 0, "{count} in the store, {told} told");
}

/// The figure `records` of the summary of `load --json`.
pub(crate) fn told_records(summary: &str) -> u64 {
    let (_, rest) = summary.split_once("\"records\":").expect("records");
    rest.split([',', '}']).next().and_then(|n| n.parse().ok()).expect("number")
}

#[test]
fn a_failed_load_keeps_what_came_before() {
    let temp = Temp::new();
    let ended = feed(&temp.store(), &["load", "jsonl:-"], b"{\"a\":1}\n{\"a\":2}\n{\"a\":\n{}\n");
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("line 3: bad JSON"), "{}", ended.err);
    assert!(ended.err.contains("2 records before that are in the store"), "{}", ended.err);
    assert_eq!(on(&temp.store(), &["count"]).good(), "2\n");
}

/// What a command says whose output nobody reads, or, if `full`, cannot be written.
fn unread(store: &Path, args: &[&str], full: bool) -> Ended {
    let mut command = command(args);
    command.env("ESKER_DB", store);
    if full {
        command.stdout(fs::OpenOptions::new().write(true).open("/dev/full").expect("a device"));
    } else {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        command.stdout(writer);
        drop(reader);
    }
    command.stderr(Stdio::piped()).output().expect("esker runs").into()
}

#[test]
fn a_verdict_is_told_where_nobody_reads() {
    let temp = Temp::new();
    specimen(&temp);
    let store = temp.store();
    let table = files(&store, ".tbl").pop().expect("table");
    let table = table.to_str().expect("path");
    let rows = temp.file("bad.jsonl", "{\"id\":1}\n{\n");
    let rows = format!("jsonl:{}", rows.display());
    let load = ["load", "--json", &rows];
    let verdicts = |damaged: bool| {
        let dumps = [vec!["dump", table], vec!["dump", "--json", table]];
        let verifies = [vec!["verify"], vec!["verify", "--json"]];
        let code = if damaged { 3 } else { 0 };
        dumps.into_iter().chain(verifies).map(move |args| (args, code))
    };
    let check = |args: &[&str], code: i32| {
        let ended = unread(&store, args, false);
        assert_eq!(ended.code, code, "{args:?}: {ended:?}");
        if code == 0 {
            assert_eq!(ended.err, "", "{args:?}");
            return;
        }
        one_line(&ended, args[0]);
        let ended = unread(&store, args, true);
        assert_eq!(ended.code, code, "{args:?}: {ended:?}");
        assert!(ended.err.contains("cannot write the output: no space"), "{args:?}: {}", ended.err);
        assert_eq!(ended.err.lines().count(), 2, "{args:?}: {}", ended.err);
    };
    for (args, code) in verdicts(false) {
        check(&args, code);
    }
    check(&load, 1);
    flip(Path::new(table), 100);
    for (args, code) in verdicts(true) {
        check(&args, code);
    }
    for json in [false, true] {
        let copy = temp.join(format!("copy {json}"));
        fs::create_dir(&copy).expect("directory");
        for name in fingerprint(&store).into_keys() {
            fs::copy(store.join(&name), copy.join(&name)).expect("copy");
        }
        let args: &[&str] = if json { &["repair", "--json"] } else { &["repair"] };
        let ended = unread(&copy, args, false);
        assert_eq!(ended.code, 3, "{ended:?}");
        one_line(&ended, "repair");
        // It is told once: the store is sound now.
        assert_eq!(unread(&copy, args, false).code, 0, "{ended:?}");
    }
}
