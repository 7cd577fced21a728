//! `load files:` against `find`, which walks on its own.

use crate::support::{Temp, on, skip, source};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// Key and value of each entry as `find` sees them; `None` if there is no such `find`.
fn found(root: &Path) -> Option<BTreeMap<Vec<u8>, String>> {
    let format = "%P\\0%y\\0%s\\0%m\\0%U\\0%G\\0%T@\\0%i\\0%n\\0%l\\0";
    let output = Command::new("find")
        .arg(root)
        .args(["-mindepth", "1", "-xdev", "-printf", format])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let fields: Vec<&[u8]> = output.stdout.split(|&b| b == 0).collect();
    let entries = fields.chunks_exact(10).map(|entry| {
        let text = |i: usize| String::from_utf8_lossy(entry[i]).into_owned();
        let kind = match entry[1] {
            b"f" => "file",
            b"d" => "dir",
            b"l" => "symlink",
            b"p" => "fifo",
            other => panic!("{other:?}"),
        };
        let time = text(6);
        let (seconds, fraction) = time.split_once('.').expect("seconds");
        let ns: u32 = fraction[..9].parse().expect("nanoseconds");
        let target = match std::str::from_utf8(entry[9]) {
            Ok("") => String::new(),
            Ok(target) => format!(",\"target\":\"{target}\""),
            Err(_) => {
                let hex: String = entry[9].iter().map(|b| format!("{b:02x}")).collect();
                format!(",\"target_hex\":\"{hex}\"")
            }
        };
        let mode = u32::from_str_radix(&text(3), 8).expect("mode");
        let value = format!(
            "{{\"kind\":\"{kind}\",\"size\":{},\"mode\":\"{mode:04o}\",\"uid\":{},\"gid\":{},\
             \"mtime\":{seconds},\"mtime_ns\":{ns},\"ino\":{},\"nlink\":{}{target}}}",
            text(2),
            text(4),
            text(5),
            text(7),
            text(8),
        );
        (entry[0].to_vec(), value)
    });
    Some(entries.collect())
}

fn held(store: &Path) -> BTreeMap<Vec<u8>, String> {
    let scan = on(store, &["scan", "--encoding", "hex"]);
    let unhex = |digits: &str| -> Vec<u8> {
        let pairs = digits.as_bytes().chunks(2);
        pairs
            .map(|p| u8::from_str_radix(std::str::from_utf8(p).expect("hex"), 16).expect("hex"))
            .collect()
    };
    let lines = scan.good().lines().map(|line| {
        let (key, value) = line.split_once('\t').expect("tab");
        (unhex(key), String::from_utf8(unhex(value)).expect("UTF-8"))
    });
    lines.collect()
}

/// A tree with all that is awkward.
fn awkward(temp: &Temp) -> std::path::PathBuf {
    let root = temp.join("tree");
    fs::create_dir_all(root.join("a/b/c")).expect("directories");
    // In the order of bytes: a, a.txt, a/b, a0.
    for name in ["a.txt", "a0", "a/b.txt", "a/b/c/deep", "line\nbreak", "tab\there", "ünicode"] {
        fs::write(root.join(name), name).expect("file");
    }
    let raw = OsStr::from_bytes(b"not \xff utf-8");
    fs::write(root.join(raw), "x").expect("file");
    fs::hard_link(root.join("a.txt"), root.join("hard link")).expect("link");
    symlink("nowhere", root.join("dangling")).expect("link");
    symlink(raw, root.join("to raw")).expect("link");
    symlink("..", root.join("a/circle")).expect("link");
    fs::create_dir(root.join("empty")).expect("directory");
    fs::set_permissions(root.join("a0"), fs::Permissions::from_mode(0o4711)).expect("mode");
    let _ = Command::new("mkfifo").arg(root.join("fifo")).status();
    root
}

#[test]
fn every_entry_is_loaded_as_find_sees_it() {
    let temp = Temp::new();
    let root = awkward(&temp);
    let Some(expected) = found(&root) else { return skip("no find with -printf") };
    assert!(expected.len() >= 16, "{}", expected.len());
    for bulk in [false, true] {
        let store = temp.join(format!("store {bulk}"));
        let mut args = vec!["load".into(), source("files", &root)];
        args.extend(["--values", "json"].map(Into::into));
        if bulk {
            args.push("--bulk".into());
        }
        let ended = on(&store, &args);
        ended.good();
        assert_eq!(ended.err, "", "keys come in order, nothing is left out");
        assert_eq!(held(&store), expected, "bulk: {bulk}");
    }
}

#[test]
fn a_larger_tree_and_full_paths() {
    let temp = Temp::new();
    // The sources of this package, and a slash too many.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/");
    let Some(expected) = found(&root) else { return skip("no find with -printf") };
    let mut args = vec!["load".into(), source("files", &root)];
    args.extend(["--paths", "full", "--values", "json"].map(Into::into));
    on(&temp.store(), &args).good();
    let full = expected.into_iter().map(|(key, value)| {
        let path = root.join(OsStr::from_bytes(&key));
        (path.as_os_str().as_bytes().to_vec(), value)
    });
    assert_eq!(held(&temp.store()), full.collect());
}

#[test]
fn unreadable_directories_are_told_and_counted() {
    let temp = Temp::new();
    let root = awkward(&temp);
    let locked = root.join("a/b");
    let mode = |mode| fs::set_permissions(&locked, fs::Permissions::from_mode(mode)).expect("mode");
    mode(0o000);
    if fs::read_dir(&locked).is_ok() {
        mode(0o755);
        return skip("permissions do not bind this user");
    }
    let ended = on(&temp.store(), &[&"load".into(), &source("files", &root)]);
    mode(0o755);
    assert!(ended.good().contains("left out 1 entry"), "{ended:?}");
    assert!(ended.err.contains("a/b: permission denied"), "{}", ended.err);
    on(&temp.store(), &["get", "a/b"]).good();
    assert_eq!(on(&temp.store(), &["get", "a/b/c"]).code, 4);
}
