//! Loading LevelDB stores: one made long ago and kept here, others made by LevelDB itself where it
//! is installed.

use crate::support::{Ended, Temp, flip, on, skip, source};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// A copy of the store that is kept here.
fn fixture(temp: &Temp) -> PathBuf {
    let copy = temp.join("leveldb");
    fs::create_dir(&copy).expect("directory");
    for entry in fs::read_dir(fixtures().join("leveldb")).expect("fixture") {
        let entry = entry.expect("entry");
        fs::copy(entry.path(), copy.join(entry.file_name())).expect("copy");
    }
    copy
}

fn load(temp: &Temp, dir: &Path, more: &[&str]) -> Ended {
    let mut args = vec!["load".into(), source("leveldb", dir)];
    args.extend(more.iter().map(Into::into));
    let _ = fs::remove_dir_all(temp.store());
    on(&temp.store(), &args)
}

fn unhex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|p| u8::from_str_radix(std::str::from_utf8(p).expect("hex"), 16).expect("hex"))
        .collect()
}

/// Values over 200 bytes are listed by length and hash; see `make_leveldb.c`.
fn listed(value: &[u8]) -> String {
    if value.len() <= 200 {
        return value.iter().map(|b| format!("{b:02x}")).collect();
    }
    let hash = value.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &b| {
        (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    });
    format!("#{} {hash:016x}", value.len())
}

/// What the store holds, in the form of the list.
fn held(store: &Path) -> String {
    let scan = on(store, &["scan", "--encoding", "hex"]);
    let lines = scan.good().lines().map(|line| {
        let (key, value) = line.split_once('\t').expect("tab");
        format!("{key}\t{}\n", listed(&unhex(value)))
    });
    lines.collect()
}

fn expected() -> String {
    fs::read_to_string(fixtures().join("leveldb.txt")).expect("list")
}

#[test]
fn a_store_is_loaded_as_leveldb_reads_it() {
    let temp = Temp::new();
    let dir = fixture(&temp);
    for more in [&[][..], &["--bulk"]] {
        let ended = load(&temp, &dir, more);
        assert!(ended.good().starts_with("loaded 605 records"), "{ended:?}");
        assert_eq!(ended.err, "", "nothing is torn");
        assert!(held(&temp.store()) == expected(), "{more:?}: records differ");
    }
}

#[test]
fn a_torn_log_is_reported_and_the_rest_loaded() {
    let temp = Temp::new();
    let dir = fixture(&temp);
    let log = dir.join("000012.log");
    let bytes = fs::read(&log).expect("log");
    fs::write(&log, &bytes[..bytes.len() - 100]).expect("log");
    let ended = load(&temp, &dir, &[]);
    assert!(ended.good().starts_with("loaded 604 records"), "{ended:?}");
    assert!(ended.err.contains("bytes of log 000012 are no whole record"), "{}", ended.err);
    let all = expected();
    let before_the_last: Vec<&str> = all.lines().take(604).collect();
    assert_eq!(held(&temp.store()).lines().collect::<Vec<_>>(), before_the_last);
}

#[test]
fn damage_is_told_with_file_and_offset() {
    let temp = Temp::new();
    for (name, at) in [
        ("000005.ldb", 300),
        ("000007.ldb", 5_000),
        ("000009.ldb", 14_074 - 3),
        ("000010.log", 2_000),
        ("MANIFEST-000002", 60),
        ("CURRENT", 3),
    ] {
        let dir = temp.join("leveldb");
        let _ = fs::remove_dir_all(&dir);
        let dir = fixture(&temp);
        flip(&dir.join(name), at);
        let ended = load(&temp, &dir, &[]);
        assert_eq!(ended.code, 3, "{name} at {at}: {ended:?}");
        assert!(ended.err.contains(name), "{name} at {at}: {}", ended.err);
        assert!(ended.err.contains("offset"), "{name} at {at}: {}", ended.err);
    }
    let dir = temp.join("leveldb");
    let _ = fs::remove_dir_all(&dir);
    let dir = fixture(&temp);
    fs::remove_file(dir.join("000011.ldb")).expect("remove");
    let ended = load(&temp, &dir, &[]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.err.contains("000011.ldb"), "{}", ended.err);
}

#[test]
fn no_flipped_bit_gives_wrong_records() {
    let temp = Temp::new();
    let right = expected();
    for name in ["000007.ldb", "MANIFEST-000002", "000010.log"] {
        let dir = temp.join("leveldb");
        let _ = fs::remove_dir_all(&dir);
        let dir = fixture(&temp);
        let length = fs::metadata(dir.join(name)).expect("metadata").len() as usize;
        for at in (0..length).step_by(length / 19) {
            flip(&dir.join(name), at);
            let ended = load(&temp, &dir, &[]);
            match ended.code {
                0 => {
                    let complete = held(&temp.store()) == right;
                    assert!(complete || ended.err.contains("left out"), "{name} at {at}");
                }
                code => assert_eq!(code, 3, "{name} at {at}: {ended:?}"),
            }
            flip(&dir.join(name), at);
        }
    }
}

#[test]
fn stores_made_by_leveldb_here() {
    let temp = Temp::new();
    let program = temp.join("make_leveldb");
    let built = Command::new("cc")
        .arg(fixtures().join("make_leveldb.c"))
        .args(["-lleveldb", "-o"])
        .arg(&program)
        .output();
    if !built.is_ok_and(|output| output.status.success()) {
        return skip("no C compiler or no libleveldb-dev");
    }
    for mode in ["", "reopen"] {
        let dir = temp.join(format!("made {mode}"));
        let made = Command::new(&program).arg(&dir).arg(mode).output().expect("runs");
        assert!(made.status.success(), "{made:?}");
        load(&temp, &dir, &["--bulk"]).good();
        let list = String::from_utf8(made.stdout).expect("list");
        assert!(held(&temp.store()) == list, "{mode}: records differ");
    }
}
