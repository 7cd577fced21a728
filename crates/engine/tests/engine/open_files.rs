//! No more tables are open than the options allow, and those that are gone count no more.

use super::support::DIR;
use esker::base::Env;
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::{StrictVfs, Survival};
use esker::{Compression, Db, KeyspaceOptions, Options, ScanOptions, Setup};
use std::path::Path;
use std::sync::Arc;

const OPEN_MAX: u64 = 16;
const KEYS: u64 = 20_000;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn open(disk: &StrictVfs) -> Db {
    open_with_blocks(disk, KeyspaceOptions::default().block_bytes)
}

fn open_with_blocks(disk: &StrictVfs, block_bytes: u32) -> Db {
    let default_keyspace = KeyspaceOptions {
        block_bytes,
        table_bytes_max: 64 << 10,
        compression: vec![Compression::None],
        ..KeyspaceOptions::default()
    };
    let options =
        Options { open_files_max: OPEN_MAX as u32, default_keyspace, ..Options::default() };
    let env = Env::with_vfs(Arc::new(disk.clone()), 7);
    let setup = Setup { env, listener: None, inline_background: true, ..Setup::default() };
    Db::open_with(DIR, options, setup).expect("open")
}

/// Reads everything twice, in another order the second time.
fn check(db: &Db, value: &[u8]) {
    for number in (0..KEYS).step_by(7).chain((0..KEYS).rev().step_by(11)) {
        assert_eq!(db.get(&key(number)).expect("get").as_deref(), Some(value), "{number}");
        let open = db.stats().open_files;
        assert!((1..=OPEN_MAX).contains(&open), "{open} are open");
    }
}

fn live_tables(db: &Db) -> u64 {
    db.stats().keyspaces[0].levels.iter().map(|level| level.tables).sum()
}

#[test]
fn tables_are_closed_to_open_others() {
    let disk = StrictVfs::new();
    let db = open(&disk);
    for round in 1..=3 {
        let value = [round; 100];
        for number in 0..KEYS {
            db.put(&key(number), &value).expect("put");
        }
        db.default_keyspace().compact_range(None, None).expect("compact");
        assert!(live_tables(&db) > 2 * OPEN_MAX, "{} tables", live_tables(&db));
        check(&db, &value);
        assert_eq!(db.stats().open_files, OPEN_MAX, "as many as may be");
        let pinned = db.stats().memory.pinned_tables;
        assert!(pinned > 0, "open tables take memory");
    }
    // All but one table go, and with them their files.
    db.delete_range(&key(0), &key(KEYS - 1)).expect("delete");
    db.default_keyspace().compact_range(None, None).expect("compact");
    assert_eq!(live_tables(&db), 1);
    assert_eq!(db.get(&key(KEYS - 1)).expect("get").as_deref(), Some(&[3; 100][..]));
    assert_eq!(db.stats().open_files, 1);
    db.close().expect("close");
}

#[test]
fn a_table_that_cannot_be_opened_holds_no_place_of_those_that_stay_open() {
    let disk = StrictVfs::new();
    let db = open(&disk);
    (0..KEYS).for_each(|number| db.put(&key(number), &[7; 100]).expect("put"));
    db.default_keyspace().compact_range(None, None).expect("compact");
    db.close().expect("close");
    let tables: Vec<_> = disk
        .all_files()
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| e == "tbl"))
        .collect();
    assert!(tables.len() as u64 > 2 * OPEN_MAX, "{}", tables.len());
    let (damaged, _) = tables.split_at(tables.len() - 4);
    for path in damaged {
        let bytes = disk.read_file(path).expect("there").len() as u64;
        // In the footer.
        disk.flip_bit(path, 8 * (bytes - 10)).expect("flipped");
    }
    let db = open(&disk);
    let failed = (0..KEYS).filter(|&number| db.get(&key(number)).is_err()).count() as u64;
    assert!(failed > KEYS / 2, "{failed}");
    assert!((1..=4).contains(&db.stats().open_files), "{} are open", db.stats().open_files);
    assert!(db.stats().memory.pinned_tables > 4 << 10, "{}", db.stats().memory.pinned_tables);
}

#[test]
fn the_cache_has_what_pins_do_not_take_of_their_part() {
    const MIB: u64 = 1 << 20;
    // Without memtables and an eighth for compactions.
    const KEPT: u64 = 28 * MIB;
    for given in [None, Some(20 * MIB)] {
        let default_keyspace = KeyspaceOptions {
            block_bytes: 512,
            table_bytes_max: 64 << 10,
            ..KeyspaceOptions::default()
        };
        let options = Options {
            memory_budget_bytes: 36 * MIB,
            memtables_bytes_max: 4 * MIB,
            block_cache_bytes: given,
            default_keyspace,
            ..Options::default()
        };
        let env = Env::with_vfs(Arc::new(StrictVfs::new()), 7);
        let setup = Setup { env, inline_background: true, ..Setup::default() };
        let db = Db::open_with(DIR, options, setup).expect("open");
        let limit = || db.stats().memory.block_cache_limit;
        assert_eq!(limit(), given.unwrap_or(KEPT), "nothing is pinned");
        (0..KEYS).for_each(|number| db.put(&key(number), &[7; 100]).expect("put"));
        db.default_keyspace().compact_range(None, None).expect("compact");
        for number in 0..KEYS {
            assert!(db.get(&key(number)).expect("get").is_some(), "{number}");
        }
        let pinned = db.stats().memory.pinned_tables;
        assert!(pinned > 100 << 10, "{pinned}");
        match given {
            Some(bytes) => assert_eq!(limit(), bytes),
            // What tables take besides indexes and filters is not counted as pins.
            None => assert!((KEPT - pinned..KEPT - pinned / 2).contains(&limit()), "{}", limit()),
        }
        db.delete_range(&key(0), &key(KEYS)).expect("delete");
        db.default_keyspace().compact_range(None, None).expect("compact");
        assert_eq!((live_tables(&db), limit()), (0, given.unwrap_or(KEPT)), "given back");
        db.close().expect("close");
    }
}

#[test]
fn what_is_cached_is_found_though_its_table_was_closed_meanwhile() {
    let disk = StrictVfs::new();
    // Indexes that would be pinned if there were few enough tables.
    let db = open_with_blocks(&disk, 512);
    for number in 0..KEYS {
        db.put(&key(number), &[7; 100]).expect("put");
    }
    db.default_keyspace().compact_range(None, None).expect("compact");
    assert!(live_tables(&db) > 2 * OPEN_MAX);
    check(&db, &[7; 100]);
    let misses = |db: &Db| db.stats().reads.block_cache_misses;
    let before = misses(&db);
    assert!(before > 100, "{before}");
    check(&db, &[7; 100]);
    assert_eq!(misses(&db), before);
    db.close().expect("close");
}

/// A range delete leaves a piece in each table that it lies over, as long as somebody sees what was
/// there before.
#[test]
fn a_scan_opens_tables_of_deleted_ranges_when_it_comes_to_them() {
    let strict = StrictVfs::new();
    let db = open(&strict);
    (0..KEYS).for_each(|number| db.put(&key(number), &[7; 200]).expect("put"));
    let snapshot = db.snapshot();
    db.default_keyspace().delete_range(&key(100), &key(KEYS - 100)).expect("delete");
    (0..KEYS).step_by(500).for_each(|number| db.put(&key(number), b"new").expect("put"));
    db.flush().expect("flush");
    db.default_keyspace().compact_range(None, None).expect("compact");
    drop(snapshot);
    std::mem::forget(db);
    let faulty = FaultyVfs::new(Arc::new(strict.crash(Survival::ProcessDeath, 1)));
    let options = Options { open_files_max: OPEN_MAX as u32, ..Options::default() };
    let env = Env::with_vfs(Arc::new(faulty.clone()), 7);
    let setup = Setup { env, inline_background: true, ..Setup::default() };
    let db = Db::open_read_only_with(DIR, options, setup).expect("open");
    let levels = &db.stats().keyspaces[0].levels;
    let pieces: u64 = levels.iter().map(|level| level.range_tombstones).sum();
    assert!(live_tables(&db) > 50 && pieces > 50, "{} tables, {pieces} pieces", live_tables(&db));
    let opened = || faulty.calls(Op::Open);
    let before = opened();
    let mut cursor = db.default_keyspace().scan(&ScanOptions::default()).expect("scan");
    cursor.seek(&key(0)).expect("seek");
    let mut near = 0;
    while near < 100 {
        near += u64::from(cursor.valid());
        cursor.next().expect("next");
    }
    assert!(opened() - before < 10, "{} tables", opened() - before);
    // What is far away need not be readable, and is told of by who comes there.
    let is_table = |path: &Path| path.extension().is_some_and(|ending| ending == "tbl");
    faulty.inject(FaultRule::nth(3, &[Op::Open], Fault::Eio).from_then_on().on(is_table));
    let mut cursor = db.default_keyspace().scan(&ScanOptions::default()).expect("scan");
    cursor.seek(&key(0)).expect("seek");
    let mut ended = Ok(());
    while cursor.valid() && ended.is_ok() {
        ended = cursor.next();
    }
    assert!(ended.is_err());
    faulty.heal();
    let left: Vec<_> = db.iter().expect("iter").map(|pair| pair.expect("read").0).collect();
    let expected = (0..KEYS).filter(|n| *n < 100 || *n >= KEYS - 100 || n % 500 == 0);
    assert!(left.iter().map(|key| key.to_vec()).eq(expected.map(key)), "{} keys", left.len());
}
