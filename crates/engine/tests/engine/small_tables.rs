//! Keys that come in order, a few at a time: as little as each flush and each bulk load brings, it
//! does not leave a table for each.

use crate::support::{DIR, assert_sound, grouped, setup, setup_on};
use esker::base::Vfs;
use esker::base::env::ManualClock;
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::event::{CompactionReason, Event, EventListener};
use esker::{Compaction, Compression, Db, KeyspaceOptions, Options, ScanOptions, Setup};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const RECORDS: u64 = 20;

fn options(compaction: Compaction) -> Options {
    let default_keyspace = KeyspaceOptions { compaction, ..KeyspaceOptions::default() };
    Options { default_keyspace, ..Options::default() }
}

fn key(part: u64, record: u64) -> [u8; 16] {
    (u128::from(part) << 64 | u128::from(record)).to_be_bytes()
}

/// Writes a part of the keys, after all that were before, and deletes one of them.
fn write(db: &Db, part: u64) {
    for record in 0..RECORDS {
        db.put(&key(part, record), &part.to_le_bytes()).expect("put");
    }
    db.delete(&key(part, RECORDS - 1)).expect("delete");
    db.flush().expect("flush");
}

/// What so many parts hold.
fn wanted(parts: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all = (0..parts).flat_map(|part| (0..RECORDS - 1).map(move |record| (part, record)));
    all.map(|(part, record)| (key(part, record).to_vec(), part.to_le_bytes().to_vec())).collect()
}

fn held(db: &Db, options: &ScanOptions<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = db.default_keyspace().scan(options).expect("cursor");
    cursor.seek_to_first().expect("seek");
    let mut found = Vec::new();
    while cursor.valid() {
        found.push((cursor.key().to_vec(), cursor.value().to_vec()));
        cursor.next().expect("next");
    }
    found
}

/// Counts how often small tables become one.
fn counting(merges: &Arc<AtomicUsize>) -> Arc<dyn EventListener> {
    let merges = merges.clone();
    Arc::new(move |event: &Event| {
        if let Event::CompactionStarted { reason: CompactionReason::SmallTables, .. } = event {
            merges.fetch_add(1, Ordering::Relaxed);
        }
    })
}

fn tables(db: &Db) -> u64 {
    let stats = db.stats();
    stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels).map(|level| level.tables).sum()
}

#[test]
fn flushes_of_keys_in_order_leave_few_tables() {
    const PARTS: u64 = 400;
    for compaction in [Compaction::Leveled, Compaction::Tiered] {
        let disk = StrictVfs::new();
        let db = Db::open_with(DIR, options(compaction), setup(&disk)).expect("open");
        let mut snapshot = None;
        for part in 0..PARTS {
            write(&db, part);
            assert!(tables(&db) < 60, "{compaction:?}: {} after {part} flushes", tables(&db));
            if part + 1 == PARTS / 2 {
                snapshot = Some(db.snapshot());
            }
        }
        let snapshot = snapshot.expect("taken");
        let at = ScanOptions::default().at(&snapshot);
        assert!(held(&db, &at) == wanted(PARTS / 2), "{compaction:?}: as of the snapshot");
        assert!(held(&db, &ScanOptions::default()) == wanted(PARTS), "{compaction:?}");
        assert_sound(&db);
    }
}

/// Over older values of the same keys, which lie below, and with snapshots between newer ones.
#[test]
fn small_tables_become_one_over_older_records() {
    const PARTS: u64 = 300;
    for compaction in [Compaction::Leveled, Compaction::Tiered] {
        let disk = StrictVfs::new();
        let merges = Arc::new(AtomicUsize::new(0));
        let mut options = options(compaction);
        options.default_keyspace.level_base_bytes = 64 << 10;
        options.default_keyspace.compression = vec![Compression::None];
        options.default_keyspace.tombstone_ratio_compact = 1.0;
        let setup = Setup { listener: Some(counting(&merges)), ..setup(&disk) };
        let db = Db::open_with(DIR, options, setup).expect("open");
        let mut load = db.default_keyspace().ingest().expect("ingest");
        for part in 0..PARTS {
            for record in 0..RECORDS {
                load.put(&key(part, record), b"an old value that takes more bytes").expect("put");
            }
        }
        load.finish().expect("finish");
        let mut snapshots = Vec::new();
        for part in 0..PARTS {
            if part % 30 == 0 {
                db.put(&key(part, 0), b"between").expect("put");
                snapshots.push((part, db.snapshot()));
            }
            write(&db, part);
        }
        let merged = merges.load(Ordering::Relaxed);
        assert!(merged > 5, "{compaction:?}: {merged}, {:?}", db.stats().keyspaces[0].levels);
        assert!(held(&db, &ScanOptions::default()) == wanted(PARTS), "{compaction:?}");
        for (part, snapshot) in &snapshots {
            let found = held(&db, &ScanOptions::default().at(snapshot));
            let new = wanted(*part);
            assert!(found.starts_with(&new), "{compaction:?}, before part {part}");
            assert_eq!(found[new.len()].1, b"between", "{compaction:?}, part {part}");
            let old = ((PARTS - part) * RECORDS) as usize;
            assert_eq!(found.len(), new.len() + old, "{compaction:?}, part {part}");
        }
    }
}

/// Tables are cut at groups by what they have before blocks are compressed. What is cut again at
/// the same places would become one for ever.
#[test]
fn tables_that_groups_cut_are_left_alone() {
    let disk = StrictVfs::new();
    let mut options = grouped(options(Compaction::Leveled));
    options.default_keyspace.group_table_bytes_min = 4 << 10;
    options.default_keyspace.block_bytes = 16 << 10;
    let db = Db::open_with(DIR, options, setup(&disk)).expect("open");
    for group in 0..40 {
        for record in 0..10 {
            let key = format!("g{group:03}/{record}");
            db.put(key.as_bytes(), &[7; 1_000]).expect("put");
        }
        db.flush().expect("flush");
    }
    db.wait_idle().expect("wait");
    assert!(tables(&db) >= 40, "{}: each group has its own", tables(&db));
}

#[test]
fn bulk_loads_of_keys_in_order_leave_few_tables() {
    let disk = StrictVfs::new();
    let setup = Setup { inline_background: false, ..setup(&disk) };
    let db = Db::open_with(DIR, options(Compaction::Leveled), setup).expect("open");
    for part in 0..200 {
        let mut load = db.default_keyspace().ingest().expect("ingest");
        for record in 0..RECORDS {
            load.put(&key(part, record), &part.to_le_bytes()).expect("put");
        }
        load.finish().expect("finish");
    }
    db.wait_idle().expect("wait");
    assert!(tables(&db) < 40, "{}", tables(&db));
    assert_eq!(held(&db, &ScanOptions::default()).len() as u64, 200 * RECORDS);
}

/// A store with so many parts.
fn with_parts(vfs: Arc<dyn Vfs>, parts: u64, merges: &Arc<AtomicUsize>) -> Db {
    let setup = Setup { listener: Some(counting(merges)), ..setup_on(vfs, 1) };
    let db = Db::open_with(DIR, options(Compaction::Leveled), setup).expect("open");
    (0..parts).for_each(|part| write(&db, part));
    db
}

/// So many parts that small tables become one when the next one is flushed.
fn parts_before_a_merge() -> u64 {
    let merges = Arc::new(AtomicUsize::new(0));
    let db = with_parts(Arc::new(StrictVfs::new()), 0, &merges);
    let first = (0..100).find(|&part| {
        write(&db, part);
        merges.load(Ordering::Relaxed) > 0
    });
    first.expect("some flush merges")
}

/// Writes one more part and flushes it, as far as the disk lets it.
fn write_if_possible(db: &Db, part: u64) {
    for record in 0..RECORDS {
        let _ = db.put(&key(part, record), &part.to_le_bytes());
    }
    let _ = db.flush();
}

/// Fails unless the store has what these parts hold, before all else, and nothing is damaged.
fn check_holds(vfs: Arc<dyn Vfs>, parts: u64, when: &str) {
    let setup = setup_on(vfs, 2);
    let db = Db::open_with(DIR, options(Compaction::Leveled), setup).expect("open");
    assert!(held(&db, &ScanOptions::default()).starts_with(&wanted(parts)), "{when}");
    let report = db.verify(|_| true).expect("verify");
    assert!(report.damage.is_empty(), "{when}: {report:?}");
    db.close().expect("close");
}

/// A power cut at every call while they become one.
#[test]
fn a_power_cut_while_they_become_one_loses_nothing() {
    let parts = parts_before_a_merge();
    let run = |cut_at: Option<u64>| {
        let disk = StrictVfs::new();
        let merges = Arc::new(AtomicUsize::new(0));
        let db = with_parts(Arc::new(disk.clone()), parts, &merges);
        let from = disk.mutating_calls();
        cut_at.into_iter().for_each(|at| disk.set_crash_at(from + at));
        write_if_possible(&db, parts);
        (disk.clone(), disk.mutating_calls() - from, merges.load(Ordering::Relaxed))
    };
    let (_, calls, merges) = run(None);
    assert_eq!(merges, 1);
    for at in 1..=calls {
        let (disk, ..) = run(Some(at));
        for survival in [Survival::None, Survival::Some { percent: 50 }, Survival::All] {
            let after = Arc::new(disk.crash(survival, at));
            check_holds(after, parts, &format!("cut at {at}, {survival:?}"));
        }
    }
}

/// A failure of every call while they become one: nothing is lost, and no file is left.
#[test]
fn they_may_fail_to_become_one_anywhere() {
    let parts = parts_before_a_merge();
    // What cannot be removed stays until the next open.
    let ops: Vec<Op> = Op::ALL.iter().copied().filter(|op| *op != Op::Remove).collect();
    for fault in [Fault::Eio, Fault::NoSpace] {
        let (mut tried, mut nth) = (0, 0);
        loop {
            nth += 1;
            let when = format!("{fault:?} at {nth}");
            let disk = StrictVfs::new();
            let vfs = FaultyVfs::new(Arc::new(disk.clone()));
            let merges = Arc::new(AtomicUsize::new(0));
            let db = with_parts(Arc::new(vfs.clone()), parts, &merges);
            vfs.inject(FaultRule::nth(nth, &ops, fault));
            write_if_possible(&db, parts);
            let fired = vfs.faults_fired() > 0;
            vfs.heal();
            tried += merges.load(Ordering::Relaxed);
            let of_all = held(&db, &ScanOptions::default());
            assert!(of_all.starts_with(&wanted(parts)), "{when}");
            // A store whose sync failed takes nothing more. Others void what failed with the next
            // edit, and remove it then.
            let takes_more = db.put(b"z", b"").and_then(|()| db.flush()).is_ok();
            if takes_more && db.put(b"z", b"").and_then(|()| db.flush()).is_ok() {
                let names = disk.file_names(Path::new(DIR));
                let files = names.iter().filter(|name| name.ends_with(".tbl")).count() as u64;
                assert_eq!(files, tables(&db), "{when}");
            }
            let _ = db.close();
            check_holds(Arc::new(disk), parts, &when);
            if !fired {
                break;
            }
        }
        assert!(tried > 10, "{tried} of {nth}");
    }
}

/// Nobody needs it, so it is not tried at every turn.
#[test]
fn what_cannot_be_read_is_left_alone_for_a_while() {
    let disk = StrictVfs::new();
    let vfs = FaultyVfs::new(Arc::new(disk.clone()));
    let merges = Arc::new(AtomicUsize::new(0));
    let mut setup =
        Setup { listener: Some(counting(&merges)), ..setup_on(Arc::new(vfs.clone()), 1) };
    let clock = Arc::new(ManualClock::default());
    setup.env.clock = clock.clone();
    let db = Db::open_with(DIR, options(Compaction::Leveled), setup).expect("open");
    let is_table = |path: &Path| path.extension().is_some_and(|end| end == "tbl");
    vfs.inject(FaultRule::nth(1, &[Op::Read], Fault::Eio).from_then_on().on(is_table));
    for part in 0..60 {
        for record in 0..RECORDS {
            db.put(&key(part, record), &part.to_le_bytes()).expect("put");
        }
        db.flush().expect("a flush reads no table");
    }
    assert_eq!(merges.load(Ordering::Relaxed), 1, "tries, at one moment");
    assert!(tables(&db) > 40);
    db.wait_idle().expect("what is left alone is nothing to wait for");
    vfs.heal();
    clock.advance_ns(1_000_000_000);
    write(&db, 60);
    assert!(tables(&db) < 40, "{}", tables(&db));
}

/// It is tried again though nobody writes, and whoever waits for that comes to an end.
#[test]
fn what_can_be_read_again_becomes_one_in_a_store_at_rest() {
    let vfs = FaultyVfs::new(Arc::new(StrictVfs::new()));
    let merges = Arc::new(AtomicUsize::new(0));
    let setup = Setup {
        listener: Some(counting(&merges)),
        inline_background: false,
        ..setup_on(Arc::new(vfs.clone()), 1)
    };
    let db = Db::open_with(DIR, options(Compaction::Leveled), setup).expect("open");
    let is_table = |path: &Path| path.extension().is_some_and(|end| end == "tbl");
    vfs.inject(FaultRule::nth(1, &[Op::Read], Fault::Eio).from_then_on().on(is_table));
    let mut parts = 0;
    while merges.load(Ordering::Relaxed) == 0 {
        assert!(parts < 1_000, "small tables never became one");
        for record in 0..RECORDS {
            db.put(&key(parts, record), &parts.to_le_bytes()).expect("put");
        }
        db.flush().expect("a flush reads no table");
        parts += 1;
    }
    while vfs.faults_fired() == 0 {
        std::thread::yield_now();
    }
    vfs.heal();
    let (_held, never) = std::sync::mpsc::channel::<()>();
    for _ in 0..100 {
        if merges.load(Ordering::Relaxed) > 1 {
            break;
        }
        // At first it is left alone for a second.
        let _ = never.recv_timeout(Duration::from_millis(100));
    }
    assert!(merges.load(Ordering::Relaxed) > 1, "it is tried again");
    db.wait_idle().expect("wait");
    assert!(tables(&db) < parts, "{} of {parts}", tables(&db));
}
