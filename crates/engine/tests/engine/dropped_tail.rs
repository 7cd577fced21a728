//! The newest records may belong to a keyspace that is dropped: their sequence numbers are then in
//! no table, and the logs that held them go.

use crate::support::{DIR, backwards, open, setup};
use esker::base::Vfs;
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::repair::repair;
use esker::{Db, KeyspaceOptions, Options};
use std::path::Path;

#[test]
fn a_long_log_of_a_dropped_keyspace_leaves_no_gap() {
    let vfs = StrictVfs::new();
    let db = open(&vfs);
    db.put(b"before", b"1").expect("put");
    db.flush().expect("flush");
    let guest = db.create_keyspace("guest", Options::default().default_keyspace).expect("create");
    // Logs over 1 MiB become tables when they are read; these records become nothing.
    for i in 0..30u64 {
        guest.put(&i.to_be_bytes(), &vec![7; 100 << 10]).expect("put");
    }
    drop(guest);
    db.drop_keyspace("guest").expect("drop");
    db.sync().expect("sync");
    let vfs = vfs.crash(Survival::None, 1);
    drop(db);
    for round in 0..3u8 {
        let db = open(&vfs);
        assert_eq!(db.get(b"before").expect("get").as_deref(), Some(&b"1"[..]));
        for earlier in 0..round {
            assert!(db.get(&[earlier]).expect("get").is_some(), "{earlier} in round {round}");
        }
        db.put(&[round], b"1").expect("put");
        db.close().expect("close");
    }
}

/// A store whose newest records, in logs of `value_bytes` times 30, are those of a keyspace that is
/// gone.
fn ends_with_a_guest(value_bytes: usize, options: &Options, closed: bool) -> StrictVfs {
    let vfs = StrictVfs::new();
    let db = Db::open_with(DIR, options.clone(), setup(&vfs)).expect("open");
    db.put(b"flushed", b"1").expect("put");
    db.flush().expect("flush");
    db.put(b"before", b"1").expect("put");
    if let Some(of_odd) = options.keyspaces.get("odd") {
        let odd = db.create_keyspace("odd", of_odd.clone()).expect("create");
        odd.put(b"o", b"1").expect("put");
    }
    let guest = db.create_keyspace("guest", KeyspaceOptions::default()).expect("create");
    for i in 0..30u64 {
        guest.put(&i.to_be_bytes(), &vec![7; value_bytes]).expect("put");
    }
    drop(guest);
    db.drop_keyspace("guest").expect("drop");
    db.sync().expect("sync");
    if closed {
        db.close().expect("close");
        return vfs;
    }
    vfs.crash(Survival::None, 1)
}

/// Opens it again and again; what is written each time must be there ever after.
fn check_rounds(vfs: &StrictVfs, options: &Options, what: &str) {
    let mut vfs = vfs.clone();
    for round in 0..4u8 {
        let db = Db::open_with(DIR, options.clone(), setup(&vfs)).expect(what);
        for key in [&b"flushed"[..], b"before"] {
            assert_eq!(db.get(key).expect("get").as_deref(), Some(&b"1"[..]), "{what}");
        }
        for earlier in 0..round {
            assert!(db.get(&[earlier]).expect("get").is_some(), "{what}: {earlier} in {round}");
        }
        if options.keyspaces.contains_key("odd") {
            let odd = db.keyspace("odd").expect("keyspace");
            assert_eq!(odd.get(b"o").expect("get").as_deref(), Some(&b"1"[..]), "{what}");
        }
        db.put(&[round], b"1").expect("put");
        db.sync().expect("sync");
        if round % 2 == 0 {
            db.close().expect("close");
        } else {
            vfs = vfs.crash(Survival::None, u64::from(round));
        }
    }
}

#[test]
fn repair_leaves_no_gap_where_a_dropped_keyspace_had_the_newest_records() {
    for (bytes, closed) in [(10, false), (100 << 10, false), (10, true), (100 << 10, true)] {
        for missing in [&[][..], &["CURRENT"], &["MANIFEST"], &["CURRENT", "MANIFEST"]] {
            let vfs = ends_with_a_guest(bytes, &Options::default(), closed);
            for name in vfs.file_names(Path::new(DIR)) {
                if missing.iter().any(|part| name.starts_with(part)) {
                    vfs.remove(&Path::new(DIR).join(name)).expect("remove");
                }
            }
            let report = repair(Path::new(DIR), &Options::default(), setup(&vfs), |_| true);
            let what = format!("{bytes} bytes, closed {closed}, without {missing:?}");
            check_rounds(
                &vfs,
                &Options::default(),
                &format!("{what}\n{}", report.expect("report")),
            );
        }
    }
}

/// Its log stays, for the keyspace that the repair could not read; what ends it belongs to nobody.
#[test]
fn repair_leaves_no_gap_in_logs_that_a_skipped_keyspace_needs() {
    let order = backwards();
    let mut options = Options::default();
    options
        .keyspaces
        .insert("odd".to_owned(), KeyspaceOptions { order, ..KeyspaceOptions::default() });
    for (bytes, closed) in [(10, false), (100 << 10, false), (10, true), (100 << 10, true)] {
        for without_current in [false, true] {
            let vfs = ends_with_a_guest(bytes, &options, closed);
            if without_current {
                vfs.remove(&Path::new(DIR).join("CURRENT")).expect("remove");
            }
            let report = repair(Path::new(DIR), &Options::default(), setup(&vfs), |_| true);
            let what = format!("{bytes} bytes, closed {closed}, no CURRENT: {without_current}");
            check_rounds(&vfs, &options, &format!("{what}\n{}", report.expect("report")));
        }
    }
}
