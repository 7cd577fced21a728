//! Repair of a store that has lost CURRENT: if nothing else is wrong nothing is lost, and it says
//! so; where there is doubt it does not.

use crate::support::{DIR, assert_sound, setup_on};
use esker::base::Vfs;
use esker::base::vfs::strict::{StrictOptions, StrictVfs};
use esker::repair::{FileFate, RepairReport, Structure, repair};
use esker::{Db, Options};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn open(disk: &StrictVfs, seed: u64) -> Db {
    Db::open_with(DIR, Options::default(), setup_on(Arc::new(disk.clone()), seed)).expect("open")
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// The newest file whose name begins or ends so.
fn newest(disk: &StrictVfs, part: &str) -> PathBuf {
    let mut names = disk.file_names(Path::new(DIR));
    names.sort();
    path(names.iter().rfind(|n| n.starts_with(part) || n.ends_with(part)).expect(part))
}

/// A store with two tables and records in a log, still open: what a killed process leaves.
fn begun(preallocated_logs: bool) -> (StrictVfs, Db) {
    let options = StrictOptions { preallocated_logs, ..StrictOptions::default() };
    let disk = StrictVfs::with_options(options);
    let db = open(&disk, 1);
    for key in [b"k1", b"k2"] {
        db.put(key, b"1").expect("put");
        db.flush().expect("flush");
    }
    db.put(b"k3", b"1").expect("put");
    db.sync().expect("sync");
    (disk, db)
}

/// The same, closed.
fn closed(preallocated_logs: bool) -> StrictVfs {
    let (disk, db) = begun(preallocated_logs);
    db.close().expect("close");
    disk
}

fn repaired(disk: &StrictVfs) -> RepairReport {
    disk.remove(&path("CURRENT")).expect("remove");
    repair(Path::new(DIR), &Options::default(), setup_on(Arc::new(disk.clone()), 99), |_| true)
        .expect("repair")
}

#[test]
fn a_store_that_lost_only_current_is_complete() {
    for preallocated in [true, false] {
        let killed = {
            let (disk, _db) = begun(preallocated);
            disk.deep_copy()
        };
        for disk in [closed(preallocated), killed] {
            let report = repaired(&disk);
            assert!(report.is_complete(), "{report}");
            assert!(matches!(report.structure, Structure::Kept { .. }), "{report}");
            let current = report.files.iter().find(|file| file.file == "CURRENT");
            assert!(current.is_some_and(|file| file.fate == FileFate::Remade), "{report}");
            assert!(!disk.exists(&path("lost")).expect("lost"), "{report}");
            let db = open(&disk, 2);
            for key in [b"k1", b"k2", b"k3"] {
                assert_eq!(db.get(key).expect("get").as_deref(), Some(&b"1"[..]));
            }
            assert_sound(&db);
        }
    }
}

/// What is done to a closed store beforehand.
type Doubt = fn(&StrictVfs);

#[test]
fn any_doubt_about_the_manifest_is_told() {
    let doubts: [(&str, Doubt); 6] = [
        ("a table is missing", |disk| disk.remove(&newest(disk, ".tbl")).expect("remove")),
        ("a log is missing", |disk| disk.remove(&newest(disk, ".wal")).expect("remove")),
        ("a table that no edit knows", |disk| {
            let table = disk.read_file(&newest(disk, ".tbl")).expect("table");
            disk.write_file(&path("000777.tbl"), &table).expect("write");
        }),
        ("the last mark of the manifest is gone", |disk| {
            let manifest = newest(disk, "MANIFEST");
            let len = disk.read_file(&manifest).expect("manifest").len() as u64;
            disk.truncate_raw(&manifest, len - 1).expect("cut");
        }),
        ("the last edit is gone", |disk| {
            // The edit of an orderly close, 9 bytes and its header, with its mark.
            let manifest = newest(disk, "MANIFEST");
            let len = disk.read_file(&manifest).expect("manifest").len() as u64;
            disk.truncate_raw(&manifest, len - 26).expect("cut");
        }),
        ("an older manifest stands beside it", |disk| {
            let older = newest(disk, "MANIFEST");
            let bytes = disk.read_file(&older).expect("manifest");
            open(disk, 3).close().expect("close");
            disk.write_file(&older, &bytes).expect("write");
        }),
    ];
    for (what, doubt) in doubts {
        let disk = closed(false);
        doubt(&disk);
        let report = repaired(&disk);
        assert!(!report.is_complete(), "{what}: {report}");
        open(&disk, 4).close().expect("close");
    }
}
