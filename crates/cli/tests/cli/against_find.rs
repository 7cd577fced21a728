//! What `load files:` stores and every form of query gives back, against `find` as an independent witness.

use crate::support::{Temp, esker, on};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

type Truth = BTreeMap<Vec<u8>, Value>;

/// Of each entry: path, type, size, mode, owner, group, time, inode, links, target.
const FIELDS: &str = "%P\\0%y\\0%s\\0%m\\0%U\\0%G\\0%T@\\0%i\\0%n\\0%l\\0";

/// What `find` says, or nothing where there is no `find` that can print all of it.
fn find(dir: &Path) -> Option<Truth> {
    let arguments = ["-mindepth", "1", "-printf", FIELDS];
    let output = Command::new("find").arg(dir).args(arguments).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let fields: Vec<&[u8]> = output.stdout.split(|&byte| byte == 0).collect();
    let entries = fields.chunks_exact(10);
    Some(entries.map(|entry| (entry[0].to_vec(), metadata(&entry[1..]))).collect())
}

fn metadata(fields: &[&[u8]]) -> Value {
    let text = |i: usize| std::str::from_utf8(fields[i]).expect("ASCII");
    let number = |i: usize| text(i).parse::<u64>().expect("number");
    let (seconds, fraction) = text(5).split_once('.').expect("seconds and their parts");
    let nanoseconds = format!("{fraction:0<9}")[..9].parse::<u64>().expect("number");
    let kind = match text(0) {
        "f" => "file",
        "d" => "dir",
        "l" => "symlink",
        "p" => "fifo",
        other => panic!("unexpected kind {other}"),
    };
    let mut value = json!({
        "kind": kind,
        "size": number(1),
        "mode": format!("{:0>4}", text(2)),
        "uid": number(3),
        "gid": number(4),
        "mtime": seconds.parse::<i64>().expect("number"),
        "mtime_ns": nanoseconds,
        "ino": number(6),
        "nlink": number(7),
    });
    if kind == "symlink" {
        value["target"] = json!(text(8));
    }
    value
}

/// The records that a scan with these arguments gives, in its order.
fn scan(store: &Path, arguments: &[&str]) -> Vec<(Vec<u8>, Value)> {
    let ended = on(store, &[&["scan", "--json", "--encoding", "hex"], arguments].concat());
    let unhex = |hex: &str| -> Vec<u8> {
        let digit = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal");
        (0..hex.len()).step_by(2).map(digit).collect()
    };
    let record = |line: &str| {
        let record: Map<String, Value> = serde_json::from_str(line).expect("JSON");
        let bytes = |name: &str| unhex(record[name].as_str().expect("text"));
        (bytes("key_hex"), serde_json::from_slice(&bytes("value_hex")).expect("JSON"))
    };
    ended.good().lines().map(record).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A tree with what names may hold and entries may be, and a real one with it.
fn tree(temp: &Temp) -> PathBuf {
    let root = temp.join("tree");
    let odd: [&[u8]; 7] =
        [b"a b", b"line\nbreak", b"tab\t", b"\xff\xfe", "\u{e9}".as_bytes(), b"-x", b"'\"\\"];
    for (i, name) in odd.into_iter().enumerate() {
        let dir = root.join(format!("dir{}", i % 3));
        fs::create_dir_all(&dir).expect("directory");
        fs::write(dir.join(std::ffi::OsStr::from_bytes(name)), vec![b'x'; i * 1_000])
            .expect("file");
    }
    std::os::unix::fs::symlink("no/such/target", root.join("dangling")).expect("link");
    fs::hard_link(root.join("dir0/a b"), root.join("dir1/second name")).expect("link");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &root.join("src"));
    root
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("directory");
    for entry in fs::read_dir(from).expect("directory") {
        let entry = entry.expect("entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("type").is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).expect("copy")),
        }
    }
}

#[test]
fn every_form_of_query_gives_what_find_gives() {
    let temp = Temp::new();
    let root = tree(&temp);
    let Some(truth) = find(&root) else {
        println!("skipped: there is no `find` here that knows -printf");
        return;
    };
    assert!(truth.len() > 40, "{}", truth.len());
    let store = temp.store();
    on(&store, &["load", &format!("files:{}", root.display())]).good();
    let all: Vec<(Vec<u8>, Value)> = truth.clone().into_iter().collect();
    let backwards = |records: &[(Vec<u8>, Value)]| -> Vec<(Vec<u8>, Value)> {
        records.iter().rev().cloned().collect()
    };
    assert_eq!(scan(&store, &[]), all);
    assert_eq!(scan(&store, &["--reverse"]), backwards(&all));
    for prefix in ["dir", "dir1/", "src/", "none"] {
        let with: Vec<_> =
            all.iter().filter(|(key, _)| key.starts_with(prefix.as_bytes())).cloned().collect();
        let prefix = hex(prefix.as_bytes());
        assert_eq!(scan(&store, &["--prefix", &prefix]), with);
        assert_eq!(scan(&store, &["--prefix", &prefix, "--reverse"]), backwards(&with));
        let count = on(&store, &["count", "--encoding", "hex", "--prefix", &prefix]);
        assert_eq!(count.good().trim(), with.len().to_string());
    }
    let (from, to) = (all.len() / 3, 2 * all.len() / 3);
    let range = ["--from", &hex(&all[from].0), "--to", &hex(&all[to].0)];
    assert_eq!(scan(&store, &range), all[from..to]);
    let last_five = [&range[..], &["--reverse", "--limit", "5"]].concat();
    assert_eq!(scan(&store, &last_five), backwards(&all[to - 5..to]));
    for (key, value) in &all {
        let got = on(&store, &["get", "--encoding", "hex", "--raw", &hex(key)]);
        let got: Value = serde_json::from_slice(&got.out).expect("JSON");
        assert_eq!(&got, value, "{}", key.escape_ascii());
    }
    assert_eq!(esker(&["get", "--db", &store.display().to_string(), "none"]).code, 4);
}
