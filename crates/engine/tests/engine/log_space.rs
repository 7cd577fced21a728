//! How much space write-ahead logs take: little in a small store, and none that a closed store
//! needs.

use crate::support::{DIR, open, setup};
use esker::base::Vfs;
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::{Db, KeyspaceOptions, Options};
use std::path::Path;

/// Lengths of the logs, oldest first.
fn logs(vfs: &StrictVfs) -> Vec<u64> {
    let mut entries = vfs.list(Path::new(DIR)).expect("list");
    entries.retain(|entry| entry.name.ends_with(".wal"));
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries.iter().map(|entry| entry.len_bytes).collect()
}

#[test]
fn a_small_store_keeps_one_small_log() {
    let vfs = StrictVfs::new();
    let db = open(&vfs);
    db.put(b"a", b"1").expect("put");
    assert_eq!(logs(&vfs), [1 << 20]);
    for i in 0..40u64 {
        db.put(&i.to_be_bytes(), &vec![7; 100 << 10]).expect("put");
    }
    assert_eq!(logs(&vfs), [7 << 20], "windows of 1, 2 and 4 MiB");
    db.close().expect("close");
    assert!(logs(&vfs)[0] < 5 << 20, "the rest was given back");
}

/// Whoever keeps them: a keyspace that is hardly written to, or a memtable that is far from full.
#[test]
fn short_logs_do_not_pile_up() {
    const ROUNDS: u64 = 150;
    let vfs = StrictVfs::new();
    let db = open(&vfs);
    let quiet = db.create_keyspace("quiet", KeyspaceOptions::default()).expect("create");
    quiet.put(b"a", b"1").expect("put");
    for round in 0..ROUNDS {
        db.put(&round.to_be_bytes(), b"value").expect("put");
        db.default_keyspace().flush().expect("flush");
        assert!(logs(&vfs).len() < 40, "{} after {round} flushes", logs(&vfs).len());
    }
    for round in 0..ROUNDS {
        db.put(&round.to_be_bytes(), b"newer").expect("put");
        let copy = format!("/copy{round}");
        db.checkpoint(&copy).expect("checkpoint");
        assert!(logs(&vfs).len() < 40, "{} after {round} checkpoints", logs(&vfs).len());
        let copied = vfs.file_names(Path::new(&copy));
        assert!(copied.iter().filter(|name| name.ends_with(".wal")).count() < 40);
    }
    drop(quiet);
    db.close().expect("close");
    for dir in [DIR, "/copy149"] {
        let db = Db::open_with(dir, Options::default(), setup(&vfs)).expect("open");
        assert_eq!(db.iter().expect("iter").count() as u64, ROUNDS, "{dir}");
        let quiet = db.keyspace("quiet").expect("there");
        assert_eq!(quiet.get(b"a").expect("get").as_deref(), Some(&b"1"[..]));
    }
}

/// Nor where nothing is ever in memory, since all is loaded in bulk, or deleted by groups.
#[test]
fn logs_without_records_do_not_pile_up() {
    const ROUNDS: u64 = 150;
    let load = |db: &Db, round: u64| {
        let mut ingest = db.default_keyspace().ingest().expect("ingest");
        ingest.put(&round.to_be_bytes(), b"value").expect("put");
        ingest.finish().expect("finish");
    };
    let delete = |db: &Db, round: u64| {
        db.delete_group(format!("{round}/").as_bytes()).expect("delete");
    };
    for (step, held) in [(load as fn(&Db, u64), ROUNDS), (delete, 0)] {
        let vfs = StrictVfs::new();
        let db = open(&vfs);
        for round in 0..ROUNDS {
            step(&db, round);
            let copy = format!("/copy{round}");
            db.checkpoint(&copy).expect("checkpoint");
            assert!(logs(&vfs).len() < 40, "{} after {round} checkpoints", logs(&vfs).len());
            let copied = vfs.file_names(Path::new(&copy));
            assert!(copied.iter().filter(|name| name.ends_with(".wal")).count() < 40);
        }
        let after = vfs.crash(Survival::None, 1);
        db.close().expect("close");
        for (vfs, dir) in [(&vfs, DIR), (&vfs, "/copy149"), (&after, DIR)] {
            let db = Db::open_with(dir, Options::default(), setup(vfs)).expect("open");
            assert_eq!(db.iter().expect("iter").count() as u64, held, "{dir}");
            db.close().expect("close");
        }
    }
}

#[test]
fn the_next_log_is_ready_before_it_is_needed() {
    let vfs = StrictVfs::new();
    let db = open(&vfs);
    let memtable_bytes = Options::default().default_keyspace.memtable_bytes;
    let (mut written, value) = (0, vec![7; 100 << 10]);
    while written < memtable_bytes * 3 / 4 {
        db.put(&written.to_be_bytes(), &value).expect("put");
        written += value.len() as u64;
        let ready = if written < memtable_bytes / 8 - (1 << 20) {
            1
        } else if written > memtable_bytes / 8 + (1 << 20) {
            2
        } else {
            continue;
        };
        assert_eq!(logs(&vfs).len(), ready, "{written} bytes written");
    }
    assert_eq!(logs(&vfs)[1], memtable_bytes, "reserved as a whole");
    db.close().expect("close");
    let left: u64 = logs(&vfs).iter().sum();
    assert!(left < written + (1 << 20), "{left} bytes for {written}");
}
