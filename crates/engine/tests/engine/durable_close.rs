//! What was written is durable once the database is closed, however little it is.

use crate::support::{DIR, open, setup_on};
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::{Db, Options};
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

#[test]
fn the_shortest_write_survives_a_power_cut_after_the_close() {
    // The shortest of these records is no longer than the mark that follows a sync.
    for (value, synced_before) in [("v", false), ("v", true), ("", false), ("", true)] {
        let vfs = StrictVfs::new();
        let db = open(&vfs);
        if synced_before {
            db.put(b"a", b"").expect("put");
            db.sync().expect("sync");
        }
        db.put(b"k", value.as_bytes()).expect("put");
        db.close().expect("close");
        let vfs = vfs.crash(Survival::None, 1);
        let found = open(&vfs).get(b"k").expect("get");
        assert_eq!(found.as_deref(), Some(value.as_bytes()), "synced before: {synced_before}");
    }
}

/// Long enough for the second to come back too early.
const TOO_EARLY: Duration = Duration::from_millis(50);

#[test]
fn whoever_closes_second_waits_for_the_first_and_is_told_the_same() {
    for fails in [false, true] {
        let disk = FaultyVfs::new(Arc::new(StrictVfs::new()));
        let setup = setup_on(Arc::new(disk.clone()), 1);
        let db = Db::open_with(DIR, Options::default(), setup).expect("open");
        db.put(b"k", b"v").expect("put");
        let (begins, has_begun) = mpsc::channel();
        let (goes_on, may_go_on) = mpsc::channel::<()>();
        let may_go_on = Mutex::new(may_go_on);
        let syncs_log = move |path: &Path| {
            let is_log = path.extension().is_some_and(|extension| extension == "wal");
            if is_log && begins.send(()).is_ok() {
                let _ = may_go_on.lock().expect("whole").recv();
            }
            is_log
        };
        let nth = if fails { 1 } else { u64::MAX };
        disk.inject(FaultRule::nth(nth, &[Op::Sync], Fault::Eio).on(syncs_log));
        let closing = |db: Db| {
            let (done, is_done) = mpsc::channel();
            std::thread::spawn(move || done.send(db.close().map_err(|error| error.to_string())));
            is_done
        };
        let first = closing(db.clone());
        has_begun.recv().expect("the log is synced");
        drop(has_begun);
        let second = closing(db.clone());
        assert!(second.recv_timeout(TOO_EARLY).is_err(), "the first is not done");
        drop(goes_on);
        let (first, second) = (first.recv().expect("ends"), second.recv().expect("ends"));
        assert_eq!(first.is_err(), fails, "{first:?}");
        assert_eq!(first, second);
        assert_eq!(db.close().map_err(|error| error.to_string()), first);
    }
}

#[test]
fn what_walks_does_not_keep_a_store_open() {
    let vfs = StrictVfs::new();
    let db = open(&vfs);
    (0..3u8).for_each(|key| db.put(&[key], &[key]).expect("put"));
    let mut pairs = db.iter().expect("iter");
    assert_eq!(pairs.next().expect("one").expect("walk").0, [0]);
    drop(db);
    let again = open(&vfs);
    assert_eq!(pairs.next_back().expect("one").expect("of what it holds").0, [2]);
    again.close().expect("close");
}
