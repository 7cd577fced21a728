//! What a repair does while it is at it: how far it says it is, what it writes, what it takes.

use crate::support::{DIR, setup, setup_on};
use crate::values::options;
use esker::base::Vfs;
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::StrictVfs;
use esker::repair::{RepairProgress, repair};
use esker::{Db, Error, KeyspaceOptions, Options};
use std::path::Path;
use std::sync::Arc;

fn open(disk: &StrictVfs, options: &Options) -> Db {
    Db::open_with(DIR, options.clone(), setup(disk)).expect("open")
}

/// A closed store with values in logs and in a file of moved ones.
fn with_values(disk: &StrictVfs) {
    let db = open(disk, &options());
    let put = |number: u64| db.put(&number.to_be_bytes(), &[number as u8; 3_000]).expect("put");
    (0..100).for_each(put);
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    (0..100).step_by(2).for_each(put);
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    db.collect_values(0.0, |_| true).expect("collect");
    (0..20).for_each(put);
    db.flush().expect("flush");
    db.close().expect("close");
    for ending in [".val", ".wal", ".tbl"] {
        let names = disk.file_names(Path::new(DIR));
        assert!(names.iter().any(|name| name.ends_with(ending)), "{ending}: {names:?}");
    }
}

fn lose(disk: &StrictVfs, is_lost: impl Fn(&str) -> bool) {
    for name in disk.file_names(Path::new(DIR)).iter().filter(|name| is_lost(name)) {
        disk.remove(&Path::new(DIR).join(name)).expect("remove");
    }
}

#[test]
fn it_says_how_far_it_is() {
    for loses_all in [false, true] {
        let disk = StrictVfs::new();
        with_values(&disk);
        lose(&disk, |name| name == "CURRENT" || loses_all && name.starts_with("MANIFEST"));
        if !loses_all {
            // The manifest names it all the same.
            let names = disk.file_names(Path::new(DIR));
            let table = names.iter().find(|name| name.ends_with(".tbl")).expect("a table");
            lose(&disk, |name| name == table);
        }
        // Whoever ends it is heard after the first file, and the store stays as it is.
        let mut asked = 0;
        let ended = repair(Path::new(DIR), &options(), setup(&disk), |_| {
            asked += 1;
            false
        });
        assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
        assert_eq!(asked, 1);
        let mut told: Vec<RepairProgress> = Vec::new();
        repair(Path::new(DIR), &options(), setup(&disk), |progress| {
            told.push(*progress);
            true
        })
        .expect("repair");
        let last = told.last().expect("told");
        assert_eq!((last.files, last.bytes), (last.files_total, last.bytes_total), "{loses_all}");
        assert!(told.is_sorted_by_key(|progress| progress.bytes), "{told:?}");
        // No file is longer than a few of the values: it is never silent for long.
        let silence = told.windows(2).map(|two| two[1].files - two[0].files).max();
        assert_eq!(silence, Some(1), "{told:?}");
    }
}

#[test]
fn sound_files_of_values_are_not_written_anew() {
    let disk = StrictVfs::new();
    with_values(&disk);
    lose(&disk, |name| name == "CURRENT");
    let faulty = FaultyVfs::new(Arc::new(disk.clone()));
    let is_of_values = |path: &Path| path.extension().is_some_and(|ending| ending == "val");
    let writes = [Op::Rewrite, Op::Truncate, Op::Append];
    faulty.inject(FaultRule::nth(1, &writes, Fault::Eio).from_then_on().on(is_of_values));
    repair(Path::new(DIR), &options(), setup_on(Arc::new(faulty), 9), |_| true).expect("repair");
    open(&disk, &options()).close().expect("close");
}

#[test]
fn half_a_copy_does_not_stay() {
    let disk = StrictVfs::new();
    with_values(&disk);
    lose(&disk, |name| name == "CURRENT" || name.starts_with("MANIFEST"));
    let faulty = FaultyVfs::new(Arc::new(disk.clone()));
    let setup = setup_on(Arc::new(faulty.clone()), 9);
    faulty.inject(FaultRule::nth(1, &[Op::Link], Fault::Eio).from_then_on());
    let is_copy = |path: &Path| path.parent().is_some_and(|dir| dir.ends_with("lost"));
    faulty.inject(FaultRule::nth(2, &[Op::Append], Fault::NoSpace).from_then_on().on(is_copy));
    let failed = repair(Path::new(DIR), &options(), setup, |_| true);
    assert!(matches!(failed, Err(Error::NoSpace { .. })), "{failed:?}");
    let copies = disk.file_names(&Path::new(DIR).join("lost"));
    assert_eq!(copies.len(), 1, "the one that was finished: {copies:?}");
    repair(Path::new(DIR), &options(), self::setup(&disk), |_| true).expect("repair");
    let copies = disk.file_names(&Path::new(DIR).join("lost"));
    assert!(!copies.iter().any(|name| name.ends_with(".1")), "{copies:?}");
}

#[test]
fn what_it_takes_from_logs_keeps_to_the_memory_of_memtables() {
    let disk = StrictVfs::new();
    let roomy = Options {
        memory_budget_bytes: 256 << 20,
        memtables_bytes_max: 64 << 20,
        ..Options::default()
    };
    let db = open(&disk, &roomy);
    let names: Vec<String> = (0..16).map(|number| format!("k{number}")).collect();
    let create =
        |name: &String| db.create_keyspace(name, KeyspaceOptions::default()).expect("create");
    let keyspaces: Vec<_> = names.iter().map(create).collect();
    for number in 0..200u64 {
        for keyspace in &keyspaces {
            keyspace.put(&number.to_be_bytes(), &[number as u8; 1_000]).expect("put");
        }
    }
    drop(keyspaces);
    db.close().expect("close");
    lose(&disk, |name| name == "CURRENT");
    let tight =
        Options { memory_budget_bytes: 8 << 20, memtables_bytes_max: 2 << 20, ..roomy.clone() };
    let report = repair(Path::new(DIR), &tight, setup(&disk), |_| true).expect("repair");
    let written: u64 = report.keyspaces.iter().map(|keyspace| keyspace.tables_written).sum();
    assert!(written > names.len() as u64, "of 3 MiB, with room for 2: {written} tables");
    let db = open(&disk, &roomy);
    for name in &names {
        let keyspace = db.keyspace(name).expect("keyspace");
        for number in 0..200u64 {
            let value = keyspace.get(&number.to_be_bytes()).expect("get");
            assert_eq!(value.as_deref(), Some(&[number as u8; 1_000][..]), "{name} {number}");
        }
    }
}
