//! A full disk on which some jobs could make room and the most urgent one cannot run.

use crate::support::{DIR, setup, setup_on};
use esker::base::checksum::mix64;
use esker::base::vfs::faulty::{Fault, FaultRule, FaultyVfs, Op};
use esker::base::vfs::strict::{StrictOptions, StrictVfs, Survival};
use esker::{Compaction, Compression, Db, Keyspace, KeyspaceOptions, Options};
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// So many mebibytes that cannot be compressed, with keys between those of the others, and on the
/// disk as one run.
fn add_run(db: &Db, keyspace: &Keyspace, seed: u64, mib: u64) {
    for nth in 0..mib * 256 {
        let value: Vec<u8> =
            (0..512).flat_map(|at| mix64(seed << 40 | nth << 10 | at).to_le_bytes()).collect();
        keyspace.put(&(nth << 8 | seed).to_be_bytes(), &value).expect("put");
    }
    // What is done besides may fail for want of space.
    let _ = db.flush();
}

/// It needs no space: not even where the log takes nothing any more.
#[test]
fn what_was_written_can_be_made_durable_on_a_full_disk() {
    let strict = StrictVfs::new();
    let vfs = FaultyVfs::new(Arc::new(strict.clone()));
    let setup = setup_on(Arc::new(vfs.clone()), 1);
    let apart = KeyspaceOptions {
        value_log_bytes_min: Some(100),
        value_log_compression: Compression::None,
        ..KeyspaceOptions::default()
    };
    let options =
        Options { default_keyspace: apart, value_log_file_bytes: 16 << 10, ..Options::default() };
    let db = Db::open_with(DIR, options, setup).expect("open");
    // The log has more values than it should, and would be ended next.
    db.put(b"key", &[1; 20_000]).expect("put");
    vfs.inject(FaultRule::nth(1, &Op::GROWS, Fault::NoSpace).from_then_on());
    db.sync().expect("sync");
    vfs.heal();
    db.put(b"key", b"value").expect("put");
    vfs.inject(FaultRule::nth(1, &Op::GROWS, Fault::NoSpace).from_then_on());
    db.put(b"late", b"value").expect_err("the disk is full");
    db.put(b"late", b"value").expect_err("it still is");
    db.sync().expect("sync");
    let kept = strict.crash(Survival::None, 1);
    let db = Db::open_with(DIR, Options::default(), setup_on(Arc::new(kept), 2)).expect("open");
    assert_eq!(db.get(b"key").expect("get").as_deref(), Some(&b"value"[..]));
    assert!(db.get(b"late").expect("get").is_none());
}

#[test]
fn what_frees_space_has_its_turn_on_a_full_disk() {
    frees_space(false);
}

/// What range tombstones cover, by which that is found, is not known then without a look at the
/// disk.
#[test]
fn what_frees_space_is_found_after_an_open_on_a_full_disk() {
    frees_space(true);
}

fn frees_space(opened_again: bool) {
    let disk = StrictVfs::with_options(StrictOptions {
        preallocated_logs: false,
        ..StrictOptions::default()
    });
    let options = Options::default();
    let open = || Db::open_with(DIR, options.clone(), setup(&disk)).expect("open");
    let mut db = open();
    let tiers = KeyspaceOptions { compaction: Compaction::Tiered, ..KeyspaceOptions::default() };
    let erased = db.create_keyspace("erased", tiers).expect("keyspace");
    let urgent = db.create_keyspace("urgent", KeyspaceOptions::default()).expect("keyspace");
    add_run(&db, &erased, 1, 16);
    let snapshot = db.snapshot();
    erased.delete_range(&0u64.to_be_bytes(), &u64::MAX.to_be_bytes()).expect("delete");
    db.flush().expect("flush");
    // The first of four has moved to level 1.
    (2..6).for_each(|seed| add_run(&db, &urgent, seed, 3));
    // Room for the log and a fifth run, and not for all of them once more.
    disk.set_capacity_bytes(Some(40 * MIB));
    add_run(&db, &urgent, 6, 3);
    let level0 =
        |db: &Db| db.stats().keyspaces.iter().map(|keyspace| keyspace.levels[0].runs).max();
    assert_eq!(level0(&db), Some(4), "there is no room to compact them");
    drop((snapshot, erased, urgent));
    if opened_again {
        // A job that fails for want of room may be under way.
        let _ = db.close();
        db = open();
    }
    let tries = (0..9).find(|_| db.wait_idle().is_ok());
    assert!(tries.is_some(), "{:?}", db.stats().keyspaces);
    assert!(level0(&db) < Some(4), "{:?}", db.stats().keyspaces);
    assert!(disk.total_bytes() < 20 * MIB, "{}", disk.total_bytes());
    db.close().expect("close");
}
