//! Checkpoints that are made at the same time, and who may open one.

use crate::support::{DIR, setup_on};
use esker::base::vfs::strict::StrictVfs;
use esker::{Db, Error, Options};
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
