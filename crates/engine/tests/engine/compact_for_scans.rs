//! Scans pay for the runs that they find until it is cheaper to compact them.

use esker::base::Env;
use esker::base::vfs::strict::StrictVfs;
use esker::event::{CompactionReason, Event, EventListener};
use esker::{Compression, Db, KeyspaceOptions, Options, ScanOptions, Setup};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const KEYS: u32 = 2_000;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// How many compactions wrote tables.
type Written = Arc<AtomicU64>;

/// A store with two runs in level 0, fewer than start a compaction.
fn store(compact_for_scans: bool) -> (Db, Written) {
    let written = Written::default();
    let counted = written.clone();
    let listener: Arc<dyn EventListener> = Arc::new(move |event: &Event| match event {
        Event::CompactionStarted { reason, .. } => assert_eq!(*reason, CompactionReason::Scans),
        Event::CompactionFinished { bytes_written: 1.., .. } => {
            counted.fetch_add(1, Ordering::Relaxed);
        }
        _ => {}
    });
    let options = Options {
        default_keyspace: KeyspaceOptions { compact_for_scans, ..KeyspaceOptions::default() },
        ..Options::default()
    };
    let env = Env::with_vfs(Arc::new(StrictVfs::new()), 7);
    let setup =
        Setup { env, listener: Some(listener), inline_background: false, ..Setup::default() };
    let db = Db::open_with("/db", options, setup).expect("open");
    for first in [0, 1] {
        for number in (first..KEYS).step_by(2) {
            db.put(&key(number), &[first as u8; 50]).expect("put");
        }
        db.flush().expect("flush");
    }
    db.wait_idle().expect("idle");
    assert_eq!(runs(&db), 2);
    (db, written)
}

fn runs(db: &Db) -> u64 {
    db.stats().keyspaces[0].levels[0].runs
}

fn scan(db: &Db, from: u32) {
    let mut cursor = db.default_keyspace().scan(&ScanOptions::default()).expect("cursor");
    cursor.seek(&key(from)).expect("seek");
    for number in from..KEYS.min(from + 10) {
        assert_eq!((cursor.key(), cursor.value()), (&key(number)[..], &[number as u8 % 2; 50][..]));
        cursor.next().expect("next");
    }
}

#[test]
fn scans_that_have_paid_enough_find_one_run() {
    let (db, written) = store(true);
    scan(&db, 3);
    db.wait_idle().expect("idle");
    assert_eq!(runs(&db), 2, "one scan is cheaper than a compaction");
    for from in 0..KEYS {
        scan(&db, from);
    }
    db.wait_idle().expect("idle");
    assert_eq!(runs(&db), 0);
    assert_eq!(written.load(Ordering::Relaxed), 1);
    // One run has no switches to pay for, and nothing more is compacted.
    (0..KEYS).for_each(|from| scan(&db, from));
    db.wait_idle().expect("idle");
    assert_eq!(written.load(Ordering::Relaxed), 1);
    db.close().expect("close");
}

#[test]
fn scans_pay_nothing_where_they_are_told_so() {
    let (db, written) = store(false);
    (0..KEYS).for_each(|from| scan(&db, from));
    db.wait_idle().expect("idle");
    assert_eq!((runs(&db), written.load(Ordering::Relaxed)), (2, 0));
    db.close().expect("close");
}

#[test]
fn scans_that_have_paid_enough_find_one_level() {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let told = steps.clone();
    let listener: Arc<dyn EventListener> = Arc::new(move |event: &Event| {
        let step = match event {
            Event::CompactionStarted { reason, level, .. } => Step::Started(*reason, *level),
            Event::CompactionFinished { bytes_written: 1.., .. } => Step::Written,
            _ => return,
        };
        told.lock().expect("no panic").push(step);
    });
    let default_keyspace = KeyspaceOptions {
        level_base_bytes: 64 << 10,
        table_bytes_max: 16 << 10,
        compression: vec![Compression::None],
        ..KeyspaceOptions::default()
    };
    let options = Options { default_keyspace, ..Options::default() };
    let env = Env::with_vfs(Arc::new(StrictVfs::new()), 7);
    let setup =
        Setup { env, listener: Some(listener), inline_background: false, ..Setup::default() };
    let db = Db::open_with("/db", options, setup).expect("open");
    let put = |step| {
        for number in (0..KEYS).step_by(step) {
            db.put(&key(number), &[number as u8 % 2; 50]).expect("put");
        }
        db.flush().expect("flush");
        db.wait_idle().expect("idle");
    };
    let levels =
        || -> Vec<u64> { db.stats().keyspaces[0].levels.iter().map(|level| level.runs).collect() };
    put(1);
    // More than level 1 may have goes on to level 2; once that is there, all goes into it.
    db.default_keyspace().compact_range(None, None).expect("compact");
    db.wait_idle().expect("idle");
    db.default_keyspace().compact_range(None, None).expect("compact");
    put(3);
    assert_eq!(levels(), [1, 0, 1]);
    steps.lock().expect("no panic").clear();
    // Each buys no more than one that merges, if no thread comes to it before all have paid.
    for _ in 0..20 {
        (0..KEYS).for_each(|from| scan(&db, from));
        db.wait_idle().expect("idle");
    }
    assert_eq!(levels(), [0, 0, 1]);
    let steps = steps.lock().expect("no panic").split_off(0);
    assert_eq!(steps[0], Step::Started(CompactionReason::Scans, 0), "it moves");
    let of_level1 = Step::Started(CompactionReason::Scans, 1);
    assert!(steps[1..].iter().all(|step| [of_level1, Step::Written].contains(step)), "{steps:?}");
    let written = steps.iter().filter(|step| **step == Step::Written).count();
    assert_eq!(written + 1, steps.len() - written, "each but the first merges: {steps:?}");
    db.close().expect("close");
}

/// Of a compaction.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Started(CompactionReason, usize),
    Written,
}
