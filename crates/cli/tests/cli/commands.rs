//! Each command does what it says.

use crate::support::{Temp, all, command, esker, feed, files, fingerprint, on, source};
use std::fs;
use std::io::Read;
use std::process::Stdio;

fn filled() -> Temp {
    let temp = Temp::new();
    for (key, value) in [("a", "1"), ("b", "2"), ("ba", "3"), ("bb", "4"), ("c", "5")] {
        on(&temp.store(), &["put", key, value]).good();
    }
    temp
}

#[test]
fn put_get_delete() {
    let temp = Temp::new();
    let store = temp.store();
    assert_eq!(on(&store, &["put", "bread", "2"]).good(), "");
    assert_eq!(on(&store, &["get", "bread"]).good(), "2\n");
    assert_eq!(on(&store, &["get", "bread", "--raw"]).good(), "2");
    assert_eq!(
        on(&store, &["get", "bread", "--json"]).good(),
        "{\"key\":\"bread\",\"value\":\"2\"}\n"
    );
    assert_eq!(on(&store, &["put", "bread", "-3", "--json"]).good(), "{\"ok\":true}\n");
    assert_eq!(on(&store, &["get", "bread"]).good(), "-3\n");
    on(&store, &["delete", "bread"]).good();
    assert_eq!(on(&store, &["get", "bread"]).code, 4);
    on(&store, &["delete", "bread"]).good();
    assert_eq!(on(&store, &["delete", "bread", "--must-exist"]).code, 4);
    on(&store, &["put", "", ""]).good();
    assert_eq!(on(&store, &["get", ""]).good(), "\n", "the empty key is a key");
}

#[test]
fn bytes_in_all_encodings() {
    let temp = Temp::new();
    let store = temp.store();
    on(&store, &["put", "--encoding", "hex", "00ff0a", "1b5b316d"]).good();
    assert_eq!(on(&store, &["scan"]).good(), "\\x00\\xff\\n\t\\x1b[1m\n");
    assert_eq!(on(&store, &["scan", "--encoding", "hex"]).good(), "00ff0a\t1b5b316d\n");
    let escaped = "\\x00\\xff\\n";
    let get = on(&store, &["get", "--encoding", "escaped", escaped]);
    assert_eq!(get.good(), "\\x1b[1m\n");
    let raw = on(&store, &["get", "--encoding", "escaped", escaped, "--raw"]);
    assert_eq!(raw.out, b"\x1b[1m");
    assert_eq!(
        on(&store, &["scan", "--json"]).good(),
        "{\"key_hex\":\"00ff0a\",\"value\":\"\\u001b[1m\"}\n"
    );
    let file = temp.file("value", [0, 159, 146, 150]);
    on(&store, &["put", "f", "--file", file.to_str().expect("path")]).good();
    assert_eq!(on(&store, &["get", "f", "--raw"]).out, [0, 159, 146, 150]);
    assert_eq!(feed(&store, &["put", "g", "--file", "-"], b"from a pipe").code, 0);
    assert_eq!(on(&store, &["get", "g"]).good(), "from a pipe\n");
}

#[test]
fn scans_and_counts() {
    let temp = filled();
    let store = temp.store();
    for (args, keys) in [
        ("", "a b ba bb c"),
        ("--reverse", "c bb ba b a"),
        ("--from b", "b ba bb c"),
        ("--to b", "a"),
        ("--from b --to c", "b ba bb"),
        ("--from b --to c --reverse --limit 2", "bb ba"),
        ("--prefix b", "b ba bb"),
        ("--prefix b --from ba", "ba bb"),
        ("--prefix b --reverse --limit 1", "bb"),
        ("--prefix x", ""),
        ("--prefix b --from c", ""),
        ("--limit 0", ""),
        ("--from b --to b", ""),
    ] {
        let mut line = vec!["scan", "--keys-only"];
        line.extend(args.split_whitespace());
        let found = on(&store, &line);
        assert_eq!(found.good().split_whitespace().collect::<Vec<_>>().join(" "), keys, "{args}");
        if !args.contains("--limit") && !args.contains("--reverse") {
            line[0] = "count";
            line.remove(1);
            let count = keys.split_whitespace().count();
            assert_eq!(on(&store, &line).good(), format!("{count}\n"), "{args}");
        }
    }
    assert_eq!(on(&store, &["scan", "--values", "--limit", "2"]).good(), "1\n2\n");
    assert_eq!(on(&store, &["scan", "--limit", "1"]).good(), "a\t1\n");
    assert_eq!(on(&store, &["count", "--json"]).good(), "{\"count\":5}\n");
}

#[test]
fn ranges_are_deleted() {
    let temp = filled();
    let store = temp.store();
    on(&store, &["delete", "--from", "a", "--to", "b"]).good();
    assert_eq!(on(&store, &["count"]).good(), "4\n");
    on(&store, &["put", "-2", "two"]).good();
    assert_eq!(on(&store, &["scan", "--from", "-1", "--to", "-5"]).good(), "-2\ttwo\n");
    assert_eq!(on(&store, &["count", "--prefix", "-2"]).good(), "1\n");
    on(&store, &["delete", "--from", "-1", "--to", "-5"]).good();
    assert_eq!(on(&store, &["count"]).good(), "4\n");
    on(&store, &["delete", "--prefix", "b"]).good();
    assert_eq!(on(&store, &["scan"]).good(), "c\t5\n");
    // No key stands behind all that begin so.
    let hex = |args: &[&str]| on(&store, &[args, &["--encoding", "hex"]].concat());
    for prefix in ["ff", "ffff"] {
        for key in ["fe", "ff", "ffff", "ffff00", "fffe"] {
            hex(&["put", key, "00"]).good();
        }
        hex(&["delete", "--prefix", prefix]).good();
        let left = if prefix == "ff" { "63\nfe\n" } else { "63\nfe\nff\nfffe\n" };
        assert_eq!(hex(&["scan", "--keys-only"]).good(), left);
        hex(&["delete", "--prefix", prefix]).good();
    }
    assert_eq!(on(&store, &["delete", "--prefix", ""]).code, 2);
}

#[test]
fn reading_changes_nothing_on_the_disk() {
    let temp = filled();
    let store = temp.store();
    on(&store, &["flush"]).good();
    on(&store, &["put", "in the log", "6"]).good();
    on(&store, &["index", "create", "v"]).good();
    let before = fingerprint(&store);
    for args in [
        "get a",
        "get nothing",
        "scan",
        "scan --reverse",
        "count",
        "stats",
        "levels",
        "verify",
        "keyspaces list",
        "index list",
        "groups",
        "find v",
        "find v 1",
        "find v --scan",
    ] {
        for more in ["", " --json"] {
            let line = format!("{args}{more}");
            let ended = on(&store, &line.split_whitespace().collect::<Vec<_>>());
            assert!(matches!(ended.code, 0 | 4), "{line}: {ended:?}");
            assert_eq!(fingerprint(&store), before, "{line}");
        }
    }
    feed(&store, &["shell", "--read-only"], b"get a\nscan\n").good();
    assert_eq!(fingerprint(&store), before, "shell");
}

#[test]
fn values_apart_are_moved_told_of_and_dumped() {
    let temp = Temp::new();
    let store = temp.store();
    let apart = ["--preset", "large_values", "--option", "value_log_compression=\"none\""];
    let file = temp.file("value", vec![b'v'; 5_000]);
    let path = file.to_str().expect("path");
    for key in ["a", "b", "c"] {
        let put = ["put", key, "--file", path];
        on(&store, &[&put[..], &apart[..]].concat()).good();
    }
    assert_eq!(on(&store, &["get", "b", "--raw"]).out, vec![b'v'; 5_000]);
    on(&store, &["flush"]).good();
    let stats = on(&store, &["stats"]).good().to_owned();
    assert!(stats.contains("values apart") && !stats.contains("alive %"), "{stats}");
    let tables = files(&store, ".tbl");
    let dumped = esker(&["dump", "--records", tables[0].to_str().expect("path")]).good().to_owned();
    assert!(dumped.contains("5000 bytes at ") && dumped.contains(" of log "), "{dumped}");
    let files_too = on(&store, &["stats", "--values"]).good().to_owned();
    assert!(files_too.starts_with(&stats), "{files_too}");
    let rows: Vec<&str> = files_too.lines().skip_while(|line| !line.contains("alive %")).collect();
    assert!(rows.len() == 2 && rows[1].ends_with("log"), "one log holds all values: {files_too}");
    on(&store, &["delete", "b"]).good();
    // So much may be wasted that nothing is moved in the background meanwhile.
    let gc = ["gc", "--option", "value_log_space_amp_max=100"];
    let told = on(&store, &gc).good().to_owned();
    assert!(told.starts_with("1 file of 1"), "{told}");
    let again = on(&store, &[&gc[..], &["--json"]].concat()).good().to_owned();
    assert!(again.contains("\"files\":0") && again.contains("\"live_bytes\":10018"), "{again}");
    let moved = on(&store, &["stats", "--values"]).good().to_owned();
    assert!(moved.trim_end().ends_with("values alone"), "{moved}");
    let values = files(&store, ".val");
    let dumped = esker(&["dump", values[0].to_str().expect("path")]).good().to_owned();
    assert!(dumped.contains("value, 5000 bytes, compression none"), "{dumped}");
    assert!(dumped.contains("directory of 2 values, written to logs"), "{dumped}");
    assert_eq!(on(&store, &["get", "c", "--raw"]).out, vec![b'v'; 5_000]);
    on(&store, &["verify"]).good();
}

#[test]
fn a_store_without_current_is_no_strange_directory() {
    let temp = filled();
    let store = temp.store();
    std::fs::remove_file(store.join("CURRENT")).expect("remove");
    std::fs::create_dir(store.join("lost")).expect("as a repair leaves it");
    let refused = on(&store, &["put", "d", "6"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.err.contains("run `esker repair`"), "{refused:?}");
}

#[test]
fn flush_compact_checkpoint() {
    let temp = filled();
    let store = temp.store();
    let before = all(&store);
    assert_eq!(on(&store, &["flush"]).good(), "flushed 5 records\n");
    assert_eq!(files(&store, ".tbl").len(), 1);
    on(&store, &["put", "d", "6"]).good();
    on(&store, &["delete", "d"]).good();
    on(&store, &["compact"]).good();
    assert_eq!(files(&store, ".tbl").len(), 1);
    on(&store, &["compact", "--from", "a", "--to", "b", "--json"]).good();
    assert_eq!(all(&store), before);
    let copy = temp.join("copy");
    on(&store, &["checkpoint", copy.to_str().expect("path")]).good();
    on(&store, &["put", "later", "7"]).good();
    assert_eq!(all(&copy), before, "the copy is of its moment");
    let again = on(&store, &["checkpoint", copy.to_str().expect("path")]);
    assert_eq!(again.code, 2, "{again:?}");
    assert_eq!(all(&copy), before);
}

#[test]
fn groups_are_listed_with_their_tables() {
    let temp = Temp::new();
    let dir = temp.store();
    let options = esker::Options {
        durability: esker::Durability::External,
        default_keyspace: esker::KeyspaceOptions {
            groups: Some(esker::GroupPrefix::Delimiter { byte: b'/' }),
            group_table_bytes_min: 4 << 10,
            ..esker::KeyspaceOptions::default()
        },
        ..esker::Options::default()
    };
    let db = esker::Db::open(&dir, options).expect("open");
    for (group, count) in [("a/", 500), ("b/", 2), ("c/", 300)] {
        for index in 1..=count {
            let mut batch = esker::Batch::new();
            batch.put(format!("{group}{index:04}").as_bytes(), &[b'v'; 100]);
            let group = group.as_bytes();
            db.apply(esker::Applied { group, index, note: b"" }, batch).expect("apply");
        }
    }
    db.close().expect("close");
    let listed = on(&dir, &["groups"]);
    let listed = listed.good();
    let lines: Vec<&str> = listed.lines().collect();
    assert_eq!(lines.len(), 3, "{listed}");
    assert!(lines[0].starts_with("a/") && lines[0].contains("500") && lines[0].contains("1 table"));
    assert!(lines[1].starts_with("b/") && lines[1].ends_with("in 0 tables, some in 1 shared"));
    let json = on(&dir, &["groups", "--json"]);
    let all: Vec<serde_json::Value> =
        json.good().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((all[2]["group"].as_str(), all[2]["applied"].as_u64()), (Some("c/"), Some(300)));
    assert_eq!(all[0]["entries"].as_u64(), Some(500));
}

#[test]
fn keyspaces_are_apart() {
    let temp = filled();
    let store = temp.store();
    let before = all(&store);
    on(&store, &["keyspaces", "create", "people"]).good();
    on(&store, &["put", "--keyspace", "people", "ann", "1"]).good();
    assert_eq!(on(&store, &["scan", "--keyspace", "people"]).good(), "ann\t1\n");
    assert_eq!(all(&store), before);
    let list = on(&store, &["keyspaces", "list", "--json"]);
    assert_eq!(list.good().lines().count(), 2);
    assert!(on(&store, &["levels"]).good().contains("people"));
    on(&store, &["keyspaces", "drop", "people"]).good();
    assert_eq!(on(&store, &["count", "--keyspace", "people"]).code, 4);
    assert_eq!(all(&store), before);
    // In a new store the keyspace is made with it.
    let fresh = temp.join("fresh");
    on(&fresh, &["put", "--keyspace", "people", "bob", "2"]).good();
    assert_eq!(on(&fresh, &["get", "--keyspace", "people", "bob"]).good(), "2\n");
    assert_eq!(on(&fresh, &["count"]).good(), "0\n");
}

#[test]
fn stats_levels_and_verify() {
    let temp = filled();
    let store = temp.store();
    on(&store, &["flush"]).good();
    on(&store, &["put", "d", "6"]).good();
    let stats = on(&store, &["stats"]);
    assert!(stats.good().contains("             5           0\n"), "{}", stats.text());
    let json = on(&store, &["stats", "--json"]);
    assert!(json.good().contains("\"memtable_entries\":1"), "{}", json.text());
    assert!(json.good().contains("\"disk\":{\"files\":"), "{}", json.text());
    let levels = on(&store, &["levels"]);
    assert!(levels.good().contains("1 of 4 runs"), "{}", levels.text());
    assert!(levels.good().is_ascii(), "plain where there is no terminal: {}", levels.text());
    assert!(levels.good().lines().all(|line| line.len() <= 80), "{}", levels.text());
    let verify = on(&store, &["verify"]);
    assert!(verify.good().contains("4 files read, "), "{}", verify.text());
    assert!(verify.good().contains("5 records in tables, 0 damaged"), "{}", verify.text());
    let json = on(&store, &["verify", "--json"]);
    assert!(json.good().contains("\"damage\":[]"), "{}", json.text());
}

#[test]
fn options_apply_and_are_listed() {
    let temp = Temp::new();
    let store = temp.store();
    let options = esker(&["options"]);
    assert!(options.good().contains("memtable_bytes"), "{}", options.text());
    assert!(esker(&["options", "--json"]).good().starts_with("{\"default\":{"));
    let rows: String = (0..40_000).map(|i| format!("{{\"i\":{}}}\n", i * 7)).collect();
    let file = temp.file("rows.jsonl", rows);
    let mut load = vec!["load".into(), source("jsonl", &file)];
    load.extend(["--preset", "edge", "--option", "memtable_bytes=64KiB"].map(Into::into));
    on(&store, &load).good();
    assert!(!files(&store, ".tbl").is_empty(), "the memtable was small");
    assert_eq!(on(&store, &["count"]).good(), "40000\n");
    let refuse = on(&store, &["put", "a", "1", "--option", "create_if_missing=false"]);
    assert_eq!(refuse.code, 0, "it exists");
    let exists = on(&store, &["put", "a", "1", "--option", "error_if_exists=true"]);
    assert_eq!(exists.code, 2, "{exists:?}");
}

#[test]
fn help_completions_and_pages() {
    let help = esker(&["--help"]);
    for command in
        ["tour", "load", "find", "index", "shell", "levels", "checkpoint", "130  interrupted"]
    {
        assert!(help.good().contains(command), "{command}");
    }
    assert!(!help.good().contains("tour-writer"));
    for command in
        ["tour", "load", "get", "scan", "find", "index", "delete", "verify", "shell", "levels"]
    {
        let page = esker(&[command, "--help"]);
        assert!(page.good().contains("Example"), "{command}");
        assert!(esker(&["man", command]).good().contains(".TH"), "{command}");
    }
    assert!(esker(&["man"]).good().contains(".TH esker 1"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(esker(&["completions", shell]).good().contains("esker"), "{shell}");
    }
    assert!(esker(&["--version"]).good().starts_with("esker "));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let temp = Temp::new();
    let rows: String = (0..50_000).map(|i| format!("{{\"i\":{i}}}\n")).collect();
    let file = temp.file("rows.jsonl", rows);
    on(&temp.store(), &[&"load".into(), &source("jsonl", &file)]).good();
    let mut child = command(&["scan", "--db"])
        .arg(temp.store())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("esker runs");
    let mut first = [0; 10];
    child.stdout.take().expect("stdout").read_exact(&mut first).expect("some output");
    let ended = child.wait_with_output().expect("ends");
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
    if let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") {
        let status = command(&["scan", "--db"]).arg(temp.store()).stdout(full).status();
        assert_eq!(status.expect("ends").code(), Some(6), "a full disk is a failure");
    }
}

/// Values that are kept apart are not read for those who ask for keys.
#[test]
fn keys_are_counted_and_listed_without_a_look_at_values() {
    let temp = Temp::new();
    let store = temp.store();
    let apart = ["--preset", "large_values", "--option", "value_log_compression=\"none\""];
    let file = temp.file("value", vec![b'v'; 5_000]);
    let put = ["put", "key", "--file", file.to_str().expect("path")];
    on(&store, &[&put[..], &apart[..]].concat()).good();
    on(&store, &["flush"]).good();
    let holders = [files(&store, ".wal"), files(&store, ".val")].concat();
    let mut damaged = 0;
    for path in holders {
        let mut bytes = fs::read(&path).expect("read");
        if let Some(at) = bytes.windows(100).position(|window| window == [b'v'; 100]) {
            bytes[at] ^= 1;
            fs::write(&path, bytes).expect("write");
            damaged += 1;
        }
    }
    assert_eq!(damaged, 1);
    assert_eq!(on(&store, &["count"]).good().trim(), "1");
    assert_eq!(on(&store, &["scan", "--keys-only"]).good().trim(), "key");
    assert_eq!(on(&store, &["scan"]).code, 3);
}
