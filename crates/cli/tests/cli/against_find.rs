//! What `load files:` stores and every form of query gives back, against `find` as an independent
//! witness.

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
        value["target"] = shown(fields[8]);
    }
    value
}

/// The records that a scan with these arguments gives, in its order.
fn scan(store: &Path, arguments: &[&str]) -> Vec<(Vec<u8>, Value)> {
    let ended = on(store, &[&["scan", "--json", "--encoding", "hex"], arguments].concat());
    let record = |line: &str| {
        let record: Map<String, Value> = serde_json::from_str(line).expect("JSON");
        let bytes = |name: &str| unhex(record[name].as_str().expect("text"));
        (bytes("key_hex"), serde_json::from_slice(&bytes("value_hex")).expect("JSON"))
    };
    ended.good().lines().map(record).collect()
}

fn unhex(hex: &str) -> Vec<u8> {
    let digit = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).expect("hexadecimal");
    (0..hex.len()).step_by(2).map(digit).collect()
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
    on(&store, &["load", "--values", "json", &format!("files:{}", root.display())]).good();
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

/// A name as it is shown in a field.
fn shown(name: &[u8]) -> Value {
    match std::str::from_utf8(name) {
        Ok(text) => json!(text),
        Err(_) => json!({ "hex": hex(name) }),
    }
}

/// What stands behind the last dot of a name that does not begin with it.
fn extension(name: &[u8]) -> Option<&[u8]> {
    let dot = name.iter().rposition(|&byte| byte == b'.').filter(|&dot| dot > 0)?;
    Some(&name[dot + 1..]).filter(|extension| !extension.is_empty())
}

/// Of a path, its last part.
fn name(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().expect("a part")
}

#[test]
fn what_a_field_holds_is_found_as_find_finds_it() {
    let temp = Temp::new();
    let root = tree(&temp);
    for odd in [&b".hidden"[..], b"end.", b".both.rs", b"odd.\xff", b"a.b.c"] {
        fs::write(root.join(std::ffi::OsStr::from_bytes(odd)), "").expect("file");
    }
    let raw = std::ffi::OsStr::from_bytes(b"\xff\xfe");
    std::os::unix::fs::symlink(raw, root.join("to raw")).expect("link");
    let Some(truth) = find(&root) else {
        println!("skipped: there is no `find` here that knows -printf");
        return;
    };
    let store = temp.store();
    let load = ["load", "--index", "extension", "--index", "size", "--quiet"];
    on(&store, &[&load[..], &[&format!("files:{}", root.display())]].concat()).good();

    let scan = on(&store, &["scan", "--json"]);
    let mut held = BTreeMap::new();
    for line in scan.good().lines() {
        let mut record: Value = serde_json::from_str(line).expect("JSON");
        let key = match (record["key"].as_str(), record["key_hex"].as_str()) {
            (Some(key), _) => key.as_bytes().to_vec(),
            (_, digits) => unhex(digits.expect("a key")),
        };
        held.insert(key, record["fields"].take());
    }
    let expected: Truth = truth
        .iter()
        .map(|(key, metadata)| {
            let mut fields = metadata.clone();
            fields["name"] = shown(name(key));
            if let Some(extension) = extension(name(key)) {
                fields["extension"] = shown(extension);
            }
            (key.clone(), fields)
        })
        .collect();
    assert_eq!(held, expected);

    // Each value that there is, by the index and by reading all; and one that is nowhere.
    let with = |wanted: &dyn Fn(&[u8], &Value) -> bool| -> Vec<String> {
        truth.iter().filter(|(key, fields)| wanted(key, fields)).map(|(key, _)| hex(key)).collect()
    };
    let found = |args: &[&str]| -> Vec<String> {
        let line = [&["find", "--encoding", "hex", "--keys-only"], args].concat();
        on(&store, &line).good().lines().map(str::to_owned).collect()
    };
    let mut extensions: Vec<&[u8]> = truth.keys().filter_map(|key| extension(name(key))).collect();
    extensions.extend([&b"nothing"[..], b"\xff"]);
    extensions.sort_unstable();
    extensions.dedup();
    assert!(extensions.len() >= 4, "{extensions:?}");
    for wanted in extensions {
        let keys = with(&|key, _| extension(name(key)) == Some(wanted));
        let wanted = hex(wanted);
        assert_eq!(found(&["extension", &wanted]), keys, "{wanted}");
        assert_eq!(found(&["extension", &wanted, "--scan"]), keys, "{wanted}");
        let count = on(&store, &["find", "--encoding", "hex", "extension", &wanted, "--count"]);
        assert_eq!(count.good(), format!("{}\n", keys.len()), "{wanted}");
    }
    assert_eq!(found(&["kind", &hex(b"symlink"), "--scan"]), with(&|_, f| f["kind"] == "symlink"));
    let size = |fields: &Value| fields["size"].as_u64().expect("a size");
    for (from, to) in [(0, 1), (1_000, 4_001), (3_000, u64::MAX >> 1)] {
        let mut keys = found(&[
            "size",
            "--from",
            &hex(from.to_string().as_bytes()),
            "--to",
            &hex(to.to_string().as_bytes()),
        ]);
        keys.sort();
        assert_eq!(keys, with(&|_, f| (from..to).contains(&size(f))), "{from} {to}");
    }
    let sizes: Vec<u64> = {
        let lines = on(&store, &["find", "size", "--json"]);
        let size = |line| size(&serde_json::from_str::<Value>(line).expect("JSON")["fields"]);
        lines.good().lines().map(size).collect()
    };
    assert!(sizes.is_sorted() && sizes.len() == truth.len(), "in the order of values");
    on(&store, &["verify"]).good();
}
