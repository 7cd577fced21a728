//! Checkpoints that are made at the same time, and who may open one.

use crate::support::{DIR, setup_on};
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::{Db, Error, KeyspaceOptions, Options};
use std::path::Path;
use std::sync::{Arc, Barrier};

#[test]
fn of_two_checkpoints_into_one_directory_one_is_made() {
    let disk = StrictVfs::new();
    let open = |dir: &str| {
        Db::open_with(dir, Options::default(), setup_on(Arc::new(disk.clone()), 1)).expect("open")
    };
    let db = open(DIR);
    for number in 0..20u8 {
        db.put(&[number], b"v").expect("put");
        db.flush().expect("flush");
    }
    for round in 0..200 {
        let (copy, both) = (format!("/copy{round}"), Barrier::new(2));
        let make = || {
            both.wait();
            db.checkpoint(&copy)
        };
        let (one, other) = std::thread::scope(|scope| {
            let (one, other) = (scope.spawn(make), scope.spawn(make));
            (one.join().expect("ends"), other.join().expect("ends"))
        });
        let refused = match (one, other) {
            (Ok(()), Err(error)) | (Err(error), Ok(())) => error.to_string(),
            neither => panic!("one is made: {neither:?}"),
        };
        assert!(refused.contains("exists already"), "{refused}");
        assert_eq!(open(&copy).iter().expect("scan").count(), 20);
    }
}

/// Who reads a copy keeps others from changing it, also where nobody has opened it before.
#[test]
fn a_copy_that_is_read_is_not_written() {
    let disk = StrictVfs::new();
    let setup = || setup_on(Arc::new(disk.clone()), 1);
    let db = Db::open_with(DIR, Options::default(), setup()).expect("open");
    db.put(b"key", b"value").expect("put");
    db.checkpoint("/copy").expect("checkpoint");
    let read = Db::open_read_only_with("/copy", Options::default(), setup()).expect("open");
    let refused = Db::open_with("/copy", Options::default(), setup()).expect_err("it is read");
    assert!(matches!(refused, Error::Busy { .. }), "{refused}");
    assert!(read.get(b"key").expect("get").is_some());
    read.close().expect("close");
    Db::open_with("/copy", Options::default(), setup()).expect("open").close().expect("close");
}

#[test]
fn copies_of_a_store_that_nobody_writes_to_leave_no_logs_in_it() {
    let disk = StrictVfs::new();
    let setup = || setup_on(Arc::new(disk.clone()), 1);
    let db = Db::open_with(DIR, Options::default(), setup()).expect("open");
    db.put(b"key", b"value").expect("put");
    for round in 0..20 {
        let copy = format!("/copy{round}");
        db.checkpoint(&copy).expect("checkpoint");
        let read = Db::open_read_only_with(&copy, Options::default(), setup()).expect("open");
        assert!(read.get(b"key").expect("get").is_some());
    }
    let names = disk.file_names(Path::new(DIR)).into_iter();
    let logs = names.filter(|name| name.ends_with(".wal")).count();
    // That of the record, the current one, and one that is ready.
    assert!(logs <= 3, "{logs}");
}

/// On another file system, tables and logs are copied. A power cut leaves a copy that is whole, or
/// none that opens; and the store as it was.
#[test]
fn a_copy_by_copying_may_be_cut_off_anywhere() {
    let default_keyspace =
        KeyspaceOptions { value_log_bytes_min: Some(500), ..KeyspaceOptions::default() };
    let options = || Options { default_keyspace: default_keyspace.clone(), ..Options::default() };
    let run = |crash_at: Option<u64>| {
        let disk = StrictVfs::new();
        let vfs = FaultyVfs::new(Arc::new(disk.clone()));
        let db = Db::open_with(DIR, options(), setup_on(Arc::new(vfs.clone()), 1)).expect("open");
        for number in 0..30u8 {
            // Some in a table, some in a log that is over, some in the newest; some apart.
            db.put(&[number], &vec![number; 100 * usize::from(number)]).expect("put");
            match number {
                10 => db.flush().expect("flush"),
                20 => db.checkpoint("/earlier").expect("checkpoint"),
                _ => {}
            }
        }
        db.sync().expect("sync");
        vfs.inject(FaultRule::nth(1, &[Op::Link], Fault::Eio).from_then_on());
        let from = disk.mutating_calls();
        crash_at.into_iter().for_each(|at| disk.set_crash_at(from + at));
        let made = db.checkpoint("/copy").is_ok();
        // Whoever is told so has copied everything.
        assert!(!made || vfs.faults_fired() > 0, "nothing can be linked");
        (disk.clone(), made, disk.mutating_calls() - from)
    };
    let holds = |db: &Db| {
        let all = (0..30u8).all(|number| {
            let found = db.get(&[number]).expect("get");
            found.is_some_and(|value| *value == vec![number; 100 * usize::from(number)])
        });
        let report = db.verify(|_| true).expect("verify");
        all && report.damage.is_empty()
    };
    let (_, made, calls) = run(None);
    assert!(made && calls > 10, "{calls}");
    let mut opened = 0;
    // And right behind the last call, when it was made.
    for at in 1..=calls + 1 {
        let (disk, made, _) = run(Some(at));
        assert_eq!(made, at > calls, "crash at {at} of {calls}");
        for survival in [Survival::None, Survival::Some { percent: 50 }, Survival::All] {
            let after = disk.crash(survival, at);
            let setup = || setup_on(Arc::new(after.clone()), 2);
            let store = Db::open_with(DIR, options(), setup()).expect("open");
            assert!(holds(&store), "the store, crash at {at}, {survival:?}");
            let open_copy = Options { create_if_missing: false, ..options() };
            match Db::open_with("/copy", open_copy, setup()) {
                Ok(copy) => {
                    assert!(holds(&copy), "the copy, crash at {at}, {survival:?}");
                    opened += 1;
                }
                Err(error) => assert!(!made, "it was made, crash at {at}, {survival:?}: {error}"),
            }
        }
    }
    assert!(opened > 0, "some of them were whole");
}
