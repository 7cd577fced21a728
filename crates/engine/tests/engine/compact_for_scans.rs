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
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let told = reasons.clone();
    let listener: Arc<dyn EventListener> = Arc::new(move |event: &Event| {
        if let Event::CompactionStarted { reason, level, .. } = event {
            told.lock().expect("no panic").push((*reason, *level));
        }
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
    for first in [0, 1] {
        for number in (first..KEYS).step_by(2) {
            db.put(&key(number), &[first as u8; 50]).expect("put");
        }
        db.flush().expect("flush");
        // Into level 1, and what is too much for that into level 2.
        db.default_keyspace().compact_range(None, None).expect("compact");
        db.wait_idle().expect("idle");
    }
    let levels =
        || -> Vec<u64> { db.stats().keyspaces[0].levels.iter().map(|level| level.runs).collect() };
    assert_eq!(levels(), [0, 1, 1]);
    let before = reasons.lock().expect("no panic").len();
    for _ in 0..4 {
        (0..KEYS).for_each(|from| scan(&db, from));
    }
    db.wait_idle().expect("idle");
    assert_eq!(levels(), [0, 0, 1]);
    let reasons = reasons.lock().expect("no panic").split_off(before);
    assert!(!reasons.is_empty());
    assert!(reasons.iter().all(|one| *one == (CompactionReason::Scans, 1)), "{reasons:?}");
    db.close().expect("close");
}
