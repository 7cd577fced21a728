//! Whoever waits for work in the background is told if it fails, and may wait again.

use super::support::{DIR, setup_on};
use esker::base::Error;
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::StrictVfs;
use esker::fields::Record;
use esker::{Db, FindOptions, KeyspaceOptions, Options, Setup};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Longer than any retry takes, and shorter than a tester's patience.
const AT_MOST: Duration = Duration::from_secs(30);

const RECORDS: u32 = 2_000;

fn is_table(path: &std::path::Path) -> bool {
    path.extension().is_some_and(|extension| extension == "tbl")
}

/// A store that compacts from two tables in level 0 on, with one, on a disk that cannot read tables
/// any more.
fn open(inline_background: bool) -> (Db, FaultyVfs) {
    let disk = FaultyVfs::new(Arc::new(StrictVfs::new()));
    let default_keyspace = KeyspaceOptions { level0_runs_compact: 2, ..KeyspaceOptions::default() };
    let options = Options { default_keyspace, compaction_threads: 1, ..Options::default() };
    let setup = Setup { inline_background, ..setup_on(Arc::new(disk.clone()), 7) };
    let db = Db::open_with(DIR, options, setup).expect("open");
    fill(&db);
    disk.inject(FaultRule::nth(1, &[Op::Read], Fault::Eio).from_then_on().on(is_table));
    (db, disk)
}

fn fill(db: &Db) {
    let record = Record::new().with("number", 7_i64);
    for number in 0..RECORDS {
        db.default_keyspace().put_record(&number.to_be_bytes(), &record).expect("put");
    }
    db.flush().expect("flush");
}

/// Waits on a thread of its own, so that a wait without end is a failure.
fn waited(db: &Db, wait: fn(&Db) -> esker::Result<()>) -> esker::Result<()> {
    let (send, receive) = mpsc::channel();
    let db = db.clone();
    std::thread::spawn(move || send.send(wait(&db)));
    receive.recv_timeout(AT_MOST).expect("it waits without end")
}

/// Waits in vain, has the disk mended, and waits again.
fn in_vain_and_again(db: &Db, disk: &FaultyVfs, wait: fn(&Db) -> esker::Result<()>) {
    let error = waited(db, wait).expect_err("no table can be read");
    assert!(matches!(error, Error::Io { .. }), "{error}");
    disk.heal();
    waited(db, wait).expect("it is tried again");
}

#[test]
fn for_an_index_to_be_built() {
    for inline_background in [false, true] {
        let (db, disk) = open(inline_background);
        let keyspace = db.default_keyspace();
        keyspace.create_index("number").expect("create");
        in_vain_and_again(&db, &disk, Db::wait_indexes);
        let mut found =
            keyspace.find("number", 7_i64, &FindOptions::default()).expect("it is ready");
        for number in 0..RECORDS {
            assert!(found.advance().expect("read"));
            assert_eq!(found.key(), number.to_be_bytes());
        }
        assert!(!found.advance().expect("read"), "an entry too many");
    }
}

#[test]
fn for_compactions() {
    for inline_background in [false, true] {
        let (db, disk) = open(inline_background);
        (0..2).for_each(|_| fill(&db));
        in_vain_and_again(&db, &disk, Db::wait_idle);
        let levels = &db.stats().keyspaces[0].levels;
        assert_eq!(levels[0].tables, 0, "all compacted");
    }
}

/// Memtables that are sealed while none can be flushed.
const SEALED: u64 = 200;

#[test]
#[expect(clippy::disallowed_methods, reason = "threads in the background need time to run")]
fn what_fails_is_tried_seldom_and_at_once_when_somebody_asks() {
    let disk = FaultyVfs::new(Arc::new(StrictVfs::new()));
    const MEMTABLE_BYTES: u64 = 64 << 10;
    let options = Options {
        default_keyspace: KeyspaceOptions {
            memtable_bytes: MEMTABLE_BYTES,
            ..KeyspaceOptions::default()
        },
        ..Options::default()
    };
    let setup = Setup { inline_background: false, ..setup_on(Arc::new(disk.clone()), 7) };
    let db = Db::open_with(DIR, options, setup).expect("open");
    // Each try to flush makes a table.
    let tries = Arc::new(AtomicU64::new(0));
    let counted = tries.clone();
    let counts = move |path: &std::path::Path| {
        counted.fetch_add(u64::from(is_table(path)), Ordering::Relaxed);
        is_table(path)
    };
    disk.inject(FaultRule::nth(1, &[Op::Create], Fault::NoSpace).from_then_on().on(counts));
    let value = vec![0; MEMTABLE_BYTES as usize];
    for number in 0..SEALED {
        db.put(&number.to_be_bytes(), &value).expect("there is memory left");
        // Threads that wait for a change, or for a pause to end, get to run.
        std::thread::sleep(Duration::from_millis(1));
    }
    // Pauses of 1, 2, 4 and so on up to 256 milliseconds: ten tries in half a second.
    let tries_seen = tries.load(Ordering::Relaxed);
    assert!((1..SEALED / 4).contains(&tries_seen), "tried {tries_seen} times");
    let in_vain = |db: &Db| {
        // With a pause before each these would take longer than anybody waits.
        for _ in 1..SEALED {
            db.flush().expect_err("there is no space");
        }
        db.flush()
    };
    let error = waited(&db, in_vain).expect_err("the last");
    assert!(error.to_string().contains("no space"), "{error}");
    let asked_for = tries.load(Ordering::Relaxed) - tries_seen;
    assert!(asked_for >= SEALED, "asked for {SEALED} times, tried {asked_for} times");
    disk.heal();
    waited(&db, Db::flush).expect("no failure from before is told");
    for number in 0..SEALED {
        assert_eq!(db.get(&number.to_be_bytes()).expect("get").as_deref(), Some(&value[..]));
    }
}

/// No memtable of many is ever full by itself. The largest becomes a table when all together have
/// half of what they may, where writers begin to be slowed: they need not wait for what nobody has
/// begun.
#[test]
fn of_many_keyspaces_some_are_flushed_before_memory_is_full() {
    const LIMIT: u64 = 8 << 20;
    let options = Options { memtables_bytes_max: LIMIT, ..Options::default() };
    let setup = setup_on(Arc::new(StrictVfs::new()), 7);
    let db = Db::open_with(DIR, options, setup).expect("open");
    let create = |number: u64| {
        db.create_keyspace(&format!("of {number}"), KeyspaceOptions::default()).expect("create")
    };
    let keyspaces: Vec<_> = (0..16).map(create).collect();
    let mut most = 0;
    for number in 0..16_000_u64 {
        let keyspace = &keyspaces[number as usize % 16];
        keyspace.put(&number.to_be_bytes(), &[7; 1_000]).expect("put");
        if number % 64 == 0 {
            most = most.max(db.stats().keyspaces.iter().map(|k| k.memtable_bytes).sum());
        }
    }
    assert!(most > LIMIT / 4 && most < LIMIT / 2 + (1 << 20), "{most} bytes of {LIMIT}");
    db.close().expect("close");
}
