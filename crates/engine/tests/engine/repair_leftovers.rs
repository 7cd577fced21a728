//! What a process that was killed leaves beside what the manifest names is no loss: a repair says
//! that it is complete, and how far groups were applied stays known.

use super::support::{DIR, assert_sound, below_log, grouped, setup_on};
use esker::base::Vfs;
use esker::base::vfs::strict::StrictVfs;
use esker::repair::{FileFate, RepairReport, Structure, repair};
use esker::{Applied, Batch, Db, Durability, Options};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Below a log of somebody else's, with values apart.
fn options() -> Options {
    let mut options = grouped(below_log());
    options.default_keyspace.value_log_bytes_min = Some(64);
    options
}

fn open(disk: &StrictVfs, options: Options, seed: u64) -> Db {
    Db::open_with(DIR, options, setup_on(Arc::new(disk.clone()), seed)).expect("open")
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn files(disk: &StrictVfs, ending: &str) -> Vec<PathBuf> {
    let mut names = disk.file_names(Path::new(DIR));
    names.sort();
    names.iter().filter(|name| name.ends_with(ending)).map(|name| path(name)).collect()
}

fn apply(db: &Db, group: &str, index: u64) {
    let mut batch = Batch::new();
    for number in 0..20 {
        let key = format!("{group}{index:03}-{number:03}");
        batch.put(key.as_bytes(), &[index as u8; 300]);
    }
    db.apply(Applied { group: group.as_bytes(), index, note: b"" }, batch).expect("apply");
}

/// A closed store with two groups.
fn closed() -> StrictVfs {
    let disk = StrictVfs::new();
    let db = open(&disk, options(), 1);
    for index in 1..=5 {
        apply(&db, "g/", index);
        apply(&db, "h/", index);
    }
    db.flush().expect("flush");
    db.close().expect("close");
    disk
}

/// Repairs it, and sees that nothing is missing: groups are known as far as they were applied.
fn assert_complete(disk: &StrictVfs, what: &str) -> RepairReport {
    let setup = setup_on(Arc::new(disk.clone()), 99);
    let report = repair(Path::new(DIR), &options(), setup, |_| true).expect("repair");
    assert!(report.is_complete(), "{what}: {report}");
    assert!(matches!(report.structure, Structure::Kept { .. }), "{what}: {report}");
    let db = open(disk, options(), 100);
    let groups = db.groups().into_iter().map(|group| (group.group.to_vec(), group.persisted));
    let groups: Vec<(Vec<u8>, u64)> = groups.collect();
    assert_eq!(groups, [(b"g/".to_vec(), 5), (b"h/".to_vec(), 5)], "{what}: {report}");
    for group in ["g/", "h/"] {
        let pairs = db.default_keyspace().prefix(group.as_bytes()).expect("scan");
        assert_eq!(pairs.inspect(|pair| assert!(pair.is_ok())).count(), 100, "{what}");
    }
    assert_sound(&db);
    db.close().expect("close");
    report
}

fn fate(report: &RepairReport, name: &str) -> FileFate {
    let file = report.files.iter().find(|file| file.file == name);
    file.unwrap_or_else(|| panic!("{name} is not told of: {report}")).fate
}

#[test]
fn a_file_with_values_that_nobody_names_may_be_of_any_length() {
    // What the next flush would make.
    let made = {
        let disk = closed().deep_copy();
        let known = files(&disk, ".val");
        let db = open(&disk, options(), 2);
        apply(&db, "g/", 6);
        db.flush().expect("flush");
        db.close().expect("close");
        let new = files(&disk, ".val").into_iter().find(|path| !known.contains(path));
        let new = new.expect("a file with values");
        (new.clone(), disk.read_file(&new).expect("read"))
    };
    let (path, whole) = made;
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    let contents: [(&str, Vec<u8>); 4] = [
        ("nothing", Vec::new()),
        ("something else", vec![7; 5_000]),
        ("its first half", whole[..whole.len() / 2].to_vec()),
        ("all of it", whole.clone()),
    ];
    for (what, bytes) in contents {
        let disk = closed();
        disk.write_file(&path, &bytes).expect("write");
        let report = assert_complete(&disk, what);
        assert_eq!(fate(&report, &name), FileFate::Unneeded, "{what}: {report}");
    }
}

/// One that the manifest names is a loss.
#[test]
fn a_file_with_values_that_is_named_may_not() {
    let disk = closed();
    let named = files(&disk, ".val").pop().expect("a file with values");
    let half = disk.read_file(&named).expect("read").len() as u64 / 2;
    disk.truncate_raw(&named, half).expect("cut");
    let setup = setup_on(Arc::new(disk.clone()), 99);
    let report = repair(Path::new(DIR), &options(), setup, |_| true).expect("repair");
    assert!(!report.is_complete(), "{report}");
    assert!(open(&disk, options(), 100).groups().is_empty(), "nobody may rely on them");
}

/// What a flush without a log of the store's own writes says of each value where it is, by its
/// place.
#[test]
fn values_are_found_in_a_file_that_has_lost_its_directory_or_is_too_long() {
    type Harm = fn(&mut Vec<u8>);
    let harms: [(&str, Harm); 4] = [
        ("a bit of the directory", |bytes| {
            let at = bytes.len() - 20;
            bytes[at] ^= 1;
        }),
        ("a zero behind it", |bytes| bytes.push(0)),
        ("many zeros behind it", |bytes| bytes.extend([0; 4_096])),
        ("something else behind it", |bytes| bytes.extend([7; 100])),
    ];
    for (what, harm) in harms {
        let disk = closed();
        let named = files(&disk, ".val").pop().expect("a file with values");
        let mut bytes = disk.read_file(&named).expect("read");
        harm(&mut bytes);
        disk.write_file(&named, &bytes).expect("write");
        let setup = setup_on(Arc::new(disk.clone()), 99);
        let report = repair(Path::new(DIR), &options(), setup, |_| true).expect("repair");
        let db = open(&disk, options(), 100);
        for group in ["g/", "h/"] {
            let pairs = db.default_keyspace().prefix(group.as_bytes()).expect("scan");
            let found = pairs.filter(|pair| pair.is_ok()).count();
            assert_eq!(found, 100, "{what}: {report}");
        }
        assert!(db.verify(|_| true).expect("verify").damage.is_empty(), "{what}: {report}");
        db.close().expect("close");
    }
}

#[test]
fn a_manifest_that_current_never_named_may_be_of_any_length() {
    let real = |disk: &StrictVfs| {
        let mut names = disk.file_names(Path::new(DIR));
        names.sort();
        let newest = names.iter().rfind(|name| name.starts_with("MANIFEST")).expect("one").clone();
        disk.read_file(&path(&newest)).expect("read")
    };
    type MadeOf = fn(Vec<u8>) -> Vec<u8>;
    let contents: [(&str, MadeOf); 4] = [
        ("nothing", |_| Vec::new()),
        ("zeros", |_| vec![0; 4_096]),
        ("the first half of another", |real| real[..real.len() / 2].to_vec()),
        ("another", |real| real),
    ];
    for (what, made_of) in contents {
        let disk = closed();
        let bytes = made_of(real(&disk));
        disk.write_file(&path("MANIFEST-000900"), &bytes).expect("write");
        let report = assert_complete(&disk, what);
        assert_eq!(fate(&report, "MANIFEST-000900"), FileFate::Unneeded, "{what}: {report}");
    }
}

/// A store that had a log of its own once, and whose files could not all be removed when it gave
/// that up.
#[test]
fn a_log_of_former_times_holds_nothing() {
    let with_log = || Options { durability: Durability::Wal, ..options() };
    let disk = StrictVfs::new();
    let db = open(&disk, with_log(), 1);
    db.put(b"x/key", b"value").expect("put");
    db.put(b"x/key", b"newer").expect("put");
    db.close().expect("close");
    let logs: Vec<(PathBuf, Vec<u8>)> = files(&disk, ".wal")
        .into_iter()
        .map(|path| (path.clone(), disk.read_file(&path).expect("read")))
        .collect();
    assert!(!logs.is_empty());
    let db = open(&disk, options(), 2);
    db.delete(b"x/key").expect("delete");
    for index in 1..=5 {
        apply(&db, "g/", index);
        apply(&db, "h/", index);
    }
    db.flush().expect("flush");
    db.close().expect("close");
    let table = files(&disk, ".tbl").pop().expect("a table");
    let table = disk.read_file(&table).expect("read");
    for with_table in [false, true] {
        let disk = disk.deep_copy();
        for (path, bytes) in &logs {
            assert!(!disk.exists(path).expect("asked"));
            disk.write_file(path, bytes).expect("write");
        }
        if with_table {
            // What a flush leaves that was cut off.
            disk.write_file(&path("000777.tbl"), &table).expect("write");
        }
        assert_complete(&disk, &format!("with a table: {with_table}"));
        let db = open(&disk, options(), 101);
        assert!(db.get(b"x/key").expect("get").is_none(), "it was deleted");
    }
}
